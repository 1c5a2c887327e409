"""Preparation of one picture: its file is read once and decoded once into model inputs, a thumbnail and metadata.

Every problem with a single picture ends as a `RowFailure`. A full disk ends the run, and so does a source that has changed or
refuses every read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lodestone.backbones.base import Backbone, Pixels
from lodestone.errors import ConfigurationError, ImageError, SourceError
from lodestone.imaging.decode import decode
from lodestone.imaging.metadata import PhotoMetadata, read_metadata
from lodestone.imaging.thumbnails import ThumbnailStore
from lodestone.indexing.tasks import EMBEDDED_SOURCES, RowFailure, SliceRow
from lodestone.sources.captions import embedded_captions
from lodestone.sources.reading import Reader
from lodestone.sources.trouble import Trouble


@dataclass(frozen=True, slots=True)
class PreparedPicture:
    """A picture that is decoded and prepared for the models.

    Attributes:
        row: The planned row.
        inputs: Backbone name -> (side, side, 3) uint8.
        width: Width of the original, upright, in pixels.
        height: Height of the original, upright, in pixels.
        format: Format of the content, e.g. "JPEG".
        metadata: Time, place and camera, where the file holds them.
        captions: (source, text) pairs: those known before, and those inside the file.
    """

    row: SliceRow
    inputs: dict[str, Pixels]
    width: int
    height: int
    format: str
    metadata: PhotoMetadata
    captions: tuple[tuple[str, str], ...]


def prepare_picture(
    row: SliceRow,
    backbones: Sequence[Backbone],
    *,
    min_side: int,
    max_decoded_bytes: int,
    thumbnails: ThumbnailStore,
    reader: Reader,
) -> PreparedPicture | RowFailure:
    """Read, check, decode and prepare one picture.

    Raises:
        SourceError: the object store that holds it refuses everything (expired credentials), or does not answer.
        ManifestChangedError: the archive or table that holds it was changed since it was listed.
        OutOfSpaceError: there is no space left for its thumbnail.
        ConfigurationError: the folder of thumbnails cannot be written to.
    """
    try:
        source = reader.read(row.path, content=row.hash, size=row.size, mtime_ns=row.mtime_ns, within=row.within)
        decoded = decode(source, min_side=min_side, max_decoded_bytes=max_decoded_bytes)
        inputs = {backbone.name: backbone.prepare(decoded.image) for backbone in backbones}
        thumbnails.ensure(row.hash, decoded.image)
    except ImageError as error:
        return RowFailure(row.image_id, row.uri, str(error.details.get("reason", error.code)), error.message)
    except OSError as error:  # reading and decoding give ImageErrors, a full disk OutOfSpaceError: what is left is the folder
        raise ConfigurationError(
            f"thumbnails cannot be written to {thumbnails.area.location!r}: {error.strerror or error}",
            hint="make the home's folders writable for this user",
        ) from error
    known = tuple(pair for pair in row.captions if pair[0] not in EMBEDDED_SOURCES)
    inside = tuple((caption.source, caption.text) for caption in embedded_captions(decoded.embedded))
    return PreparedPicture(
        row=row,
        inputs=inputs,
        width=decoded.width,
        height=decoded.height,
        format=decoded.format,
        metadata=read_metadata(decoded.embedded),
        captions=tuple(dict.fromkeys((*known, *inside))),
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
