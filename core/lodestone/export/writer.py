"""Contract of the writers of an export's files, one for each format, and the hashed file that they write to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from blake3 import blake3

from lodestone.export.content import ContentReader
from lodestone.export.request import PictureBytes
from lodestone.export.tasks import ExportTask, LeftOut
from lodestone.files.area import FileArea
from lodestone_schemas.collections import FieldKind


@dataclass(frozen=True, slots=True)
class FileLayout:
    """What the files of an export hold of each picture. Picklable.

    Attributes:
        content: Reads vectors and fields.
        columns: Names of the facts.
        fields: Fields of further parts, by name.
        spaces: Space -> facts of its vectors.
        pictures: What archives hold of a picture.
        thumbnails: Area of the thumbnails.
        thumbnail_px: Their longer side, pixels.
    """

    content: ContentReader
    columns: tuple[str, ...]
    fields: Mapping[str, FieldKind]
    spaces: Mapping[str, Mapping[str, Any]]
    pictures: PictureBytes
    thumbnails: FileArea
    thumbnail_px: int


@dataclass(frozen=True, slots=True)
class FileContent:
    """What went into a file.

    Attributes:
        pictures: Number of pictures.
        without_vector: Space -> number of pictures without a vector; spaces without any are left out.
        left_out: Pictures that could not be read.
    """

    pictures: int
    without_vector: Mapping[str, int] = field(default_factory=dict)
    left_out: tuple[LeftOut, ...] = ()


class FileWriter(ABC):
    """Writes files of one format; safe to use from several threads.

    Args:
        layout: What the files hold.
    """

    def __init__(self, layout: FileLayout) -> None:
        self.layout = layout

    @abstractmethod
    def write(self, task: ExportTask, file: BinaryIO) -> FileContent:
        """Write the pictures of a task.

        Raises:
            LodestoneError: the task cannot be done.
            OSError: the file cannot be written.
        """


class HashedFile:
    """A file that is written from its beginning to its end, and hashed on the way.

    Args:
        file: The file.
    """

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = blake3()
        self.size = 0

    def write(self, content: bytes) -> int:
        """Append content, and return its length in bytes."""
        view = memoryview(content).cast("B")
        self._digest.update(view)
        self._file.write(view)
        self.size += len(view)
        return len(view)

    def tell(self) -> int:
        """Return the number of bytes so far."""
        return self.size

    def flush(self) -> None:
        """Do nothing: whoever opened the file flushes it."""

    def close(self) -> None:
        """Do nothing: whoever opened the file closes it."""

    def writable(self) -> bool:
        """Return True: it takes content."""
        return True

    def readable(self) -> bool:
        """Return False: nothing is read from it."""
        return False

    def seekable(self) -> bool:
        """Return False: it is written in one go."""
        return False

    @property
    def checksum(self) -> str:
        """Return the BLAKE3 of what was written so far, hex."""
        return str(self._digest.hexdigest())
