"""How do the pictures that are indexed already get into the other version of a space? Only what that version lacks is computed.

A version made of stored outputs lacks nothing: its vectors are projected. For another backbone, the pictures are looked at
once more, by that backbone alone; its outputs become parts of their own beside the others. Killed at any point, the next call
goes on with the slices that are left.
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
from lodestone.indexing.progress import Progress
from lodestone.indexing.tasks import META_PART, RowFailure, SliceParts, SliceReceipt, SliceTask, backbone_part

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
    """Parts of some backbones, and nothing else of a slice."""

    def names(self) -> tuple[str, ...]:
        """See `SliceParts.names`."""
        return tuple(self.backbones.values())

    def missing(self, done: Container[str]) -> tuple[str, ...]:
        """See `SliceParts.missing`."""
        return tuple(part for part in self.names() if part not in done)

    @classmethod
    def of_backbones(cls, backbones: Iterable[Backbone]) -> OnlyOutputs:
        """The parts of these models in their present versions."""
        return cls("", {backbone.name: backbone_part(backbone) for backbone in backbones})


@dataclass(slots=True)
class Backfill:
    """What a backfill did.

    Attributes:
        embedded: Pictures that went through a backbone.
        adopted: Parts that a killed process had left on disk.
        computed: Names of the backbones that were loaded.
        unreadable: Findable pictures that could not be looked at now: their slices stay unfinished.
        left_out: Such pictures that became failures instead.
    """

    embedded: int = 0
    adopted: int = 0
    computed: tuple[str, ...] = ()
    unreadable: list[RowFailure] = field(default_factory=list)
    left_out: int = 0

    def added_to(self, counts: Mapping[str, Any]) -> dict[str, Any]:
        """A swap's counts, with this backfill's."""
        return {
            "embedded": counts.get("embedded", 0) + self.embedded,
            "adopted": counts.get("adopted", 0) + self.adopted,
            "computed": list(dict.fromkeys((*counts.get("computed", ()), *self.computed))),
            "unreadable": len(self.unreadable),
            "left_out": counts.get("left_out", 0) + self.left_out,
        }


def parts_of(runtime: Runtime, projection: Projection) -> OnlyOutputs:
    """The parts that a projection is made from."""
    from lodestone.backbones.registry import make_backbone

    context = runtime.models()
    names = dict.fromkeys(key.backbone for key in projection.requires)
    return OnlyOutputs.of_backbones(make_backbone(name, context) for name in names)


def left_to_embed(catalog: Catalog, parts: OnlyOutputs) -> int:
    """Pictures in slices that lack a part."""
    return catalog.count_unfinished(parts.names())[1]


def left_to_load(catalog: Catalog, parts: OnlyOutputs, collection: str) -> int:
    """Pictures in slices that have all parts and are not in the collection."""
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
        pool: Makes the executor where the settings ask for Ray; None: this machine's processes instead.
        leave_out: Pictures that cannot be looked at become failures, as in an index run, and are found no more.
        progress: Told of every slice.

    Raises:
        RunFailedError: workers died at a slice again and again; all others are finished.
        RunCancelledError: somebody cancelled it; what is finished is kept.
        LodestoneError: what ended the work as a whole; what is finished is kept.
    """
    done = Backfill()
    parts = parts_of(runtime, projection)
    for corpus in _corpora(runtime.catalog):
        catalog, corpus_id = runtime.catalog, corpus.corpus_id
        lacking = {name: part for name, part in parts.backbones.items() if catalog.count_unfinished([part], corpus_id)[0]}
        if not lacking:
            continue
        done.computed = tuple(dict.fromkeys((*done.computed, *lacking)))
        unreadable = _embed(runtime, corpus, OnlyOutputs("", lacking), done, pool=pool, progress=progress)
        if unreadable and leave_out:
            _leave_out(catalog, corpus_id, unreadable)
            done.left_out += len(unreadable)
            unreadable = _embed(runtime, corpus, OnlyOutputs("", lacking), done, pool=pool, progress=progress)
        done.unreadable += unreadable
    return done


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
    runtime: Runtime, corpus: Corpus, parts: OnlyOutputs, done: Backfill, *, pool: ExecutorFactory | None, progress: Progress
) -> list[RowFailure]:
    """One run over one corpus; the findable pictures that could not be looked at."""
    catalog = runtime.catalog
    catalog.interrupt_runs(KIND, corpus.corpus_id)  # whoever held the home's swaps before is dead
    run = catalog.start_run(KIND, corpus.corpus_id)
    slices, rows = catalog.count_unfinished(parts.names(), corpus.corpus_id)
    executor = _Careful(_executor(runtime, parts, slices, pool))
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
            )
            slice_batches.run(executor, rows=rows, after_wave=lambda: None)
    except BaseException as error:
        catalog.finish_run(run.run_id, _ended_by(error), f"{type(error).__name__}: {error}")
        raise
    finally:
        executor.close()
    done.embedded += slice_batches.embedded
    done.adopted += slice_batches.adopted
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
    known = catalog.images([failure.image_id for failure in failures])
    active = {image_id for image_id, image in known.items() if image.state is ImageState.ACTIVE}
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


class _Careful:
    """An executor that takes no slice for finished in which a picture could not be looked at.

    Such a picture was looked at before: most likely its file is gone or another one since, which the next index run will find.
    """

    def __init__(self, executor: EmbedExecutor) -> None:
        self._executor = executor
        self.failures: list[RowFailure] = []

    def start(self) -> None:
        """See `EmbedExecutor.start`."""
        self._executor.start()

    def run(self, tasks: Iterable[SliceTask]) -> Iterator[SliceReceipt]:
        """See `EmbedExecutor.run`."""
        for receipt in self._executor.run(tasks):
            self.failures += receipt.failures
            yield replace(receipt, receipts=()) if receipt.failures else receipt

    def close(self) -> None:
        """See `EmbedExecutor.close`."""
        self._executor.close()
