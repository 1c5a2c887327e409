"""Access to S3: pyarrow reads objects, botocore lists prefixes page by page, both with the same endpoint and credentials.

Pyarrow returns one level of a bucket as one list, even of ten million objects, at some 570 bytes each. A page of botocore
holds a thousand objects and states the etag of each, so that new objects need no request of their own. Why no library replaces
the two: docs/adr/0012-object-storage.md.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from lodestone.files.bounds import held
from lodestone.files.tokens import object_token

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

    from lodestone.files.urls import Url

_CONNECT_SECONDS: Final = 10.0
_ANSWER_SECONDS: Final = 60.0
_ATTEMPTS: Final = 4
_NAMES: Final = 1000  # names in a page: the largest number that S3 returns
_ALWAYS: Final = frozenset({"Name", "KeyCount", "IsTruncated"})  # every listing has at least one, even of an empty bucket
_NO_CREDENTIALS: Final = "; asked without signing, unable to locate credentials"
# Options that both libraries understand alike. URLs with others are listed by pyarrow: reading and listing never differ.
_SHARED: Final = frozenset({"region", "endpoint_override", "scheme", "anonymous"})


@dataclass(frozen=True, slots=True)
class Entry:
    """One name of one level of a bucket.

    Attributes:
        name: Name below the level, without a slash; "" where the key continues with another slash.
        is_folder: Whether the name is a common prefix of other keys.
        size: Size in bytes.
        mtime_ns: Last change, nanoseconds since 1970-01-01T00:00:00Z.
        token: Token of the content, as in `FoundFile.token`.
    """

    name: str
    is_folder: bool
    size: int = 0
    mtime_ns: int = 0
    token: str = ""


def file_system(url: Url) -> FileSystem:
    """Return pyarrow's file system for a bucket.

    The region is looked up for AWS alone, because other servers have none to report.
    """
    from pyarrow import fs

    options = dict(parse_qsl(url.query))
    anonymous = _is_anonymous(options)
    options.pop("anonymous", None)
    endpoint = _endpoint(options)
    if endpoint:
        scheme, _, options["endpoint_override"] = endpoint.rpartition("://")
        if scheme:
            options.setdefault("scheme", scheme)
    elif "region" not in options and not _region():
        options["region"] = fs.resolve_s3_region(url.bucket)
    if bundle := named_authorities():
        options.setdefault("tls_ca_file_path", bundle)
    timeouts = {"connect_timeout": _CONNECT_SECONDS, "request_timeout": _ANSWER_SECONDS}
    return fs.S3FileSystem(anonymous=anonymous, **options, **timeouts)


class Pages:
    """Lists one bucket page by page. Thread-safe.

    Args:
        url: A place in the bucket, with options that both libraries know (see `can_list`).

    Raises:
        OSError: the profile or configuration that the environment names is missing or invalid.
        ValueError: the endpoint is no valid address.
    """

    def __init__(self, url: Url) -> None:
        from botocore.exceptions import BotoCoreError

        self._bucket = url.bucket
        try:
            self._client, self._is_known = _client(url)
        except BotoCoreError as error:
            raise OSError(str(error)) from error

    def page(self, prefix: str, start: str = "") -> tuple[list[Entry], str]:
        """Return at most a thousand names of one level, sorted by key, and the continuation token of the next page.

        Args:
            prefix: Prefix of the level; it ends with a slash, or is "".
            start: Continuation token from the page before; "" for the first page.

        Returns:
            The entries, and the token of the next page ("" after the last one).

        Raises:
            FileNotFoundError: no key begins with the prefix.
            OSError: the listing is denied, nothing answers, or the answer is no listing or one that cannot be continued.
        """
        exists = not prefix or bool(start)
        while True:
            continued = {"ContinuationToken": start} if start else {}
            response = self._ask(Prefix=prefix, Delimiter="/", MaxKeys=_NAMES, **continued)
            entries, next_token = _entries(response, prefix), _next_token(response, start)
            exists = exists or bool(entries) or bool(response.get("Contents"))
            if entries or not next_token:
                break
            start = next_token  # an empty page need not be the last one
        if not exists and not self._is_object(prefix[:-1]):
            raise FileNotFoundError(f"path does not exist: {prefix!r}")
        return entries, next_token

    def _is_object(self, key: str) -> bool:
        return any(row["Key"] == key for row in self._ask(Prefix=key, MaxKeys=1).get("Contents", ()))

    def _ask(self, **parameters: str | int) -> Mapping[str, Any]:
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError

        try:
            response: Mapping[str, Any] = self._client.list_objects_v2(Bucket=self._bucket, **parameters)
        except ClientError as error:
            is_denied = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") in {401, 403}
            raise OSError(f"{error}{'' if self._is_known or not is_denied else _NO_CREDENTIALS}") from error
        except BotoCoreError as error:
            raise OSError(str(error)) from error
        except (ResponseParserError, ValueError) as error:
            raise OSError(f"the answer is no listing of S3: {error}") from error
        if not response.keys() & _ALWAYS:  # such as a proxy's page: as an empty bucket it would mark all pictures as gone
            raise OSError("the answer is no listing of S3: it has neither Name nor KeyCount nor IsTruncated")
        return response


def can_list(url: Url) -> bool:
    """Return whether `Pages` can list the bucket of a URL."""
    return url.scheme == "s3" and {name for name, _ in parse_qsl(url.query)} <= _SHARED


def _client(url: Url) -> tuple[Any, bool]:
    """Return botocore's client, and whether it has the credentials that it needs."""
    import botocore.session
    from botocore import UNSIGNED
    from botocore.config import Config

    options = dict(parse_qsl(url.query))
    endpoint = _endpoint(options)
    if endpoint and "://" not in endpoint:
        endpoint = f"{options.get('scheme', 'https')}://{endpoint}"
    session = botocore.session.Session()
    session.register_component("data_loader", _descriptions())
    # Botocore's own parser accepts many spellings of a date and takes three quarters of the time of a page; listings use one.
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=_time)
    is_known = _is_anonymous(options) or session.get_credentials() is not None
    is_signed = is_known and not _is_anonymous(options)  # pyarrow too sends unsigned requests when it has no credentials
    settings: dict[str, Any] = {} if is_signed else {"signature_version": UNSIGNED}
    client = session.create_client(
        "s3",
        region_name=options.get("region") or _region() or session.get_config_variable("region") or "us-east-1",
        endpoint_url=endpoint or None,
        verify=_authorities(),
        config=Config(
            proxies={},  # pyarrow ignores HTTP_PROXY
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_ANSWER_SECONDS,
            retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
            s3={"addressing_style": "path" if endpoint else "auto"},
            ignore_configured_endpoint_urls=True,
            **settings,
        ),
    )
    return client, is_known


