"""An index run from request to report: discover -> embed -> load -> verify -> promote, resumable at every point.

Each stage leaves its results in the catalog or on disk. A run that is killed, cancelled, interrupted or out of space is
continued by the next run of the same corpus, which does only what is unfinished (with `IndexRequest.resume`, without searching
for files again). Runs of one corpus exclude each other.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from lodestone.catalog.records import Corpus, ImageState, Root, Run, RunState
from lodestone.embeddings.audit import forget_damaged
from lodestone.embeddings.corpus_records import write_corpus_record
from lodestone.embeddings.slices import remove_leftovers
from lodestone.errors import EmbeddingsDamagedError, InvalidRequestError, LodestoneError, RunCancelledError, RunFailedError
from lodestone.indexing.embed.executors import ExecutorFactory, worker_count
from lodestone.indexing.embed.slice_batches import SliceBatches, SliceBatchLimits
from lodestone.indexing.embed.slicing import first_slice_rows, plan_slices, slice_rows
from lodestone.indexing.faults import Faults
from lodestone.indexing.heartbeat import Heartbeat
from lodestone.indexing.locking import corpus_lock
from lodestone.indexing.parts.registry import SliceParts
from lodestone.indexing.progress import Meter, Progress, ProgressEvent, RunStage, silent
from lodestone.indexing.run.executor_lifecycle import ExecutorLifecycle, IndexResources
from lodestone.indexing.run.history import Everything, RunRequestRecord, recall
from lodestone.indexing.run.removal import remove_gone
from lodestone.indexing.run.report import IndexReport, IndexRequest
from lodestone.indexing.run.unfinished import idle_report, nothing_left
from lodestone.indexing.scan import mounts
from lodestone.indexing.scan.caption_changes import Recaptioner
from lodestone.indexing.scan.changes import ChangeFinder
from lodestone.indexing.scan.interrupted_runs import KIND
from lodestone.indexing.scan.missing_metadata import MissingMetadata
from lodestone.indexing.scan.mounts import Mounts
from lodestone.indexing.scan.moved_roots import follow_candidate
from lodestone.indexing.scan.scan_scopes import Candidate, examine, scopes_of, uris_of
from lodestone.indexing.scan.scope import ScanScope
from lodestone.indexing.scan.source_scopes import SourceCandidate
from lodestone.indexing.stage_stats import StageShare
from lodestone.indexing.stop_request import StopRequest
from lodestone.indexing.sync.catching_up import CatchingUp, SyncCall
from lodestone.indexing.sync.collections import SyncReport
from lodestone.indexing.sync.loaders import LoaderFactory
from lodestone.indexing.sync.thumbnail_cleanup import discard_thumbnails
from lodestone.indexing.tasks import this_worker
from lodestone.sources.boundaries import boundaries_of
from lodestone.sources.captions import CaptionTable
from lodestone.sources.exclusion import parsed
from lodestone.sources.locators import FOLDER, OBJECT

_UNMATCHED_SHOWN: Final = 3
_HEALINGS: Final = 10  # damaged files that one run makes again while loading
_log = logging.getLogger(__name__)


def index_paths(
    resources: IndexResources,
    request: IndexRequest,
    *,
    pool: ExecutorFactory | None = None,
    synchronise: SyncCall | None = None,
    loaders: LoaderFactory | None = None,
    progress: Progress = silent,
    stop: StopRequest | None = None,
) -> IndexReport:
    """Make the pictures below some paths searchable.

    Args:
        resources: An opened home.
        request: What to index.
        pool: Makes the executor for `ray`; None to use processes of this machine instead.
        synchronise: Called to synchronise the collections; None to do it in this process.
        loaders: Makes the loader of groups of slices where this process synchronises; None to load them in its threads.
        progress: Called at every step.
        stop: Asks for an early end, before which the pictures under way are finished.

    Returns:
        What was done. Where a run is to be resumed that left nothing, no run is made, and the report says so.

    Raises:
        NotFoundError: none of the paths exists.
        InvalidRequestError: none of the paths holds a picture, or the table of captions cannot be read.
        StoreLockedError: the corpus is being indexed already, or another process owns the store.
        OutOfSpaceError: the disk is full; what is finished is kept, and the next run goes on from there.
        RunCancelledError: the run was cancelled.
        RunFailedError: slices failed again and again. The others are embedded and can be found.
    """
    started = time.perf_counter()
    catalog = resources.catalog
    left = recall(catalog, request.resume, corpus=request.corpus) if request.resume is not None else RunRequestRecord(request)
    if left.corpus is not None and nothing_left(resources, left, served=synchronise is not None):
        return idle_report(catalog, left.corpus, left.run_id)
    request = left.request
    parsed(request.exclude)  # refuses patterns that cannot be read
    problems: list[LodestoneError] = []
    candidates: list[Candidate | SourceCandidate] = []
    table: CaptionTable | None = None
    if left.discover:
        candidates, problems = examine(request.paths, boundaries=boundaries_of(resources.settings))
        if not candidates:
            raise problems[0] if problems else InvalidRequestError("nothing to index", hint="name a folder with pictures")
        table = CaptionTable.load(request.captions) if request.captions else None
    corpus = left.corpus or catalog.ensure_corpus(request.corpus)
    with corpus_lock(resources.home, corpus, catalog=catalog):
        catalog.interrupt_runs(KIND, corpus.corpus_id)  # their processes have ended, or they would hold the lock
        remove_leftovers(resources.embeddings, corpus.corpus_id)
        run = catalog.start_run(KIND, corpus.corpus_id, request=request.as_dict(), worker=this_worker())
        with Heartbeat(catalog, run.run_id) as heartbeat:
            catching_up = CatchingUp(resources, run.run_id, synchronise, heartbeat, loaders)
            job = _Job(
                resources,
                request,
                corpus,
                run,
                heartbeat.watching(progress),
                heartbeat,
                ExecutorLifecycle(resources, pool),
                catching_up,
                stop or StopRequest(),
            )
            try:
                if left.discover:
                    catalog.mend_parts(corpus.corpus_id)
                    job.counts.update(damaged=forget_damaged(catalog, resources.embeddings, corpus.corpus_id))
                    problems += job.discover(candidates, table)
                job.embed(planned=left.planned)
                if job.recaptioner is not None:
                    job.recaptioner.fill_facts()
                job.remove_gone()
                synced = job.synchronise()
                job.discard()
                job.complain()
            except BaseException as error:
                _finish(resources, run, error)
                raise
            finally:
                job.close()
        catalog.update_run(run.run_id, stage=RunStage.DONE.value, counts=dict(job.counts))
        catalog.finish_run(run.run_id, RunState.DONE)
    report = IndexReport(
        run_id=run.run_id,
        corpus=corpus.name,
        counts=dict(job.counts),
        images=catalog.count_images(corpus.corpus_id, ImageState.ACTIVE),
        seconds=time.perf_counter() - started,
        embed_seconds=job.embed_seconds,
        executor=job.lifecycle.kind,
        adopted=job.slice_batches.adopted if job.slice_batches else 0,
        completed=job.completed,
        resumed=left.run_id,
        retries=job.slice_batches.retries if job.slice_batches else 0,
        deaths=job.slice_batches.deaths if job.slice_batches else 0,
        problems=tuple(problems),
        warnings=tuple(job.warnings),
        left_out=dict(job.left_out.most_common()),
        sync=synced,
        stages=job.stages,
    )
    progress(ProgressEvent(RunStage.DONE, done=report.images, total=report.images, failures=job.counts["failed"]))
    return report


@dataclass(slots=True)
class _Job:
    """State of one run: its resources, its counts and what it has to report."""

    resources: IndexResources
    request: IndexRequest
    corpus: Corpus
    run: Run
    progress: Progress
    heartbeat: Heartbeat
    lifecycle: ExecutorLifecycle
    catching_up: CatchingUp
    stop: StopRequest
    counts: Counter[str] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    embed_seconds: float = 0.0
    completed: int = 0
    slice_batches: SliceBatches | None = None
    recaptioner: Recaptioner | None = None
    stages: tuple[StageShare, ...] = ()
    _given_up: dict[str, LodestoneError] = field(default_factory=dict)
    _left: set[str] = field(default_factory=set)
    _parts: SliceParts | None = None

    @property
    def parts(self) -> SliceParts:
        """Return the names of the parts that a complete slice has."""
        if self._parts is None:
            resources = self.resources
            self._parts = SliceParts.of(resources.backbones(), resources.text_encoder, extra=resources.extra_backbones())
        return self._parts

    def discover(self, candidates: list[Candidate | SourceCandidate], table: CaptionTable | None) -> list[LodestoneError]:
        """Update the catalog from the files and captions of the candidates.

        Returns:
            Errors of roots inside the candidates; these roots keep what was indexed from them.
        """
        catalog, boundaries = self.resources.catalog, boundaries_of(self.resources.settings)
        self._stage(RunStage.DISCOVER)
        recaptioner = self.recaptioner = Recaptioner(catalog, self.parts.captions, boundaries)
        finder = ChangeFinder(
            catalog,
            self.run.run_id,
            recaptioner,
            Faults.from_environment(),
            retry_failed=self.request.retry_failed,
            boundaries=boundaries,
            mounts=Mounts(self.resources.home.path / mounts.NAME),
        )
        self._follow_moved_roots(candidates, finder)
        meter = Meter(self.progress, RunStage.DISCOVER)
        scopes: list[ScanScope] = []
        problems: list[LodestoneError] = []
        for candidate in candidates:
            inner_scopes, wrong = scopes_of(candidate, catalog, self.corpus, boundaries=boundaries)
            if self._add_patterns(scope.root for scope in inner_scopes):
                inner_scopes, wrong = scopes_of(candidate, catalog, self.corpus, boundaries=boundaries)
            scopes += inner_scopes
            problems += wrong
        finder.update(scopes, meter, self.lifecycle.expect)
        self._read_missing_metadata(MissingMetadata(catalog, finder.reader, recaptioner, boundaries), scopes, meter)
        if table is not None:
            self._apply(table, scopes, recaptioner)
        self._warn_of_sidecars(recaptioner.sidecars.unreadable)
        self.counts.update(finder.changes.counts)
        self.left_out.update(finder.changes.left_out)
        self.warnings += [
            f"{count:,} pictures are not there, and kept: the disk of {point!r}, on which they lay, is not mounted "
            f"(if it never will be again, delete its line from {str(finder.mounts.record)!r})"
            for point, count in finder.changes.away.items()
        ]
        self.counts["found"] = meter.done
        self.counts["recaptioned"] = recaptioner.changed
        self._left = finder.changes.left
        for scope in scopes:
            if scope.is_whole:
                catalog.set_root(scope.root.root_id, scanned_at=self.run.started_at)
        write_corpus_record(self.resources.embeddings, self.corpus, catalog.roots(self.corpus.corpus_id))
        return problems

    def _add_patterns(self, roots: Iterable[Root]) -> bool:
        """Add the request's patterns to directories, which keep them; return whether that changed any."""
        changed = False
        for root in {root.root_id: root for root in roots}.values():
            new = [pattern for pattern in self.request.exclude if pattern not in root.patterns]
            if new and root.kind not in {FOLDER, OBJECT}:
                self.warnings.append(f"{root.name!r} ({root.kind}): patterns leave nothing out of archives and tables")
            elif new:
                self.resources.catalog.set_root(root.root_id, exclude=(*root.patterns, *new))
                changed = True
        return changed

    def _follow_moved_roots(self, candidates: list[Candidate | SourceCandidate], finder: ChangeFinder) -> None:
        """Recognise directories whose folders were moved to where a candidate is, before it becomes another directory."""
        for candidate in candidates:
            if isinstance(candidate, Candidate):
                moved, doubts = follow_candidate(
                    candidate, self.resources.catalog, self.corpus, boundaries=finder.boundaries, mounts=finder.mounts
                )
                self.warnings += [*([str(moved)] if moved else []), *doubts]
                self.counts["relocated"] += moved.images if moved else 0

    def _read_missing_metadata(self, missing: MissingMetadata, scopes: list[ScanScope], meter: Meter) -> None:
        """Read the headers of pictures that an older version recorded, and add a warning about sources that refuse it."""
        missing.fill(scopes, lambda: meter.add(0))
        self.counts.update({"metadata_read": missing.read, "metadata_unreadable": missing.unreadable})
        self.warnings += [f"metadata of some pictures was not read: {error.message}" for error in missing.problems]

    def _warn_of_sidecars(self, unreadable: Sequence[str]) -> None:
        """Add a warning that lists files beside pictures that cannot be read."""
        if unreadable:
            shown = ", ".join(repr(name) for name in unreadable[:_UNMATCHED_SHOWN])
            more = f" and {len(unreadable) - _UNMATCHED_SHOWN} more" if len(unreadable) > _UNMATCHED_SHOWN else ""
            self.warnings.append(
                f"files beside pictures are no text, broken, or larger than 1 MB, and were left out: {shown}{more}"
            )

    def _apply(self, table: CaptionTable, scopes: list[ScanScope], recaptioner: Recaptioner) -> None:
        """Set the table's captions, and add a warning about files of the table that were not found."""
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

    def embed(self, *, planned: bool) -> None:
        """Embed every unfinished slice; `planned` says that every picture is in a slice already."""
        catalog, index = self.resources.catalog, self.resources.settings.index
        corpus_id = self.corpus.corpus_id
        in_bucket = self.resources.embeddings.folder is None
        if not planned:
            pending = catalog.count_images(corpus_id, ImageState.PENDING)
            plan_slices(
                catalog,
                corpus_id,
                size=slice_rows(index.slice_size, pending, in_bucket=in_bucket),
                first=first_slice_rows(index.slice_size, in_bucket=in_bucket),
                workers=worker_count(self.resources.settings),
                again=Everything() if self.request.retry_failed else (),
                run_id=self.run.run_id,
            )
        slices, rows = catalog.count_unfinished(self.parts.names(), corpus_id)
        self._stage(RunStage.EMBED)
        if not slices:
            return
        started = time.perf_counter()
        self.progress(ProgressEvent(RunStage.START))
        self.slice_batches = SliceBatches(
            catalog,
            self.resources.embeddings,
            corpus_id,
            self.run.run_id,
            self.parts,
            self.heartbeat,
            self.progress,
            SliceBatchLimits(index.batch_slices, index.batch_s, index.attempts, index.backoff_s),
            boundaries_of(self.resources.settings),
            self.stop,
        )
        try:
            embeds = bool(catalog.count_unfinished(tuple(self.parts.backbones.values()), corpus_id)[0])
            executor = self.lifecycle.executor(rows, eager=embeds)
            self.slice_batches.run(executor, rows=rows, after_batch=self._between_batches)
        finally:
            self.counts["embedded"] += self.slice_batches.embedded
            self.counts["failed"] += self.slice_batches.failed
            if self.slice_batches.added:
                self.counts["added"] += self.slice_batches.added
            if self.slice_batches.incomplete:
                self.counts["incomplete"] += self.slice_batches.incomplete
            self.completed += self.slice_batches.completed
            self._given_up |= self.slice_batches.given_up
            self.stages = self.slice_batches.stages or self.stages
            self.warnings += [
                f"the part {name!r} was not made of {slices:,} slices ({self.slice_batches.why_postponed[name]}); the next run "
                "tries again"
                for name, slices in self.slice_batches.postponed.items()
            ]
            if most := self.slice_batches.most_in_pass:
                self.warnings.append(
                    f"the memory of a GPU ran out: batches were made smaller, down to {most} pictures "
                    f"(index.batch_size = {most} saves the attempts)"
                )
            self.embed_seconds = time.perf_counter() - started

    def remove_gone(self) -> None:
        """Remove pictures whose files are gone for longer than they are kept, and finish what earlier removals left."""
        report = remove_gone(self.resources, self.corpus, own_run=self.run.run_id)
        if report is not None:
            self.counts["removed"] += report.images
            if report.erasure.waiting:
                size = report.erasure.waiting_bytes / (1 << 20)
                self.warnings.append(
                    f"{size:,.1f} MB that hold removed pictures remain until the other runs end (`lodestone status` counts "
                    "them; the next index run deletes them)"
                )

    def _between_batches(self) -> None:
        self._stage(RunStage.EMBED)
        self.catching_up.begin()

    def synchronise(self) -> SyncReport | None:
        """Synchronise the collections for this run; stored files that turn out to be damaged are embedded again."""
        for remaining in reversed(range(_HEALINGS)):
            try:
                self._stage(RunStage.LOAD)
                report = self.catching_up.finish(self.progress)
                self.warnings += self.catching_up.rebuilt
                return report
            except EmbeddingsDamagedError as error:  # its receipt is removed already
                if not remaining:
                    raise
                _log.warning("%s: it is embedded again", error.message)
                self.counts["damaged"] += 1
                self.embed(planned=True)
        return None

    def complain(self) -> None:
        """Raise an error if slices failed in every attempt. Called last, when everything else is done.

        Raises:
            RunFailedError: at least one slice could not be embedded.
        """
        given_up = self._given_up
        if given_up:
            last = next(iter(given_up.values()))
            raise RunFailedError(
                f"{len(given_up)} slices could not be embedded: {last.message}",
                hint="all others can be found; `lodestone index --resume` tries again; `lodestone runs show` has the tries",
                slices=sorted(given_up),
            ) from last

    def discard(self) -> None:
        """Remove the thumbnails of contents that this run found gone or changed, where no picture needs them."""
        resources = self.resources
        discard_thumbnails(resources.catalog, resources.thumbnails, self._left)

    def close(self) -> None:
        """Stop the workers and the background load."""
        self.lifecycle.close()
        self.catching_up.close()

    def _stage(self, stage: RunStage) -> None:
        self.resources.catalog.update_run(self.run.run_id, stage=stage.value, counts=dict(self.counts))


def _finish(resources: IndexResources, run: Run, error: BaseException) -> None:
    """End the row of a run that `error` ended.

    The error is about to be raised; a failure to write the row must not hide it.
    """
    state, why = RunState.FAILED, f"{type(error).__name__}: {error}"
    if isinstance(error, KeyboardInterrupt):
        state, why = RunState.INTERRUPTED, "interrupted by the user"
    elif isinstance(error, SystemExit):  # raised by a signal
        state, why = RunState.INTERRUPTED, f"stopped with exit code {error.code}"
    elif isinstance(error, RunCancelledError):
        state, why = RunState.CANCELLED, error.message
    try:
        resources.catalog.finish_run(run.run_id, state, why)
    except LodestoneError as problem:
        _log.warning("the end of run %s could not be recorded: %s", run.run_id, problem)
