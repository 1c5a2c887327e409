"""Search for picture files below a folder.

The walk streams (memory holds 10,000 names of a folder at a time, and these are sorted), follows symbolic links to folders
without ever looping, and reports unreadable files and folders instead of stopping.

Inside an enclosure (files/beneath.py), links are followed only to places inside it; the others are reported.

Skipped, and not counted as failures: names that begin with "." (hidden by custom), what exclusion.py leaves out, files that
are no pictures by their names or their first bytes (file_kinds.py), broken links, sockets, pipes and devices. A file that has
a picture's extension and other content becomes a failure when it is decoded.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone.files.beneath import Enclosure, open_descriptor, status_of
from lodestone.files.bounds import changed_ns
from lodestone.files.tokens import hash_bytes
from lodestone.imaging.failures import unreadable
from lodestone.sources.base import FoundFile, Inode, UnreadablePath
from lodestone.sources.content import hash_file, hash_files
from lodestone.sources.exclusion import Exclusion, FolderRules
from lodestone.sources.file_kinds import PICTURES, UNKNOWN, is_picture_name, kind_of_file, kind_of_name
from lodestone.sources.sidecars import SIDECAR_SUFFIXES
from lodestone.sources.uris import uri_of

__all__ = ["FoundFile", "Inode", "UnreadablePath", "discover", "hash_bytes", "hash_file", "hash_files"]

if TYPE_CHECKING:
    from os import _ScandirIterator

    _Scandir = _ScandirIterator[str]

_CANDIDATES = frozenset({PICTURES, UNKNOWN})
_HELD = 10_000  # most names of one folder in memory

_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})  # a broken link, one to itself, or gone since the listing


@dataclass(frozen=True, slots=True)
class _Folder:
    path: str
    relative: str
    identity: Inode
    is_link: bool = False


def discover(
    root: Path,
    *,
    follow_symlinks: bool = True,
    on_unreadable: Callable[[UnreadablePath], None] | None = None,
    skip: Collection[Inode] = (),
    within: Enclosure | None = None,
    exclusion: Exclusion | None = None,
    prefix: str = "",
) -> Iterator[FoundFile]:
    """Yield the picture files below `root`, folder by folder, each folder's files before its sub-folders, in code point order.

    A folder with more than 10,000 names is sorted in chunks of 10,000, not as a whole.

    `root` may also be one file, which is then yielded whatever its extension (its uri is its name). A folder without pictures
    yields nothing; the caller decides what that means. Each folder is visited once; where several paths lead to it, the one
    without symbolic links wins, so that adding a link never renames a picture. Linked folders therefore come last.

    Args:
        root: Folder or file.
        follow_symlinks: Also follow symbolic links, to files and folders. Broken links are skipped.
        on_unreadable: Called with each folder or file that cannot be read; the walk goes on.
        skip: Folders below `root` to leave out, by whatever path they are reached.
        within: The folder that everything must lie in; None for none. Links out of it are reported.
        exclusion: What is left out; None for what is left out everywhere. It counts what it leaves out.
        prefix: Path of `root` below the folder where the exclusion begins.

    Raises:
        NotFoundError: `root` does not exist. Raised at the call, not at the first step.
        InvalidRequestError: `root` is a pipe, a socket or a device. Also raised at the call.
        ImageError: `root` itself cannot be read (reason "unreadable"). Also raised at the call.
    """
    base = Path(os.path.abspath(root))  # noqa: PTH100 - not resolve(): a root that is itself a link keeps its name
    try:
        status = status_of(base, within)
        if stat.S_ISREG(status.st_mode):
            rules = exclusion or Exclusion(str(base.parent), within=within)
            is_out = rules.leaves_out(prefix or base.name)
            return iter(() if is_out else (_found(base.name, str(base), status),))
        if not stat.S_ISDIR(status.st_mode):  # a pipe would block for ever, and a device would never end
            raise InvalidRequestError(f"neither a folder nor a file: {root}", hint="give a folder with pictures, or a picture")
        _listing(str(base), within).close()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFoundError(f"no such folder or file: {root}", hint="check the path; quote it if it holds spaces") from error
    except OSError as error:
        raise unreadable(error) from error
    top = _Folder(str(base), "", (status.st_dev, status.st_ino))
    exclusion = exclusion or Exclusion(str(base), within=within)
    return _Walk(top, follow_symlinks, on_unreadable or _ignore, within, exclusion, prefix).files(skip)


@dataclass(frozen=True, slots=True)
class _Walk:
    """A walk below one folder; its attributes are the arguments of `discover`."""

    top: _Folder
    follow_symlinks: bool
    report: Callable[[UnreadablePath], None]
    within: Enclosure | None
    exclusion: Exclusion
    prefix: str

    def files(self, skip: Collection[Inode]) -> Iterator[FoundFile]:
        visited = set(skip) - {self.top.identity}  # a skipped link may lead to the root itself
        links: deque[_Folder] = deque()
        stack = [self.top]
        while stack or links:
            folder = stack.pop() if stack else links.popleft()
            if folder.identity in visited:
                continue
            visited.add(folder.identity)
            folders: list[_Folder] = []
            for file_or_folder in self._listed(folder):
                if isinstance(file_or_folder, FoundFile):
                    yield file_or_folder
                else:
                    (links if file_or_folder.is_link else folders).append(file_or_folder)
            stack.extend(reversed(folders))

    def _listed(self, folder: _Folder) -> Iterator[FoundFile | _Folder]:
        place = f"{self.prefix}/{folder.relative}".rstrip("/") if self.prefix else folder.relative
        rules: FolderRules | None = None
        pictures: frozenset[str] = frozenset()
        for entry, names in _entries(folder, self.report, self.within):
            if rules is None:
                rules = self.exclusion.of(place, names)
                if rules.reason:
                    self.exclusion.counts[rules.reason] += 1
                    return
                pictures = _pictures_of(names or ())
            if entry.name.startswith("."):
                continue
            file_or_folder = self._looked_at(folder, entry)
            if file_or_folder is None:
                continue
            if isinstance(file_or_folder, str):
                if not _is_beside(entry.name, pictures):  # what is read with its picture is not left out
                    self.exclusion.counts[file_or_folder] += 1
                continue
            inside = f"{place}/{entry.name}" if place else entry.name
            kind = self.exclusion.left_out(rules, inside, is_folder=isinstance(file_or_folder, _Folder))
            if not kind and isinstance(file_or_folder, FoundFile):
                other = kind_of_file(file_or_folder.locator, self.within)
                kind = "" if other == PICTURES else other
            if kind:
                self.exclusion.counts[kind] += 1
            else:
                yield file_or_folder

    def _looked_at(self, folder: _Folder, entry: os.DirEntry[str]) -> FoundFile | _Folder | str | None:
        relative = f"{folder.relative}/{entry.name}" if folder.relative else entry.name
        path = os.path.join(folder.path, entry.name)  # noqa: PTH118 - many files
        try:
            return _look_at(entry, path, relative, self.follow_symlinks, self.within)
        except OSError as error:
            if error.errno not in _NOT_THERE:
                self.report(UnreadablePath(uri_of(relative), Path(path), error.strerror or str(error)))
            return None


def _pictures_of(names: Iterable[str]) -> frozenset[str]:
    """Return the names of the pictures among some names, whole and without their extensions."""
    pictures = [name for name in names if is_picture_name(name)]
    return frozenset((*pictures, *(os.path.splitext(name)[0] for name in pictures)))  # noqa: PTH122 - many files


def _is_beside(name: str, pictures: Collection[str]) -> bool:
    """Return whether a file has the name of a sidecar of one of the pictures: `a.txt`, `a.jpg.xmp`, `a.jpg.metadata.json`."""
    stem, suffix = os.path.splitext(name)  # noqa: PTH122 - many files
    if suffix.lower() not in SIDECAR_SUFFIXES:
        return False
    return stem in pictures or (suffix.lower() == ".json" and os.path.splitext(stem)[0] in pictures)  # noqa: PTH122


def _entries(
    folder: _Folder, report: Callable[[UnreadablePath], None], within: Enclosure | None
) -> Iterator[tuple[os.DirEntry[str], Collection[str] | None]]:
    """Yield a folder's entries, sorted in chunks of `_HELD`: an entry whose status was read takes 900 bytes.

    With each comes the set of all names of the folder, or None where it has more than one chunk of them.
    """
    try:
        with closing(_listing(folder.path, within)) as opened:
            listing = iter(opened)
            names: Collection[str] | None = None
            while chunk := sorted(islice(listing, _HELD), key=lambda entry: entry.name):
                names = frozenset(entry.name for entry in chunk) if len(chunk) < _HELD else None
                yield from ((entry, names) for entry in chunk)
    except OSError as error:
        report(UnreadablePath(uri_of(folder.relative), Path(folder.path), error.strerror or str(error)))


class _Listing:
    """The entries of a folder, opened inside an enclosure; they ask for their status by the folder's descriptor."""

    def __init__(self, path: str, within: Enclosure) -> None:
        self._descriptor = open_descriptor(path, within)
        try:
            self._entries = os.scandir(self._descriptor)
        except BaseException:
            os.close(self._descriptor)
            raise

    def __iter__(self) -> Iterator[os.DirEntry[str]]:
        return iter(self._entries)

    def close(self) -> None:
        self._entries.close()
        os.close(self._descriptor)


