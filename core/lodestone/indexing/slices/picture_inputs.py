"""Preparation of one picture: its content is decoded once, for its thumbnail and for what each missing part takes of it.

Every problem with a single picture ends as a `RowFailure`. A source that has changed or refuses every read ends the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from lodestone.errors import ConfigurationError, ImageError, SourceError
from lodestone.imaging.decode import decode
from lodestone.imaging.gpu_jpeg import GpuJpegs
from lodestone.imaging.thumbnails import ThumbnailStore
from lodestone.indexing.parts.contract import OpenedPicture, SlicePart
from lodestone.indexing.tasks import META_PART, RowFailure, SliceRow
from lodestone.sources.reading import Reader
from lodestone.sources.trouble import Trouble


@dataclass(frozen=True, slots=True)
class PreparedPicture:
    """A picture that is decoded and prepared for the parts that are missing.

    Attributes:
        row: The planned row; where `meta` is missing, with the captions inside the file.
        inputs: Name of a part -> what it took of the opened picture.
    """

    row: SliceRow
    inputs: dict[str, Any]


@dataclass(frozen=True, slots=True)
class DecodedPicture:
    """A prepared picture and its thumbnail, which is not stored yet.

    Attributes:
        picture: The picture.
        thumbnail: The encoded thumbnail; None when it is stored already.
    """

    picture: PreparedPicture
    thumbnail: bytes | None


def decode_picture(
    row: SliceRow,
    content: bytes | BinaryIO,
    parts: Sequence[SlicePart],
    *,
    min_side: int,
    max_decoded_bytes: int,
    thumbnails: ThumbnailStore,
    jpegs: GpuJpegs | None = None,
) -> DecodedPicture | RowFailure:
    """Decode and prepare one picture whose content was compared with the plan; an open file is closed.

    Raises:
        ConfigurationError: the folder of thumbnails cannot be read.
    """
    try:
        decoded = decode(content, min_side=min_side, max_decoded_bytes=max_decoded_bytes, jpegs=jpegs)
        opened = OpenedPicture(row, decoded, content if isinstance(content, bytes) else None)
        inputs = {part.name: part.prepare(opened) for part in parts}
    except ImageError as error:
        return failure_of(row, error)
    try:
        thumbnail = thumbnails.encode_missing(row.hash, decoded.image)
    except OSError as error:
        raise unwritable_thumbnails(thumbnails, error) from error
    if META_PART in inputs:
        row = row._replace(captions=opened.captions)
    return DecodedPicture(PreparedPicture(row, inputs), thumbnail)


def failure_of(row: SliceRow, error: ImageError) -> RowFailure:
    """Return the failure of a picture that cannot be read or decoded."""
    return RowFailure(row.image_id, row.uri, str(error.details.get("reason", error.code)), error.message)


def unwritable_thumbnails(thumbnails: ThumbnailStore, error: OSError) -> ConfigurationError:
    """Return the error of a folder of thumbnails that cannot be used."""
    return ConfigurationError(
        f"thumbnails cannot be written to {thumbnails.area.location!r}: {error.strerror or error}",
        hint="make the home's folders writable for this user",
    )


def require_some_readable(failures: Sequence[RowFailure], rows: int, reader: Reader) -> None:
    """Raise when every read was denied and none has succeeded: the rights are wrong then, and no picture is recorded as failed.

    Raises:
        SourceError: every read was denied.
    """
    if (
        rows
        and not reader.has_read
        and len(failures) == rows
        and all(failure.code == Trouble.DENIED.value for failure in failures)
    ):
        raise SourceError(
            f"reading is denied for all {rows:,} pictures of a slice, from {failures[0].uri!r} on: {failures[0].message}",
            hint="grant these credentials the right to read, and run the same command again; what is finished is kept",
            reason=Trouble.DENIED.value,
        )
