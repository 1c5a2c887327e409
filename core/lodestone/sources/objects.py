"""Which pictures lie below a prefix of an object store? Listed folder by folder, in S3 page by page, some ahead.

Nothing is downloaded. Skipped as in folders on disk: hidden names, folders of derived pictures, what has no picture's
extension.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Protocol

from lodestone.errors import SourceError
from lodestone.files.filesystems import FileSystems
from lodestone.files.s3 import Entry, Pages
from lodestone.files.urls import Url
from lodestone.sources.base import FoundFile, Report, Settled, Source, UnreadablePath
from lodestone.sources.folders import SKIPPED_FOLDERS, is_picture_name
from lodestone.sources.patterns import Pattern
from lodestone.sources.trouble import Trouble, source_error, trouble_of
from lodestone.sources.uris import uri_of

_AHEAD: Final = 8  # pages or folders asked for at once


@dataclass(frozen=True, slots=True)
class Listed:
    """One object: its path below the prefix, bytes, last change, and what names its content (see `FoundFile.token`)."""

    relative: str
    size: int
    mtime_ns: int
    token: str = ""


class ObjectSource(Source):
    """Pictures below a URL.

    Args:
        base: Where the root's uris start from.
        filesystems: Opens it.
        prefix: Part of the root that is listed, "" for all.
        pattern: Names that are listed, relative to `base`.
        others: Prefixes (relative to `base`) of roots of their own: left to these.
    """

    def __init__(
        self,
        base: Url,
        filesystems: FileSystems,
        *,
        prefix: str = "",
        pattern: Pattern | None = None,
        others: Sequence[str] = (),
    ) -> None:
        self._base = base
        self._filesystems = filesystems
        self._prefix = prefix
        self._pattern = pattern or Pattern("")
        self._others = tuple(others)
        self.settled = Settled()

    def items(self, report: Report, *, reread: bool = False) -> Iterator[FoundFile]:  # noqa: ARG002 - see `Source.items`
        """See `Source.items`."""
        for found in self._listed(report):
            relative = f"{self._prefix}/{found.relative}".strip("/") if self._prefix else found.relative
            if self._pattern.matches(relative) and not any(relative.startswith(f"{other}/") for other in self._others):
                where = str(self._base.join(relative))
                yield FoundFile(uri_of(relative), where, found.size, found.mtime_ns, token=found.token, captions=())

    def _listed(self, report: Report) -> Iterator[Listed]:
        if not self._pattern.literal:
            start = self._base.join(self._prefix)
            yield from list_objects(start, self._filesystems, is_picture_name, depth=self._pattern.depth, report=report)
            return
        for name in self._pattern.text.split("\n"):
            url = self._base.join(name)
            try:
                facts = self._filesystems.look_at(str(url))
            except OSError as error:
                if trouble_of(error) is Trouble.MISSING:
                    continue  # one that was named and is not there has vanished
                raise source_error(error, url.shown) from error
            yield Listed(name, facts.size, facts.mtime_ns)

    def covers(self, uri: str) -> bool:
        """See `Source.covers`."""
        return (not self._prefix or uri.startswith(f"{self._prefix}/")) and self._pattern.matches(uri)


def list_objects(
    start: Url,
    filesystems: FileSystems,
    wanted: Callable[[str], bool],
    *,
    depth: int | None = None,
    report: Report | None = None,
) -> Iterator[Listed]:
    """All objects below a URL whose names are wanted; holds a few pages of a bucket, of other stores a few folders' names.

    Args:
        start: A prefix.
        filesystems: Opens it.
        wanted: Told the last part of a name.
        depth: Folders to go down at most; None: all the way.
        report: Told of prefixes whose objects cannot be read by their names.

    Raises:
        SourceError: the listing is denied, the place is not there, or nothing answers.
    """
    try:
        pages = filesystems.pages(start)
        level = _Whole(start, filesystems) if pages is None else _Paged(start, pages)
    except OSError as error:
        raise source_error(error, start.shown) from error
    with ThreadPoolExecutor(_AHEAD, thread_name_prefix="list") as pool:
        waiting = [("", "")]  # folders below the start, and where in them; the last one is next
        ahead: deque[tuple[str, Future[tuple[list[Entry], str]]]] = deque()
        try:
            while waiting or ahead:
                _ask(pool, level, waiting, ahead)
                folder, future = ahead.popleft()
                entries, rest = future.result()
                if rest:
                    waiting.append((folder, rest))
                shown = [one for one in entries if not one.name.startswith(".") and one.name not in SKIPPED_FOLDERS]
                if depth is None or folder.count("/") < depth:
                    waiting.extend((f"{folder}{one.name}/", "") for one in reversed(shown) if one.is_folder and one.name)
                _ask(pool, level, waiting, ahead)  # while this page is worked on
                for one in shown:
                    if not one.name and report is not None:
                        report(_unreadable_names(folder, start))
                    if not one.is_folder and one.name and wanted(one.name):
                        yield Listed(f"{folder}{one.name}", one.size, one.mtime_ns, one.token)
        finally:
            for _, future in ahead:
                future.cancel()


def _ask(
    pool: ThreadPoolExecutor,
    level: _Level,
    waiting: list[tuple[str, str]],
    ahead: deque[tuple[str, Future[tuple[list[Entry], str]]]],
) -> None:
    while waiting and len(ahead) < _AHEAD:
        folder, rest = waiting.pop()
        ahead.append((folder, pool.submit(level.names, folder, rest)))


class _Level(Protocol):
    """Gives the names of one level, or some of them and where to go on."""

    def names(self, folder: str, rest: str) -> tuple[list[Entry], str]: ...


class _Paged:
    """A level page by page."""

    def __init__(self, start: Url, pages: Pages) -> None:
        self._pages, self._start = pages, start
        self._prefix = f"{start.key}/" if start.key else ""

    def names(self, folder: str, rest: str) -> tuple[list[Entry], str]:
        try:
            return self._pages.page(f"{self._prefix}{folder}", rest)
        except FileNotFoundError as error:
            if folder:
                return [], ""  # emptied since the level around it was listed
            raise _nothing(self._start) from error
        except OSError as error:
            raise source_error(error, self._start.shown) from error


class _Whole:
    """A level as one list, as pyarrow and fsspec give it."""

    def __init__(self, start: Url, filesystems: FileSystems) -> None:
        self._system, self._base = filesystems.at(start)
        self._start = start

    def names(self, folder: str, rest: str) -> tuple[list[Entry], str]:  # noqa: ARG002 - there is none
        from pyarrow.fs import FileSelector, FileType

        path = f"{self._base}/{folder}".rstrip("/") if folder else self._base
        try:
            found = self._system.get_file_info(FileSelector(path))
        except NotADirectoryError:
            return [], ""  # an object, and no picture by its name
        except OSError as error:
            if trouble_of(error) is not Trouble.MISSING:
                raise source_error(error, self._start.shown) from error
            if folder:
                return [], ""
            raise _nothing(self._start) from error
        if len(found) == 1 and found[0].type == FileType.NotFound:
            raise _nothing(self._start)
        # A key with two slashes comes back as the folder itself, which would be listed for ever.
        return [
            Entry("" if one.path.rstrip("/") == path else one.base_name, not one.is_file, one.size or 0, one.mtime_ns or 0)
            for one in found
        ], ""


def _nothing(start: Url) -> SourceError:
    return SourceError(f"there is nothing at {start.shown}", hint="check the URL: bucket and prefix", reason="missing")


def _unreadable_names(folder: str, start: Url) -> UnreadablePath:
    return UnreadablePath(
        uri_of(f"{folder}/"),
        start.join(folder).shown,
        f"keys that go on with two slashes ({start.join(folder).key}//…) cannot be read: copy these objects to other keys",
    )
