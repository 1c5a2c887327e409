"""Which picture files lie below a folder?

The walk streams (memory holds one folder's names at a time), is sorted within each folder, follows symbolic links to folders
without ever looping, and reports what it could not read instead of stopping.

Skipped, and not counted as failures: names that begin with "." (hidden by custom), the folders in `SKIPPED_FOLDERS`, files
whose extension is no picture's (sidecars, videos), broken links, sockets, pipes and devices. What has a picture's extension and
other content becomes a failure when it is decoded.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from lodestone.errors import ImageError, InvalidRequestError, NotFoundError
from lodestone.imaging.failures import unreadable
from lodestone.imaging.raw import RAW_EXTENSIONS
from lodestone.indexing.uris import uri_of

PICTURE_EXTENSIONS = (
    frozenset({".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".apng", ".webp", ".gif", ".bmp", ".dib", ".tif", ".tiff"})
    | frozenset({".heic", ".heif", ".hif", ".avif", ".avifs"})
    | RAW_EXTENSIONS
)

# Folders of derived pictures that cataloguing tools leave among the originals: Synology's and QNAP's thumbnails.
SKIPPED_FOLDERS = frozenset({"@eaDir", ".@__thumb"})

_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})  # a broken link, one to itself, or gone since the listing
_HASH_CHUNK_BYTES = 1 << 20

Inode = tuple[int, int]
"""(device, inode): names a folder however it is reached."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """One candidate, as the folder listing showed it.

    Attributes:
        uri: Its name inside the root (see uris.py).
        path: Where it lies, absolute. A `str` inside may hold surrogates: hand it to the operating system, print the uri.
        size: Bytes.
        mtime_ns: Last change, nanoseconds since 1970-01-01T00:00:00Z.
        inode: (device, inode): the same for hard links and for one file reached over two symbolic links.
    """

    uri: str
    path: Path
    size: int
    mtime_ns: int
    inode: Inode


@dataclass(frozen=True, slots=True)
class UnreadablePath:
    """A folder or file that the operating system would not let us look at."""

    uri: str
    path: Path
    message: str


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

    `root` may also be one file, which is then yielded whatever its extension (its uri is its name). A folder without pictures
    yields nothing: what that means is the caller's to say. Each folder is visited once; where several paths lead to it, the one
    without symbolic links wins, so that adding a link never renames a picture. Linked folders therefore come last.

    Args:
        root: Folder or file.
        follow_symlinks: Also follow symbolic links, to files and folders. Broken links are skipped.
        on_unreadable: Told of each folder or file that cannot be looked at; the walk goes on.
        skip: Folders below `root` to leave out, however they are reached.

    Raises:
        NotFoundError: `root` does not exist. Raised at the call, not at the first step.
        InvalidRequestError: `root` is a pipe, a socket or a device. Also at the call.
        ImageError: `root` itself cannot be read (reason "unreadable"). Also at the call.
    """
    base = Path(os.path.abspath(root))  # noqa: PTH100 - not resolve(): a root that is itself a link keeps its name
    try:
        status = os.stat(base)  # noqa: PTH116
        if stat.S_ISREG(status.st_mode):
            return iter((_found(base.name, base, status),))
        if not stat.S_ISDIR(status.st_mode):  # a pipe would block for ever, a device never end
            raise InvalidRequestError(f"neither a folder nor a file: {root}", hint="give a folder with pictures, or a picture")
        os.scandir(base).close()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFoundError(f"no such folder or file: {root}", hint="check the path; quote it if it holds spaces") from error
    except OSError as error:
        raise unreadable(error) from error
    top = _Folder(str(base), "", (status.st_dev, status.st_ino))
    return _walk(top, follow_symlinks, on_unreadable or _ignore, skip)


def is_picture_name(name: str) -> bool:
    """Whether a file of this name is a candidate: a picture's extension, not hidden."""
    return not name.startswith(".") and os.path.splitext(name)[1].lower() in PICTURE_EXTENSIONS  # noqa: PTH122


def hash_file(path: str | os.PathLike[str]) -> str:
    """BLAKE3 of the file's content: 64 hexadecimal digits.

    Raises:
        ImageError: The file cannot be read (reason "missing" or "unreadable").
    """
    import blake3

    hasher = blake3.blake3()
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a str path may hold surrogates
            while chunk := file.read(_HASH_CHUNK_BYTES):
                hasher.update(chunk)
    except OSError as error:
        raise unreadable(error) from error
    return hasher.hexdigest()


def hash_bytes(data: bytes) -> str:
    """`hash_file` of a file with this content: who has read it already need not read it again."""
    import blake3

    return blake3.blake3(data).hexdigest()


def hash_files(paths: Iterable[str | os.PathLike[str]], *, threads: int = 2) -> Iterator[str | ImageError]:
    """Hash files in threads (reading and hashing release the GIL); results come in the order of `paths`, lazily.

    A file that cannot be read gives its `ImageError` in place of a hash, so that one file never costs the others.
    """
    remaining = iter(paths)
    with ThreadPoolExecutor(max_workers=max(threads, 1)) as pool:
        pending = [pool.submit(_hash_or_error, path) for path in islice(remaining, 4 * max(threads, 1))]
        while pending:
            yield pending.pop(0).result()
            pending.extend(pool.submit(_hash_or_error, path) for path in islice(remaining, 1))


def _hash_or_error(path: str | os.PathLike[str]) -> str | ImageError:
    try:
        return hash_file(path)
    except ImageError as error:
        return error


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
        try:
            with os.scandir(folder.path) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            report(UnreadablePath(uri_of(folder.relative), Path(folder.path), error.strerror or str(error)))
            continue
        for entry in entries:
            if entry.name.startswith(".") or entry.name in SKIPPED_FOLDERS:
                continue
            relative = f"{folder.relative}/{entry.name}" if folder.relative else entry.name
            try:
                found = _look_at(entry, relative, follow_symlinks)
            except OSError as error:
                if error.errno in _NOT_THERE:
                    continue
                report(UnreadablePath(uri_of(relative), Path(entry.path), error.strerror or str(error)))
                continue
            if isinstance(found, FoundFile):
                yield found
            elif found is not None:
                (links if found.is_link else folders).append(found)
        stack.extend(reversed(folders))


def _look_at(entry: os.DirEntry[str], relative: str, follow_symlinks: bool) -> FoundFile | _Folder | None:
    if entry.is_symlink() and not follow_symlinks:
        return None
    if entry.is_dir():
        status = entry.stat()
        return _Folder(entry.path, relative, (status.st_dev, status.st_ino), is_link=entry.is_symlink())
    if not is_picture_name(entry.name):
        return None
    status = entry.stat()
    return _found(relative, Path(entry.path), status) if stat.S_ISREG(status.st_mode) else None


def _found(relative: str, path: Path, status: os.stat_result) -> FoundFile:
    return FoundFile(uri_of(relative), path, status.st_size, status.st_mtime_ns, (status.st_dev, status.st_ino))


def _ignore(_: UnreadablePath) -> None:
    return None
