"""How do words and pictures become vectors in this process? The `Encoder` over the models at hand."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence

import numpy as np
from PIL import Image

from lodestone.backbones.base import Backbone, BackboneOutputs, OutputKey, Outputs
from lodestone.errors import ModelUnavailableError
from lodestone.language.base import TextEncoder
from lodestone.query.stages import EncodedTexts, Pixels, Vectors
from lodestone.spaces.base import Projection


class LocalEncoder:
    """Meets `stages.Encoder`. Models run in threads.

    Args:
        projections: Space -> the active projection.
        text_encoders: Name -> text encoder; those that the projections ask for.
        backbones: Name -> backbone, light; loaded at the first picture.
        threads: Threads of one model pass; 0 for the runtime's choice.
    """

    def __init__(
        self,
        *,
        projections: Mapping[str, Projection],
        text_encoders: Mapping[str, TextEncoder],
        backbones: Mapping[str, Backbone],
        threads: int = 0,
    ) -> None:
        self._projections = dict(projections)
        self._text_encoders = dict(text_encoders)
        self._backbones = dict(backbones)
        self._threads = threads
        self._warm = False
        self._eyes_open = False
        self._lock = threading.Lock()

    @property
    def collections(self) -> Mapping[str, str]:
        """See `Encoder.collections`."""
        return {space: projection.collection for space, projection in self._projections.items()}

    async def warm_up(self) -> None:
        """See `Encoder.warm_up`."""
        await asyncio.to_thread(self._load)

    async def encode_texts(self, texts: Sequence[str]) -> EncodedTexts:
        """See `Encoder.encode_texts`."""
        return await asyncio.to_thread(self._encode, list(texts))

    async def embed_pictures(self, pictures: Sequence[Pixels]) -> Mapping[str, Vectors]:
        """See `Encoder.embed_pictures`."""
        return await asyncio.to_thread(self._embed, list(pictures))

    def _load(self) -> None:
        with self._lock:
            if self._warm:
                return
            for encoder in self._text_encoders.values():
                encoder.warm_up(threads=self._threads)
            for projection in self._projections.values():
                projection.warm_up()
            self._warm = True

    def _load_backbones(self) -> None:
        with self._lock:
            if not self._eyes_open:
                for backbone in self._backbones.values():
                    backbone.warm_up(threads=self._threads)
                self._eyes_open = True

    def _encode(self, texts: list[str]) -> EncodedTexts:
        self._load()
        encoded = {name: encoder.encode(texts) for name, encoder in self._text_encoders.items()}
        projected = {
            projection.collection: projection.project_texts(encoded[projection.text_encoder])
            for projection in self._projections.values()
            if projection.text_encoder is not None
        }
        return EncodedTexts(encoded, projected)

    def _embed(self, pictures: list[Pixels]) -> dict[str, Vectors]:
        self._load()
        self._load_backbones()
        images = [Image.fromarray(pixels, "RGB") for pixels in pictures]
        outputs: dict[str, Outputs] = {
            name: backbone.embed(np.stack([backbone.prepare(image) for image in images]))
            for name, backbone in self._backbones.items()
        }
        return {
            projection.collection: projection.project(_columns(projection, outputs))
            for projection in self._projections.values()
        }


def _columns(projection: Projection, outputs: Mapping[str, Outputs]) -> BackboneOutputs:
    for key in projection.requires:
        if key.backbone not in outputs:
            raise ModelUnavailableError(
                f"space {projection.name!r} needs the backbone {key.backbone!r}, which this profile does not load",
                hint="add the backbone to the profile, or search other spaces",
            )
    return BackboneOutputs(
        {OutputKey(key.backbone, key.output): outputs[key.backbone][key.output] for key in projection.requires}
    )
