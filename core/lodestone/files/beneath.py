"""Opening of files that must lie below a folder, whatever links are put in their way before or while they are opened.

A path that was checked and is opened afterwards may lead elsewhere by then: somebody who can write in the folder replaces a
file, or a folder above it, by a symbolic link. So the path is walked part by part here, each part opened relative to the
descriptor of the one before and never through a link (`O_NOFOLLOW`). A link is read and walked likewise, so it can lead to
places below the folder alone. `..` goes back along the walked folders and never above the first. What is returned is an open
file, so there is no moment between the check and the use. (Linux's `openat2` with `RESOLVE_BENEATH` is like it, but refuses
absolute links into the folder too, and is not reachable from Python.)

Hard links cannot be told from files: see docs/security.md.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO, Final

MAX_LINKS: Final = 40
"""Most symbolic links on one path, as Linux has it."""

OUTSIDE: Final = errno.EXDEV
"""`errno` of the error for a path that leads out of its folder; the one that `openat2` gives."""

_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK  # a pipe must not block
_STEP: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC  # needs no right to list the folder


@dataclass(frozen=True, slots=True)
class Enclosure:
    """A folder that holds everything that may be opened of one root.

    Attributes:
        folder: Absolute path of the folder. Links on the way to it are followed: they are its owner's.
        root: Absolute path of the root, which is the folder or lies in it.
        links: Whether symbolic links below the root are followed, to places below `folder`.
    """

    folder: str
    root: str
    links: bool = True


@dataclass(frozen=True, slots=True)
class Boundaries:
    """What the settings let be listed and opened: folders that hold it, links, and what is left out.

    Attributes:
        folders: Absolute paths (`serve.index_folders`).
        follow_symlinks: `index.follow_symlinks`.
        exclude: Patterns of what is left out (`index.exclude`), in gitignore's syntax, relative to each directory.
        system_folders: Whether recycle bins, snapshots and previews of other programs are listed too.
        own: Folders of this home, which hold thumbnails and are never listed.
    """

    folders: tuple[str, ...] = ()
    follow_symlinks: bool = True
    exclude: tuple[str, ...] = ()
    system_folders: bool = False
    own: tuple[str, ...] = ()

    def around(self, root: str, *, is_folder: bool = True) -> Enclosure | None:
        """Return the enclosure of a root; None where everything may be opened.

        A root in one of the folders is enclosed by the smallest of them. Any other belongs to somebody who may index what the
        service can read: links out of it are followed if links are followed at all.

        Args:
            root: Absolute path of the folder that the root's uris start from.
            is_folder: Whether its pictures are files in it. A table's rows name files elsewhere.
        """
        around = [folder for folder in self.folders if _parts_below(root, folder) is not None]
        if around:
            return Enclosure(max(around, key=len), root, links=self.follow_symlinks)
        return None if self.follow_symlinks or not is_folder else Enclosure(root, root, links=False)


def open_file(path: str | os.PathLike[str], within: Enclosure | None = None) -> BinaryIO:
    """Open a regular file for reading.

    Args:
        path: Absolute path; may hold surrogates.
        within: The folder that it must lie in; None for none.

    Raises:
        OSError: it cannot be opened, or is no regular file; `errno` is `OUTSIDE` where it leads out of the folder.
    """
    descriptor = open_descriptor(path, within)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", os.fspath(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        with suppress(OSError):
            os.close(descriptor)
        raise


def status_of(path: str | os.PathLike[str], within: Enclosure | None = None) -> os.stat_result:
    """Return the status of a file or folder, links followed; raises as `open_file`."""
    if within is None:
        return os.stat(path)  # noqa: PTH116 - may hold surrogates
    descriptor = open_descriptor(path, within)
    try:
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)


def open_descriptor(path: str | os.PathLike[str], within: Enclosure | None = None) -> int:
    """Return a descriptor of a file or folder, which the caller closes; raises as `open_file`."""
    text = os.fspath(path)
    if within is None:
        return os.open(text, _READ)
    parts, first = _parts_below(text, within.folder), _parts_below(within.root, within.folder)
    if parts is None or first is None:
        raise _outside(text)
    if parts[: len(first)] != first:  # not below the root: a picture that a table beside it names
        first = []
    walk = _Walk(text, within.folder)
    try:
        if parts == first:  # the root itself: a folder, or a single file
            return walk.last(parts, links=True)
        walk.follow(first, links=True)
        return walk.last(parts[len(first) :], links=within.links)
    finally:
        walk.close()


class _Walk:
    """The descriptors of the folders that lead from the enclosing folder to where the walk is."""

    def __init__(self, path: str, folder: str) -> None:
        self._path = path
        self._folder = folder
        self._links = 0
        self._open = [os.open(folder, _STEP)]

    def close(self) -> None:
        while self._open:
            os.close(self._open.pop())

    def follow(self, parts: Iterable[str], *, links: bool) -> None:
        """Go down to a folder."""
        remaining = deque(parts)
        while remaining:
            part = remaining.popleft()
            if self._back(part):
                continue
            try:
                self._open.append(os.open(part, _STEP | os.O_NOFOLLOW, dir_fd=self._open[-1]))
            except OSError as error:
                remaining.extendleft(reversed(self._linked(part, error, links=links)))

    def last(self, parts: Sequence[str], *, links: bool) -> int:
        """Return a descriptor of what the last of the parts names."""
        remaining = list(parts)
        while True:
            while remaining and remaining[-1] == os.curdir:
                remaining.pop()
            if not remaining or remaining[-1] == os.pardir:
                self.follow(remaining, links=links)
                return os.open(os.curdir, _READ | os.O_DIRECTORY, dir_fd=self._open[-1])
            self.follow(remaining[:-1], links=links)
            try:
                return os.open(remaining[-1], _READ | os.O_NOFOLLOW, dir_fd=self._open[-1])
            except OSError as error:
                remaining = self._linked(remaining[-1], error, links=links)

    def _back(self, part: str) -> bool:
        if part == os.pardir:
            if len(self._open) == 1:
                raise _outside(self._path)
            os.close(self._open.pop())
        return part in {os.pardir, os.curdir, ""}

    def _linked(self, part: str, error: OSError, *, links: bool) -> list[str]:
        """Return the parts that a link leads to from here; `error` is raised again if there is no link."""
        try:
            target = os.readlink(part, dir_fd=self._open[-1])
        except OSError:
            raise OSError(error.errno, error.strerror, self._path) from error
        self._links += 1
        if self._links > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), self._path)
        if not links:
            raise _outside(self._path)
        if not os.path.isabs(target):  # noqa: PTH117 - text
            return _split(target)
        parts = _parts_below(target, self._folder)
        if parts is None:
            raise _outside(self._path)
        while len(self._open) > 1:
            os.close(self._open.pop())
        return parts


def _parts_below(path: str, folder: str) -> list[str] | None:
    """Return the parts of an absolute path below a folder, by its spelling or its real one; None where it lies elsewhere."""
    parts = _split(path)
    for spelled in (os.path.abspath, os.path.realpath):  # the second one asks the disk
        around = _split(spelled(folder))
        if parts[: len(around)] == around:
            return parts[len(around) :]
    return None


def _split(path: str) -> list[str]:
    return [part for part in path.split(os.sep) if part not in {"", os.curdir}]  # noqa: PTH206 - parts of links too


def _outside(path: str) -> OSError:
    return OSError(OUTSIDE, "a symbolic link leads out of the folder that may be read", path)
