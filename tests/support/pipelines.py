"""Slice pipelines over pretended models and readers: quick, countable, and held up wherever a test wants it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import numpy as np
from PIL import Image
from tests.support.pictures import jpeg_bytes

from lodestone.backbones.base import Backbone, Outputs, OutputSpec, Pixels
from lodestone.files.area import FileArea
from lodestone.files.beneath import Enclosure
from lodestone.files.opening import open_area
from lodestone.files.tokens import hash_bytes
from lodestone.indexing.slices.limits import PipelineLimits
from lodestone.indexing.slices.pipeline import SlicePipeline
from lodestone.indexing.slices.work import SliceWork
from lodestone.indexing.tasks import EmbedSettings, SliceRow, SliceTask
from lodestone.sources.reading import Reader
from lodestone.text_encoders.base import TextEncoder

SIDE = 8
_PHOTOS = [jpeg_bytes((24, 16), seed=seed) for seed in range(8)]


class MeanBackbone(Backbone):
    """A model whose output is the mean colour of a picture; `hook` is called before every pass with its pixels."""

    input_size = SIDE
    outputs = (OutputSpec("mean", 3),)
    version = "1"

    def __init__(self, name: str = "mean", hook: Callable[[Pixels], None] = lambda _: None) -> None:
        self.name = name
        self.hook = hook
        self.batches: list[int] = []

    def warm_up(self, *, threads: int = 0) -> None:
        return

    def prepare(self, image: Image.Image) -> Pixels:
        return np.asarray(image.resize((SIDE, SIDE)), np.uint8)

    def embed(self, pixels: Pixels) -> Outputs:
        self.hook(pixels)
        self.batches.append(len(pixels))
        return {"mean": pixels.mean(axis=(1, 2)).astype(np.float16)}


class LengthEncoder(TextEncoder):
    """A text encoder whose vectors tell the length of the text."""

    name = "length"
    dim = 2
    version = "1"

    def warm_up(self, *, threads: int = 0) -> None:
        return

    def encode(self, texts: Sequence[str]) -> Any:
        return np.asarray([[len(text), 1] for text in texts], np.float32).reshape(-1, 2)


class PretendedReader(Reader):
    """A reader of made-up files; `hook` is called with each locator before it is read, and may raise."""

    def __init__(self, files: dict[str, bytes], hook: Callable[[str], None] = lambda _: None) -> None:
        super().__init__()
        self.files = files
        self.hook = hook
        self.reading = self.most_reading = 0
        self._counting = threading.Lock()

    def read(self, locator: str, *, content: str, size: int, mtime_ns: int, within: Enclosure | None = None) -> bytes:
        with self._counting:
            self.reading += 1
            self.most_reading = max(self.most_reading, self.reading)
        try:
            self.hook(locator)
            self.has_read = True
            return self.files[locator]
        finally:
            with self._counting:
                self.reading -= 1


class Stand:
    """Made-up pictures and a pipeline over them.

    Args:
        folder: Holds embeddings and thumbnails.
        on_read: Called with each locator before it is read.
        on_embed: Called before every model pass.
        captions: Captions of each picture.
        thumbnails: Area of the thumbnails; None for a folder.
        limits: Of the pipeline, besides or instead of those of the test.
    """

    def __init__(
        self,
        folder: Path,
        *,
        on_read: Callable[[str], None] = lambda _: None,
        on_embed: Callable[[Pixels], None] = lambda _: None,
        backbones: Sequence[str] = ("mean",),
        thumbnails: FileArea | None = None,
        **limits: Any,
    ) -> None:
        self.files: dict[str, bytes] = {}
        self.backbones = [MeanBackbone(name, on_embed) for name in backbones]
        self.reader = PretendedReader(self.files, on_read)
        self.settings = EmbedSettings(
            backbones=(),
            text_encoder="",
            models=folder,
            embeddings=open_area(folder / "embeddings"),
            thumbnails=thumbnails or open_area(folder / "thumbnails"),
            thumbnail_px=16,
        )
        self.work = SliceWork(self.settings, backbones=self.backbones, encoder=LengthEncoder(), reader=self.reader)
        self.limits = PipelineLimits(**{"slices": 3, "batch_size": 4, "decoders": 2, **limits})
        self.pipeline = SlicePipeline(self.settings, work=self.work, limits=self.limits)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.pipeline.close()

    def task(self, pictures: int, *, name: str = "", captions: int = 0, remote: bool = False, **fields: Any) -> SliceTask:
        """Return a new slice of new pictures, named `name/000000.jpg` onwards."""
        folder = name or str(uuid4())
        rows = []
        for number in range(pictures):
            content = _PHOTOS[(len(self.files)) % len(_PHOTOS)]
            uri = f"{folder}/{number:06}.jpg"
            locator = f"s3://bucket/{uri}" if remote else f"/photos/{uri}"
            self.files[locator] = content
            texts = tuple(("sidecar", f"caption {caption} of {uri}") for caption in range(captions))
            rows.append(SliceRow(str(uuid4()), hash_bytes(content), locator, uri, len(content), 1, texts))
        return SliceTask(
            slice_id=name or str(uuid4()),
            corpus_id=str(uuid4()),
            fingerprint=uuid4().hex,
            rows=tuple(rows),
            parts=fields.pop("parts", self.pipeline.parts),
            **fields,
        )
