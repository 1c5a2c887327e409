"""Embedding of one slice: `EmbedSlice` is plain Python, and the same object runs inline and inside a Ray actor.

A pool of threads reads and decodes ahead while the models run over the batch before (double buffering). Each part of the slice
becomes one Parquet file, `meta` last. Parts that a killed run left on disk, complete but without a receipt, are adopted and not
computed again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.backbones.base import Backbone, Outputs
from lodestone.backbones.registry import make_backbone
from lodestone.catalog.records import Receipt
from lodestone.errors import LodestoneError
from lodestone.indexing.embed.isolation import IsolatedPictures
from lodestone.indexing.embed.picture_inputs import PreparedPicture, require_some_readable
from lodestone.indexing.embed.preparing import preparer
from lodestone.indexing.embed.slice_files import PartFiles
from lodestone.indexing.faults import Faults
from lodestone.indexing.tasks import (
    META_PART,
    EmbedSettings,
    RowFailure,
    SliceParts,
    SliceProgressCallback,
    SliceReceipt,
    SliceRow,
    SliceTask,
    ignore_progress,
    this_worker,
)
from lodestone.models.cache import ModelCache
from lodestone.models.context import ModelContext
from lodestone.sources.reading import Reader
from lodestone.text_encoders.base import TextEncoder
from lodestone.text_encoders.registry import make_text_encoder

_CAPTIONS_AT_ONCE: Final = 256
_CAPTION_WORK: Final = 0.06  # of a picture's work: about 3 ms against 50 ms of a core, with the profile `embedded`

Captions = list[tuple[str, str, str]]  # image id, source, text


@dataclass(slots=True)
class _SliceResults:
    """Result of decoding and embedding a slice's pictures."""

    prepared: list[PreparedPicture] = field(default_factory=list)  # without their inputs, once embedded
    failures: list[RowFailure] = field(default_factory=list)
    outputs: dict[str, list[Outputs]] = field(default_factory=dict)


