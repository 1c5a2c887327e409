"""The stages that a slice goes through: plan, fetch, decode, embed, encode captions, write. Each is one call on plain values.

What runs when, and how much of it at once, is decided by the flow (flow.py). Each part of a slice becomes one Parquet
file, `meta` last; in a bucket its thumbnails become one pack, first. Parts that a killed run left on disk, complete but without
a receipt, are adopted and not computed again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.backbones.base import Backbone, Outputs
from lodestone.backbones.registry import make_backbone
from lodestone.catalog.records import Receipt
from lodestone.errors import ImageError, LodestoneError, RunFailedError
from lodestone.imaging.gpu_jpeg import GpuJpegs, gpu_jpegs
from lodestone.imaging.thumbnail_packs import PackName
from lodestone.imaging.thumbnails import ThumbnailStore
from lodestone.indexing.faults import Faults
from lodestone.indexing.slices.files import PartFiles
from lodestone.indexing.slices.isolation import DecodingChild, DecodingChildren
from lodestone.indexing.slices.picture_inputs import (
    PreparedPicture,
    failure_of,
    require_some_readable,
    unwritable_thumbnails,
)
from lodestone.indexing.slices.preparing import Content, Decode, decoder
from lodestone.indexing.slices.state import Captions, SlicePlan, SliceState
from lodestone.indexing.tasks import META_PART, EmbedSettings, RowFailure, SliceParts, SliceRow, SliceTask
from lodestone.models.cache import ModelCache
from lodestone.models.context import ModelContext
from lodestone.models.gpu_memory import MemoryFit, free_cached_memory, no_room, out_of_gpu_memory
from lodestone.sources.joined import read_together
from lodestone.sources.reading import Reader
from lodestone.text_encoders.base import TextEncoder
from lodestone.text_encoders.registry import make_text_encoder

_CAPTIONS_AT_ONCE: Final = 256


class SliceWork:
    """Models, readers and files of one worker. Light to construct; `warm_up` loads the models once. Thread-safe.

    Args:
        settings: Models, folders and sizes.
        backbones: The image models; None for those that the settings name.
        encoder: The text encoder; None for the one that the settings name.
        reader: Reads pictures; None for a new one.
        jpegs: Decodes ordinary JPEGs on a GPU; None for the one that `warm_up` loads where the settings ask for it.
    """

    def __init__(
        self,
        settings: EmbedSettings,
        *,
        backbones: Sequence[Backbone] | None = None,
        encoder: TextEncoder | None = None,
        reader: Reader | None = None,
        jpegs: GpuJpegs | None = None,
    ) -> None:
        self.settings = settings
        cache = ModelCache(settings.models)
        context = ModelContext(cache, threads=settings.model_threads, compiled=settings.compile_models)
        made = [make_backbone(name, context) for name in settings.backbones] if backbones is None else backbones
        self.backbones: tuple[Backbone, ...] = tuple(made)
        self._encoder = encoder or make_text_encoder(settings.text_encoder, context)
        self.parts = SliceParts.of(self.backbones, self._encoder)
        self.reader = reader or Reader()
        self._files = PartFiles(settings.embeddings)
        self._thumbnails = ThumbnailStore(settings.thumbnails, size=settings.thumbnail_px)
        self._faults = Faults.from_environment()
        self.memory = MemoryFit()
        self._models = threading.Lock()  # one model pass at a time, whichever thread prepared its batch
        self._counting = threading.Lock()
        self._children: DecodingChildren | None = None
        self._jpegs = jpegs

    def warm_up(self) -> None:
        """Load the image models. The text encoder is loaded at the first caption.

        Raises:
            ModelUnavailableError: a model's package is not installed, or the GPU's memory has no room for a model.
            ConfigurationError: JPEGs are to be decoded on a GPU, and there is none that can.
        """
        if self.settings.gpu_decode and self._jpegs is None:
            self._jpegs = gpu_jpegs()
        for backbone in self.backbones:
            try:
                backbone.warm_up(threads=self.settings.model_threads)
            except Exception as error:
                if not out_of_gpu_memory(error):
                    raise
                free_cached_memory()
                raise no_room(backbone.name) from error

    def plan(self, task: SliceTask) -> SlicePlan:
        """Adopt what is on disk already, and return what is left to do.

        `meta` is not adopted without its pack of thumbnails, where there are packs: the pictures are then read again for both.
        """
        adopted = self._files.adopt(task)
        if META_PART in adopted and self.packs_thumbnails and self._thumbnails.packs.verify(_pack_of(task)).problem:
            adopted = self._files.adopt(task, without_meta=True)
        missing = tuple(part for part in task.parts if part not in adopted)
        rows = task.rows
        failures: tuple[RowFailure, ...] = ()
        if META_PART in adopted:
            rows, failures = self._files.usable(task, adopted[META_PART])
        return SlicePlan(
            rows=rows,
            adopted=adopted,
            failures=failures,
            backbones=tuple(b for b in self.backbones if self.parts.backbones[b.name] in missing),
            missing=missing,
            encodes=self.parts.captions in missing,
        )

    def fetch(self, rows: Sequence[SliceRow]) -> Iterator[Content | RowFailure]:
        """Yield the content of each picture of a group that is read together, or its failure.

        Raises:
            SourceError: the object store that holds them refuses everything (expired credentials), or does not answer.
            ManifestChangedError: the archive or table that holds them was changed since it was listed.
        """
        for row, content in zip(rows, read_together(self.reader, rows), strict=True):
            yield failure_of(row, content) if isinstance(content, ImageError) else content

    def decoder(self, plan: SlicePlan) -> Decode:
        """Return the function that decodes the pictures of a plan in this process, or in its children where it has some."""
        if self._children is not None:
            return partial(self._children.decode, backbones=plan.names)
        return decoder(self.settings, plan.names, self.backbones, self.reader, jpegs=self._jpegs)

    def decode_in_children(self, size: int) -> None:
        """Decode in child processes from now on; they start with the first pictures, and `close` stops them."""
        self._children = DecodingChildren(self.settings, size)

    def isolated(self) -> DecodingChild:
        """Return a child process that decodes pictures which may crash it, for the caller to close."""
        return DecodingChild(self.settings)

    def close(self) -> None:
        """Stop the child processes that decode. Idempotent."""
        if self._children is not None:
            self._children.close()

    @property
    def packs_thumbnails(self) -> bool:
        """Return whether the thumbnails of a slice are written as one object, with its files."""
        return self._thumbnails.packs_slices

    def put_thumbnails(self, thumbnails: Sequence[tuple[str, bytes]]) -> None:
        """Store encoded thumbnails by their content hashes.

        Raises:
            OutOfSpaceError: there is no space left.
            ConfigurationError: the folder of thumbnails cannot be written to.
        """
        for content_hash, data in thumbnails:
            try:
                self._thumbnails.put(content_hash, data)
            except OSError as error:  # a full disk is an OutOfSpaceError: what is left is the folder
                raise unwritable_thumbnails(self._thumbnails, error) from error

    def stack(self, names: Sequence[str], pictures: Sequence[PreparedPicture]) -> dict[str, NDArray[np.uint8]]:
        """Return the inputs of a batch, (n, side, side, 3) uint8 by backbone, and empty the pictures' own."""
        stacks = {name: np.stack([picture.inputs[name] for picture in pictures]) for name in names}
        for picture in pictures:
            picture.inputs.clear()  # the pixels are no longer needed; the picture's metadata is kept
        return stacks

    def embed(self, stacks: dict[str, NDArray[np.uint8]], spent: Callable[[], None]) -> dict[str, Outputs]:
        """Return each backbone's outputs for a batch; where the GPU's memory has no room for it, in several passes.

        Args:
            stacks: From `stack`.
            spent: Called when the models are free for this batch, to start its clock.
        """
        on_device = {b.name: self.memory.upload(b, stacks[b.name]) for b in self.backbones if b.name in stacks}
        with self._models:
            spent()
            outputs = {
                b.name: self.memory.embed(b, stacks[b.name], on_device.pop(b.name)) for b in self.backbones if b.name in stacks
            }
        with self._counting:
            self._faults.reach("embedding")
        return outputs

    def encode(self, captions: Captions, report_progress: Callable[[int], None]) -> NDArray[np.float32]:
        """Return the vectors of the captions. They are encoded by length, because a pass is as long as its longest text.

        Args:
            captions: The captions.
            report_progress: Called with the number of captions that are encoded.
        """
        texts = [text for _, _, text in captions]
        if texts:
            with self._models:
                self._encoder.warm_up(threads=self.settings.model_threads)
        vectors = np.empty((len(texts), self._encoder.dim), np.float32)
        by_length = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        for start in range(0, len(texts), _CAPTIONS_AT_ONCE):
            places = by_length[start : start + _CAPTIONS_AT_ONCE]
            with self._models:
                vectors[places] = self._encoder.encode([texts[place] for place in places])
            report_progress(start + len(places))
        return vectors

    def require_readable(self, state: SliceState) -> None:
        """Raise when every read of a slice was denied and none has succeeded yet.

        Raises:
            SourceError: every read was denied.
        """
        require_some_readable(state.failures(), len(state.results), self.reader)

    def write(self, state: SliceState) -> Iterator[Receipt]:
        """Write the files of a slice whose pictures and captions are done, and yield their receipts.

        Raises:
            LodestoneError: a file cannot be written, or the captions could not be encoded; what was yielded is on disk.
        """
        plan, task = state.plan, state.task
        if plan is None:
            return
        pictures = state.pictures()
        rows = [picture.row for picture in pictures]
        if state.packed:
            self._thumbnails.packs.write(_pack_of(task), state.packed)
        for backbone in plan.backbones:
            part = self.parts.backbones[backbone.name]
            yield self._finished(self._files.write_outputs(task, part, rows, state.outputs_of(backbone)))
        if plan.encodes:
            if state.captions is None or isinstance(state.captions, LodestoneError):
                raise state.captions or RunFailedError("captions were not encoded", hint="run the same command again")
            captions = state.known_captions()
            yield self._finished(self._files.write_captions(task, self.parts.captions, captions, state.captions))
        if META_PART in plan.missing:
            yield self._finished(self._files.write_meta(task, pictures, state.failures()))

    def _finished(self, receipt: Receipt) -> Receipt:
        with self._counting:
            self._faults.reach("after-rename")
        return receipt


def _pack_of(task: SliceTask) -> PackName:
    return PackName(task.corpus_id, task.fingerprint)
