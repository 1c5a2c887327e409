"""How does this process reach S3? Objects are read by pyarrow, prefixes listed page by page by botocore, both in the same way.

Pyarrow gives one level of a bucket as one list, be it ten million objects: some 570 bytes each. A page has a thousand, and says
the version of each, so that nothing more has to be asked about an object that is new.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from lodestone.sources.content import object_token

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

    from lodestone.files.urls import Url

_CONNECT_SECONDS: Final = 10.0
_ANSWER_SECONDS: Final = 60.0
_ATTEMPTS: Final = 4
_NAMES: Final = 1000  # of a page: the most that S3 gives
_ALWAYS: Final = frozenset({"Name", "KeyCount", "IsTruncated"})  # one at least is in every listing, be the bucket empty
_NO_CREDENTIALS: Final = "; asked without a signature: unable to locate credentials"
# Options that mean the same to both. A URL with others is listed by pyarrow, so that reading and listing never differ.
_SHARED: Final = frozenset({"region", "endpoint_override", "scheme", "anonymous"})


@dataclass(frozen=True, slots=True)
class Entry:
    """One name of a level.

    Attributes:
        name: Below the level, without a slash; "" where a key goes on with another slash.
        is_folder: Whether it is the beginning of other keys.
        size: Bytes.
        mtime_ns: Last change, nanoseconds since 1970-01-01T00:00:00Z.
        token: See `FoundFile.token`.
    """

    name: str
    is_folder: bool
    size: int = 0
    mtime_ns: int = 0
    token: str = ""


def file_system(url: Url) -> FileSystem:
    """Pyarrow's. `region` is looked up for AWS alone: other servers have none to tell."""
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
    """Lists one bucket. Thread-safe.

    Args:
        url: In it, with options that both libraries know (see `can_list`).

    Raises:
        OSError: the profile or the configuration that the environment names is not there or no good.
        ValueError: the endpoint is no address.
    """

    def __init__(self, url: Url) -> None:
        from botocore.exceptions import BotoCoreError

        self._bucket = url.bucket
        try:
            self._client, self._is_known = _client(url)
        except BotoCoreError as error:
            raise OSError(str(error)) from error

    def page(self, prefix: str, start: str = "") -> tuple[list[Entry], str]:
        """A thousand names of one level at most, in the order of their keys, and where the next page starts ("": nowhere).

        Args:
            prefix: Ends with a slash, or is "".
            start: As the page before said.

        Raises:
            OSError: the listing is denied, nothing answers, or what answers is no listing or one that cannot be gone on with.
        """
        is_there = not prefix or bool(start)
        while True:
            found = self._ask(Prefix=prefix, Delimiter="/", MaxKeys=_NAMES, **({"ContinuationToken": start} if start else {}))
            entries, rest = _entries(found, prefix), _rest(found, start)
            is_there = is_there or bool(entries) or bool(found.get("Contents"))
            if entries or not rest:
                break
            start = rest  # an empty page need not be the last one
        if not is_there and not self._is_object(prefix[:-1]):
            raise FileNotFoundError(f"path does not exist: {prefix!r}")
        return entries, rest

    def _is_object(self, key: str) -> bool:
        return any(one["Key"] == key for one in self._ask(Prefix=key, MaxKeys=1).get("Contents", ()))

    def _ask(self, **asked: str | int) -> Mapping[str, Any]:
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError

        try:
            found: Mapping[str, Any] = self._client.list_objects_v2(Bucket=self._bucket, **asked)
        except ClientError as error:
            is_denied = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") in {401, 403}
            raise OSError(f"{error}{'' if self._is_known or not is_denied else _NO_CREDENTIALS}") from error
        except BotoCoreError as error:
            raise OSError(str(error)) from error
        except (ResponseParserError, ValueError) as error:
            raise OSError(f"the answer is no listing of S3: {error}") from error
        if not found.keys() & _ALWAYS:  # a proxy's page, say: taken for an empty bucket, all pictures would be called gone
            raise OSError("the answer is no listing of S3: it has neither Name nor KeyCount nor IsTruncated")
        return found


