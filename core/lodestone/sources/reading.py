"""Reading of one picture by its locator, with a check that its content is what was planned.

Every read checks the content against the plan: by its BLAKE3, or for objects by the store's own version of them. Open archives,
tables and connections are kept, a few at a time. A problem of one picture is an `ImageError` (`missing`, `denied`,
`file_changed`); one that ends the work is a `SourceError` (expired credentials, no answer) or a `ManifestChangedError`.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol, TypeVar

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from lodestone.errors import ImageError, ManifestChangedError
from lodestone.files.beneath import Enclosure, open_file, status_of
from lodestone.files.bounds import changed_ns
from lodestone.files.filesystems import FileSystems, fsspec_of, stat_object, version_of
from lodestone.files.tokens import hash_bytes, object_token
from lodestone.files.urls import Url, is_url
from lodestone.imaging.failures import FailureReason, image_error, unreadable
from lodestone.imaging.sniff import HEAD_BYTES
from lodestone.sources.content import READ_WHOLE_BYTES, content_of, hash_stream, refusal_of
from lodestone.sources.locators import Inside, inside
from lodestone.sources.trouble import Trouble, read_failure, source_error, trouble_of

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

    from lodestone.sources.base import FoundFile

_MAX_BYTES: Final = 1 << 30  # largest picture that must be held in memory
_ALL: Final = 1 << 62  # as many bytes as there are
_T = TypeVar("_T")
_OPEN: Final = 8  # archives and tables kept open
_ATTEMPTS: Final = 4
_ASKED_AT_ONCE: Final = 16  # concurrent requests for the metadata of objects


class _Opened(Protocol):
    def read(self, position: int, size: int) -> bytes: ...


class Reader:
    """Reads pictures by their locators. Thread-safe; picklable (a copy opens everything anew).

    Attributes:
        has_read: Whether a read from an object store, a table or an archive has succeeded yet.
    """

    def __init__(self, *, filesystems: FileSystems | None = None) -> None:
        self._filesystems = filesystems or FileSystems()
        self._opened: OrderedDict[Inside, _Opened] = OrderedDict()
        self._lock = threading.Lock()
        self.has_read = False

    def __reduce__(self) -> tuple[type[Reader], tuple[()]]:
        return Reader, ()

    def read(
        self, locator: str, *, content: str, size: int, mtime_ns: int, within: Enclosure | None = None
    ) -> bytes | BinaryIO:
        """Return the picture's bytes, or the open file, at its beginning, when a local file is too large for memory.

        The caller closes the file. It is the one whose content was compared, whatever its path leads to by now.

        Args:
            locator: Where the picture is.
            content: Its hash or token, as planned.
            size: Size in bytes, as planned.
            mtime_ns: Last change, as planned.
            within: The folder that a local file must lie in; None for none.

        Raises:
            ImageError: it is missing, denied, unreadable, too large, or no longer the planned one.
            SourceError: the store refuses everything, or does not answer.
            ManifestChangedError: the archive or table was changed since it was listed.
        """
        place = inside(locator)
        if place is not None:
            return self._read_inside(place, content, size, mtime_ns, within)
        if is_url(locator):
            return self._read_object(Url.stored(locator), content)
        return _read_file(locator, content, size, within)

    def read_beginning(
        self, locator: str, *, content: str, size: int, mtime_ns: int, most: int, within: Enclosure | None = None
    ) -> bytes | BinaryIO:
        """Return the first `most` bytes of a picture, or a local file, open at its beginning, which the caller closes.

        No more bytes are fetched from object stores and archives; a row of a table is read whole. A part of a picture has no
        hash to compare. Instead, size and time of its file, its archive's time, or the store's version of it are compared.

        Args:
            locator: Where the picture is.
            content: Its hash or token, as planned.
            size: Size in bytes, as planned.
            mtime_ns: Last change, as planned.
            most: Number of bytes that are enough.
            within: The folder that a local file must lie in; None for none.

        Raises:
            ImageError: it is missing, denied, unreadable, or no longer the planned one.
            SourceError: the store refuses everything, or does not answer.
            ManifestChangedError: the archive or table was changed since it was listed.
        """
        place = inside(locator)
        if place is not None:
            return self._read_inside(place, content, size, mtime_ns, within, most=most)
        if is_url(locator):
            return self._read_object(Url.stored(locator), content, most=most)
        try:
            file = open_file(locator, within)
        except OSError as error:
            raise unreadable(error) from error
        status = os.fstat(file.fileno())
        if (status.st_size, changed_ns(status)) != (size, mtime_ns):
            file.close()
            raise _changed()
        return file

    def read_span(self, place: Inside, size: int, *, within: Enclosure | None = None) -> bytes:
        """Return `size` bytes of an archive from a place on, or fewer at its end; nothing is compared.

        Raises:
            OSError: the archive cannot be read.
        """
        data = _with_retries(lambda: self._handle(place, within).read(place.position, size))
        self.has_read = True
        return data

    def identify(
        self, files: Sequence[FoundFile], *, threads: int = 2, within: Enclosure | None = None
    ) -> Iterator[str | ImageError]:
        """Yield the hash or token of each file's content, in their order; for a file that cannot be read, its error.

        Args:
            files: Some hundreds of files.
            threads: Local files hashed at once. Object stores are asked by more.
            within: The folder that local files must lie in; None for none.

        Raises:
            SourceError: the store refuses everything, or does not answer.
        """
        remote = any(not file.token and is_url(file.locator) for file in files)
        with ThreadPoolExecutor(_ASKED_AT_ONCE if remote else max(threads, 1), thread_name_prefix="identify") as pool:
            yield from pool.map(lambda file: self._identified(file, within), files)

    def _identified(self, file: FoundFile, within: Enclosure | None) -> str | ImageError:
        try:
            if file.token:
                return file.token
            if not is_url(file.locator):
                return content_of(file.locator, within)
            url = Url.stored(file.locator)
            try:
                return _with_retries(lambda: self._filesystems.token(url))
            except OSError as error:
                raise self._error_for(error, url) from error
        except ImageError as error:
            return error

    def _read_object(self, url: Url, content: str, *, most: int = _ALL) -> bytes:
        try:
            system, path = self._filesystems.at(url)
            data, token = _with_retries(lambda: _get(system, path, url, most))
        except OSError as error:
            raise self._error_for(error, url) from error
        self.has_read = True
        if token != content:
            raise _changed()
        return data

    def _error_for(self, error: OSError, url: Url) -> Exception:
        """Return the error of one picture, or of the whole source."""
        trouble = trouble_of(error)
        if trouble is Trouble.DENIED and (reason := self._probe(url)) is not None:
            return reason
        if trouble in {Trouble.MISSING, Trouble.DENIED}:
            return read_failure(error)
        return source_error(error, url.shown, doing="read")

    def _probe(self, url: Url) -> Exception | None:
        """Return the source's error if the credentials are refused, None if only this object is.

        A refused HEAD has no message, so a listing is requested, whose refusal has one.
        """
        from pyarrow.fs import FileSelector

        if url.is_web:
            return None
        try:
            system, path = self._filesystems.at(url)
            system.get_file_info(FileSelector(path, allow_not_found=True))
        except OSError as error:
            return source_error(error, url.shown, doing="read") if trouble_of(error) is Trouble.EXPIRED else None
        return None

    def _read_inside(
        self, place: Inside, content: str, size: int, mtime_ns: int, within: Enclosure | None, *, most: int = _ALL
    ) -> bytes:
        url = Url.stored(place.where) if is_url(place.where) else None
        _require_room(min(size, most))
        try:
            data = _with_retries(lambda: self._handle(place, within).read(place.position, min(size, most)))
        except (OSError, ValueError) as error:  # pyarrow's ArrowInvalid is a ValueError: the file is no longer a table
            self._require_unchanged(place.where, mtime_ns, within)
            if url is None and isinstance(error, OSError):
                raise unreadable(error) from error
            raise (self._error_for(error, url) if url and isinstance(error, OSError) else _changed()) from error
        self.has_read = True
        if len(data) == most < size:
            self._require_unchanged(place.where, mtime_ns, within)
        elif hash_bytes(data) != content:
            self._require_unchanged(place.where, mtime_ns, within)
            raise _changed()
        return data

    def _require_unchanged(self, where: str, mtime_ns: int, within: Enclosure | None) -> None:
        """Raise if the archive or table was edited: then everything left in it is affected, not one picture."""
        if self._changed_at(where, within) != mtime_ns:
            raise ManifestChangedError(
                f"{Url.stored(where).shown if is_url(where) else where!r} was changed while it was being indexed",
                hint="what is finished is kept: run the same command again, and it is read anew",
            )

    def _changed_at(self, where: str, within: Enclosure | None) -> int | None:
        try:
            return self._filesystems.look_at(where).mtime_ns if within is None else changed_ns(status_of(where, within))
        except OSError:
            return None  # missing or unreachable: not what was planned either way

    def _handle(self, place: Inside, within: Enclosure | None) -> _Opened:
        key = Inside(place.form, 0, place.where)
        with self._lock:
            if key in self._opened:
                self._opened.move_to_end(key)
                return self._opened[key]
        opened = self._open(place, within)
        with self._lock:
            opened = self._opened.setdefault(key, opened)
            while len(self._opened) > _OPEN:
                self._opened.popitem(last=False)  # closed when the last thread drops its reference
        return opened

    def _open(self, place: Inside, within: Enclosure | None) -> _Opened:
        if place.form == "row":
            from lodestone.sources.rows import open_rows

            return open_rows(place.where, self._filesystems, within)
        if is_url(place.where):
            system, path = self._filesystems.at(Url.stored(place.where))
            return _RemoteBytes(system, path)
        return _LocalBytes(open_file(place.where, within))


class _LocalBytes:
    """Reads ranges of a local archive. If it is replaced while it is open, this process goes on reading the old one."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, position: int, size: int) -> bytes:
        return os.pread(self._file.fileno(), size, position)