class EmbedSlice:
    """Embeds one slice per call. Light to construct; `warm_up` loads the models once.

    Args:
        settings: Models, folders and sizes.
    """

    def __init__(self, settings: EmbedSettings) -> None:
        self._settings = settings
        context = ModelContext(ModelCache(settings.models), threads=settings.model_threads)
        self._backbones: list[Backbone] = [make_backbone(name, context) for name in settings.backbones]
        self._encoder: TextEncoder = make_text_encoder(settings.text_encoder, context)
        self.parts = SliceParts.of(self._backbones, self._encoder)
        self._files = PartFiles(settings.embeddings)
        self._faults = Faults.from_environment()
        self._pool: ThreadPoolExecutor | None = None
        self._reader = Reader()

    def warm_up(self) -> None:
        """Load the image models. The text encoder is loaded at the first caption.

        Raises:
            ModelUnavailableError: a model's package is not installed.
        """
        for backbone in self._backbones:
            backbone.warm_up(threads=self._settings.model_threads)

    def close(self) -> None:
        """Stop the decoding threads. Idempotent."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def prepare(self, task: SliceTask) -> list[PreparedPicture | RowFailure] | None:
        """Only read and decode the task's pictures, for models in another process; return None where no pixel is needed.

        Needs no loaded model.
        """
        adopted = self._files.adopt(task)
        missing = [part for part in task.parts if part not in adopted]
        backbones = [b for b in self._backbones if self.parts.backbones[b.name] in missing]
        if not backbones and META_PART not in missing:
            return None
        rows = self._files.usable(task, adopted[META_PART])[0] if META_PART in adopted else task.rows
        pictures = list(self._prepared(rows, backbones, isolate=task.isolate))
        require_some_readable([picture for picture in pictures if isinstance(picture, RowFailure)], len(rows), self._reader)
        return pictures

    def __call__(
        self,
        task: SliceTask,
        prepared: Sequence[PreparedPicture | RowFailure] | None = None,
        *,
        report_progress: SliceProgressCallback = ignore_progress,
    ) -> SliceReceipt:
        """Write every part that the task asks for.

        An error that ends the work as a whole (no space left, say) is returned inside the receipt, with what was finished
        before it.

        Args:
            task: The slice and its missing parts.
            prepared: What `prepare` returned for the task, here or in another process; None to read the pictures here.
            report_progress: Called after each batch of pictures.
        """
        started = time.perf_counter()
        progress = _Written()
        try:
            self._work(task, progress, prepared, report_progress=lambda pictures: report_progress(task.slice_id, pictures))
        except LodestoneError as error:
            progress.error = error
        return SliceReceipt(
            slice_id=task.slice_id,
            receipts=tuple(progress.receipts),
            failures=tuple(progress.failures),
            embedded=progress.embedded,
            adopted=tuple(progress.adopted),
            seconds=time.perf_counter() - started,
            error=progress.error,
            worker=this_worker(),
        )

    def _work(
        self,
        task: SliceTask,
        written: _Written,
        prepared: Sequence[PreparedPicture | RowFailure] | None,
        *,
        report_progress: Callable[[int], None],
    ) -> None:
        adopted = self._files.adopt(task)
        for part, receipt in adopted.items():
            written.receipts.append(receipt)
            written.adopted.append(part)
        missing = [part for part in task.parts if part not in adopted]
        backbones = [b for b in self._backbones if self.parts.backbones[b.name] in missing]
        rows = task.rows
        if META_PART in adopted:
            rows, failures = self._files.usable(task, adopted[META_PART])
            written.failures.extend(failures)
        captions: Captions = [(row.image_id, source, text) for row in rows for source, text in row.captions]
        encodes = self.parts.captions in missing
        reads = bool(backbones) or META_PART in missing
        work = _Work(len(rows), len(captions) if encodes else 0, report_progress, pixels=reads)
        results = _SliceResults()
        if reads:
            usable = prepared if prepared is not None and _fits(prepared, rows, backbones) else None
            pictures = self._prepared(rows, backbones, isolate=task.isolate) if usable is None else iter(usable)
            results = self._embed_all(pictures, backbones, work)
            if usable is None:
                require_some_readable(results.failures, len(rows), self._reader)
            written.failures.extend(results.failures)
            written.embedded = len(results.prepared) if backbones else 0
        if META_PART in missing:
            captions = [(p.row.image_id, *pair) for p in results.prepared for pair in p.captions]
        for backbone in backbones:
            outputs = _concatenated(results.outputs[backbone.name], backbone)
            embedded = [p.row for p in results.prepared]
            self._add_receipt(written, self._files.write_outputs(task, self.parts.backbones[backbone.name], embedded, outputs))
        if encodes:
            vectors = self._encode([text for _, _, text in captions], work)
            self._add_receipt(written, self._files.write_captions(task, self.parts.captions, captions, vectors))
        if META_PART in missing:
            self._add_receipt(written, self._files.write_meta(task, results.prepared, results.failures))

    def _add_receipt(self, written: _Written, receipt: Receipt) -> None:
        self._faults.reach("after-rename")
        written.receipts.append(receipt)

    def _embed_all(
        self, pictures: Iterator[PreparedPicture | RowFailure], backbones: Sequence[Backbone], work: _Work
    ) -> _SliceResults:
        results = _SliceResults(outputs={backbone.name: [] for backbone in backbones})
        batch: list[PreparedPicture] = []
        for result in pictures:
            if isinstance(result, RowFailure):
                results.failures.append(result)
                continue
            batch.append(result)
            if len(batch) == self._settings.batch_size:
                self._embed(batch, backbones, results)
                batch = []
                work.looked_at(len(results.prepared) + len(results.failures))
        if batch:
            self._embed(batch, backbones, results)
        return results

    def _embed(self, batch: list[PreparedPicture], backbones: Sequence[Backbone], results: _SliceResults) -> None:
        for backbone in backbones:
            results.outputs[backbone.name].append(backbone.embed(np.stack([p.inputs[backbone.name] for p in batch])))
        for picture in batch:
            picture.inputs.clear()  # the pixels are no longer needed; the picture's metadata is kept
        results.prepared.extend(batch)
        self._faults.reach("embedding")

    def _prepared(
        self, rows: Sequence[SliceRow], backbones: Sequence[Backbone], *, isolate: bool
    ) -> Iterator[PreparedPicture | RowFailure]:
        """Yield prepared pictures in the order of `rows`, at most two batches ahead of the models."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._settings.decode_threads, thread_name_prefix="decode")
        names = tuple(backbone.name for backbone in backbones)
        isolated = IsolatedPictures(self._settings, names) if isolate else None
        prepare = preparer(self._settings, names, self._backbones, self._reader) if isolated is None else isolated.prepare
        ahead: deque[Future[PreparedPicture | RowFailure]] = deque()
        try:
            for row in rows:
                ahead.append(self._pool.submit(prepare, row))
                if len(ahead) > 2 * self._settings.batch_size:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()
            if isolated is not None:
                isolated.close()

    def _encode(self, texts: list[str], work: _Work) -> NDArray[np.float32]:
        """Return the vectors of the captions. They are encoded by length, because a pass is as long as its longest text."""
        vectors = np.empty((len(texts), self._encoder.dim), np.float32)
        if texts:
            self._encoder.warm_up(threads=self._settings.model_threads)
        by_length = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        for start in range(0, len(texts), _CAPTIONS_AT_ONCE):
            places = by_length[start : start + _CAPTIONS_AT_ONCE]
            vectors[places] = self._encoder.encode([texts[place] for place in places])
            work.read(start + len(places))
        return vectors


