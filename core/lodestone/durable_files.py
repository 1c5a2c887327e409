"""Small files that are replaced durably and read whole: after a crash or a power cut, one has its old or its new content.

A rename alone does not give that. File systems may write the new name to the disk before the new content, so a power cut leaves
an empty file under the final name. So the content is synced before the rename, and the folder after it.
"""

from __future__ import annotations

import os
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

MOST_BYTES: Final = 1 << 20
"""Most bytes of a file that is read whole; those that Lodestone writes have some hundreds."""


def read_small_text(path: Path) -> str:
    """Return the text of a small file that Lodestone has written, in UTF-8.

    What lies in its place must not stop a service: a pipe is not waited for, and neither a device nor a huge file is read.

    Raises:
        OSError: the file is missing or cannot be read.
        ValueError: it is no regular file, is too large, or is no UTF-8.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError(f"{path} is no regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(MOST_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(content) > MOST_BYTES:
        raise ValueError(f"{path} has more than {MOST_BYTES} bytes")
    return content.decode("utf-8")


def write_atomically(path: Path, content: str | bytes, *, mode: int | None = None) -> None:
    """Replace a file's content as a whole, durably; nothing is left of an attempt that fails.

    Args:
        path: The file; its folder must exist.
        content: The complete new content; text is written as UTF-8.
        mode: Permissions of the file from the start, for secrets; None for the usual ones.

    Raises:
        OSError: the file cannot be written. It has its old content.
    """
    with replacing(path, mode=mode) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def replacing(path: Path, *, mode: int | None = None) -> Iterator[BinaryIO]:
    """Open a draft that replaces a file, durably, once the block has written it; as `write_atomically`."""
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else mode)
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names inside a folder durable: new files, renames and removals."""
    if not hasattr(os, "O_DIRECTORY"):
        return  # Windows cannot sync a folder
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(folder: Path) -> None:
    """Make every file and name below a folder durable; needed before anything durable refers to a folder of copied files."""
    for parent, _, names in os.walk(folder):
        for name in names:
            handle = os.open(Path(parent) / name, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        sync_folder(Path(parent))
