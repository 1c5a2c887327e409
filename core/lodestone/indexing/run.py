"""How does one index run go? discover -> embed -> load -> verify -> promote, resumable at every point.

Each stage leaves its results in the catalog or on disk as it goes; a run that is killed, interrupted or out of space is
continued by the next run of the same corpus, which does only what is unfinished. Runs of one corpus exclude each other.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from lodestone.catalog.records import Corpus, ImageState, Root, Run, RunState
from lodestone.embeddings.slices import remove_leftovers
from lodestone.errors import InvalidRequestError, LodestoneError
from lodestone.indexing.captions import CaptionTable
from lodestone.indexing.changes import ChangeFinder, Scope
from lodestone.indexing.discard import discard_thumbnails
from lodestone.indexing.executors import EmbedExecutor, InlineExecutor, embed_settings, worker_count
from lodestone.indexing.faults import Faults
from lodestone.indexing.locking import corpus_lock
from lodestone.indexing.plan import plan_slices, tasks, unfinished
from lodestone.indexing.progress import Meter, Progress, ProgressEvent, Stage, silent
from lodestone.indexing.recaption import Recaptioner
from lodestone.indexing.record import record_slice
from lodestone.indexing.report import IndexReport, IndexRequest
from lodestone.indexing.scopes import Candidate, examine, inner_scopes, uris_of
from lodestone.indexing.sync import SyncReport, SyncResources, sync
from lodestone.indexing.tasks import EmbedSettings, SliceParts

if TYPE_CHECKING:
    from lodestone.config.profiles import Profile

KIND: Final = "index"
_UNMATCHED_SHOWN: Final = 3
_POOL_PAYS_SLICES: Final = 2  # below, starting workers takes longer than they save
_log = logging.getLogger(__name__)

SyncCall = Callable[[str, Progress], SyncReport | None]
"""Brings the collections in line for a run (its id), here or in the service."""

ExecutorFactory = Callable[[EmbedSettings, int], EmbedExecutor]
"""Makes an executor for some settings and a number of workers."""


class IndexResources(SyncResources, Protocol):
    """What an index run works on; a `Runtime` has it all."""

    @property
    def profile(self) -> Profile:
        """Names the models."""


def index_paths(
    resources: IndexResources,
    request: IndexRequest,
    *,
    pool: ExecutorFactory | None = None,
    synchronise: SyncCall | None = None,
    progress: Progress = silent,
) -> IndexReport:
    """Make the pictures below some paths searchable.

    Args:
        resources: An opened home.
        request: What to index.
        pool: Makes the executor for work of two slices and more (unless settings say `inline`); None: everything inline.
        synchronise: Who brings the collections in line; None: this process.
        progress: Told of every step.

    Raises:
        NotFoundError: none of the paths exists.
        InvalidRequestError: none of the paths holds a picture, or the table of captions cannot be read.
        StoreLockedError: the corpus is being indexed already, or another process owns the store.
        OutOfSpaceError: the disk is full; what is finished is kept, and the next run goes on from there.
    """
    started = time.perf_counter()
    candidates, problems = examine(request.paths, follow_symlinks=resources.settings.index.follow_symlinks)
    if not candidates:
        raise problems[0] if problems else InvalidRequestError("nothing to index", hint="name a folder with pictures")
    table = CaptionTable.load(request.captions) if request.captions else None
    catalog = resources.catalog
    corpus = catalog.ensure_corpus(request.corpus)
    with corpus_lock(resources.home, corpus):
        catalog.interrupt_runs(KIND, corpus.corpus_id)  # whoever held the lock before is dead
        remove_leftovers(resources.embeddings, corpus.corpus_id)
        run = catalog.start_run(KIND, corpus.corpus_id)
        job = _Job(resources, request, corpus, run, progress, pool=pool)
        try:
            problems += job.discover(candidates, table)
            job.embed()
            synced = job.synchronise(synchronise)
            job.discard()
        except KeyboardInterrupt:
            _finish(resources, run, RunState.INTERRUPTED, "interrupted by the user")
            raise
        except BaseException as error:
            _finish(resources, run, RunState.FAILED, f"{type(error).__name__}: {error}")
            raise
        finally:
            job.close()
        catalog.update_run(run.run_id, stage=Stage.DONE.value, counts=dict(job.counts))
        catalog.finish_run(run.run_id, RunState.DONE)
    report = IndexReport(
        run_id=run.run_id,
        corpus=corpus.name,
        counts=dict(job.counts),
        images=catalog.count_images(corpus.corpus_id, ImageState.ACTIVE),
        seconds=time.perf_counter() - started,
        embed_seconds=job.embed_seconds,
        executor=job.executor,
        adopted=job.adopted,
        problems=tuple(problems),
        warnings=tuple(job.warnings),
        sync=synced,
    )
    progress(ProgressEvent(Stage.DONE, done=report.images, total=report.images, failures=job.counts["failed"]))
    return report


@dataclass(slots=True)
class _Job:
    resources: IndexResources
    request: IndexRequest
    corpus: Corpus
    run: Run
    progress: Progress
    pool: ExecutorFactory | None
    counts: Counter[str] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)
    embed_seconds: float = 0.0
    executor: str = "none"
    adopted: int = 0
    _again: set[str] = field(default_factory=set)
    _left: set[str] = field(default_factory=set)
    _parts: SliceParts | None = None
    _started_pool: EmbedExecutor | None = None

    @property
    def parts(self) -> SliceParts:
        if self._parts is None:
            self._parts = SliceParts.of(self.resources.backbones(), self.resources.text_encoder)
        return self._parts

    def discover(self, candidates: list[Candidate], table: CaptionTable | None) -> list[LodestoneError]:
        """Returns what is wrong with roots inside the candidates; they keep what was indexed from them."""
        catalog, index = self.resources.catalog, self.resources.settings.index
        self._stage(Stage.DISCOVER)
        recaptioner = Recaptioner(catalog, self.parts.captions)
        finder = ChangeFinder(
            catalog,
            self.run.run_id,
            recaptioner,
            Faults.from_environment(),
            retry_failed=self.request.retry_failed,
            follow_symlinks=index.follow_symlinks,
        )
        meter = Meter(self.progress, Stage.DISCOVER)
        scopes: list[Scope] = []
        problems: list[LodestoneError] = []
        for candidate in candidates:
            scopes.append(candidate.scope(catalog, self.corpus))
            inner, wrong = inner_scopes(catalog, scopes[-1], follow_symlinks=index.follow_symlinks)
            scopes += inner
            problems += wrong
        for scope in scopes:
            finder.bury(scope)
        for scope in scopes:
            finder.scan(scope, finder.walk(scope), meter, self._expect)
        if table is not None:
            self._apply(table, scopes, recaptioner)
        self.counts.update(finder.changes.counts)
        self.counts["found"] = meter.done
        self.counts["recaptioned"] = recaptioner.changed
        self._again = finder.changes.fresh
        self._left = finder.changes.left
        return problems

    def _apply(self, table: CaptionTable, scopes: list[Scope], recaptioner: Recaptioner) -> None:
        catalog = self.resources.catalog
        unique = table.with_unique_names(uris_of(catalog, scopes))
        for scope in {scope.root.root_id: scope for scope in scopes}.values():
            living = (i for i in catalog.images_of_root(scope.root.root_id) if i.state is not ImageState.GONE)
            recaptioner.apply(unique, living)
        unmatched = table.unmatched(uris_of(catalog, scopes))
        if unmatched:
            shown = ", ".join(repr(name) for name in unmatched[:_UNMATCHED_SHOWN])
            more = f" and {len(unmatched) - _UNMATCHED_SHOWN} more" if len(unmatched) > _UNMATCHED_SHOWN else ""
            self.warnings.append(f"the table of captions names files that were not found: {shown}{more}")

    def embed(self) -> None:
        catalog, settings = self.resources.catalog, self.resources.settings
        corpus_id = self.corpus.corpus_id
        plan_slices(
            catalog,
            corpus_id,
            size=settings.index.slice_size,
            workers=worker_count(settings),
            again=self._again,
            run_id=self.run.run_id,
        )
        waiting = unfinished(catalog, corpus_id, self.parts)
        if not waiting:
            return
        self._stage(Stage.EMBED)
        started = time.perf_counter()
        self.progress(ProgressEvent(Stage.START))
        executor = self._executor(len(waiting))
        roots: dict[str, Root] = {root.root_id: root for root in catalog.roots(corpus_id)}
        rows = {record.slice_id: record.rows for record in waiting.values()}
        meter: Meter | None = None
        for receipt in executor.run(tasks(catalog, waiting.values(), roots, self.parts)):
            meter = meter or Meter(self.progress, Stage.EMBED, total=sum(rows.values()))
            recorded = record_slice(catalog, self.resources.embeddings, receipt, run_id=self.run.run_id)
            self.counts["embedded"] += receipt.embedded
            self.counts["failed"] += recorded.failed
            self.adopted += len(receipt.adopted)
            meter.add(rows[receipt.slice_id], failures=recorded.failed)
            if receipt.error is not None:
                raise receipt.error
        self.embed_seconds = time.perf_counter() - started

    def synchronise(self, synchronise: SyncCall | None) -> SyncReport | None:
        self._stage(Stage.LOAD)
        if synchronise is not None:
            return synchronise(self.run.run_id, self.progress)
        return sync(self.resources, progress=self.progress)

    def discard(self) -> None:
        """Remove the thumbnails of contents that this run found gone or changed, where no picture has them any more."""
        resources = self.resources
        discard_thumbnails(resources.catalog, resources.thumbnails, self._left)

    def close(self) -> None:
        if self._started_pool is not None:
            self._started_pool.close()

    def _executor(self, slices: int) -> EmbedExecutor:
        settings = self.resources.settings
        wants_pool = settings.index.executor == "ray" or (settings.index.executor == "auto" and slices >= _POOL_PAYS_SLICES)
        if wants_pool and self.pool is not None:
            self.executor = "ray"
            return self._pool(self.pool)
        self.executor = "inline"
        return InlineExecutor(self._embed_settings(model_threads=settings.models.threads))

    def _pool(self, make: ExecutorFactory) -> EmbedExecutor:
        if self._started_pool is None:
            settings = self.resources.settings
            self._started_pool = make(self._embed_settings(model_threads=1), worker_count(settings))
        return self._started_pool

    def _expect(self, pictures: int) -> None:
        """Have the pool get ready in the background once it is clear that there is work for it."""
        index = self.resources.settings.index
        if self.pool is not None and index.executor != "inline" and pictures >= _POOL_PAYS_SLICES * index.slice_size:
            self._pool(self.pool).start()

    def _embed_settings(self, *, model_threads: int) -> EmbedSettings:
        resources = self.resources
        return embed_settings(
            resources.settings,
            resources.profile,
            embeddings=resources.embeddings,
            thumbnails=resources.thumbnails,
            model_threads=model_threads,
            decode_threads=1,
        )

    def _stage(self, stage: Stage) -> None:
        self.resources.catalog.update_run(self.run.run_id, stage=stage.value, counts=dict(self.counts))


def _finish(resources: IndexResources, run: Run, state: RunState, why: str) -> None:
    """End the run's row. What ended the run is about to be raised; that the row cannot be written must not hide it."""
    try:
        resources.catalog.finish_run(run.run_id, state, why)
    except LodestoneError as error:
        _log.warning("the end of run %s could not be recorded: %s", run.run_id, error)
