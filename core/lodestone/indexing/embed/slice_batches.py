"""Embedding of a corpus's unfinished slices in batches; failed slices are retried, and every attempt is recorded.

Slices are streamed from the catalog, and tasks are made when a worker has room, so the driver holds few at a time. A batch ends
after a number of slices or a time: what is recorded by then becomes searchable. Workers do not notice the end of a batch: the
slices of the next one are handed out while those of the one before are in flight. A slice that failed is handed out again
after a pause. If its worker crashed while it had several slices, each of them is retried without company: all but one are
innocent, and are embedded as fast as ever. A slice whose worker crashed at it alone is retried with its pictures isolated (see
isolation.py), so that the picture that crashes workers becomes a failure row and the others are embedded.

A run that is asked to stop hands out no further slice, and waits for those that workers have begun.
"""

from __future__ import annotations

import gc
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Final

from lodestone.catalog.records import AttemptState, Root, SliceAttempt, SliceRecord
from lodestone.errors import (
    CatalogError,
    EmbeddingsDamagedError,
    LodestoneError,
    RunFailedError,
    ServiceUnavailableError,
    SourceError,
    WorkerDiedError,
)
from lodestone.files.beneath import Boundaries
from lodestone.indexing.embed.recording import record_slice
from lodestone.indexing.embed.slicing import task_of
from lodestone.indexing.parts.registry import SliceParts
from lodestone.indexing.progress import CAPTIONS_ALONE, STOPPING, Meter, Progress, RunStage
from lodestone.indexing.stage_stats import StageShare, added
from lodestone.indexing.stop_request import StopRequest
from lodestone.indexing.tasks import SliceReceipt, SliceTask

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog
    from lodestone.files.area import FileArea
    from lodestone.indexing.embed.executors import EmbedExecutor
    from lodestone.indexing.heartbeat import Heartbeat

_log = logging.getLogger(__name__)

# Errors that may pass. Everything else (no space, no model, wrong settings) ends the run at once.
_PASSING: Final = (RunFailedError, SourceError, ServiceUnavailableError, CatalogError, EmbeddingsDamagedError)
_LONGEST_BACKOFF_S: Final = 30.0
_DENIED_TRIES: Final = 2  # another worker may have been given the rights meanwhile
_MANY_ROWS: Final = 10_000  # of a run that lasts long enough for garbage collections to matter
_ABANDONED: Final = 2  # consecutive drivers that crashed at a slice: no coincidence


FIRST_BATCH_S: Final = 3.0
"""Seconds of the first batch. A first run of 800 pictures takes two minutes or three on two cores."""


@dataclass(frozen=True, slots=True)
class SliceBatchLimits:
    """Limits of a batch's size and of the attempts at a slice.

    Attributes:
        slices: Most slices of a batch.
        seconds: Most seconds after which a batch gives out no further slice.
        attempts: Most attempts at a slice in one run.
        backoff: Seconds before the second attempt, doubled for each further one.
    """

    slices: int = 400
    seconds: float = 300.0
    attempts: int = 4
    backoff: float = 1.0


@dataclass(slots=True)
class _Try:
    record: SliceRecord
    number: int = 1  # in this run
    not_before: float = 0.0  # monotonic seconds
    alone: bool = False  # its worker crashed while it had others too
    isolate: bool = False  # its worker crashed at it


