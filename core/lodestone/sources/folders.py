"""Search for picture files below a folder.

The walk streams (memory holds 10,000 names of a folder at a time, and these are sorted), follows symbolic links to folders
without ever looping, and reports unreadable files and folders instead of stopping.

Skipped, and not counted as failures: names that begin with "." (hidden by custom), the folders in `SKIPPED_FOLDERS`, files
whose extension is no picture's (sidecars, videos), broken links, sockets, pipes and devices. A file that has a picture's
extension and other content becomes a failure when it is decoded.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone.files.tokens import hash_bytes
from lodestone.imaging.failures import unreadable
from lodestone.imaging.raw import RAW_EXTENSIONS
from lodestone.sources.base import FoundFile, Inode, UnreadablePath
from lodestone.sources.content import hash_file, hash_files
from lodestone.sources.uris import uri_of

__all__ = ["FoundFile", "Inode", "UnreadablePath", "discover", "hash_bytes", "hash_file", "hash_files", "is_picture_name"]

PICTURE_EXTENSIONS = (
    frozenset({".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".apng", ".webp", ".gif", ".bmp", ".dib", ".tif", ".tiff"})
    | frozenset({".heic", ".heif", ".hif", ".avif", ".avifs"})
    | RAW_EXTENSIONS
)

# Folders of derived pictures that cataloguing tools leave among the originals: Synology's and QNAP's thumbnails.
SKIPPED_FOLDERS = frozenset({"@eaDir", ".@__thumb"})

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

    Raises:
        NotFoundError: `root` does not exist. Raised at the call, not at the first step.
        InvalidRequestError: `root` is a pipe, a socket or a device. Also raised at the call.
        ImageError: `root` itself cannot be read (reason "unreadable"). Also raised at the call.
    """
    base = Path(os.path.abspath(root))  # noqa: PTH100 - not resolve(): a root that is itself a link keeps its name
    try:
        status = os.stat(base)  # noqa: PTH116
        if stat.S_ISREG(status.st_mode):
            return iter((_found(base.name, str(base), status),))
        if not stat.S_ISDIR(status.st_mode):  # a pipe would block for ever, and a device would never end
            raise InvalidRequestError(f"neither a folder nor a file: {root}", hint="give a folder with pictures, or a picture")
        os.scandir(base).close()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFoundError(f"no such folder or file: {root}", hint="check the path; quote it if it holds spaces") from error
    except OSError as error:
        raise unreadable(error) from error
    top = _Folder(str(base), "", (status.st_dev, status.st_ino))
    return _walk(top, follow_symlinks, on_unreadable or _ignore, skip)


def is_picture_name(name: str) -> bool:
    """Return whether a file of this name may be a picture: it has a picture's extension and is not hidden."""
    return not name.startswith(".") and os.path.splitext(name)[1].lower() in PICTURE_EXTENSIONS  # noqa: PTH122


def _walk(
    root: _Folder, follow_symlinks: bool, report: Callable[[UnreadablePath], None], skip: Collection[Inode]
) -> Iterator[FoundFile]:
    visited = set(skip) - {root.identity}  # a skipped link may lead to the root itself
    links: deque[_Folder] = deque()
    stack = [root]
    while stack or links:
        folder = stack.pop() if stack else links.popleft()
        if folder.identity in visited:
            continue
        visited.add(folder.identity)
        folders: list[_Folder] = []
        for entry in _entries(folder, report):
            if entry.name.startswith(".") or entry.name in SKIPPED_FOLDERS:
                continue
            relative = f"{folder.relative}/{entry.name}" if folder.relative else entry.name
            try:
                file_or_folder = _look_at(entry, relative, follow_symlinks)
            except OSError as error:
                if error.errno in _NOT_THERE:
                    continue
                report(UnreadablePath(uri_of(relative), Path(entry.path), error.strerror or str(error)))
                continue
            if isinstance(file_or_folder, FoundFile):
                yield file_or_folder
            elif file_or_folder is not None:
                (links if file_or_folder.is_link else folders).append(file_or_folder)
        stack.extend(reversed(folders))


def _entries(folder: _Folder, report: Callable[[UnreadablePath], None]) -> Iterator[os.DirEntry[str]]:
    """Yield a folder's entries, sorted in chunks of `_HELD`: an entry whose status was read takes 900 bytes."""
    try:
        with os.scandir(folder.path) as listing:
            while chunk := sorted(islice(listing, _HELD), key=lambda entry: entry.name):
                yield from chunk
    except OSError as error:
        report(UnreadablePath(uri_of(folder.relative), Path(folder.path), error.strerror or str(error)))


def _look_at(entry: os.DirEntry[str], relative: str, follow_symlinks: bool) -> FoundFile | _Folder | None:
    if entry.is_symlink() and not follow_symlinks:
        return None
    if entry.is_dir():
        status = entry.stat()
        return _Folder(entry.path, relative, (status.st_dev, status.st_ino), is_link=entry.is_symlink())
    if not is_picture_name(entry.name):
        return None
    status = entry.stat()
    return _found(relative, entry.path, status) if stat.S_ISREG(status.st_mode) else None


def _found(relative: str, path: str, status: os.stat_result) -> FoundFile:
    return FoundFile(uri_of(relative), path, status.st_size, status.st_mtime_ns, (status.st_dev, status.st_ino))


def _ignore(_: UnreadablePath) -> None:
    return None