class _RemoteBytes:
    """Reads ranges of an archive in an object store, with one ranged GET for each picture."""

    def __init__(self, system: FileSystem, path: str) -> None:
        self._file = system.open_input_file(path)

    def read(self, position: int, size: int) -> bytes:
        return bytes(self._file.read_at(size, position))


def _read_file(path: str, content: str, size: int, within: Enclosure | None) -> bytes | BinaryIO:
    try:
        with ExitStack() as stack:
            file = stack.enter_context(open_file(path, within))
            if size <= READ_WHOLE_BYTES:
                data = file.read(size + 1)  # a longer file is another one, however long it is
                if hash_bytes(data) != content:
                    raise _changed()
                return data
            if (refusal := refusal_of(file.read(HEAD_BYTES))) is not None:  # see content_of: it was not hashed either
                raise refusal
            file.seek(0)
            if hash_stream(file) != content:
                raise _changed()
            file.seek(0)
            stack.pop_all()
            return file
    except OSError as error:
        raise unreadable(error) from error


def _get(system: FileSystem, path: str, url: Url, most: int) -> tuple[bytes, str]:
    inner = fsspec_of(system)
    if inner is not None:
        facts = stat_object(system, path)
        _require_room(min(facts.size, most))
        if most < facts.size:
            return bytes(inner.cat_file(path, start=0, end=most))[:most], facts.token(url)
        return bytes(inner.cat_file(path)), facts.token(url)
    with system.open_input_file(path) as file:
        size = file.size()
        _require_room(min(size, most))
        etag = version_of(file.metadata() or {})
        data = bytes(file.read_at(most, 0) if most < size else file.read())
    return data, object_token(etag, size) if etag else stat_object(system, path).token(url)


def _require_room(size: int) -> None:
    if size > _MAX_BYTES:
        raise image_error(FailureReason.TOO_LARGE, f"{size >> 20} MB; at most {_MAX_BYTES >> 20} MB are held in memory")


def _with_retries(read: Callable[[], _T]) -> _T:
    """Retry while the store does not answer; denied, missing and expired are final."""
    retrying = Retrying(
        retry=retry_if_exception(lambda e: isinstance(e, OSError) and trouble_of(e) is Trouble.UNREACHABLE),
        stop=stop_after_attempt(_ATTEMPTS),
        wait=wait_random_exponential(multiplier=0.2, max=5),
        reraise=True,
    )
    result: _T = retrying(read)
    return result


def _changed() -> ImageError:
    return ImageError("the file changed while it was being indexed", hint="run the same command again", reason="file_changed")
