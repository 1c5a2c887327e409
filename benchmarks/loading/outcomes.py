"""What became of one request, and was it good? An answer counts by its deadline, which begins when the request was due."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

GRACE_S = 2.0  # beyond the deadline: for reading the answer out and the way back; who is silent for longer hangs


_OF_WORDS = ("space ", "exact scores")  # how an answer says that its text pass is not whole either


class Verdict(StrEnum):
    """How a request ended."""

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
    """One request. Moments are seconds after the start of the load.

    Attributes:
        number: Of its arrival.
        phase: Place of its phase.
        due: When it was to be sent: latency counts from here, however late the generator was.
        sent: When it was sent.
        ended: When its answer was read to the end, or nothing more could come.
        status: HTTP status; 0 without an answer.
        verdict: See there.
        code: Of the problem, if it was one.
        first: When the first results of a stream were there.
        hits: Image ids, best first.
        scores: Of `hits`.
        left_out: What the answer says was dropped or failed.
        retry_after: Seconds that a refused client is told to wait.
        error: Without an answer: why.
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
        """Seconds from when it was due."""
        return self.ended - self.due

    @property
    def in_time(self) -> bool:
        """Whether it counts as goodput."""
        return self.verdict in IN_TIME


def judged(status: int, *, latency: float, deadline: float, answer: Mapping[str, Any]) -> Verdict:
    """The verdict on a request that got an HTTP answer; `answer` is its JSON."""
    if status == 200 and "hits" in answer:
        if latency > deadline:
            return Verdict.LATE
        return _wholeness(answer)
    return {408: Verdict.EXPIRED, 429: Verdict.SHED, 504: Verdict.EXPIRED}.get(status, Verdict.FAILED)


def _wholeness(answer: Mapping[str, Any]) -> Verdict:
    left_out = what_is_missing(answer)
    if not left_out:
        return Verdict.COMPLETE
    without_guides = answer.get("stage") == "text" and any(one.startswith("guides") for one in left_out)
    words_lack = any(one.startswith(_OF_WORDS) for one in left_out)
    return Verdict.TEXT_ONLY if without_guides and not words_lack else Verdict.PARTIAL


def what_is_missing(answer: Mapping[str, Any]) -> tuple[str, ...]:
    """What an answer says it lacks; that the query's record is late changes nothing that is found."""
    said: Sequence[str] = [*answer.get("dropped", ()), *answer.get("warnings", ())]
    return tuple(one for one in said if not one.startswith("the record of this query"))
