"""Factory of the function that decodes one picture with a worker's settings, in the worker itself or in an isolated child."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import BinaryIO

from lodestone.backbones.registry import make_backbone
from lodestone.errors import ImageError
from lodestone.imaging.gpu_jpeg import GpuJpegs
from lodestone.imaging.thumbnails import ThumbnailStore
from lodestone.indexing.faults import Faults
from lodestone.indexing.parts.contract import SlicePart
from lodestone.indexing.parts.registry import make_parts
from lodestone.indexing.slices.picture_inputs import DecodedPicture, decode_picture, failure_of
from lodestone.indexing.tasks import EmbedSettings, RowFailure, SliceRow
from lodestone.models.cache import ModelCache
from lodestone.models.context import ModelContext
from lodestone.sources.reading import Reader
from lodestone.text_encoders.registry import make_text_encoder

Content = bytes | BinaryIO
"""Content of a picture: its bytes, or the open file when a local file is too large for memory."""

Decode = Callable[[SliceRow, Content | None], DecodedPicture | RowFailure]
"""Function that decodes a picture from its content, or reads it first when there is none."""


def decoder(
    settings: EmbedSettings,
    names: Sequence[str],
    made: Sequence[SlicePart] | None = None,
    reader: Reader | None = None,
    *,
    jpegs: GpuJpegs | None = None,
) -> Decode:
    """Return the decoding of a picture, bound to a worker's settings.

    Args:
        settings: Settings of the worker.
        names: Names of the parts that are missing.
        made: All parts of the worker; None to make them here, which loads no model.
        reader: Reads pictures that come without their content; None for a new one.
        jpegs: Decodes ordinary JPEGs; None for the CPU.
    """
    if made is None:
        context = ModelContext(ModelCache(settings.models), threads=settings.model_threads)
        backbones = [make_backbone(name, context) for name in settings.backbones]
        made = make_parts(backbones, make_text_encoder(settings.text_encoder, context))
    return partial(
        _decode,
        parts=[part for part in made if part.name in names and part.opens],
        min_side=max((part.resources.side for part in made), default=1),
        max_decoded_bytes=settings.max_decoded_bytes,
        thumbnails=ThumbnailStore(settings.thumbnails, size=settings.thumbnail_px),
        faults=Faults.from_environment(),
        reader=reader or Reader(),
        jpegs=jpegs,
    )


def _decode(
    row: SliceRow,
    content: Content | None,
    *,
    parts: Sequence[SlicePart],
    min_side: int,
    max_decoded_bytes: int,
    thumbnails: ThumbnailStore,
    faults: Faults,
    reader: Reader,
    jpegs: GpuJpegs | None,
) -> DecodedPicture | RowFailure:
    faults.reach_picture(row.uri)
    if content is None:
        try:
            content = reader.read(row.path, content=row.hash, size=row.size, mtime_ns=row.mtime_ns, within=row.within)
        except ImageError as error:
            return failure_of(row, error)
    return decode_picture(
        row, content, parts, min_side=min_side, max_decoded_bytes=max_decoded_bytes, thumbnails=thumbnails, jpegs=jpegs
    )
