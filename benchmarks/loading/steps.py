"""Measurement of a service at several rates: warm-up, the rate that saturates, then steps with a pause between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.harness.tables import table
from benchmarks.loading.generator import Generator, Question
from benchmarks.loading.outcomes import GRACE_S, Outcome
from benchmarks.loading.schedule import Arrival, Phase, arrivals
from benchmarks.loading.summary import Summary, by_phase, summarise

Ask = Callable[[Arrival], Question]
CLIENTS = 16
_WARM_S = 5.0


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured at all steps.

    Attributes:
        summaries: One for each step.
        outcomes: All requests.
    """

    summaries: list[Summary]
    outcomes: list[Outcome]


async def saturation(generator: Generator, ask: Ask, *, seconds: float, clients: int = CLIENTS) -> float:
    """Return the answers a second that clients get that ask again at once; the service is warmed up first.

    Raises:
        RuntimeError: nothing was answered.
    """
    await generator.saturate(ask, clients=4, seconds=min(_WARM_S, seconds))
    outcomes = await generator.saturate(ask, clients=clients, seconds=seconds)
    summary = summarise(outcomes, name="closed loop", seconds=max((one.ended for one in outcomes), default=seconds))
    if not summary.goodput:
        raise RuntimeError(f"no request was answered in time: {dict(summary.verdicts)}")
    return summary.goodput


async def offer_steps(
    generator: Generator, ask: Ask, rates: Sequence[tuple[str, float]], *, seconds: float, pause: float, seed: int
) -> Measured:
    """Offer named rates, each for `seconds`. After each, `pause` seconds without load let the queue run empty."""
    phases = []
    for name, rate in rates:
        phases += [Phase(rate, seconds, name), Phase(0.0, pause + GRACE_S, measured=False)]
    outcomes = await generator.offer(arrivals(phases, seed=seed), ask)
    return Measured(by_phase(outcomes, phases), outcomes)


def share(value: float) -> str:
    """Write a share as a percentage."""
    return f"{100 * value:.1f} %" if value else "0"


def milliseconds(value: float) -> str:
    """Write a latency; NaN becomes a dash."""
    return "-" if value != value else f"{value:,.0f}"  # noqa: PLR0124 - NaN alone differs from itself


def rows(heading: Sequence[str], summaries: Sequence[Summary], cells: Callable[[Summary], Sequence[str]]) -> str:
    """Return a table with one row for each step."""
    return table([["step", "offered/s", *heading], *([one.name, f"{one.offered:.1f}", *cells(one)] for one in summaries)])