@cache
def _descriptions() -> Any:  # noqa: ANN401 - botocore has no types
    """Return what reads botocore's descriptions of services, once a process: they are megabytes of JSON for each client."""
    from botocore.loaders import create_loader

    return create_loader()


def _entries(response: Mapping[str, Any], prefix: str) -> list[Entry]:
    try:
        entries = [Entry(row["Prefix"][len(prefix) : -1], is_folder=True) for row in response.get("CommonPrefixes", ())]
        # An object that is called like the prefix itself is a folder marker.
        return entries + [_entry(row, prefix) for row in response.get("Contents", ()) if row["Key"] != prefix]
    except KeyError as error:
        raise OSError(f"the answer is no listing of S3: something in it has no {error}") from error


def _next_token(response: Mapping[str, Any], start: str) -> str:
    """Return the continuation token of the next page; "" after the last page.

    Raises:
        OSError: the listing is truncated and cannot be continued. The objects that would follow must not count as gone.
    """
    token = str(response.get("NextContinuationToken") or "")
    if not response.get("IsTruncated", bool(token)):
        return ""
    if not token or token == start:
        raise OSError("the listing goes on, and the answer does not say where: does the store know ListObjectsV2?")
    return token


def _entry(row: Mapping[str, Any], prefix: str) -> Entry:
    etag, size, changed = str(row.get("ETag") or "").strip('"'), held(int(row["Size"])), row["LastModified"]
    mtime_ns = held(int(changed.timestamp()) * 1_000_000_000 + changed.microsecond * 1000)
    return Entry(row["Key"][len(prefix) :], False, size, mtime_ns, object_token(etag, size) if etag else "")


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        from botocore.utils import parse_timestamp

        time = parse_timestamp(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def named_authorities() -> str:
    """Return the file of trusted authorities that `AWS_CA_BUNDLE` names; "" for the system's, which pyarrow finds by itself."""
    return os.environ.get("AWS_CA_BUNDLE") or ""


def _authorities() -> str | None:
    """Return the file of trusted authorities that pyarrow uses too; None for botocore's own."""
    paths = ssl.get_default_verify_paths()  # SSL_CERT_FILE, or the system's
    debian = Path(
        paths.capath or "", "ca-certificates.crt"
    )  # there Python names only the folder, which botocore does not accept
    return named_authorities() or paths.cafile or (str(debian) if paths.capath and debian.is_file() else None)


def _is_anonymous(options: Mapping[str, str]) -> bool:
    return options.get("anonymous", "").lower() in {"1", "true", "yes"}


def _endpoint(options: Mapping[str, str]) -> str:
    """Return host and port, with or without a scheme; "" for AWS itself."""
    environment = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    return (options.get("endpoint_override") or environment).rstrip("/")


def _region() -> str:
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""
