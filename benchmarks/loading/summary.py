"""What do many outcomes come to? Goodput, shares of each verdict, and latency as percentiles and as a histogram."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.loading.outcomes import ANSWERED, ERRORS, IN_TIME, Outcome, Verdict
from benchmarks.loading.schedule import Phase

# Upper bounds in seconds, each 10 % above the one before: 1 ms to 100 s.
BOUNDS: NDArray[np.float64] = np.geomspace(1e-3, 1e2, 122)


@dataclass(frozen=True, slots=True)
class Summary:
    """One phase of a load. Rates are requests a second, latencies milliseconds from when a request was due.

    Attributes:
        name: Of the phase.
        offered: Requests a second that were due.
        goodput: Answers within their deadline a second.
        verdicts: How many requests ended how.
        p50: Of answered requests, late ones included; as p95, p99 and `longest`. NaN when there are none.
        first_p50: Until the first results of streams; NaN without streams.
        lateness_p99: How late the generator sent, milliseconds: far below the latencies, or they are the generator's own.
        retry_after: Median of what refused clients were told to wait, seconds; NaN without refusals.
        histogram: Answered requests in each bin of `BOUNDS`.
    """

    name: str
    offered: float
    goodput: float
    verdicts: Counter[Verdict]
    p50: float
    p95: float
    p99: float
    longest: float
    first_p50: float
    lateness_p99: float
    retry_after: float
    histogram: tuple[int, ...]

    @property
    def requests(self) -> int:
        """All of them."""
        return self.verdicts.total()

    def share(self, *verdicts: Verdict) -> float:
        """Of all requests, in [0, 1]; 0 without requests."""
        return sum(self.verdicts[one] for one in verdicts) / max(1, self.requests)

    def share_of_answers(self, verdict: Verdict) -> float:
        """Of the answers in time, in [0, 1]."""
        return self.verdicts[verdict] / max(1, sum(self.verdicts[one] for one in IN_TIME))

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "phase": self.name,
            "offered": round(self.offered, 3),
            "goodput": round(self.goodput, 3),
            "verdicts": {str(verdict): count for verdict, count in sorted(self.verdicts.items())},
            "p50_ms": _rounded(self.p50),
            "p95_ms": _rounded(self.p95),
            "p99_ms": _rounded(self.p99),
            "longest_ms": _rounded(self.longest),
            "first_p50_ms": _rounded(self.first_p50),
            "generator_late_p99_ms": _rounded(self.lateness_p99),
            "retry_after_s": _rounded(self.retry_after),
        }


def summarise(outcomes: Sequence[Outcome], *, name: str, seconds: float) -> Summary:
    """Outcomes of one phase that lasted `seconds`."""
    answered = np.array([one.latency for one in outcomes if one.verdict in ANSWERED])
    firsts = np.array([one.first - one.due for one in outcomes if one.first is not None])
    waits = np.array([one.retry_after for one in outcomes if one.retry_after is not None])
    lateness = np.array([one.sent - one.due for one in outcomes])
    return Summary(
        name=name,
        offered=len(outcomes) / seconds,
        goodput=sum(one.in_time for one in outcomes) / seconds,
        verdicts=Counter(one.verdict for one in outcomes),
        p50=_percentile(answered, 50) * 1000,
        p95=_percentile(answered, 95) * 1000,
        p99=_percentile(answered, 99) * 1000,
        longest=_percentile(answered, 100) * 1000,
        first_p50=_percentile(firsts, 50) * 1000,
        lateness_p99=_percentile(lateness, 99) * 1000,
        retry_after=_percentile(waits, 50),
        histogram=histogram(answered),
    )


def by_phase(outcomes: Sequence[Outcome], phases: Sequence[Phase]) -> list[Summary]:
    """A summary of each measured phase. A request belongs to the phase in which it was due, whenever it ended."""
    return [
        summarise([one for one in outcomes if one.phase == place], name=phase.name, seconds=phase.seconds)
        for place, phase in enumerate(phases)
        if phase.measured
    ]


def histogram(seconds: NDArray[np.float64]) -> tuple[int, ...]:
    """How many latencies lie in each bin up to `BOUNDS`; the last bin holds all that are longer."""
    places = np.minimum(np.searchsorted(BOUNDS, seconds, side="left"), len(BOUNDS) - 1)
    return tuple(int(count) for count in np.bincount(places, minlength=len(BOUNDS)))


def errors(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Those that got neither an answer nor a refusal in order."""
    return [one for one in outcomes if one.verdict in ERRORS]


def reasons(outcomes: Sequence[Outcome]) -> str:
    """Why requests got no answer: status, code or error, with counts, most frequent first."""
    said = Counter(
        f"{one.status} {one.code}" if one.status else (one.error or str(one.verdict))[:100]
        for one in outcomes
        if one.verdict not in ANSWERED
    )
    return "; ".join(f"{count} x {what}" for what, count in said.most_common(8))


def _percentile(values: NDArray[np.float64], q: float) -> float:
    return float(np.percentile(values, q)) if len(values) else float("nan")


def _rounded(value: float) -> float | None:
    return None if np.isnan(value) else round(value, 2)
