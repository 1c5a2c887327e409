"""File systems of object stores: pyarrow's own for S3, Google, Azure and HDFS, and fsspec's for all other schemes.

Credentials come from the environment, in the way of each library (environment variables, profiles, instance roles).
"""

from __future__ import annotations

import errno
import math
import os
import stat
import threading
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlencode

from lodestone.errors import InvalidRequestError
from lodestone.files.bounds import changed_ns, held
from lodestone.files.s3 import Pages, can_list, file_system
from lodestone.files.tokens import object_token
from lodestone.files.urls import Url, is_url

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

ARROW_SCHEMES: Final = frozenset({"s3", "gs", "gcs", "abfs", "abfss", "hdfs"})
_VERSIONS: Final = ("etag", "md5hash", "md5", "generation", "checksum")
_TIMES: Final = ("mtime", "LastModified", "last_modified", "modified", "updated", "created")


class FileSystems:
    """A cache of file systems that opens each one once. Thread-safe; a copy in another process opens its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened: dict[tuple[str, str, str], FileSystem] = {}
        self._pages: dict[tuple[str, str, str], Pages] = {}

    def __reduce__(self) -> tuple[type[FileSystems], tuple[()]]:
        return FileSystems, ()

    def at(self, url: Url) -> tuple[FileSystem, str]:
        """Return the file system that holds `url`, and the path inside it.

        Raises:
            InvalidRequestError: no library here supports the scheme, or an option of the URL.
            OSError: the store cannot be reached.
        """
        key = (url.scheme, url.bucket, url.query)
        with self._lock:
            if key not in self._opened:
                self._opened[key] = _opened(url)
            return self._opened[key], _path(url)

    def pages(self, url: Url) -> Pages | None:
        """Return the lister that goes through the bucket of `url` page by page; None when there is none for this store.

        Raises:
            InvalidRequestError: an option of the URL cannot be used.
        """
        if not can_list(url):
            return None
        key = (url.scheme, url.bucket, url.query)
        with self._lock:
            if key not in self._pages:
                try:
                    self._pages[key] = Pages(url)
                except ValueError as error:  # an endpoint that is no valid address
                    raise _unusable(url, error) from error
            return self._pages[key]

    def token(self, url: Url) -> str:
        """Return the token of an object's content (see `files.tokens.object_token`), by one request where the store has etags.

        Raises:
            OSError: the object does not exist, or access is denied.
        """
        system, path = self.at(url)
        if fsspec_of(system) is None:
            with system.open_input_file(path) as file:
                if etag := version_of(file.metadata() or {}):
                    return object_token(etag, file.size())
        return stat_object(system, path).token(url)

    def look_at(self, where: str) -> Stat:
        """Return size, time and version of a file or an object.

        Args:
            where: Path of a local file, or URL of an object.

        Raises:
            OSError: it does not exist, or access is denied.
        """
        if is_url(where):
            return stat_object(*self.at(Url.stored(where)))
        status = os.stat(where)  # noqa: PTH116 - may hold surrogates
        if not stat.S_ISREG(status.st_mode):  # a folder, or a pipe or device that would be read without end
            raise FileNotFoundError(errno.ENOENT, "path does not exist: no regular file", where)
        return Stat(status.st_size, changed_ns(status))


def allow_requests(count: int) -> None:
    """Let pyarrow's clients of S3 have this many connections at once; call it before their first use in a process.

    A client gets as many as pyarrow has threads for reading and writing when it is made, but at least 25. Such threads are
    started when there is work for them.
    """
    import pyarrow as pa

    pa.set_io_thread_count(max(pa.io_thread_count(), count))


@dataclass(frozen=True, slots=True)
class Stat:
    """What a store (or the disk) states about one object.

    Attributes:
        size: Size in bytes.
        mtime_ns: Last change, nanoseconds since 1970-01-01T00:00:00Z.
        etag: The store's name for this version; "" for none.
    """

    size: int
    mtime_ns: int
    etag: str = ""

    def token(self, url: Url) -> str:
        """Return the token of the content, as `files.tokens.object_token` makes it."""
        return object_token(self.etag, self.size, url=str(url), mtime_ns=self.mtime_ns)


def fsspec_of(system: FileSystem) -> Any:  # noqa: ANN401 - fsspec has no types
    """Return the file system of fsspec that `system` wraps; None for pyarrow's own."""
    return getattr(getattr(system, "handler", None), "fs", None)


def stat_object(system: FileSystem, path: str) -> Stat:
    """Return the facts of one object by one or two requests, without reading the content.

    Raises:
        OSError: access is denied, or there is no such object.
    """
    inner = fsspec_of(system)
    if inner is not None:
        facts = inner.info(path)
        return Stat(held(int(facts.get("size") or 0)), held(_time_ns(facts)), version_of(facts))
    info = system.get_file_info(path)
    if not info.is_file:
        raise FileNotFoundError(f"path does not exist: {path!r}")
    with system.open_input_file(path) as file:
        return Stat(info.size, held(info.mtime_ns or 0), version_of(file.metadata() or {}))


def version_of(metadata: dict[Any, Any]) -> str:
    """Return the etag (or version, or checksum) in a store's metadata of an object; "" for none."""
    facts = {_text(name).lower(): _text(value) for name, value in metadata.items() if value is not None}
    return next((facts[name].strip('"') for name in _VERSIONS if facts.get(name)), "")


def _time_ns(facts: dict[str, Any]) -> int:
    """Return the last change in nanoseconds, under any of the names that fsspec's file systems use; 0 when none is given."""
    time = next((facts[name] for name in _TIMES if facts.get(name)), 0)
    if isinstance(time, datetime):
        return int(time.timestamp()) * 1_000_000_000 + time.microsecond * 1000
    return int(time * 1e9) if isinstance(time, (int, float)) and math.isfinite(time) else 0


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _opened(url: Url) -> FileSystem:
    from pyarrow import ArrowInvalid, fs

    if url.scheme not in ARROW_SCHEMES:
        return fs.PyFileSystem(fs.FSSpecHandler(_fsspec(url)))
    try:
        if url.scheme == "s3":
            return file_system(url)
        options = dict(parse_qsl(url.query))
        query = f"?{urlencode(options)}" if options else ""
        return fs.FileSystem.from_uri(f"{url.scheme}://{url.bucket}{query}")[0]
    except (ArrowInvalid, TypeError, NotImplementedError) as error:
        raise _unusable(url, error) from error


def _unusable(url: Url, error: Exception) -> InvalidRequestError:
    return InvalidRequestError(f"the URL {str(url)!r} cannot be used: {error}", hint="see docs/sources.md for options")


def _fsspec(url: Url) -> Any:  # noqa: ANN401 - fsspec has no types
    import fsspec  # type: ignore[import-untyped]

    options = {} if url.is_web else dict(parse_qsl(url.query))
    try:
        return fsspec.filesystem(url.scheme, **options)
    except ValueError as error:
        raise InvalidRequestError(
            f"nothing here reads {url.scheme!r} URLs ({url.shown!r})",
            hint="use s3, gs, abfs, hdfs, http(s), or any scheme of fsspec",
        ) from error
    except ImportError as error:
        raise InvalidRequestError(
            f"{url.scheme!r} URLs need another package: {error}", hint="install it beside lodestone"
        ) from error


def _path(url: Url) -> str:
    if url.is_web:
        return str(url)
    return f"{url.bucket}/{url.key}".strip("/") if url.scheme != "memory" else f"/{url.bucket}/{url.key}".rstrip("/")
