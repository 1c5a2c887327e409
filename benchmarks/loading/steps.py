"""How is one service measured at several rates? Warm it, find what saturates it, then offer steps with a pause between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.loading.generator import Generator, Question
from benchmarks.loading.outcomes import GRACE_S, Outcome
from benchmarks.loading.schedule import Arrival, Phase, arrivals
from benchmarks.loading.summary import Summary, by_phase, summarise
from benchmarks.machine import table

Ask = Callable[[Arrival], Question]
CLIENTS = 16
_WARM_S = 5.0


@dataclass(frozen=True, slots=True)
class Measured:
    """Summaries of all steps, and every outcome."""

    summaries: list[Summary]
    outcomes: list[Outcome]


async def saturation(generator: Generator, ask: Ask, *, seconds: float, clients: int = CLIENTS) -> float:
    """Answers a second that `clients` get who ask again at once. The service is warmed up before.

    Raises:
        RuntimeError: nothing was answered.
    """
    await generator.saturate(ask, clients=4, seconds=min(_WARM_S, seconds))
    outcomes = await generator.saturate(ask, clients=clients, seconds=seconds)
    found = summarise(outcomes, name="closed loop", seconds=max((one.ended for one in outcomes), default=seconds))
    if not found.goodput:
        raise RuntimeError(f"no request was answered in time: {dict(found.verdicts)}")
    return found.goodput


async def measure(
    generator: Generator, ask: Ask, rates: Sequence[tuple[str, float]], *, seconds: float, pause: float, seed: int
) -> Measured:
    """Offer named rates, each for `seconds`; after each, `pause` seconds without load let the queue run empty."""
    phases = []
    for name, rate in rates:
        phases += [Phase(rate, seconds, name), Phase(0.0, pause + GRACE_S, measured=False)]
    outcomes = await generator.offer(arrivals(phases, seed=seed), ask)
    return Measured(by_phase(outcomes, phases), outcomes)


def share(value: float) -> str:
    """A share as a percentage."""
    return f"{100 * value:.1f} %" if value else "0"


def milliseconds(value: float) -> str:
    """A latency; NaN is a dash."""
    return "-" if value != value else f"{value:,.0f}"  # noqa: PLR0124 - NaN alone differs from itself


def rows(heading: Sequence[str], summaries: Sequence[Summary], cells: Callable[[Summary], Sequence[str]]) -> str:
    """A table with a row a step."""
    return table([["step", "offered/s", *heading], *([one.name, f"{one.offered:.1f}", *cells(one)] for one in summaries)])
