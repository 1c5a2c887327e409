"""Work of a slice: plan, fetch, decode, process, write. Each is one call on plain values.

What runs when, and how much of it at once, is decided by the flow (flow.py). Each part of a slice becomes one Parquet file,
`meta` last; in a bucket its thumbnails become one pack, first. Parts that a killed run left on disk, complete but without a
receipt, are adopted and not made again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa

from lodestone.backbones.base import Backbone
from lodestone.backbones.registry import make_backbone
from lodestone.catalog.records import Receipt
from lodestone.errors import ImageError, LodestoneError, RunFailedError
from lodestone.imaging.failures import FailureReason
from lodestone.imaging.gpu_jpeg import GpuJpegs, gpu_jpegs
from lodestone.imaging.thumbnail_packs import PackName
from lodestone.imaging.thumbnails import ThumbnailStore
from lodestone.indexing.faults import Faults
from lodestone.indexing.parts.contract import (
    Dropped,
    FinishedSlice,
    Made,
    PartResult,
    PictureGroup,
    Postponed,
    SlicePart,
    in_order,
)
from lodestone.indexing.parts.registry import make_parts
from lodestone.indexing.slices.files import PartFiles
from lodestone.indexing.slices.isolation import DecodingChild, DecodingChildren
from lodestone.indexing.slices.picture_inputs import failure_of, require_some_readable, unwritable_thumbnails
from lodestone.indexing.slices.preparing import Content, Decode, decoder
from lodestone.indexing.slices.state import SlicePlan, SliceState, slice_error
from lodestone.indexing.tasks import META_PART, EmbedSettings, RowFailure, SliceRow, SliceTask
from lodestone.models.cache import ModelCache
from lodestone.models.context import ModelContext
from lodestone.models.gpu_memory import MemoryFit
from lodestone.sources.joined import read_together
from lodestone.sources.reading import Reader
from lodestone.sources.trouble import Trouble
from lodestone.text_encoders.base import TextEncoder
from lodestone.text_encoders.registry import make_text_encoder

_FILE_CHANGED: Final = "file_changed"  # of sources/reading.py
_PASSING: Final = frozenset({*Trouble, FailureReason.MISSING, FailureReason.UNREADABLE, _FILE_CHANGED})


class SliceWork:
    """Parts, readers and files of one worker. Light to construct; models are loaded once. Thread-safe.

    Args:
        settings: Models, folders and sizes.
        backbones: The image models; None for those that the settings name.
        encoder: The text encoder; None for the one that the settings name.
        reader: Reads pictures; None for a new one.
        jpegs: Decodes ordinary JPEGs on a GPU; None for the one that `warm_up` loads where the settings ask for it.

    Attributes:
        parts: All parts of a slice, in the order in which their files are written.
        memory: Pictures of a pass that memory has room for.
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
        self._context = ModelContext(cache, threads=settings.model_threads, compiled=settings.compile_models)
        self.memory = MemoryFit()
        made = [make_backbone(name, self._context) for name in settings.backbones] if backbones is None else backbones
        self.parts = make_parts(made, encoder or make_text_encoder(settings.text_encoder, self._context), self.memory)
        self.reader = reader or Reader()
        self._by_name = {part.name: part for part in self.parts}
        self._files = PartFiles(settings.embeddings)
        self._thumbnails = ThumbnailStore(settings.thumbnails, size=settings.thumbnail_px)
        self._faults = Faults.from_environment()
        self._models = threading.Lock()  # one part at a time runs a model, whichever thread prepared its batch
        self._ready: set[str] = set()  # names of parts that are set up
        self._counting = threading.Lock()
        self._children: DecodingChildren | None = None
        self._jpegs = jpegs

    def warm_up(self) -> None:
        """Load the models of the parts that read pixels, where the settings say so; others are set up when they are needed.

        Raises:
            ModelUnavailableError: a model's package is not installed, or the GPU's memory has no room for a model.
            ConfigurationError: JPEGs are to be decoded on a GPU, and there is none that can.
        """
        if self.settings.gpu_decode and self._jpegs is None:
            self._jpegs = gpu_jpegs()
        if self.settings.eager:
            self._set_up([part for part in self.parts if part.in_batches])

    def _set_up(self, parts: Sequence[SlicePart]) -> None:
        if all(part.name in self._ready for part in parts):
            return  # without a turn with the models: a batch is collated while another one is in them
        with self._models:
            for part in parts:
                if part.name not in self._ready:
                    part.setup(self._context)
                    self._ready.add(part.name)

    def plan(self, task: SliceTask) -> SlicePlan:
        """Adopt what is on disk already, and return what is left to do.

        `meta` is not adopted without its pack of thumbnails, where there are packs: the pictures are then read again for both.
        """
        wanted = [part for part in self.parts if part.file in task.parts]
        adopted = self._files.adopt(task, wanted)
        if META_PART in adopted and self.packs_thumbnails and self._thumbnails.packs.verify(_pack_of(task)).problem:
            adopted = self._files.adopt(task, wanted, without_meta=True)
        rows = task.rows
        failures: tuple[RowFailure, ...] = ()
        if META_PART in adopted:
            rows, failures = self._files.usable(task, adopted[META_PART])
        missing = tuple(part for part in wanted if part.file not in adopted)
        return SlicePlan(rows=rows, adopted=adopted, failures=failures, parts=missing)

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
            return partial(self._children.decode, parts=plan.names)
        return decoder(self.settings, plan.names, self.parts, self.reader, jpegs=self._jpegs)

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

    def process_batch(
        self, rows: Sequence[SliceRow], inputs: Mapping[str, Sequence[Any]], free: Callable[[], None]
    ) -> dict[str, list[PartResult]]:
        """Return the results of a batch of pictures by the names of parts that read pixels.

        Args:
            rows: The pictures (n).
            inputs: Part name -> what it prepared of each of them (n), or why it dropped it.
            free: Called when the models are free for this batch, to start its clock.
        """
        parts = [self._by_name[name] for name in inputs]
        self._set_up(parts)
        results: dict[str, list[PartResult]] = {name: list(prepared) for name, prepared in inputs.items()}
        kept = {name: _not_dropped(prepared) for name, prepared in inputs.items()}
        collated = {
            name: self._by_name[name].collate([inputs[name][place] for place in places])
            for name, places in kept.items()
            if places
        }
        with self._models:
            free()
            for name in list(collated):
                pictures = PictureGroup([rows[place] for place in kept[name]], collated.pop(name))
                made = self._by_name[name].process(pictures)
                for place, result in zip(kept[name], made, strict=True):
                    results[name][place] = result
        with self._counting:
            self._faults.reach("embedding")
        return results

    def process_slice(self, state: SliceState, tell: Callable[[float], None]) -> dict[str, list[PartResult] | LodestoneError]:
        """Return the results of the parts that are made of a slice at once, by name; at the first error, that in their place.

        Args:
            state: A slice whose pictures are done.
            tell: Called with the work that is done, in pictures.
        """
        plan = state.plan
        results: dict[str, list[PartResult] | LodestoneError] = {}
        if plan is None:
            return results
        before = 0.0
        for part in in_order(plan.by_slice):
            try:
                self._set_up([part])
                others = self._others(part, state, results)
                if others is None:
                    results[part.name] = [Postponed("a part that it reads is missing")] * len(state.rows_of(part))
                else:
                    results[part.name] = self._process(part, state, others, partial(_told, tell, before))
                before += part.work(plan.rows)
            except Exception as error:  # noqa: BLE001 - it ends the slice, with its receipt
                results[part.name] = slice_error(state.task, error)
                break
        return results

    def _process(
        self, part: SlicePart, state: SliceState, others: Mapping[str, pa.Table], tell: Callable[[float], None]
    ) -> list[PartResult]:
        rows = state.rows_of(part)
        prepared: list[Any] = [None] * len(rows)
        if part.opens:
            prepared = [picture.inputs[part.name] for picture in state.pictures()]
        kept = _not_dropped(prepared)
        collated = part.collate([prepared[place] for place in kept])
        made = part.process(PictureGroup([rows[place] for place in kept], collated, others, lambda: self._models, tell))
        for place, result in zip(kept, made, strict=True):
            prepared[place] = result
        return prepared

    def _others(
        self, part: SlicePart, state: SliceState, results: Mapping[str, list[PartResult] | LodestoneError]
    ) -> dict[str, pa.Table] | None:
        """Return the tables of the parts that a part reads, of this attempt or from their files; None where one is missing."""
        plan = state.plan
        tables: dict[str, pa.Table] = {}
        for name in part.after:
            other = self._by_name[name]
            if plan is not None and other in plan.parts:
                made = results.get(name, state.results_of(other))
                of_slice = None if isinstance(made, LodestoneError) else self._table(other, state, made)
                table = None if isinstance(of_slice, Postponed) else of_slice
            else:
                receipts = (*state.receipts, *state.task.done)
                table = next((self._files.read(receipt) for receipt in receipts if receipt.part == other.file), None)
            if table is None:
                return None
            tables[name] = table
        return tables

    def require_readable(self, state: SliceState) -> None:
        """Raise when every read of a slice was denied and none has succeeded yet.

        Raises:
            SourceError: every read was denied.
        """
        require_some_readable(state.failures(), len(state.results), self.reader)

    def write(self, state: SliceState) -> Iterator[Receipt]:
        """Write the files of a slice whose parts are made, and yield their receipts. What is postponed is left out.

        Raises:
            LodestoneError: a file cannot be written, or a part could not be made; what was yielded is on disk.
        """
        plan, task = state.plan, state.task
        if plan is None:
            return
        if state.packed:
            self._thumbnails.packs.write(_pack_of(task), state.packed)
        for part in plan.parts:
            made = state.unmade.get(part.name, state.results_of(part))
            if isinstance(made, LodestoneError):
                raise made
            table = self._table(part, state, made)
            if isinstance(table, Postponed):
                state.postponed[part.name] = table.message
            else:
                yield self._finished(self._files.write(task, part, table))

    def _table(self, part: SlicePart, state: SliceState, made: Sequence[PartResult]) -> pa.Table | Postponed:
        """Return the rows of a part, or why it is postponed."""
        rows, failures = state.rows_of(part), state.failures_of(part)
        if len(made) != len(rows):
            raise RunFailedError(f"the part {part.name!r} was not made of all pictures", hint="run the same command again")
        final: list[Made | Dropped] = []
        for result in made:
            if isinstance(result, Postponed):
                return result
            final.append(result)
        is_added = not part.embeds and state.plan is not None and not state.plan.makes_meta
        away = [failure for failure in failures if is_added and failure.code in _PASSING]
        if away:
            return Postponed(f"{away[0].uri!r} cannot be read now: {away[0].message}")
        return part.table(FinishedSlice(state.task, rows, final, failures))

    def _finished(self, receipt: Receipt) -> Receipt:
        with self._counting:
            self._faults.reach("after-rename")
        return receipt


def _pack_of(task: SliceTask) -> PackName:
    return PackName(task.corpus_id, task.fingerprint)


def _told(tell: Callable[[float], None], before: float, work: float) -> None:
    tell(before + work)


def _not_dropped(prepared: Sequence[Any]) -> list[int]:
    """Return the places of the pictures that a part did not drop when they were opened."""
    return [place for place, item in enumerate(prepared) if not isinstance(item, Dropped)]
