"""Cost of a fault: errors until the next fault, seconds until the service is well again, and wrong answers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.loading.answers import Reference
from benchmarks.loading.outcomes import Outcome, Verdict
from benchmarks.loading.summary import errors


@dataclass(frozen=True, slots=True)
class Struck:
    """A fault that happened, with its times.

    Attributes:
        name: What was hit.
        at: When, seconds of the load.
        mended: When its cause was repaired; None: the system had to recover by itself.
    """

    name: str
    at: float
    mended: float | None = None


@dataclass(frozen=True, slots=True)
class Aftermath:
    """Requests between one fault and the next. Times are seconds.

    Attributes:
        fault: What happened.
        requests: Requests that were due from the fault on.
        failed: Requests without an answer and without a proper refusal (429).
        shed: Requests refused with 429.
        recovery: From the fault to the first answer in time that was due after the last failed request; 0 if none failed.
        silence: Longest time without any answer in time that began or continued after the fault.
        wrong: Answers that differ from those of the undisturbed service and do not say that anything is missing.
        hung: Requests without an answer until their deadline and the grace were over.
        recovered: Whether requests were answered again at the end.
    """

    fault: Struck
    requests: int
    failed: int
    shed: int
    recovery: float
    silence: float
    wrong: int
    hung: int
    recovered: bool

    @property
    def error_rate(self) -> float:
        """Return the share of requests that failed, in [0, 1]."""
        return self.failed / max(1, self.requests)


def aftermaths(outcomes: Sequence[Outcome], struck: Sequence[Struck], *, end: float, reference: Reference) -> list[Aftermath]:
    """Return one row for each fault: its requests until the next fault, or until `end` (seconds)."""
    until = [fault.at for fault in struck[1:]] + [end]
    by_fault: list[list[Outcome]] = [[] for _ in struck]
    for outcome in outcomes:
        place = bisect_right([fault.at for fault in struck], _seen(outcome)) - 1
        if place >= 0:
            by_fault[place].append(outcome)
    return [_aftermath(*row, reference=reference) for row in zip(by_fault, struck, until, strict=True)]


def _seen(outcome: Outcome) -> float:
    """Return the moment that assigns an outcome to a fault: its end if it was cut off or given up, else when it was due."""
    return outcome.ended if outcome.verdict in {Verdict.FAILED, Verdict.EXPIRED} else outcome.due


def _aftermath(outcomes: Sequence[Outcome], fault: Struck, end: float, *, reference: Reference) -> Aftermath:
    failed = errors(outcomes)
    last = max((outcome.due for outcome in failed), default=fault.at)
    again = min((outcome.ended for outcome in outcomes if outcome.in_time and outcome.due > last), default=end)
    good = sorted(outcome.ended for outcome in outcomes if outcome.in_time)
    edges = [fault.at, *(at for at in good if fault.at <= at <= end), end]
    # Requests that ended later met the next fault.
    before_next = [outcome for outcome in outcomes if outcome.verdict != Verdict.SHED and outcome.ended <= end]
    tail = before_next[-3:]
    return Aftermath(
        fault=fault,
        requests=len(outcomes),
        failed=len(failed),
        shed=sum(outcome.verdict == Verdict.SHED for outcome in outcomes),
        recovery=again - fault.at if failed else 0.0,
        silence=max(later - earlier for earlier, later in pairwise(edges)),
        wrong=sum(reference.contradicted_by(outcome) for outcome in outcomes),
        hung=sum(outcome.verdict == Verdict.HUNG for outcome in outcomes),
        recovered=bool(tail) and all(outcome.in_time for outcome in tail),
    )