class _Work:
    """Progress of a slice, in pictures: what is done of its pixels and of its captions.

    Args:
        pictures: Pictures of the slice.
        captions: Captions that are encoded.
        report_progress: Receives the number of pictures.
        pixels: Whether the pictures are read.
    """

    def __init__(self, pictures: int, captions: int, report_progress: Callable[[int], None], *, pixels: bool) -> None:
        self._pictures = pictures
        self._pixels = float(pictures if pixels else 0)
        self._captions = captions * _CAPTION_WORK
        self._report_progress = report_progress

    def looked_at(self, pictures: int) -> None:
        """Tell that so many pictures went through the models."""
        self._tell(float(pictures))

    def read(self, captions: int) -> None:
        """Tell that all pictures went through the models and so many captions were encoded."""
        self._tell(self._pixels + captions * _CAPTION_WORK)

    def _tell(self, done: float) -> None:
        whole = self._pixels + self._captions
        self._report_progress(min(int(self._pictures * done / whole), self._pictures) if whole else self._pictures)


@dataclass(slots=True)
class _Written:
    receipts: list[Receipt] = field(default_factory=list)
    failures: list[RowFailure] = field(default_factory=list)
    adopted: list[str] = field(default_factory=list)
    embedded: int = 0
    error: LodestoneError | None = None


def _fits(prepared: Sequence[PreparedPicture | RowFailure], rows: Sequence[SliceRow], backbones: Sequence[Backbone]) -> bool:
    """Return whether pictures prepared elsewhere match these rows and have inputs for these backbones.

    They may not: other parts may have been written since.
    """
    ids = [picture.image_id if isinstance(picture, RowFailure) else picture.row.image_id for picture in prepared]
    names = {backbone.name for backbone in backbones}
    complete = all(isinstance(picture, RowFailure) or names <= picture.inputs.keys() for picture in prepared)
    return complete and ids == [row.image_id for row in rows]


def _concatenated(batches: list[Outputs], backbone: Backbone) -> dict[str, NDArray[Any]]:
    if not batches:
        return {spec.name: np.empty((0, spec.dim), np.float16) for spec in backbone.outputs}
    return {spec.name: np.concatenate([batch[spec.name] for batch in batches]) for spec in backbone.outputs}
