"""How does one file become model inputs, a thumbnail and what is known about it? Read once, decoded once, in a thread.

Everything that can be wrong with one picture ends as a `RowFailure`; only a full disk ends the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lodestone.backbones.base import Backbone, Pixels
from lodestone.errors import ConfigurationError, ImageError
from lodestone.imaging.decode import decode
from lodestone.imaging.failures import unreadable
from lodestone.imaging.metadata import PhotoMetadata, read_metadata
from lodestone.imaging.thumbnails import ThumbnailStore
from lodestone.indexing.captions import embedded_captions
from lodestone.indexing.discover import hash_bytes, hash_file
from lodestone.indexing.tasks import EMBEDDED_SOURCES, RowFailure, SliceRow

# Larger files are hashed in pieces and decoded from their path, so that no thread ever holds a whole one.
_READ_WHOLE_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class PreparedPicture:
    """One picture, ready for the models.

    Attributes:
        row: What was planned.
        inputs: Backbone name -> (side, side, 3) uint8.
        width: Of the original, upright, pixels.
        height: Of the original, upright, pixels.
        format: What the content is, e.g. "JPEG".
        metadata: Time, place and camera, where the file says so.
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
    row: SliceRow, backbones: Sequence[Backbone], *, min_side: int, max_decoded_bytes: int, thumbnails: ThumbnailStore
) -> PreparedPicture | RowFailure:
    """Read, check, decode and prepare one picture.

    Raises:
        OutOfSpaceError: no space left for its thumbnail.
        ConfigurationError: the folder of thumbnails cannot be written to.
    """
    try:
        source = _read(row)
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
    found = tuple((caption.source, caption.text) for caption in embedded_captions(decoded.embedded))
    return PreparedPicture(
        row=row,
        inputs=inputs,
        width=decoded.width,
        height=decoded.height,
        format=decoded.format,
        metadata=read_metadata(decoded.embedded),
        captions=tuple(dict.fromkeys((*known, *found))),
    )


def _read(row: SliceRow) -> bytes | Path:
    """The file's content, or its path when that is too much to hold; in either case of the planned hash."""
    path = Path(row.path)
    try:
        if row.size > _READ_WHOLE_BYTES:
            source: bytes | Path = path
            found = hash_file(path)
        else:
            source = path.read_bytes()
            found = hash_bytes(source)
    except OSError as error:
        raise unreadable(error) from error
    if found != row.hash:
        raise ImageError(
            "the file changed while it was being indexed", hint="run the same command again", reason="file_changed"
        )
    return source
