"""Requests of exports: what is exported, and in which form."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from lodestone.errors import InvalidRequestError
from lodestone_schemas.searching import QuerySet, SearchFilters


class ExportFormat(StrEnum):
    """Form of an export's files."""

    PARQUET = "parquet"
    WEBDATASET = "webdataset"


class VectorType(StrEnum):
    """Type of the numbers of exported vectors."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"


class PictureBytes(StrEnum):
    """What archives hold of a picture: its file, its thumbnail, or nothing."""

    ORIGINALS = "originals"
    THUMBNAILS = "thumbnails"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class FileSize:
    """Most pictures of a file, or most bytes before compression; 0 for no such bound."""

    pictures: int = 0
    bytes: int = 0

    def __str__(self) -> str:
        return str(self.pictures) if self.pictures else f"{self.bytes >> 20}MB"


DEFAULT_SIZES: Final = {
    ExportFormat.PARQUET: FileSize(pictures=10_000),
    ExportFormat.WEBDATASET: FileSize(bytes=500 << 20),
}


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """What is to be exported.

    Attributes:
        format: Form of the files.
        filters: Corpora, roots, folder and dates of the pictures.
        match: Further restrictions; None for none.
        columns: Names of facts; None for all.
        spaces: Names of spaces whose vectors are exported; None for all of the profile.
        dtype: Type of the vectors' numbers.
        pictures: What archives hold of a picture.
        size: Bound of a file; None for that of the format.
    """

    format: ExportFormat = ExportFormat.PARQUET
    filters: SearchFilters = field(default_factory=SearchFilters)
    match: QuerySet | None = None
    columns: tuple[str, ...] | None = None
    spaces: tuple[str, ...] | None = None
    dtype: VectorType = VectorType.FLOAT32
    pictures: PictureBytes | None = None
    size: FileSize | None = None

    @property
    def bounded(self) -> FileSize:
        """Return the bound of a file."""
        return self.size or DEFAULT_SIZES[self.format]

    @property
    def picture_bytes(self) -> PictureBytes:
        """Return what the files hold of a picture.

        Raises:
            InvalidRequestError: a table is to hold pictures.
        """
        if self.format is ExportFormat.WEBDATASET:
            return self.pictures or PictureBytes.ORIGINALS
        if self.pictures not in {None, PictureBytes.NONE}:
            raise InvalidRequestError(
                f"Parquet files of an export hold no {self.pictures}", hint="--format webdataset exports pictures"
            )
        return PictureBytes.NONE
