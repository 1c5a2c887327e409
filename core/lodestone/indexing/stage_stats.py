"""Statistics of the stages that embed slices: pictures a second, how busy each stage is, and which one limits the others.

A stage's busy share is the time that its threads spent on pictures, divided by the time that they had. A stage that limits the
others is busy nearly all the time, and the others wait for it: the stages after it for pictures, the stages before it for room.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum


class EmbedStage(StrEnum):
    """Stages of a slice, in order."""

    FETCH = "fetch"
    DECODE = "decode"
    EMBED = "embed"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class StageShare:
    """Work of one stage so far.

    Attributes:
        stage: The stage.
        pictures: Pictures that went through it.
        busy_seconds: Seconds that its threads spent on them, added up.
        slots: Pictures, reads or batches that it works on at once.
        seconds: Seconds since the work began.
        waiting: Pictures that wait for it.
    """

    stage: EmbedStage
    pictures: int
    busy_seconds: float
    slots: int
    seconds: float
    waiting: int = 0

    @property
    def rate(self) -> float:
        """Return pictures a second."""
        return self.pictures / self.seconds if self.seconds > 0 else 0.0

    @property
    def busy(self) -> float:
        """Return the busy share, 0 to 1."""
        available = self.slots * self.seconds
        return min(self.busy_seconds / available, 1.0) if available > 0 else 0.0


def limiting(shares: Iterable[StageShare]) -> EmbedStage | None:
    """Return the stage with the largest busy share; None before any stage has worked."""
    busiest = max(shares, key=lambda share: share.busy, default=None)
    return busiest.stage if busiest is not None and busiest.busy > 0 else None


def added(several: Iterable[tuple[StageShare, ...]]) -> tuple[StageShare, ...]:
    """Return the work of several workers as that of one: pictures, seconds and slots of each stage are added up.

    Pictures that wait too. Busy shares are those of all workers together. The duration is the longest.
    """
    lists = list(several)
    total: list[StageShare] = []
    for stage in EmbedStage:
        shares = [share for shares in lists for share in shares if share.stage is stage]
        if shares:
            total.append(
                StageShare(
                    stage,
                    sum(share.pictures for share in shares),
                    sum(share.busy_seconds for share in shares),
                    sum(share.slots for share in shares),
                    max(share.seconds for share in shares),
                    sum(share.waiting for share in shares),
                )
            )
    return tuple(total)


@dataclass(slots=True)
class StageStats:
    """Counters of one worker's stages. Not thread-safe: the caller holds a lock.

    Attributes:
        slots: Stage -> what it works on at once.
        clock: Seconds, monotonic.
        waiting: Stage -> pictures that wait for it, as last counted.
    """

    slots: dict[EmbedStage, int]
    clock: Callable[[], float] = time.perf_counter
    waiting: dict[EmbedStage, int] = field(default_factory=dict)
    _pictures: dict[EmbedStage, int] = field(default_factory=dict)
    _seconds: dict[EmbedStage, float] = field(default_factory=dict)
    _began: float | None = None

    def begin(self) -> None:
        """Start the clock, unless it runs already."""
        if self._began is None:
            self._began = self.clock()

    def add(self, stage: EmbedStage, seconds: float, *, pictures: int = 0) -> None:
        """Count work of one stage."""
        self._pictures[stage] = self._pictures.get(stage, 0) + pictures
        self._seconds[stage] = self._seconds.get(stage, 0.0) + seconds

    def shares(self) -> tuple[StageShare, ...]:
        """Return the work of each stage so far, in their order."""
        seconds = 0.0 if self._began is None else self.clock() - self._began
        return tuple(
            StageShare(
                stage,
                self._pictures.get(stage, 0),
                self._seconds.get(stage, 0.0),
                self.slots[stage],
                seconds,
                self.waiting.get(stage, 0),
            )
            for stage in EmbedStage
        )
