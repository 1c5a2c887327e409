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
        rate: Units per second over the last steps, 0 while unknown.
        eta: Seconds that the rest of this stage will take, None while unknown.
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
    """Counts one stage's units and reports them with the rate of the last `window` steps.

    Attributes:
        report: Receives the events.
        stage: The stage that is counted.
        total: Units in all, 0 while unknown.
        detail: Copied into each event.
        stages: Copied into each event.
        window: Steps that the rate is taken over.
        failures: Units that failed, over the whole run.
        clock: Seconds, monotonic.
    """

    report: Progress
    stage: RunStage
    total: int = 0
    detail: str = ""
    stages: tuple[StageShare, ...] = ()
    window: int = 20
    failures: int = 0
    clock: Callable[[], float] = time.monotonic
    done: int = 0
    _marks: deque[tuple[float, int]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self._marks.append((self.clock(), self.done))
        self._emit(0.0)

    def add(self, units: int, *, failures: int = 0) -> None:
        """Count `units` more, of which `failures` failed."""
        self.done += units
        self.failures += failures
        now = self.clock()
        self._marks.append((now, self.done))
        if len(self._marks) > self.window:
            self._marks.popleft()
        since, before = self._marks[0]
        self._emit((self.done - before) / (now - since) if now > since else 0.0)

    def _emit(self, rate: float) -> None:
        left = self.total - self.done
        eta = left / rate if rate > 0 and self.total else None
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
