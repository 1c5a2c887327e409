"""Writing of an export's files: the work on one of them, which any thread, process or node can do.

A file appears under its name only when it is complete, so writing it again, also by two workers at once, does no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from lodestone.export.archives import ArchiveWriter
from lodestone.export.content import ContentReader
from lodestone.export.request import ExportFormat
from lodestone.export.tables import ParquetWriter
from lodestone.export.tasks import ExportTask, WrittenFile
from lodestone.export.writer import FileLayout, FileWriter, HashedFile
from lodestone.files.area import FileArea

if TYPE_CHECKING:
    from lodestone.export.selection import ExportSelection
    from lodestone.home.resources import HomeResources

WRITERS: Final[Mapping[ExportFormat, type[FileWriter]]] = {
    ExportFormat.PARQUET: ParquetWriter,
    ExportFormat.WEBDATASET: ArchiveWriter,
}


@dataclass(frozen=True, slots=True)
class ExportJob:
    """The work of an export on each of its files, as `BulkWork`.

    Attributes:
        format: Form of the files.
        directory: Area that they are written to.
        layout: What they hold.
    """

    format: ExportFormat
    directory: FileArea
    layout: FileLayout

    @classmethod
    def of(cls, selection: ExportSelection, resources: HomeResources, directory: FileArea) -> Self:
        """Return the work of an export.

        Args:
            selection: What its files hold.
            resources: The opened home.
            directory: Area that they are written to.
        """
        request = selection.request
        content = ContentReader(
            resources.embeddings,
            selection.projections,
            selection.parts,
            request.dtype.value,
            bool(selection.part_columns),
        )
        layout = FileLayout(
            content,
            selection.columns,
            selection.fields,
            selection.spaces(),
            selection.pictures,
            resources.thumbnails.area,
            resources.thumbnails.size,
        )
        return cls(request.format, directory, layout)

    def prepare(self) -> Callable[[ExportTask], WrittenFile]:
        """Return what writes the file of a task and returns its facts."""
        return partial(_written, self.directory, WRITERS[self.format](self.layout))


def _written(directory: FileArea, writer: FileWriter, task: ExportTask) -> WrittenFile:
    with directory.draft(task.name) as file:
        hashed = HashedFile(file)
        content = writer.write(task, hashed)  # type: ignore[arg-type]  # as much of a file as writers use
    return WrittenFile(
        task.name, content.pictures, hashed.size, hashed.checksum, dict(content.without_vector), content.left_out
    )
