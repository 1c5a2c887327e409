"""Encoder in this process: words and pictures become vectors by the models that are loaded here."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from PIL import Image

from lodestone.backbones.base import Backbone, BackboneOutputs, OutputKey, Outputs
from lodestone.clock import remaining
from lodestone.errors import ModelUnavailableError
from lodestone.query.contracts import EncodedTexts, Pixels, Vectors
from lodestone.spaces.base import Projection
from lodestone.text_encoders.base import TextEncoder

Item = TypeVar("Item")
Result = TypeVar("Result")


class LocalEncoder:
    """Implements `stages.Encoder` by local models, which run in threads.

    Args:
        projections: Space -> the active projection.
        text_encoders: Name -> text encoder; those that the projections ask for.
        backbones: Name -> backbone, light; loaded at the first picture.
        threads: Threads of one pass through a model; 0 for the runtime's choice.
        text_threads: Threads of a pass over texts; None for as many as `threads`.
    """

    def __init__(
        self,
        *,
        projections: Mapping[str, Projection],
        text_encoders: Mapping[str, TextEncoder],
        backbones: Mapping[str, Backbone],
        threads: int = 0,
        text_threads: int | None = None,
    ) -> None:
        self._projections = dict(projections)
        self._text_encoders = dict(text_encoders)
        self._backbones = dict(backbones)
        self._threads = threads
        self._text_threads = threads if text_threads is None else text_threads
        self._warm = False
        self._eyes_open = False
        self._lock = threading.Lock()

    @property
    def collections(self) -> Mapping[str, str]:
        """Map spaces to the collections that the vectors may be compared with."""
        return {space: projection.collection for space, projection in self._projections.items()}

    async def warm_up(self) -> None:
        """Load what words need, as `Encoder.warm_up` says."""
        await asyncio.to_thread(self.load)

    async def encode_texts(self, texts: Sequence[str], *, deadline: float | None = None) -> EncodedTexts:
        """Encode texts in a thread, as `Encoder.encode_texts` says."""
        return await asyncio.to_thread(_in_time, deadline, self.encode, list(texts))

    async def embed_pictures(self, pictures: Sequence[Pixels], *, deadline: float | None = None) -> Mapping[str, Vectors]:
        """Embed pictures in a thread, as `Encoder.embed_pictures` says."""
        return await asyncio.to_thread(_in_time, deadline, self.embed, list(pictures))

    def load(self, *, pictures: bool = False) -> None:
        """Load what words need, and with `pictures` the image models too. Blocking; a second call returns at once."""
        self._load_text_models()
        if pictures:
            self._load_backbones()

    def _load_text_models(self) -> None:
        with self._lock:
            if self._warm:
                return
            for encoder in self._text_encoders.values():
                encoder.warm_up(threads=self._text_threads)
            for projection in self._projections.values():
                projection.warm_up()
            self._warm = True

    def _load_backbones(self) -> None:
        with self._lock:
            if not self._eyes_open:
                for backbone in self._backbones.values():
                    backbone.warm_up(threads=self._threads)
                self._eyes_open = True

    def encode(self, texts: Sequence[str]) -> EncodedTexts:
        """Encode texts, as `encode_texts` does. Blocking; thread-safe."""
        self.load()
        encoded = {name: encoder.encode(list(texts)) for name, encoder in self._text_encoders.items()}
        projected = {
            projection.collection: projection.project_texts(encoded[projection.text_encoder])
            for projection in self._projections.values()
            if projection.text_encoder is not None
        }
        return EncodedTexts(encoded, projected)

    def embed(self, pictures: Sequence[Pixels]) -> dict[str, Vectors]:
        """Embed pictures, as `embed_pictures` does. Blocking; thread-safe."""
        self.load(pictures=True)
        images = [Image.fromarray(pixels, "RGB") for pixels in pictures]
        outputs: dict[str, Outputs] = {
            name: backbone.embed(np.stack([backbone.prepare(image) for image in images]))
            for name, backbone in self._backbones.items()
        }
        return {
            projection.collection: projection.project(_columns(projection, outputs))
            for projection in self._projections.values()
        }


def _in_time(deadline: float | None, work: Callable[[Sequence[Item]], Result], items: Sequence[Item]) -> Result:
    """Do the work if a thread became free for it in time; nobody waits for what begins later."""
    if remaining(deadline) <= 0:
        raise TimeoutError("no thread was free in time")
    return work(items)


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