@dataclass(slots=True)
class SliceBatches:
    """Embeds the unfinished slices of a corpus.

    Attributes:
        catalog: Read and written.
        embeddings: Area where workers leave their files.
        corpus_id: Corpus of the slices.
        run_id: Run that the attempts belong to.
        parts: Parts that a finished slice has.
        heartbeat: Checked before every task.
        progress: Called for every slice.
        limits: See `SliceBatchLimits`.
        boundaries: What may be opened of the roots.
        stop: Asks for an early end.
        embedded: Pictures that went through the models.
        failed: Pictures that could not be used.
        incomplete: Pictures whose files end early.
        completed: Pictures that went through the models, now or before their worker was killed.
        added: Pictures that were embedded before and got a further part.
        postponed: Name of a part -> slices that lack it until a later run.
        why_postponed: Name of a part -> why one of them does.
        adopted: Parts that were found on disk.
        deaths: Workers that crashed.
        retries: Slices that were retried.
        most_in_pass: Pictures of one pass that every worker's GPU had memory for; 0 where none ever ran out.
        given_up: The last error of each slice that failed in every attempt, by slice id.
    """

    catalog: Catalog
    embeddings: FileArea
    corpus_id: str
    run_id: str
    parts: SliceParts
    heartbeat: Heartbeat
    progress: Progress
    limits: SliceBatchLimits = field(default_factory=SliceBatchLimits)
    boundaries: Boundaries = field(default_factory=Boundaries)
    stop: StopRequest = field(default_factory=StopRequest)
    embedded: int = 0
    failed: int = 0
    incomplete: int = 0
    completed: int = 0
    added: int = 0
    postponed: Counter[str] = field(default_factory=Counter)
    why_postponed: dict[str, str] = field(default_factory=dict)
    adopted: int = 0
    deaths: int = 0
    retries: int = 0
    most_in_pass: int = 0
    given_up: dict[str, LodestoneError] = field(default_factory=dict)
    _roots: dict[str, Root] = field(default_factory=dict)
    _again: list[_Try] = field(default_factory=list)
    _begun: dict[str, tuple[_Try, SliceAttempt]] = field(default_factory=dict)
    _meter: Meter | None = None
    _dead: set[str] = field(default_factory=set)  # workers that crashed
    _stages: dict[str, tuple[StageShare, ...]] = field(default_factory=dict)  # by worker
    _counted: Counter[str] = field(default_factory=Counter)  # pictures of unfinished slices that the meter has counted
    _awaited: set[str] = field(default_factory=set)  # slices that are finished before an early end

    def run(self, executor: EmbedExecutor, *, rows: int, after_batch: Callable[[], None]) -> None:
        """Embed until no unfinished slice is left that can be embedded.

        Args:
            executor: Runs the tasks.
            rows: Pictures in all the slices that are unfinished now.
            after_batch: Called between two batches, while slices are in flight; it must not take long.

        Raises:
            LodestoneError: the work as a whole failed; what is finished is recorded.
            BaseException: `stop` asked for an early end, and what was under way is recorded.
        """
        self._roots = {root.root_id: root for root in self.catalog.roots(self.corpus_id)}
        fresh = (_Try(record) for record in self.catalog.unfinished_slices(self.parts.names(), self.corpus_id))
        self._meter = Meter(self.progress, RunStage.EMBED, total=rows)
        batches = _Batches(self.limits, after_batch)
        with _frozen_heap() if rows >= _MANY_ROWS else nullcontext(), self.stop.honoured(self._prepare_end):
            self._embed(executor, fresh, batches)

    def _embed(self, executor: EmbedExecutor, fresh: Iterator[_Try], batches: _Batches) -> None:
        following = next(fresh, None)
        while following is not None:
            for receipt in executor.run(self._tasks(chain((following,), fresh), batches), self._tell):
                self._receive(receipt)
                if self.stop.is_asked and not self._awaited:
                    return
            following = None if self.stop.is_asked else next(fresh, None) or self._await_due()

    def _prepare_end(self) -> int:
        """Choose the slices to wait for, those with pictures that are done, and return how many pictures they have.

        Called between any two steps of the run, by the signal handler that asks for an early end.
        """
        begun = [current.record for current, _ in self._begun.values() if self._counted[current.record.slice_id]]
        self._awaited = {record.slice_id for record in begun}
        if self._meter is not None and begun:
            self._meter.detail = STOPPING
            self._meter.total = self._meter.done + sum(record.rows - self._counted[record.slice_id] for record in begun)
        return sum(record.rows for record in begun)

    def _tasks(self, fresh: Iterator[_Try], batches: _Batches) -> Iterator[SliceTask]:
        """Yield tasks for slices that failed before, as soon as their pause is over, and for all others."""
        while not self.stop.is_asked and (attempt := self._due() or next(fresh, None)) is not None:
            self.heartbeat.check()
            batches.count()
            yield self._task(attempt)

    def _await_due(self) -> _Try | None:
        """Take the failed slice that is to be tried again first, after its pause: there is nothing else to do meanwhile."""
        first = min(self._again, key=lambda retry: retry.not_before, default=None)
        if first is not None:
            self.heartbeat.wait(max(first.not_before - time.monotonic(), 0.0))
            self._again.remove(first)
        return first

    def _due(self) -> _Try | None:
        """Take the failed slice that is to be tried again first, if its pause is over."""
        first = min(self._again, key=lambda retry: retry.not_before, default=None)
        if first is None or first.not_before > time.monotonic():
            return None
        self._again.remove(first)
        return first

    def _task(self, current: _Try) -> SliceTask:
        earlier = _since_done(list(self.catalog.attempts(slice_id=current.record.slice_id)))
        # What happened in this run is known better: `current` says whether the slice was alone when its worker crashed.
        states = Counter(attempt.state for attempt in earlier if current.number == 1 or attempt.run_id != self.run_id)
        isolate = current.isolate or bool(states[AttemptState.DIED]) or states[AttemptState.RUNNING] >= _ABANDONED
        attempt = self.catalog.start_attempt(current.record.slice_id, self.run_id)
        self._begun[current.record.slice_id] = current, attempt
        task = task_of(self.catalog, current.record, self._roots, self.parts, self.boundaries)
        if self._meter is not None and not self.stop.is_asked:
            self._meter.detail = CAPTIONS_ALONE if set(task.parts) == {self.parts.captions} else ""
        return replace(task, attempt=current.number, isolate=isolate, alone=current.alone)

    @property
    def stages(self) -> tuple[StageShare, ...]:
        """Return the work of the stages so far, over all workers that live; empty where they do not tell."""
        return added(self._stages.values())

    def _receive(self, receipt: SliceReceipt) -> None:
        current, attempt = self._begun[receipt.slice_id]
        recorded = record_slice(self.catalog, self.embeddings, receipt, run_id=self.run_id, attempt=attempt.attempt)
        del self._begun[receipt.slice_id]
        self._awaited.discard(receipt.slice_id)
        self.embedded += receipt.embedded
        self.failed += recorded.failed
        self.incomplete += recorded.incomplete
        self.completed += max(receipt.embedded, recorded.active)
        self.added += 0 if receipt.embedded or recorded.active else self._pictures_of_further(receipt, current.record)
        self.adopted += len(receipt.adopted)
        self.postponed.update(receipt.postponed.keys())
        self.why_postponed.update(receipt.postponed)
        if receipt.most_in_pass:
            self.most_in_pass = min(self.most_in_pass or receipt.most_in_pass, receipt.most_in_pass)
        if receipt.stages:
            self._stages[receipt.worker] = receipt.stages
            if self._meter is not None:
                self._meter.stages = self.stages
        if receipt.error is None:
            self._count(current.record, failures=recorded.failed)
            return
        self._retry_or_give_up(current, receipt.error, receipt.worker)

    def _pictures_of_further(self, receipt: SliceReceipt, record: SliceRecord) -> int:
        further = set(self.parts.further.values())
        return record.rows if any(part.part in further for part in receipt.receipts) else 0

    def _retry_or_give_up(self, current: _Try, error: LodestoneError, worker: str) -> None:
        died = isinstance(error, WorkerDiedError)
        beside = died and bool(error.details.get("beside"))
        if died:
            self.deaths += not (beside and worker in self._dead)  # a worker that held several slices died once
            self._dead.add(worker)
            self._stages.pop(worker, None)
        refused = error.details.get("reason") if isinstance(error, SourceError) else None
        if not isinstance(error, _PASSING) or refused == "expired":
            raise error
        if current.number < (self.limits.attempts if refused != "denied" else min(self.limits.attempts, _DENIED_TRIES)):
            _log.info("slice %s failed and is tried again: %s", current.record.slice_id, error)
            self.retries += 1
            is_last = current.number + 1 == self.limits.attempts
            isolate = current.isolate or (died and (not beside or is_last))
            pause = time.monotonic() + self._backoff(current.number + 1)
            self._again.append(_Try(current.record, current.number + 1, pause, alone=current.alone or died, isolate=isolate))
            return
        if not died:  # the bucket stays unreachable: the next slice would fail as well
            raise error
        self.given_up[current.record.slice_id] = error
        self._count(current.record, failures=current.record.rows)

    def _tell(self, slice_id: str, pictures: int) -> None:
        """Count the pictures of a slice that are done; a second try counts from where the first one ended."""
        more = pictures - self._counted[slice_id]
        if self._meter is not None and more > 0 and (not self.stop.is_asked or slice_id in self._awaited):
            self._counted[slice_id] = pictures
            self._meter.add(more)

    def _count(self, record: SliceRecord, *, failures: int) -> None:
        counted = self._counted.pop(record.slice_id, 0)
        if self._meter is not None:
            self._meter.total = max(self._meter.total, self._meter.done + record.rows - counted)  # while stopping
            self._meter.add(record.rows - counted, failures=failures)

    def _backoff(self, number: int) -> float:
        """Return the seconds before attempt `number`, spread so that many drivers do not come back at one moment."""
        longest = min(self.limits.backoff * 2 ** (number - 2), _LONGEST_BACKOFF_S)
        return random.uniform(longest / 2, longest)  # noqa: S311 - no secret


