"""Listing of the pictures below a prefix of an object store, folder by folder, in S3 page by page, some pages ahead.

Nothing is downloaded. As in folders on disk, hidden names, folders of derived pictures and names without a picture's extension
are skipped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Protocol

from lodestone.errors import SourceError
from lodestone.files.bounds import held
from lodestone.files.filesystems import FileSystems
from lodestone.files.s3 import Entry, Pages
from lodestone.files.urls import Url
from lodestone.sources.base import FoundFile, Report, Settled, Source, UnreadablePath
from lodestone.sources.exclusion import kind_of_folder, parsed
from lodestone.sources.file_kinds import is_picture_name
from lodestone.sources.patterns import Pattern
from lodestone.sources.trouble import Trouble, source_error, trouble_of
from lodestone.sources.uris import uri_of

_AHEAD: Final = 8  # pages or folders requested at once


@dataclass(frozen=True, slots=True)
class Listed:
    """One object of a listing.

    Attributes:
        relative: Path below the prefix.
        size: Size in bytes.
        mtime_ns: Last change, nanoseconds since 1970-01-01T00:00:00Z.
        token: Token of the content, as in `FoundFile.token`.
    """

    relative: str
    size: int
    mtime_ns: int
    token: str = ""


class ObjectSource(Source):
    """The source of the pictures below a URL.

    Args:
        base: URL that the root's uris are relative to.
        filesystems: Opens the store.
        prefix: Part of the root that is listed, "" for all of it.
        pattern: Names that are listed, relative to `base`.
        others: Prefixes (relative to `base`) that are roots of their own and are left out.
        exclude: Patterns of names that are left out, in gitignore's syntax, relative to `base`.
    """

    def __init__(
        self,
        base: Url,
        filesystems: FileSystems,
        *,
        prefix: str = "",
        pattern: Pattern | None = None,
        others: Sequence[str] = (),
        exclude: Sequence[str] = (),
    ) -> None:
        self._base = base
        self._filesystems = filesystems
        self._prefix = prefix
        self._pattern = pattern or Pattern("")
        self._others = tuple(others)
        self._exclude = parsed(exclude) if exclude else None
        self.settled = Settled()

    def items(self, report: Report, *, reread: bool = False) -> Iterator[FoundFile]:  # noqa: ARG002 - see `Source.items`
        """Yield the pictures that the store lists; `reread` has no meaning here."""
        for listed in self._listed(report):
            relative = f"{self._prefix}/{listed.relative}".strip("/") if self._prefix else listed.relative
            if self._exclude is not None and self._exclude.match_file(relative):
                continue
            if self._pattern.matches(relative) and not any(relative.startswith(f"{other}/") for other in self._others):
                where = str(self._base.join(relative))
                yield FoundFile(uri_of(relative), where, listed.size, listed.mtime_ns, token=listed.token, captions=())

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
                    continue  # an object that was named and no longer exists has vanished
                raise source_error(error, url.shown) from error
            yield Listed(name, facts.size, facts.mtime_ns)

    def covers(self, uri: str) -> bool:
        """Return whether a uri lies in the part of the root that this source lists."""
        return (not self._prefix or uri.startswith(f"{self._prefix}/")) and self._pattern.matches(uri)


def list_objects(
    start: Url,
    filesystems: FileSystems,
    wanted: Callable[[str], bool],
    *,
    depth: int | None = None,
    report: Report | None = None,
) -> Iterator[Listed]:
    """Yield all objects below a URL whose names are wanted.

    Memory holds a few pages of a bucket, or the names of a few folders of other stores.

    Args:
        start: URL of a prefix.
        filesystems: Opens the store.
        wanted: Decides by the last part of a name whether the object is wanted.
        depth: Largest number of folders to descend; None for no limit.
        report: Receives the prefixes whose objects cannot be read by their names.

    Raises:
        SourceError: the listing is denied, the place does not exist, or nothing answers.
    """
    try:
        pages = filesystems.pages(start)
        level = _Whole(start, filesystems) if pages is None else _Paged(start, pages)
    except OSError as error:
        raise source_error(error, start.shown) from error
    with ThreadPoolExecutor(_AHEAD, thread_name_prefix="list") as pool:
        waiting = [("", "")]  # folders below the start with the token of their next page; the last one is next
        ahead: deque[tuple[str, Future[tuple[list[Entry], str]]]] = deque()
        try:
            while waiting or ahead:
                _ask(pool, level, waiting, ahead)
                folder, future = ahead.popleft()
                entries, next_token = future.result()
                if next_token:
                    waiting.append((folder, next_token))
                visible = [
                    entry
                    for entry in entries
                    if not entry.name.startswith(".") and not (entry.is_folder and kind_of_folder(f"{folder}{entry.name}"))
                ]
                if depth is None or folder.count("/") < depth:
                    waiting.extend(
                        (f"{folder}{entry.name}/", "") for entry in reversed(visible) if entry.is_folder and entry.name
                    )
                _ask(pool, level, waiting, ahead)  # while this page is worked on
                for entry in visible:
                    if not entry.name and report is not None:
                        report(_unreadable_names(folder, start))
                    if not entry.is_folder and entry.name and wanted(entry.name):
                        yield Listed(f"{folder}{entry.name}", entry.size, entry.mtime_ns, entry.token)
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
        folder, token = waiting.pop()
        ahead.append((folder, pool.submit(level.names, folder, token)))


class _Level(Protocol):
    """Lists the names of one level, or a page of them and the token of the next page."""

    def names(self, folder: str, token: str) -> tuple[list[Entry], str]: ...


class _Paged:
    """Lists a level page by page."""

    def __init__(self, start: Url, pages: Pages) -> None:
        self._pages, self._start = pages, start
        self._prefix = f"{start.key}/" if start.key else ""

    def names(self, folder: str, token: str) -> tuple[list[Entry], str]:
        try:
            return self._pages.page(f"{self._prefix}{folder}", token)
        except FileNotFoundError as error:
            if folder:
                return [], ""  # emptied since the level around it was listed
            raise _nothing(self._start) from error
        except OSError as error:
            raise source_error(error, self._start.shown) from error


class _Whole:
    """Lists a level at once, as pyarrow and fsspec do."""

    def __init__(self, start: Url, filesystems: FileSystems) -> None:
        self._system, self._base = filesystems.at(start)
        self._start = start

    def names(self, folder: str, token: str) -> tuple[list[Entry], str]:  # noqa: ARG002 - there is only one page
        from pyarrow.fs import FileSelector, FileType

        path = f"{self._base}/{folder}".rstrip("/") if folder else self._base
        try:
            infos = self._system.get_file_info(FileSelector(path))
        except NotADirectoryError:
            return [], ""  # an object whose name is no picture's
        except OSError as error:
            if trouble_of(error) is not Trouble.MISSING:
                raise source_error(error, self._start.shown) from error
            if folder:
                return [], ""
            raise _nothing(self._start) from error
        if len(infos) == 1 and infos[0].type == FileType.NotFound:
            raise _nothing(self._start)
        # A key with two slashes is returned as the folder itself, which would be listed without end.
        return [
            Entry(
                "" if info.path.rstrip("/") == path else info.base_name,
                not info.is_file,
                info.size or 0,
                held(info.mtime_ns or 0),
            )
            for info in infos
        ], ""


def _nothing(start: Url) -> SourceError:
    return SourceError(f"there is nothing at {start.shown}", hint="check the URL: bucket and prefix", reason="missing")


def _unreadable_names(folder: str, start: Url) -> UnreadablePath:
    return UnreadablePath(
        uri_of(f"{folder}/"),
        start.join(folder).shown,
        f"keys that go on with two slashes ({start.join(folder).key}//…) cannot be read: copy these objects to other keys",
    )
