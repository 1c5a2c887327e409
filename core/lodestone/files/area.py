"""Contract of file areas: places of immutable files that are written once and read from several machines.

A file is visible under its name only when it is complete. A folder achieves this by a temporary name, a sync and a rename; an
object store by one PUT to the final key, without a temporary object. Areas are small and picklable: each worker opens its own
connection. `files/opening.py` makes the area of a folder or a URL.
"""

from __future__ import annotations

import errno
import os
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from lodestone.errors import OutOfSpaceError

if TYPE_CHECKING:
    import pyarrow as pa


class StoredFile(NamedTuple):
    """One file of an area.

    Attributes:
        path: Path inside the area, with forward slashes.
        size: Size in bytes.
    """

    path: str
    size: int


class OpenFile:
    """An open file of an area, of which ranges are read. Thread-safe; it is closed when nothing refers to it any more.

    Args:
        file: The file.
        reached: Makes the context in which errors of the store are told from those of the file.
        one_at_a_time: Whether the file has one position for all readers.
    """

    def __init__(
        self,
        file: pa.NativeFile,
        reached: Callable[[], AbstractContextManager[None]] = nullcontext,
        *,
        one_at_a_time: bool = False,
    ) -> None:
        self._file = file
        self._reached = reached
        self._reading = threading.Lock() if one_at_a_time else nullcontext()
        self.size: int = file.size()

    def read(self, start: int, length: int) -> bytes:
        """Return the bytes from `start` on, fewer than `length` where the file ends.

        Raises:
            FileNotFoundError: the file was deleted since it was opened.
            OSError: the file cannot be read.
        """
        length = min(length, self.size - start)
        if length <= 0:
            return b""
        with self._reached(), self._reading:
            return bytes(self._file.read_at(length, start))


class FileArea(ABC):
    """Stores immutable files under paths relative to one place, with forward slashes; methods may be called from any thread."""

    @property
    @abstractmethod
    def location(self) -> str:
        """Return the folder or URL for messages, without secrets."""

    @property
    def folder(self) -> Path | None:
        """Return the folder of a local area; None for an area that is not on this machine's file system."""
        return None

    @abstractmethod
    def write(self, path: str, content: bytes | pa.Buffer, *, durable: bool = True) -> None:
        """Write a file atomically, replacing one of the same name.

        Args:
            path: Path inside the area.
            content: The complete content.
            durable: Whether the file must survive kill -9 and a power cut once this returns. (Object stores always do this.)

        Raises:
            OutOfSpaceError: no space is left; no partial file remains.
            OSError: the file cannot be written.
        """

    @contextmanager
    def draft(self, path: str) -> Iterator[BinaryIO]:
        """Open a file to be written from its beginning to its end, which is in the area when the block has ended without error.

        Args:
            path: Path inside the area.

        Raises:
            OutOfSpaceError: no space is left; no partial file remains.
            OSError: the file cannot be written.
        """
        import pyarrow as pa

        with tempfile.NamedTemporaryFile(prefix="lodestone-draft-") as file:
            try:
                yield cast("BinaryIO", file)
                file.flush()
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                raise OutOfSpaceError(
                    f"no space left to write in {tempfile.gettempdir()!r}, where a file is made before it is uploaded",
                    hint="free some space, or set TMPDIR, and run the same command again; what was finished is kept",
                ) from error
            if os.fstat(file.fileno()).st_size:
                with pa.memory_map(file.name) as content:
                    self.write(path, content.read_buffer())
            else:  # which cannot be mapped
                self.write(path, b"")

    @abstractmethod
    def read(self, path: str) -> pa.Buffer:
        """Return the complete content of a file.

        Raises:
            FileNotFoundError: there is no such file.
            OSError: the file cannot be read.
        """

    def open(self, path: str) -> OpenFile:
        """Open a file to read ranges of it. Raises as `read`."""
        import pyarrow as pa

        return OpenFile(pa.BufferReader(self.read(path)))

    @abstractmethod
    def size(self, path: str) -> int | None:
        """Return the size of a file in bytes; None when there is no such file."""

    @abstractmethod
    def names(self, folder: str = "") -> tuple[list[str], list[StoredFile]]:
        """Return the folders (names) and the files (paths) directly inside a folder, each sorted.

        A missing folder has neither.
        """

    def files(self, folder: str = "") -> Iterator[StoredFile]:
        """Yield all files below a folder, except unfinished ones.

        Memory holds the names of one folder of each level at a time.
        """
        inner, files = self.names(folder)
        yield from files
        for name in inner:
            yield from self.files(f"{folder}/{name}" if folder else name)

    @abstractmethod
    def delete(self, path: str) -> bool:
        """Delete a file, and return whether it existed.

        Raises:
            OSError: the file cannot be deleted.
        """

    @abstractmethod
    def delete_folder(self, folder: str) -> None:
        """Delete a folder and everything in it. A missing folder is no error."""

    @abstractmethod
    def sweep(self, folder: str) -> int:
        """Delete the unfinished files that killed writers left below a folder, and return their number.

        Call it only while nobody writes below that folder.
        """
