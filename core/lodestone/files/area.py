"""Contract of file areas: places of immutable files that are written once and read from several machines.

A file is visible under its name only when it is complete. A folder achieves this by a temporary name, a sync and a rename; an
object store by one PUT to the final key, without a temporary object. Areas are small and picklable: each worker opens its own
connection. `files/opening.py` makes the area of a folder or a URL.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

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

    @abstractmethod
    def read(self, path: str) -> pa.Buffer:
        """Return the complete content of a file.

        Raises:
            FileNotFoundError: there is no such file.
            OSError: the file cannot be read.
        """

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
