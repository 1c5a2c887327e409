"""Outcomes of single requests. An answer counts by its deadline, which begins when the request was due."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

GRACE_S = 2.0  # seconds beyond the deadline for reading the answer and the way back; without an answer by then a request hangs


_OF_WORDS = ("space ", "exact scores")  # how an answer says that its text pass is incomplete, too


class Verdict(StrEnum):
    """Kind of end of a request."""

    COMPLETE = "complete"  # answered in time, with everything that was asked for
    TEXT_ONLY = "text only"  # answered in time; says that guides were left out
    PARTIAL = "partial"  # answered in time; says that something else was left out
    LATE = "late"  # answered after its deadline
    SHED = "shed"  # 429
    EXPIRED = "expired"  # 504, or 408 of the proxy: the service gave up at the deadline, and said so
    FAILED = "failed"  # no connection, a broken answer, any other status
    HUNG = "hung"  # silence until the deadline and the grace were over
    UNSENT = "unsent"  # the generator's own bound on open requests


IN_TIME = frozenset({Verdict.COMPLETE, Verdict.TEXT_ONLY, Verdict.PARTIAL})
ANSWERED = IN_TIME | {Verdict.LATE}
ERRORS = frozenset({Verdict.FAILED, Verdict.HUNG, Verdict.EXPIRED})


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of one request. Moments are seconds after the start of the load.

    Attributes:
        number: Number of its arrival.
        phase: Place of its phase.
        due: When it was due: latency counts from here, however late the generator was.
        sent: When it was sent.
        ended: When its answer was read to the end, or nothing more could come.
        status: HTTP status; 0 without an answer.
        verdict: How it ended.
        code: Code of the problem, if it was one.
        first: When the first results of a stream arrived.
        hits: Image ids, best first.
        scores: Scores of `hits`.
        left_out: What the answer says was dropped or failed.
        retry_after: Seconds that a refused client is told to wait.
        error: Why there was no answer; empty otherwise.
    """

    number: int
    phase: int
    due: float
    sent: float
    ended: float
    status: int
    verdict: Verdict
    code: str = ""
    first: float | None = None
    hits: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    left_out: tuple[str, ...] = ()
    retry_after: float | None = None
    error: str = ""

    @property
    def latency(self) -> float:
        """Return the seconds from when the request was due."""
        return self.ended - self.due

    @property
    def in_time(self) -> bool:
        """Return whether the request counts as goodput."""
        return self.verdict in IN_TIME


def judged(status: int, *, latency: float, deadline: float, answer: Mapping[str, Any]) -> Verdict:
    """Return the verdict on a request that got an HTTP answer; `answer` is its JSON."""
    if status == 200 and "hits" in answer:
        if latency > deadline:
            return Verdict.LATE
        return _wholeness(answer)
    return {408: Verdict.EXPIRED, 429: Verdict.SHED, 504: Verdict.EXPIRED}.get(status, Verdict.FAILED)


def _wholeness(answer: Mapping[str, Any]) -> Verdict:
    left_out = what_is_missing(answer)
    if not left_out:
        return Verdict.COMPLETE
    without_guides = answer.get("stage") == "text" and any(part.startswith("guides") for part in left_out)
    words_lack = any(part.startswith(_OF_WORDS) for part in left_out)
    return Verdict.TEXT_ONLY if without_guides and not words_lack else Verdict.PARTIAL


def what_is_missing(answer: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what an answer says it lacks, without the note that the query's record is late, which changes no result."""
    notes: Sequence[str] = [*answer.get("dropped", ()), *answer.get("warnings", ())]
    return tuple(note for note in notes if not note.startswith("the record of this query"))
