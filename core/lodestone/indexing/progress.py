"""Progress reports of long jobs: an event, and a meter that turns counts into rates and estimates."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from lodestone.indexing.stage_stats import StageShare

CAPTIONS_ALONE: Final = "captions"
"""Detail of the stage EMBED while captions are encoded and no picture is read."""

STOPPING: Final = "stopping"
"""Detail of the stage EMBED while a run that was asked to stop finishes what is under way."""

_RATE_AFTER_S: Final = 1.0  # workers that start together bring their first units at one moment, which is no rate
_ETA_AFTER_S: Final = 3.0  # an estimate from less is wrong by a multiple
_MARK_EVERY_S: Final = 0.2


class RunStage(StrEnum):
    """Stages of an index run, in order, and of training and backups."""

    DISCOVER = "discover"
    START = "start"
    EMBED = "embed"
    LOAD = "load"
    BUILD = "build"
    VERIFY = "verify"
    PROMOTE = "promote"
    DONE = "done"
    TRAIN = "train"
    ASK = "ask"
    COPY = "copy"


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """Report of a job's progress.

    Attributes:
        stage: Stage that the job is in.
        done: Units finished in this stage (pictures; points while loading).
        total: Units in all, 0 while unknown.
        failures: Pictures that could not be used, so far in this run.
        rate: Units per second over the last seconds, 0 while unknown.
        eta: Seconds that the rest of this stage will take, None while unknown and while an estimate would be a guess.
        detail: Name of what is being worked on, e.g. a collection.
        stages: While pictures are embedded: the work of fetching, decoding, embedding and writing, over all workers. Their busy
            shares tell which one limits the others (`stage_stats.limiting`). Empty where the workers do not say.
    """

    stage: RunStage
    done: int = 0
    total: int = 0
    failures: int = 0
    rate: float = 0.0
    eta: float | None = None
    detail: str = ""
    stages: tuple[StageShare, ...] = ()


Progress = Callable[[ProgressEvent], None]


def silent(_: ProgressEvent) -> None:
    """Ignore the event: a progress callback for jobs that nobody watches."""


@dataclass(slots=True)
class Meter:
    """Counts one stage's units and reports them with the rate of the last `window` seconds.

    The rate is measured from the first units on, because the time before them is spent on start-up, e.g. on loading models. It
    is unknown during the first second after them, and the time left during the first three. A stage that ends earlier has the
    rate of all its time.

    Attributes:
        report: Receives the events.
        stage: The stage that is counted.
        total: Units in all, 0 while unknown.
        detail: Copied into each event.
        stages: Copied into each event.
        window: Seconds that the rate is taken over.
        failures: Units that failed, over the whole run.
        clock: Seconds, monotonic.
    """

    report: Progress
    stage: RunStage
    total: int = 0
    detail: str = ""
    stages: tuple[StageShare, ...] = ()
    window: float = 15.0
    failures: int = 0
    clock: Callable[[], float] = time.monotonic
    done: int = 0
    _began: float = 0.0
    _first: float | None = None  # when the first units were counted
    _marks: deque[tuple[float, int]] = field(default_factory=deque)  # times and counts, oldest first

    def __post_init__(self) -> None:
        self._began = self.clock()
        self._emit(0.0, None)

    def add(self, units: int, *, failures: int = 0) -> None:
        """Count `units` more, of which `failures` failed."""
        self.done += units
        self.failures += failures
        now = self.clock()
        if self.done and self._first is None:
            self._first = now
            self._marks.append((now, self.done))
        rate = self._rate(now)
        settled = self._first is not None and now - self._first >= _ETA_AFTER_S
        left = self.total - self.done
        self._emit(rate, left / rate if settled and rate > 0 and self.total else None)

    def _rate(self, now: float) -> float:
        """Return the units per second up to now, 0 while unknown."""
        if self._first is None:
            return 0.0
        if now - self._first < _RATE_AFTER_S:
            is_over = bool(self.total) and self.done >= self.total
            return self.done / (now - self._began) if is_over and now > self._began else 0.0
        while len(self._marks) > 1 and self._marks[1][0] <= now - self.window:
            self._marks.popleft()
        since, before = self._marks[0]
        if now - self._marks[-1][0] >= _MARK_EVERY_S:
            self._marks.append((now, self.done))
        return (self.done - before) / (now - since)

    def _emit(self, rate: float, eta: float | None) -> None:
        self.report(
            ProgressEvent(
                stage=self.stage,
                done=self.done,
                total=self.total,
                failures=self.failures,
                rate=rate,
                eta=eta,
                detail=self.detail,
                stages=self.stages,
            )
        )
