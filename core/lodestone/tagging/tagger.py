"""Tagger of single pictures: it decodes a picture and gives its labels, technical quality and safety score.

Labels are the class names whose vectors are nearest to the picture's vector in the label space, the same that searches in words
use, so they need no further model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import numpy as np
from PIL import Image

from lodestone.errors import DeadlineExceededError
from lodestone.imaging.quality import measure_quality
from lodestone.query.contracts import Encoder
from lodestone.spaces.base import Projection
from lodestone.spaces.labels import LabelSpace
from lodestone_schemas.pictures import PictureLabel, PictureQuality, PictureSafety, PictureTags

LABELS: Final = 10
"""Most labels of one picture."""
LEAST_SIMILARITY: Final = 0.5
"""Least similarity of a label to the picture. Of 99 photos of one object each, the object's name is then among the labels of
92 %, with 2.5 labels a photo. At .3 it is among those of 94 %, with 7.4."""


class SafetyScorer(Protocol):
    """Scores how likely a picture is not safe."""

    model: str

    def score(self, image: Image.Image) -> float:
        """Return the probability, in [0, 1]. Blocking; loads the model at the first picture."""


class LocalTagger:
    """A `query.stages.Tagger` with the models of an encoder.

    Args:
        encoder: Embeds the picture.
        projections: Space -> the version that `encoder` embeds into; one of them may be a label space.
        decode: Decodes a file's content to an upright RGB picture, within limits, reduced to no less than `quality.SIDE_PX`.
        safety: Scores safety; None where no model is installed.
    """

    def __init__(
        self,
        encoder: Encoder,
        projections: Mapping[str, Projection],
        *,
        decode: Callable[[bytes], Image.Image],
        safety: SafetyScorer | None = None,
    ) -> None:
        self._encoder = encoder
        self._labels = label_space(projections)
        self._decode = decode
        self._safety = safety

    async def tag(self, picture: bytes, *, deadline: float | None = None) -> PictureTags:
        """Return what is found out about a picture; see `Tagger.tag`."""
        image = await asyncio.to_thread(self._decode, picture)
        quality, safety = await asyncio.to_thread(self._measured, image)
        return PictureTags(labels=await self._labelled(image, deadline), quality=quality, safety=safety)

    def _measured(self, image: Image.Image) -> tuple[PictureQuality, PictureSafety | None]:
        measures = measure_quality(image)
        quality = PictureQuality(
            sharpness=measures.sharpness,
            brightness=measures.brightness,
            contrast=measures.contrast,
            shadows=measures.shadows,
            highlights=measures.highlights,
        )
        scorer = self._safety
        return quality, None if scorer is None else PictureSafety(not_safe=scorer.score(image), model=scorer.model)

    async def _labelled(self, image: Image.Image, deadline: float | None) -> list[PictureLabel] | None:
        if self._labels is None:
            return None
        try:
            vectors = await self._encoder.embed_pictures([np.asarray(image)], deadline=deadline)
        except TimeoutError as error:
            raise DeadlineExceededError(
                "the deadline passed before the picture was embedded", hint="allow more time"
            ) from error
        vector = vectors.get(self._labels.collection)
        if vector is None:  # the encoder has another version: it is being swapped
            return None
        await asyncio.to_thread(self._labels.warm_up)
        (nearest,) = self._labels.nearest_labels(vector, LABELS)
        return [PictureLabel(text=text, similarity=value) for text, value in nearest if value >= LEAST_SIMILARITY]


def label_space(projections: Mapping[str, Projection]) -> LabelSpace | None:
    """Return the label space among these versions; None where the profile has none."""
    return next((projection for projection in projections.values() if isinstance(projection, LabelSpace)), None)
