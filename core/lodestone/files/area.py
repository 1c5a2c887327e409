"""Where are files kept that are written once and read from several machines? In an area: a local folder, or a URL.

A file appears under its name whole or not at all. A folder gets it by a temporary name, a sync and a rename; an object store by
one PUT to the final key, with no temporary object. Areas are small and picklable: a worker opens its own connection.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa


class StoredFile(NamedTuple):
    """One file of an area: `path` inside it, with forward slashes, and `size` in bytes."""

    path: str
    size: int


class FileArea(ABC):
    """A place of immutable files. Paths are relative to it, with forward slashes. Methods may be called from any thread."""

    @staticmethod
    def at(location: Path | str) -> FileArea:
        """The area at a folder, or at a URL (`s3://bucket/prefix?endpoint_override=…`, `gs://…`, any that fsspec knows).

        Nothing is opened before it is used. Credentials come from the environment only.

        Raises:
            ConfigurationError: the URL holds credentials, or names no bucket.
        """
        if isinstance(location, str) and "://" in location and not location.startswith("file://"):
            from lodestone.files.objects import ObjectArea

            return ObjectArea(location)
        from lodestone.files.local import LocalArea

        return LocalArea(Path(location.removeprefix("file://")) if isinstance(location, str) else location)

    @property
    @abstractmethod
    def location(self) -> str:
        """Where it is, for people."""

    @property
    def folder(self) -> Path | None:
        """The folder of a local area."""
        return None

    @abstractmethod
    def write(self, path: str, content: bytes | pa.Buffer, *, durable: bool = True) -> None:
        """Put a file there whole, replacing one of that name.

        Args:
            path: Inside the area.
            content: All of it.
            durable: When this returns, neither kill -9 nor a power cut loses it. (An object store knows nothing else.)

        Raises:
            OutOfSpaceError: no space; nothing was left behind.
            OSError: it cannot be written.
        """

    @abstractmethod
    def read(self, path: str) -> pa.Buffer:
        """All of a file.

        Raises:
            FileNotFoundError: there is none.
            OSError: it cannot be read.
        """

    @abstractmethod
    def size(self, path: str) -> int | None:
        """Bytes of a file; None when there is none."""

    @abstractmethod
    def names(self, folder: str = "") -> tuple[list[str], list[StoredFile]]:
        """Folders (by name) and files (by path) directly inside a folder, each in order; nothing for a missing one."""

    def files(self, folder: str = "") -> Iterator[StoredFile]:
        """All files below a folder, holding the names of one folder at a time. Unfinished ones are left out."""
        inner, files = self.names(folder)
        yield from files
        for name in inner:
            yield from self.files(f"{folder}/{name}" if folder else name)

    @abstractmethod
    def delete(self, path: str) -> bool:
        """Delete a file; whether there was one. Raises `OSError` when it cannot be deleted."""

    @abstractmethod
    def delete_folder(self, folder: str) -> None:
        """Delete a folder with all that is in it; a missing one is fine."""

    @abstractmethod
    def sweep(self, folder: str) -> int:
        """Delete what killed writers left below a folder; returns how many. Only while nothing is written there."""
