"""What does a fault cost? Errors and their share until the next fault, seconds until all is well again, and wrong answers."""

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
    """A fault that happened: what, when, and when its cause was mended (None: by nobody; the system must do it)."""

    name: str
    at: float
    mended: float | None = None


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What was seen between one fault and the next. Times are seconds.

    Attributes:
        fault: What happened.
        requests: Due from the fault on.
        failed: Those without answer and without a refusal in order (429).
        shed: Refused with 429.
        recovery: From the fault to the first answer in time that was due after the last failed request; 0 if none failed.
        silence: Longest stretch without any answer in time that began or went on after the fault.
        wrong: Answers that differ from those of the undisturbed service, and do not say that anything is missing.
        hung: Requests that heard nothing until their deadline and the grace were over.
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
        """Share of requests that failed, in [0, 1]."""
        return self.failed / max(1, self.requests)


def aftermaths(outcomes: Sequence[Outcome], struck: Sequence[Struck], *, end: float, reference: Reference) -> list[Aftermath]:
    """One row a fault: its requests until the next one, or until `end`."""
    until = [fault.at for fault in struck[1:]] + [end]
    mine: list[list[Outcome]] = [[] for _ in struck]
    for one in outcomes:
        place = bisect_right([fault.at for fault in struck], _seen(one)) - 1
        if place >= 0:
            mine[place].append(one)
    return [_aftermath(*row, reference=reference) for row in zip(mine, struck, until, strict=True)]


def _seen(outcome: Outcome) -> float:
    """The moment that decides whose it is: what was cut off or given up belongs to what struck last, all others to when due."""
    return outcome.ended if outcome.verdict in {Verdict.FAILED, Verdict.EXPIRED} else outcome.due


def _aftermath(mine: Sequence[Outcome], fault: Struck, end: float, *, reference: Reference) -> Aftermath:
    failed = errors(mine)
    last = max((one.due for one in failed), default=fault.at)
    again = min((one.ended for one in mine if one.in_time and one.due > last), default=end)
    good = sorted(one.ended for one in mine if one.in_time)
    edges = [fault.at, *(at for at in good if fault.at <= at <= end), end]
    tail = [one for one in mine if one.verdict != Verdict.SHED and one.ended <= end][-3:]  # later ones met the next fault
    return Aftermath(
        fault=fault,
        requests=len(mine),
        failed=len(failed),
        shed=sum(one.verdict == Verdict.SHED for one in mine),
        recovery=again - fault.at if failed else 0.0,
        silence=max(later - earlier for earlier, later in pairwise(edges)),
        wrong=sum(reference.contradicted_by(one) for one in mine),
        hung=sum(one.verdict == Verdict.HUNG for one in mine),
        recovered=bool(tail) and all(one.in_time for one in tail),
    )
