"""Which pictures lie below a prefix of an object store? Listed folder by folder, some folders ahead.

Nothing is downloaded. Skipped as in folders on disk: hidden names, folders of derived pictures, what has no picture's
extension.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lodestone.errors import SourceError
from lodestone.indexing.discover import SKIPPED_FOLDERS, is_picture_name
from lodestone.indexing.uris import uri_of
from lodestone.sources.base import FoundFile, Report, Settled, Source
from lodestone.sources.filesystems import FileSystems
from lodestone.sources.patterns import Pattern
from lodestone.sources.trouble import Trouble, source_error, trouble_of
from lodestone.sources.urls import Url

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem

_AHEAD: Final = 8  # folders listed at once


@dataclass(frozen=True, slots=True)
class Listed:
    """One object: its path below the prefix, bytes, last change."""

    relative: str
    size: int
    mtime_ns: int


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
        for found in self._listed():
            relative = f"{self._prefix}/{found.relative}".strip("/") if self._prefix else found.relative
            if self._pattern.matches(relative) and not any(relative.startswith(f"{other}/") for other in self._others):
                yield FoundFile(uri_of(relative), str(self._base.join(relative)), found.size, found.mtime_ns, captions=())

    def _listed(self) -> Iterator[Listed]:
        if not self._pattern.literal:
            yield from list_objects(
                self._base.join(self._prefix), self._filesystems, is_picture_name, depth=self._pattern.depth
            )
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
    start: Url, filesystems: FileSystems, wanted: Callable[[str], bool], *, depth: int | None = None
) -> Iterator[Listed]:
    """All objects below a URL whose names are wanted; holds the names of a few folders at a time.

    Args:
        start: A prefix.
        filesystems: Opens it.
        wanted: Told the last part of a name.
        depth: Folders to go down at most; None: all the way.

    Raises:
        SourceError: the listing is denied, the place is not there, or nothing answers.
    """
    try:
        system, base = filesystems.at(start)
    except OSError as error:
        raise source_error(error, start.shown) from error
    with ThreadPoolExecutor(_AHEAD, thread_name_prefix="list") as pool:
        folders: list[str] = [base]
        ahead: deque[Future[list[FileInfo]]] = deque()
        try:
            while folders or ahead:
                while folders and len(ahead) < _AHEAD:
                    ahead.append(pool.submit(_entries, system, folders.pop(), start))
                inner: list[str] = []
                for info in ahead.popleft().result():
                    name = info.base_name
                    if name.startswith(".") or name in SKIPPED_FOLDERS:
                        continue
                    if not info.is_file:
                        if depth is None or info.path[len(base) :].strip("/").count("/") < depth:
                            inner.append(info.path)
                    elif wanted(name):
                        yield Listed(info.path[len(base) :].lstrip("/"), info.size or 0, info.mtime_ns or 0)
                folders.extend(reversed(inner))
        finally:
            for future in ahead:
                future.cancel()


def _entries(system: FileSystem, folder: str, start: Url) -> list[FileInfo]:
    from pyarrow.fs import FileSelector, FileType

    try:
        found = system.get_file_info(FileSelector(folder))
    except NotADirectoryError:
        found = [system.get_file_info(folder)]
    except OSError as error:
        if trouble_of(error) is Trouble.MISSING:
            raise _nothing(start) from error
        raise source_error(error, start.shown) from error
    if len(found) == 1 and found[0].type == FileType.NotFound:
        raise _nothing(start)
    return list(found)  # not sorted: a level of a million names is large enough as it is


def _nothing(start: Url) -> SourceError:
    return SourceError(f"there is nothing at {start.shown}", hint="check the URL: bucket and prefix", reason="missing")