class _Batches:
    """Ends of batches: the first ones are short, so that the first pictures are soon found, and each takes twice as long.

    Args:
        limits: Of a batch.
        after: Called when a batch is over and another slice is handed out.
    """

    def __init__(self, limits: SliceBatchLimits, after: Callable[[], None]) -> None:
        self._limits = limits
        self._after = after
        self._slices = 0
        self._seconds = min(FIRST_BATCH_S, limits.seconds)
        self._ends = time.monotonic() + self._seconds

    def count(self) -> None:
        """Count a slice that is about to be handed out."""
        if self._slices and (self._slices >= self._limits.slices or time.monotonic() > self._ends):
            self._after()
            self._seconds = min(2 * self._seconds, self._limits.seconds)
            self._slices, self._ends = 0, time.monotonic() + self._seconds
        self._slices += 1


@contextmanager
def _frozen_heap() -> Iterator[None]:
    """Leave all objects that exist now out of garbage collections, which the rows of tasks and receipts cause without end.

    Looking through the modules of Ray and SQLAlchemy again and again takes a tenth of the driver's time.
    """
    if gc.get_freeze_count():  # somebody else has frozen theirs, and thawing is for all
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _since_done(attempts: list[SliceAttempt]) -> list[SliceAttempt]:
    done = max((place for place, attempt in enumerate(attempts, start=1) if attempt.state is AttemptState.DONE), default=0)
    return attempts[done:]