def _listing(path: str, within: Enclosure | None) -> _Listing | _Scandir:
    return os.scandir(path) if within is None else _Listing(path, within)


def _look_at(
    entry: os.DirEntry[str], path: str, relative: str, follow_symlinks: bool, within: Enclosure | None
) -> FoundFile | _Folder | str | None:
    """Return a file, a folder, or the kind of a file that is no picture by its name; None for anything else."""
    is_link = entry.is_symlink()
    if is_link and not follow_symlinks:
        return None
    kind = kind_of_name(entry.name)
    if within is None:
        is_folder = entry.is_dir()
        if not is_folder and kind not in _CANDIDATES:
            return kind
        status = entry.stat()
    else:  # a link is followed inside the enclosure alone, and so is what has become one since the listing
        if not is_link and kind not in _CANDIDATES and not entry.is_dir(follow_symlinks=False):
            return kind
        status = status_of(path, within) if is_link else entry.stat(follow_symlinks=False)
        is_folder = stat.S_ISDIR(status.st_mode)
    if is_folder:
        return _Folder(path, relative, (status.st_dev, status.st_ino), is_link=is_link)
    if not stat.S_ISREG(status.st_mode):
        return None
    return _found(relative, path, status) if kind in _CANDIDATES else kind


def _found(relative: str, path: str, status: os.stat_result) -> FoundFile:
    return FoundFile(uri_of(relative), path, status.st_size, changed_ns(status), (status.st_dev, status.st_ino))


def _ignore(_: UnreadablePath) -> None:
    return None
