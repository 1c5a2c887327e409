"""Factory of the function that prepares one picture with a worker's settings, in the worker itself or in an isolated child."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from lodestone.backbones.base import Backbone
from lodestone.backbones.registry import make_backbone
from lodestone.imaging.thumbnails import ThumbnailStore
from lodestone.indexing.embed.picture_inputs import PreparedPicture, prepare_picture
from lodestone.indexing.faults import Faults
from lodestone.indexing.tasks import EmbedSettings, RowFailure, SliceRow
from lodestone.models.cache import ModelCache
from lodestone.models.context import ModelContext
from lodestone.sources.reading import Reader

Prepare = Callable[[SliceRow], PreparedPicture | RowFailure]


def preparer(
    settings: EmbedSettings, names: Sequence[str], made: Sequence[Backbone] | None = None, reader: Reader | None = None
) -> Prepare:
    """Return `prepare_picture` bound to a worker's settings.

    Args:
        settings: Settings of the worker.
        names: Names of the backbones whose inputs are wanted.
        made: All backbones of the worker; None to make them here, which loads no model.
        reader: Reads the pictures; None for a new one.
    """
    if made is None:
        context = ModelContext(ModelCache(settings.models), threads=settings.model_threads)
        made = [make_backbone(name, context) for name in settings.backbones]
    return partial(
        _prepare,
        backbones=[backbone for backbone in made if backbone.name in names],
        min_side=max(backbone.input_size for backbone in made),
        max_decoded_bytes=settings.max_decoded_bytes,
        thumbnails=ThumbnailStore(settings.thumbnails, size=settings.thumbnail_px),
        faults=Faults.from_environment(),
        reader=reader or Reader(),
    )


def _prepare(
    row: SliceRow,
    *,
    backbones: Sequence[Backbone],
    min_side: int,
    max_decoded_bytes: int,
    thumbnails: ThumbnailStore,
    faults: Faults,
    reader: Reader,
) -> PreparedPicture | RowFailure:
    faults.reach_picture(row.uri)
    return prepare_picture(
        row, backbones, min_side=min_side, max_decoded_bytes=max_decoded_bytes, thumbnails=thumbnails, reader=reader
    )
