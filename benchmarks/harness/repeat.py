"""Repetition of programs that are compared: they take turns, so that a change of the machine's load meets all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

Measured = TypeVar("Measured")


def timed(run: Callable[[], object]) -> float:
    """Return the wall-clock seconds that a call takes."""
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def take_turns(
    programs: Mapping[str, Callable[[], Measured]], rounds: int, *, alternate: bool = False
) -> dict[str, list[Measured]]:
    """Run every program once a round.

    Args:
        programs: Name -> program; each returns what it measured.
        rounds: How often each program runs.
        alternate: Reverse the order in every other round, so that no program is always first.

    Returns:
        Name -> what the program measured in each round.
    """
    measured: dict[str, list[Measured]] = {name: [] for name in programs}
    for number in range(rounds):
        order = list(programs) if number % 2 == 0 or not alternate else list(programs)[::-1]
        for name in order:
            measured[name].append(programs[name]())
    return measured
