"""Removal of the embedded store's directories in one step, and checks of free disk space."""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from pathlib import Path

from lodestone.errors import OutOfSpaceError

TRASH_PREFIX = ".trash-"
DRAFT_PREFIX = ".new-"
# Engines map their files into memory, and writing to a page that the disk has no room for kills the process (SIGBUS). So the
# check precedes the write. 64 MB covers one pre-allocated log segment (32 MB) and one page of vectors.
SPACE_RESERVE_BYTES = 64 * 1024 * 1024
_IN_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs"})


def discard(path: Path) -> None:
    """Remove a directory tree with one rename, so that readers no longer see it, and then delete its files.

    A crash leaves a directory whose name begins with `TRASH_PREFIX`.
    """
    if not path.exists():
        return
    trash = path if path.name.startswith(TRASH_PREFIX) else path.with_name(f"{TRASH_PREFIX}{uuid.uuid4().hex}")
    if trash != path:
        path.rename(trash)
    # The next opening removes what is left; a build child that is being killed may still write here.
    shutil.rmtree(trash, ignore_errors=True)


def require_space(path: Path, needed: int) -> None:
    """Raise an error if the disk under `path` has too little room for a write.

    Args:
        path: An existing directory on that disk.
        needed: Bytes about to be written, besides `SPACE_RESERVE_BYTES`.

    Raises:
        OutOfSpaceError: Fewer bytes are free.
    """
    free = shutil.disk_usage(path).free
    if free < needed + SPACE_RESERVE_BYTES:
        raise out_of_space(path, free=free, needed=needed + SPACE_RESERVE_BYTES)


def require_room_to_map(folder: Path) -> None:
    """Raise an error if mapping the folder's sparse files could fill the disk, which would kill the process (SIGBUS).

    The engine reads its pre-allocated, sparse files when it opens them. Ordinary file systems return zeros for their holes;
    file systems in memory allocate pages that stay.

    Raises:
        OutOfSpaceError: The folder is on a file system in memory that has no room for the holes.
    """
    stats = [entry.stat() for entry in folder.rglob("*") if entry.is_file()]
    holes = sum(max(stat.st_size - stat.st_blocks * 512, 0) for stat in stats)
    free = shutil.disk_usage(folder).free
    if holes > free and _is_in_memory(folder):
        raise out_of_space(folder, free=free, needed=holes)


def _is_in_memory(folder: Path) -> bool:
    device = folder.stat().st_dev
    name = f"{os.major(device)}:{os.minor(device)}"
    mounts = Path("/proc/self/mountinfo")  # Linux alone has both this file and such file systems
    for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines() if mounts.exists() else ():
        mount, _, filesystem = line.partition(" - ")
        if mount.split()[2] == name:
            return filesystem.split()[0] in _IN_MEMORY
    return False


def is_out_of_space(error: BaseException) -> bool:
    """Return True if the error, or the engine's text of it, says that the disk is full."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    text = str(error).lower()
    return any(sign in text for sign in ("no space left on device", "os error 28", "disk quota exceeded", "out of disk space"))


def out_of_space(path: Path | str, **facts: int) -> OutOfSpaceError:
    """Build the error for a full disk under `path`."""
    amounts = f": {facts['free']:,} bytes free, {facts['needed']:,} needed" if facts else ""
    return OutOfSpaceError(
        f"no space left for the vector store in {path}{amounts}",
        hint="free some space and run the same command again; what was acknowledged is kept",
        path=str(path),
        **facts,
    )
