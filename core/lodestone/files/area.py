"""Contract of a file area: a local folder or a URL that keeps files which are written once and read from several machines.

A file appears under its name only when it is complete. A folder uses a temporary name, a sync and a rename; an object store
uses one PUT to the final key, with no temporary object. Areas are small and picklable: a worker opens its own connection.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa


class StoredFile(NamedTuple):
    """Describes one file of an area.

    Attributes:
        path: Path inside the area, with forward slashes.
        size: Size in bytes.
    """

    path: str
    size: int


class FileArea(ABC):
    """Stores immutable files under paths relative to one place, with forward slashes; methods may be called from any thread."""

    @staticmethod
    def at(location: Path | str) -> FileArea:
        """Return the area at a folder, or at a URL.

        URLs are `s3://bucket/prefix?endpoint_override=…`, `gs://…`, and any that fsspec knows. Nothing is opened before it is
        used. Credentials come from the environment only.

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
        """Return where the area is, in a form for people, without query parameters."""

    @property
    def folder(self) -> Path | None:
        """Return the folder of a local area, or None for any other area."""
        return None

    @abstractmethod
    def write(self, path: str, content: bytes | pa.Buffer, *, durable: bool = True) -> None:
        """Write a whole file, replacing any file of that name.

        Args:
            path: Path inside the area.
            content: The file's whole content.
            durable: Whether neither kill -9 nor a power cut may lose the file after this call. An object store is always
                durable.

        Raises:
            OutOfSpaceError: there is no space; no partial file is left.
            OSError: the file cannot be written.
        """

    @abstractmethod
    def read(self, path: str) -> pa.Buffer:
        """Read a whole file.

        Raises:
            FileNotFoundError: there is no such file.
            OSError: the file cannot be read.
        """

    @abstractmethod
    def size(self, path: str) -> int | None:
        """Return the size of a file in bytes, or None when there is no such file."""

    @abstractmethod
    def names(self, folder: str = "") -> tuple[list[str], list[StoredFile]]:
        """Return the folders (names) and files (paths) directly inside a folder, both sorted.

        A missing folder gives empty lists.
        """

    def files(self, folder: str = "") -> Iterator[StoredFile]:
        """Yield all files below a folder, except unfinished ones; only one folder's names are in memory at a time."""
        inner, files = self.names(folder)
        yield from files
        for name in inner:
            yield from self.files(f"{folder}/{name}" if folder else name)

    @abstractmethod
    def delete(self, path: str) -> bool:
        """Delete a file, and return whether there was one.

        Raises:
            OSError: the file cannot be deleted.
        """

    @abstractmethod
    def delete_folder(self, folder: str) -> None:
        """Delete a folder with all its content; a missing folder is no error."""

    @abstractmethod
    def sweep(self, folder: str) -> int:
        """Delete the temporary files that killed writers left below a folder, and return how many.

        Call it only while nothing writes there.
        """
