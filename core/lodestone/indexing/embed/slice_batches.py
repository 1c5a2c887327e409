"""How are a corpus's unfinished slices embedded? In waves, each slice tried again when its worker fails, every try on record.

A wave bounds what the driver holds at a time (slices are streamed from the catalog, tasks are made when a worker is free), and
its end is where pictures become searchable while later ones are still being embedded. A slice that failed goes into the next
wave. One whose worker died is tried with its pictures isolated (see isolate.py), so that the picture that kills becomes
a failure row and the others are embedded.
"""

from __future__ import annotations

import logging
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
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
from lodestone.indexing.embed.recording import record_slice
from lodestone.indexing.embed.slicing import task_of
from lodestone.indexing.progress import Meter, Progress, RunStage
from lodestone.indexing.tasks import SliceParts, SliceReceipt, SliceTask

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog
    from lodestone.files.area import FileArea
    from lodestone.indexing.embed.executors import EmbedExecutor
    from lodestone.indexing.heartbeat import Heartbeat

_log = logging.getLogger(__name__)

# What may be otherwise the next time. Everything else (no space, no model, wrong settings) ends the run at once.
_PASSING: Final = (RunFailedError, SourceError, ServiceUnavailableError, CatalogError, EmbeddingsDamagedError)
_LONGEST_BACKOFF_S: Final = 30.0
_DENIED_TRIES: Final = 2  # another worker may have been let in meanwhile
_ABANDONED: Final = 2  # drivers that died one after the other at a slice: it is no accident


@dataclass(frozen=True, slots=True)
class SliceBatchLimits:
    """How much one wave holds, and how often a slice is tried.

    Attributes:
        slices: Most slices of a wave.
        seconds: A wave hands out no further slice after so long.
        attempts: Tries of a slice in one run.
        backoff: Seconds before the second try, doubled for each further one.
    """

    slices: int = 400
    seconds: float = 300.0
    attempts: int = 4
    backoff: float = 1.0


@dataclass(slots=True)
class _Try:
    record: SliceRecord
    number: int = 1  # in this run
    died: bool = False


@dataclass(slots=True)
class SliceBatches:
    """Embeds what is unfinished.

    Attributes:
        catalog: Read and written.
        embeddings: Where workers leave their files.
        corpus_id: Whose slices.
        run_id: On whose behalf.
        parts: That a finished slice has.
        pulse: Looked at before every task.
        progress: Told of every slice.
        limits: See `SliceBatchLimits`.
        embedded: Pictures that went through the models.
        failed: Pictures that could not be used.
        completed: Pictures that went through the models, now or before their worker was killed.
        adopted: Parts that were found on disk.
        deaths: Workers that died.
        retries: Slices that were tried again.
        given_up: The last error of each slice that failed to the end, by slice id.
    """

    catalog: Catalog
    embeddings: FileArea
    corpus_id: str
    run_id: str
    parts: SliceParts
    heartbeat: Heartbeat
    progress: Progress
    limits: SliceBatchLimits = field(default_factory=SliceBatchLimits)
    embedded: int = 0
    failed: int = 0
    completed: int = 0
    adopted: int = 0
    deaths: int = 0
    retries: int = 0
    given_up: dict[str, LodestoneError] = field(default_factory=dict)
    _roots: dict[str, Root] = field(default_factory=dict)
    _again: deque[_Try] = field(default_factory=deque)
    _begun: dict[str, tuple[_Try, SliceAttempt]] = field(default_factory=dict)
    _meter: Meter | None = None

    def run(self, executor: EmbedExecutor, *, rows: int, after_wave: Callable[[], None]) -> None:
        """Embed until nothing is left that can be.

        Args:
            executor: Whose workers do it.
            rows: Pictures in all the slices that are unfinished now.
            after_wave: Called between two waves.

        Raises:
            LodestoneError: what ended the work as a whole; what is finished is recorded.
        """
        self._roots = {root.root_id: root for root in self.catalog.roots(self.corpus_id)}
        fresh = (_Try(record) for record in self.catalog.unfinished_slices(self.parts.names(), self.corpus_id))
        self._meter = Meter(self.progress, RunStage.EMBED, total=rows)  # from now on: the first slices take their time, too
        following = next(fresh, None)
        while following is not None or self._again:
            if following is None:  # nothing else to do meanwhile
                self.heartbeat.wait(self._backoff(max(one.number for one in self._again)))
            again, self._again = self._again, deque()
            ready = chain(again, () if following is None else (following,), fresh)
            for receipt in executor.run(self._wave(ready)):
                self._receive(receipt)
            following = next(ready, None)  # a wave that ended by its limits left some
            if following is not None or self._again:
                after_wave()

    def _wave(self, tries: Iterator[_Try]) -> Iterator[SliceTask]:
        ends = time.monotonic() + self.limits.seconds
        for count, one in enumerate(tries, start=1):
            self.heartbeat.check()
            yield self._task(one)
            if count >= self.limits.slices or time.monotonic() > ends:
                return

    def _task(self, one: _Try) -> SliceTask:
        earlier = _since_done(list(self.catalog.attempts(slice_id=one.record.slice_id)))
        states = Counter(attempt.state for attempt in earlier)
        isolate = one.died or bool(states[AttemptState.DIED]) or states[AttemptState.RUNNING] >= _ABANDONED
        attempt = self.catalog.start_attempt(one.record.slice_id, self.run_id)
        self._begun[one.record.slice_id] = one, attempt
        task = task_of(self.catalog, one.record, self._roots, self.parts)
        return replace(task, attempt=one.number, isolate=isolate)

    def _receive(self, receipt: SliceReceipt) -> None:
        one, attempt = self._begun.pop(receipt.slice_id)
        recorded = record_slice(self.catalog, self.embeddings, receipt, run_id=self.run_id, attempt=attempt.attempt)
        self.embedded += receipt.embedded
        self.failed += recorded.failed
        self.completed += max(receipt.embedded, recorded.active)
        self.adopted += len(receipt.adopted)
        if receipt.error is None:
            self._count(one.record, failures=recorded.failed)
            return
        self._retry_or_give_up(one, receipt.error)

    def _retry_or_give_up(self, one: _Try, error: LodestoneError) -> None:
        died = isinstance(error, WorkerDiedError)
        self.deaths += died
        refused = error.details.get("reason") if isinstance(error, SourceError) else None
        if not isinstance(error, _PASSING) or refused == "expired":
            raise error
        if one.number < (self.limits.attempts if refused != "denied" else min(self.limits.attempts, _DENIED_TRIES)):
            _log.info("slice %s failed and is tried again: %s", one.record.slice_id, error)
            self.retries += 1
            self._again.append(_Try(one.record, one.number + 1, died=one.died or died))
            return
        if not died:  # the bucket stays away: the next slice would fare no better
            raise error
        self.given_up[one.record.slice_id] = error
        self._count(one.record, failures=one.record.rows)

    def _count(self, record: SliceRecord, *, failures: int) -> None:
        if self._meter is not None:
            self._meter.add(record.rows, failures=failures)

    def _backoff(self, number: int) -> float:
        """Seconds before try `number`, spread so that many drivers do not come back at one moment."""
        longest = min(self.limits.backoff * 2 ** (number - 2), _LONGEST_BACKOFF_S)
        return random.uniform(longest / 2, longest)  # noqa: S311 - no secret


def _since_done(attempts: list[SliceAttempt]) -> list[SliceAttempt]:
    done = max((place for place, attempt in enumerate(attempts, start=1) if attempt.state is AttemptState.DONE), default=0)
    return attempts[done:]