def can_list(url: Url) -> bool:
    """Whether `Pages` lists it."""
    return url.scheme == "s3" and {name for name, _ in parse_qsl(url.query)} <= _SHARED


def _client(url: Url) -> tuple[Any, bool]:
    """Botocore's client, and whether it has the credentials that it needs."""
    import botocore.session
    from botocore import UNSIGNED
    from botocore.config import Config

    options = dict(parse_qsl(url.query))
    endpoint = _endpoint(options)
    if endpoint and "://" not in endpoint:
        endpoint = f"{options.get('scheme', 'https')}://{endpoint}"
    session = botocore.session.Session()
    # Three quarters of the time of a page otherwise: botocore knows many spellings of a date, listings have one.
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=_time)
    is_known = _is_anonymous(options) or session.get_credentials() is not None
    is_signed = is_known and not _is_anonymous(options)  # without credentials pyarrow asks unsigned, which open buckets answer
    settings: dict[str, Any] = {} if is_signed else {"signature_version": UNSIGNED}
    client = session.create_client(
        "s3",
        region_name=options.get("region") or _region() or session.get_config_variable("region") or "us-east-1",
        endpoint_url=endpoint or None,
        verify=_authorities(),
        config=Config(
            proxies={},  # pyarrow obeys no HTTP_PROXY
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_ANSWER_SECONDS,
            retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
            s3={"addressing_style": "path" if endpoint else "auto"},
            ignore_configured_endpoint_urls=True,
            **settings,
        ),
    )
    return client, is_known


def _entries(found: Mapping[str, Any], prefix: str) -> list[Entry]:
    try:
        entries = [Entry(one["Prefix"][len(prefix) : -1], is_folder=True) for one in found.get("CommonPrefixes", ())]
        return entries + [_entry(one, prefix) for one in found.get("Contents", ()) if one["Key"] != prefix]  # itself: a marker
    except KeyError as error:
        raise OSError(f"the answer is no listing of S3: something in it has no {error}") from error


def _rest(found: Mapping[str, Any], start: str) -> str:
    """Where the listing goes on; "": nowhere.

    Raises:
        OSError: it goes on and cannot be followed. What would come must not be taken for gone.
    """
    rest = str(found.get("NextContinuationToken") or "")
    if not found.get("IsTruncated", bool(rest)):
        return ""
    if not rest or rest == start:
        raise OSError("the listing goes on, and the answer does not say where: does the store know ListObjectsV2?")
    return rest


def _entry(found: Mapping[str, Any], prefix: str) -> Entry:
    etag, size, changed = str(found.get("ETag") or "").strip('"'), int(found["Size"]), found["LastModified"]
    mtime_ns = int(changed.timestamp()) * 1_000_000_000 + changed.microsecond * 1000
    return Entry(found["Key"][len(prefix) :], False, size, mtime_ns, object_token(etag, size) if etag else "")


def _time(told: str) -> datetime:
    try:
        time = datetime.fromisoformat(told)
    except ValueError:
        from botocore.utils import parse_timestamp

        time = parse_timestamp(told)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def named_authorities() -> str:
    """The file of those whose certificates count, as AWS' own tools are told it; "": the system's, which pyarrow knows."""
    return os.environ.get("AWS_CA_BUNDLE") or ""


def _authorities() -> str | None:
    """The file of those whose certificates count, which is pyarrow's too; None: botocore's own."""
    paths = ssl.get_default_verify_paths()  # SSL_CERT_FILE, or the system's
    debian = Path(paths.capath or "", "ca-certificates.crt")  # there Python names the folder alone, which botocore takes not
    return named_authorities() or paths.cafile or (str(debian) if paths.capath and debian.is_file() else None)


def _is_anonymous(options: Mapping[str, str]) -> bool:
    return options.get("anonymous", "").lower() in {"1", "true", "yes"}


def _endpoint(options: Mapping[str, str]) -> str:
    """Host and port, perhaps with a scheme; "" for AWS itself."""
    environment = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    return (options.get("endpoint_override") or environment).rstrip("/")


def _region() -> str:
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""
