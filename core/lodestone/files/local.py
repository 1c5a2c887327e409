"""File area in a local folder: atomic writes that survive kill -9 and power cuts."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final
from uuid import uuid4

from lodestone.durable_files import sync_folder
from lodestone.errors import ConfigurationError, OutOfSpaceError
from lodestone.files.area import FileArea, StoredFile

if TYPE_CHECKING:
    import pyarrow as pa

_TEMPORARY: Final = ".part"  # suffix of unfinished files, whose names begin with a dot
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_TRIES: Final = 3


class LocalArea(FileArea):
    """A file area below one folder, which is created by the first write.

    Args:
        folder: Root of the area.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __repr__(self) -> str:
        return f"LocalArea({str(self._folder)!r})"

    @property
    def location(self) -> str:
        """Return the path of the root folder, for messages."""
        return str(self._folder)

    @property
    def folder(self) -> Path:
        """Return the root folder of the area."""
        return self._folder

    def write(self, path: str, content: bytes | pa.Buffer, *, durable: bool = True) -> None:
        """Write a file as `FileArea.write` requires: temporary name, sync, rename, sync of the folder."""
        for remaining in reversed(range(_TRIES)):
            try:
                with self._draft(path, durable=durable) as file:
                    file.write(content)
            except FileNotFoundError as error:  # an index run's sweep deleted the temporary file while a model swap wrote it
                if not remaining:
                    raise _not_writable((self._folder / path).parent, error) from error
            except (NotADirectoryError, FileExistsError, PermissionError) as error:
                raise _not_writable((self._folder / path).parent, error) from error
            else:
                return

    @contextmanager
    def draft(self, path: str) -> Iterator[BinaryIO]:
        """Open a file of a temporary name, which gets its own when the block has ended, durably."""
        with writing_in((self._folder / path).parent), self._draft(path, durable=True) as file:
            yield file

    @contextmanager
    def _draft(self, path: str, *, durable: bool) -> Iterator[BinaryIO]:
        final = self._folder / path
        with _space_for(final.parent):
            _make_folder(final.parent, below=self._folder, durable=durable)
            temporary = final.with_name(f".{final.name}.{uuid4().hex[:12]}{_TEMPORARY}")
            try:
                with temporary.open("wb") as file:
                    yield file
                    if durable:
                        file.flush()
                        os.fsync(file.fileno())
                temporary.replace(final)
            except BaseException:
                with suppress(FileNotFoundError):
                    temporary.unlink()
                raise
            if durable:
                sync_folder(final.parent)

    def read(self, path: str) -> pa.Buffer:
        """Return a file's content, mapped into memory and not copied; pipes and devices are refused, also behind links."""
        import pyarrow as pa

        if not stat.S_ISREG((self._folder / path).stat().st_mode):  # opening a pipe waits for its other end
            raise OSError(errno.EINVAL, "it is no regular file", str(self._folder / path))
        with pa.memory_map(str(self._folder / path)) as source:
            return source.read_buffer()

    def size(self, path: str) -> int | None:
        """Return the size of a file in bytes; None when there is no such file."""
        try:
            return (self._folder / path).stat().st_size
        except FileNotFoundError:
            return None

    def names(self, folder: str = "") -> tuple[list[str], list[StoredFile]]:
        """Return the folders and files directly inside a folder. Hidden names are not files of an area."""
        folders: list[str] = []
        files: list[StoredFile] = []
        try:
            entries = sorted(os.scandir(self._folder / folder), key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return [], []
        for entry in entries:
            if entry.name.startswith("."):
                continue
            with suppress(FileNotFoundError):  # deleted meanwhile
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                else:
                    files.append(StoredFile(f"{folder}/{entry.name}" if folder else entry.name, entry.stat().st_size))
        return folders, files

    def delete(self, path: str) -> bool:
        """Delete a file, and return whether it existed."""
        try:
            (self._folder / path).unlink()
        except FileNotFoundError:
            return False
        return True

    def delete_folder(self, folder: str) -> None:
        """Delete a folder and everything in it. A missing folder is no error."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self._folder / folder)

    def sweep(self, folder: str) -> int:
        """Delete unfinished temporary files below a folder, and return their number."""
        leftovers = list((self._folder / folder).glob(f"**/.*{_TEMPORARY}"))
        for path in leftovers:
            path.unlink(missing_ok=True)
        return len(leftovers)


@contextmanager
def writing_in(folder: Path) -> Iterator[None]:
    """Convert errors of writing in a folder to ours.

    Raises:
        OutOfSpaceError: the disk is full.
        ConfigurationError: the folder cannot be made or written.
    """
    try:
        with _space_for(folder):
            yield
    except (NotADirectoryError, FileExistsError, PermissionError) as error:
        raise _not_writable(folder, error) from error
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        raise _not_writable(folder, error) from error


@contextmanager
def _space_for(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise OutOfSpaceError(
            f"no space left to write in {str(folder)!r}",
            hint="free some space and run the same command again; what was finished is kept",
        ) from error


def _not_writable(folder: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(
        f"nothing can be written in {str(folder)!r}: {error.strerror}", hint="name a folder that this user may make and write"
    )


def _make_folder(folder: Path, *, below: Path, durable: bool) -> None:
    """Create `folder` and its parents below `below`; with `durable`, sync each so that it survives a power cut."""
    if folder.is_dir():
        return
    folder.mkdir(parents=True, exist_ok=True)
    while durable and folder != below:
        folder = folder.parent
        sync_folder(folder)
