"""Summaries of many outcomes: goodput, shares of each verdict, and latency as percentiles and as a histogram."""

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
        name: Name of the phase.
        offered: Requests a second that were due.
        goodput: Answers a second within their deadline.
        verdicts: Number of requests with each verdict.
        p50: Median latency of answered requests, late ones included; NaN when there are none. The same holds for the others.
        p95: 95th percentile of the same latencies.
        p99: 99th percentile.
        longest: Longest latency.
        first_p50: Median time until the first results of streams; NaN without streams.
        lateness_p99: How late the generator sent, milliseconds; it must be far below the latencies.
        refused_p50: Median time until a refusal was there, milliseconds; NaN without refusals.
        retry_after: Median time that refused clients are told to wait, seconds; NaN without refusals.
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
    refused_p50: float
    retry_after: float
    histogram: tuple[int, ...]

    @property
    def requests(self) -> int:
        """Return the number of requests."""
        return self.verdicts.total()

    def share(self, *verdicts: Verdict) -> float:
        """Return the share of verdicts among all requests, in [0, 1]; 0 without requests."""
        return sum(self.verdicts[verdict] for verdict in verdicts) / max(1, self.requests)

    def share_of_answers(self, verdict: Verdict) -> float:
        """Return the share of a verdict among the answers in time, in [0, 1]."""
        return self.verdicts[verdict] / max(1, sum(self.verdicts[verdict] for verdict in IN_TIME))

    def as_json(self) -> dict[str, Any]:
        """Return the summary as JSON values."""
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
            "refused_p50_ms": _rounded(self.refused_p50),
            "retry_after_s": _rounded(self.retry_after),
        }


def summarise(outcomes: Sequence[Outcome], *, name: str, seconds: float) -> Summary:
    """Sum up the outcomes of one phase that lasted `seconds`."""
    answered = np.array([outcome.latency for outcome in outcomes if outcome.verdict in ANSWERED])
    firsts = np.array([outcome.first - outcome.due for outcome in outcomes if outcome.first is not None])
    refused = np.array([outcome.ended - outcome.sent for outcome in outcomes if outcome.verdict == Verdict.SHED])
    waits = np.array([outcome.retry_after for outcome in outcomes if outcome.retry_after is not None])
    lateness = np.array([outcome.sent - outcome.due for outcome in outcomes])
    return Summary(
        name=name,
        offered=len(outcomes) / seconds,
        goodput=sum(outcome.in_time for outcome in outcomes) / seconds,
        verdicts=Counter(outcome.verdict for outcome in outcomes),
        p50=_percentile(answered, 50) * 1000,
        p95=_percentile(answered, 95) * 1000,
        p99=_percentile(answered, 99) * 1000,
        longest=_percentile(answered, 100) * 1000,
        first_p50=_percentile(firsts, 50) * 1000,
        lateness_p99=_percentile(lateness, 99) * 1000,
        refused_p50=_percentile(refused, 50) * 1000,
        retry_after=_percentile(waits, 50),
        histogram=histogram(answered),
    )


def by_phase(outcomes: Sequence[Outcome], phases: Sequence[Phase]) -> list[Summary]:
    """Sum up each measured phase. A request belongs to the phase in which it was due, whenever it ended."""
    return [
        summarise([outcome for outcome in outcomes if outcome.phase == place], name=phase.name, seconds=phase.seconds)
        for place, phase in enumerate(phases)
        if phase.measured
    ]


def histogram(seconds: NDArray[np.float64]) -> tuple[int, ...]:
    """Count the latencies in each bin up to `BOUNDS`; the last bin holds all that are longer."""
    places = np.minimum(np.searchsorted(BOUNDS, seconds, side="left"), len(BOUNDS) - 1)
    return tuple(int(count) for count in np.bincount(places, minlength=len(BOUNDS)))


def errors(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return the outcomes with neither an answer nor a proper refusal."""
    return [outcome for outcome in outcomes if outcome.verdict in ERRORS]


def reasons(outcomes: Sequence[Outcome]) -> str:
    """Say why requests got no answer: status, code or error, with counts, most frequent first."""
    counts = Counter(
        f"{outcome.status} {outcome.code}" if outcome.status else (outcome.error or str(outcome.verdict))[:100]
        for outcome in outcomes
        if outcome.verdict not in ANSWERED
    )
    return "; ".join(f"{count} x {what}" for what, count in counts.most_common(8))


def _percentile(values: NDArray[np.float64], q: float) -> float:
    return float(np.percentile(values, q)) if len(values) else float("nan")


def _rounded(value: float) -> float | None:
    return None if np.isnan(value) else round(value, 2)
