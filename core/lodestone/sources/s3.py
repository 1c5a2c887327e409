"""How does this process reach S3? Objects are read by pyarrow, prefixes listed page by page by botocore, both in the same way.

Pyarrow gives one level of a bucket as one list, be it ten million objects: some 570 bytes each. A page has a thousand, and says
the version of each, so that nothing more has to be asked about an object that is new.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from lodestone.sources.content import object_token

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

    from lodestone.sources.urls import Url

_CONNECT_SECONDS: Final = 10.0
_ANSWER_SECONDS: Final = 60.0
_ATTEMPTS: Final = 4
_NAMES: Final = 1000  # of a page: the most that S3 gives
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
            self._client = _client(url)
        except BotoCoreError as error:
            raise OSError(str(error)) from error

    def page(self, prefix: str, start: str = "") -> tuple[list[Entry], str]:
        """A thousand names of one level at most, in the order of their keys, and where the next page starts ("": nowhere).

        Args:
            prefix: Ends with a slash, or is "".
            start: As the page before said.

        Raises:
            OSError: the listing is denied, or nothing answers.
        """
        found = self._ask(Prefix=prefix, Delimiter="/", MaxKeys=_NAMES, **({"ContinuationToken": start} if start else {}))
        entries = [Entry(one["Prefix"][len(prefix) : -1], is_folder=True) for one in found.get("CommonPrefixes", ())]
        entries += [_entry(one, prefix) for one in found.get("Contents", ()) if one["Key"] != prefix]  # itself: a marker
        is_there = bool(entries) or bool(found.get("Contents")) or not prefix or bool(start)
        if not is_there and not self._is_object(prefix[:-1]):
            raise FileNotFoundError(f"path does not exist: {prefix!r}")
        return entries, str(found.get("NextContinuationToken", "")) if found.get("IsTruncated") else ""

    def _is_object(self, key: str) -> bool:
        return any(one["Key"] == key for one in self._ask(Prefix=key, MaxKeys=1).get("Contents", ()))

    def _ask(self, **asked: str | int) -> Mapping[str, Any]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            found: Mapping[str, Any] = self._client.list_objects_v2(Bucket=self._bucket, **asked)
        except (BotoCoreError, ClientError) as error:
            raise OSError(str(error)) from error
        return found


def can_list(url: Url) -> bool:
    """Whether `Pages` lists it."""
    return url.scheme == "s3" and {name for name, _ in parse_qsl(url.query)} <= _SHARED


def _client(url: Url) -> Any:  # noqa: ANN401 - botocore makes its classes as it goes
    import botocore.session
    from botocore import UNSIGNED
    from botocore.config import Config

    options = dict(parse_qsl(url.query))
    endpoint = _endpoint(options)
    if endpoint and "://" not in endpoint:
        endpoint = f"{options.get('scheme', 'https')}://{endpoint}"
    session = botocore.session.Session()
    # Three quarters of the time of a page otherwise: botocore knows many spellings of a date, listings have one.
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=datetime.fromisoformat)
    settings: dict[str, Any] = {"signature_version": UNSIGNED} if _is_anonymous(options) else {}
    return session.create_client(
        "s3",
        region_name=options.get("region") or _region() or session.get_config_variable("region") or "us-east-1",
        endpoint_url=endpoint or None,
        config=Config(
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_ANSWER_SECONDS,
            retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
            s3={"addressing_style": "path" if endpoint else "auto"},
            ignore_configured_endpoint_urls=True,
            **settings,
        ),
    )


def _entry(found: Mapping[str, Any], prefix: str) -> Entry:
    etag, size, changed = str(found.get("ETag") or "").strip('"'), int(found["Size"]), found["LastModified"]
    mtime_ns = int(changed.timestamp()) * 1_000_000_000 + changed.microsecond * 1000
    return Entry(found["Key"][len(prefix) :], False, size, mtime_ns, object_token(etag, size) if etag else "")


def _is_anonymous(options: Mapping[str, str]) -> bool:
    return options.get("anonymous", "").lower() in {"1", "true", "yes"}


def _endpoint(options: Mapping[str, str]) -> str:
    """Host and port, perhaps with a scheme; "" for AWS itself."""
    environment = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    return (options.get("endpoint_override") or environment).rstrip("/")


def _region() -> str:
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""
