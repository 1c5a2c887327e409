"""Backfill of another version of a space with the pictures that are already indexed; only missing parts are computed.

A version that is made from stored outputs lacks nothing: its vectors are projected. For another backbone, the pictures are
processed once more, by that backbone only; its outputs become additional parts beside the others. If the backfill is killed at
any point, the next call continues with the remaining slices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from lodestone.catalog.records import Corpus, Failure, ImageState, RunState
from lodestone.errors import RunCancelledError, RunFailedError
from lodestone.indexing.embed.executors import EmbedExecutor, ExecutorFactory, choose_executor, embed_settings, make_executor
from lodestone.indexing.embed.slice_batches import SliceBatches
from lodestone.indexing.heartbeat import Heartbeat
from lodestone.indexing.parts.registry import SliceParts
from lodestone.indexing.progress import Progress
from lodestone.indexing.tasks import (
    META_PART,
    RowFailure,
    SliceProgressCallback,
    SliceReceipt,
    SliceTask,
    backbone_part,
    ignore_progress,
)
from lodestone.sources.boundaries import boundaries_of

if TYPE_CHECKING:
    from collections.abc import Container

    from lodestone.backbones.base import Backbone
    from lodestone.catalog.catalog import Catalog
    from lodestone.home.runtime import Runtime
    from lodestone.spaces.base import Projection

KIND: Final = "model-swap"
_PAGE: Final = 100


@dataclass(frozen=True, slots=True)
class OnlyOutputs(SliceParts):
    """Describes the parts of some backbones, and no other parts of a slice."""

    def names(self) -> tuple[str, ...]:
        """Return the names of the parts, as `SliceParts.names` does."""
        return tuple(self.backbones.values())

    def missing(self, done: Container[str]) -> tuple[str, ...]:
        """Return the parts that are not done, as `SliceParts.missing` does."""
        return tuple(part for part in self.names() if part not in done)

    @classmethod
    def of_backbones(cls, backbones: Iterable[Backbone]) -> OnlyOutputs:
        """Return the parts of these models in their present versions."""
        return cls("", {backbone.name: backbone_part(backbone) for backbone in backbones})


@dataclass(slots=True)
class Backfill:
    """Reports what a backfill did.

    Attributes:
        embedded: Number of pictures that a backbone processed.
        adopted: Number of parts that a killed process had left on disk.
        computed: Names of the backbones that were loaded.
        unreadable: Active pictures that could not be read now; their slices stay unfinished.
        left_out: Number of such pictures that became failures instead.
    """

    embedded: int = 0
    adopted: int = 0
    computed: tuple[str, ...] = ()
    unreadable: list[RowFailure] = field(default_factory=list)
    left_out: int = 0

    def added_to(self, counts: Mapping[str, Any]) -> dict[str, Any]:
        """Return a swap's counts with this backfill's added."""
        return {
            "embedded": counts.get("embedded", 0) + self.embedded,
            "adopted": counts.get("adopted", 0) + self.adopted,
            "computed": list(dict.fromkeys((*counts.get("computed", ()), *self.computed))),
            "unreadable": len(self.unreadable),
            "left_out": counts.get("left_out", 0) + self.left_out,
        }


def parts_of(runtime: Runtime, projection: Projection) -> OnlyOutputs:
    """Return the parts that a projection is made from."""
    from lodestone.backbones.registry import make_backbone

    context = runtime.models()
    names = dict.fromkeys(key.backbone for key in projection.requires)
    return OnlyOutputs.of_backbones(make_backbone(name, context) for name in names)


def left_to_embed(catalog: Catalog, parts: OnlyOutputs) -> int:
    """Return the number of pictures in slices that lack a part."""
    return catalog.count_unfinished(parts.names())[1]


def left_to_load(catalog: Catalog, parts: OnlyOutputs, collection: str) -> int:
    """Return the number of pictures in slices that have all parts and are not in the collection."""
    return catalog.count_unloaded(collection, parts=(*parts.names(), META_PART))[1]


def backfill(
    runtime: Runtime,
    projection: Projection,
    *,
    pool: ExecutorFactory | None = None,
    leave_out: bool = False,
    progress: Progress,
) -> Backfill:
    """Compute what a version of a space lacks, corpus by corpus.

    Args:
        runtime: The opened home.
        projection: The version.
        pool: Makes the executor where the settings select Ray; None to use processes of this machine instead.
        leave_out: Whether pictures that cannot be read become failures, as in an index run, and are not found any more.
        progress: Progress callback.

    Raises:
        RunFailedError: workers crashed at a slice repeatedly; all others are finished.
        RunCancelledError: the run was cancelled; what is finished is kept.
        LodestoneError: an error ended the whole run; what is finished is kept.
    """
    report = Backfill()
    parts = parts_of(runtime, projection)
    for corpus in _corpora(runtime.catalog):
        catalog, corpus_id = runtime.catalog, corpus.corpus_id
        lacking = {name: part for name, part in parts.backbones.items() if catalog.count_unfinished([part], corpus_id)[0]}
        if not lacking:
            continue
        report.computed = tuple(dict.fromkeys((*report.computed, *lacking)))
        unreadable = _embed(runtime, corpus, OnlyOutputs("", lacking), report, pool=pool, progress=progress)
        if unreadable and leave_out:
            _leave_out(catalog, corpus_id, unreadable)
            report.left_out += len(unreadable)
            unreadable = _embed(runtime, corpus, OnlyOutputs("", lacking), report, pool=pool, progress=progress)
        report.unreadable += unreadable
    return report


def _leave_out(catalog: Catalog, corpus_id: str, failures: Sequence[RowFailure]) -> None:
    run = catalog.last_run(KIND, corpus_id)
    images = catalog.images([failure.image_id for failure in failures])
    rows = [(failure, images[failure.image_id]) for failure in failures]
    if run is not None:
        catalog.add_failures(
            [
                Failure(run.run_id, image.root_id, image.uri, failure.code, failure.message, image.image_id)
                for failure, image in rows
            ]
        )
    catalog.update_images([replace(image, state=ImageState.FAILED) for _, image in rows])


def _corpora(catalog: Catalog) -> Iterator[Corpus]:
    offset = 0
    while page := catalog.corpora(offset, _PAGE):
        yield from page
        offset += len(page)


def _embed(
    runtime: Runtime, corpus: Corpus, parts: OnlyOutputs, report: Backfill, *, pool: ExecutorFactory | None, progress: Progress
) -> list[RowFailure]:
    """Run the executor over one corpus, and return the active pictures that could not be read."""
    catalog = runtime.catalog
    # The caller holds the home's swap lock, so runs that are still open have crashed.
    catalog.interrupt_runs(KIND, corpus.corpus_id)
    run = catalog.start_run(KIND, corpus.corpus_id)
    slices, rows = catalog.count_unfinished(parts.names(), corpus.corpus_id)
    executor = _UnfinishedOnFailure(_executor(runtime, parts, slices, pool))
    try:
        with Heartbeat(catalog, run.run_id) as heartbeat:
            slice_batches = SliceBatches(
                catalog=catalog,
                embeddings=runtime.embeddings,
                corpus_id=corpus.corpus_id,
                run_id=run.run_id,
                parts=parts,
                heartbeat=heartbeat,
                progress=progress,
                boundaries=boundaries_of(runtime.settings),
            )
            slice_batches.run(executor, rows=rows, after_batch=lambda: None)
    except BaseException as error:
        catalog.finish_run(run.run_id, _ended_by(error), f"{type(error).__name__}: {error}")
        raise
    finally:
        executor.close()
    report.embedded += slice_batches.embedded
    report.adopted += slice_batches.adopted
    counts = {"embedded": slice_batches.embedded, "adopted": slice_batches.adopted, "unreadable": len(executor.failures)}
    catalog.update_run(run.run_id, stage="done", counts=counts)
    if slice_batches.given_up:
        last = next(iter(slice_batches.given_up.values()))
        catalog.finish_run(run.run_id, RunState.FAILED, last.message)
        raise RunFailedError(
            f"{len(slice_batches.given_up)} slices could not be embedded: {last.message}",
            hint="all others are finished; the same command tries again",
            slices=sorted(slice_batches.given_up),
        ) from last
    catalog.finish_run(run.run_id, RunState.DONE)
    return _findable(catalog, executor.failures)


def _ended_by(error: BaseException) -> RunState:
    if isinstance(error, RunCancelledError):
        return RunState.CANCELLED
    return RunState.INTERRUPTED if isinstance(error, KeyboardInterrupt) else RunState.FAILED


def _findable(catalog: Catalog, failures: Sequence[RowFailure]) -> list[RowFailure]:
    images = catalog.images([failure.image_id for failure in failures])
    active = {image_id for image_id, image in images.items() if image.state is ImageState.ACTIVE}
    return [failure for failure in failures if failure.image_id in active]


def _executor(runtime: Runtime, parts: OnlyOutputs, slices: int, pool: ExecutorFactory | None) -> EmbedExecutor:
    settings = runtime.settings
    embed = embed_settings(
        settings,
        runtime.configured,
        embeddings=runtime.embeddings,
        thumbnails=runtime.thumbnails,
        model_threads=1,
        decode_threads=1,
    )
    embed = replace(embed, backbones=tuple(parts.backbones))
    _, executor = make_executor(choose_executor(settings, slices), settings, embed, pool)
    return executor


class _UnfinishedOnFailure:
    """Wraps an executor so that a slice with an unreadable picture does not count as finished.

    Such a picture could be read before: most likely its file was deleted or replaced, which the next index run finds.
    """

    def __init__(self, executor: EmbedExecutor) -> None:
        self._executor = executor
        self.failures: list[RowFailure] = []

    def start(self) -> None:
        """Start the wrapped executor."""
        self._executor.start()

    def run(
        self, tasks: Iterable[SliceTask], report_progress: SliceProgressCallback = ignore_progress
    ) -> Iterator[SliceReceipt]:
        """Run the tasks; receipts of slices with failures are yielded without parts."""
        for receipt in self._executor.run(tasks, report_progress):
            self.failures += receipt.failures
            yield replace(receipt, receipts=()) if receipt.failures else receipt

    def close(self) -> None:
        """Close the wrapped executor."""
        self._executor.close()
