"""Turns of guide engines: which of them draws which guide, in rounds and in calls.

A turn is an engine's name and the number of one of its guides. Numbers do not depend on the rounds: guide i of an engine is the
same however many are asked for at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence


def turns_of(limits: Mapping[str, int | None], missing: int, *, first: int) -> deque[tuple[str, int]]:
    """Return (engine, guide number) in the order of asking: each engine's first guide, then each one's second and so on.

    Args:
        limits: Engine -> guides that it gives at most; None for an equal share of what the others leave.
        missing: Guides that are wanted.
        first: Number of every engine's first guide.
    """
    own = {name: None if limit is None else max(0, limit - first) for name, limit in limits.items()}
    sharing = [name for name in limits if own[name] is None]
    left = max(0, missing - sum(limit for limit in own.values() if limit is not None))
    shares = {name: left // len(sharing) + (place < left % len(sharing)) for place, name in enumerate(sharing)}
    quota = {name: shares[name] if (limit := own[name]) is None else min(limit, missing) for name in limits}
    return deque(
        (name, first + turn) for turn in range(max(quota.values(), default=0)) for name in limits if turn < quota[name]
    )


def next_round(turns: deque[tuple[str, int]], done: Collection[str], *, size: int) -> dict[str, list[int]]:
    """Take the turns of one round, and return engine -> numbers of its guides in it.

    Args:
        turns: Those that are left; the round's are removed.
        done: Engines that are asked no more; their turns are skipped.
        size: Guides of the round.
    """
    numbers: dict[str, list[int]] = {}
    taken = 0
    while turns and taken < size:
        name, number = turns.popleft()
        if name not in done:
            numbers.setdefault(name, []).append(number)
            taken += 1
    return numbers


def calls_of(numbers: Sequence[int], most: int | None) -> list[tuple[int, int]]:
    """Return (first, n) of the calls for these ascending numbers: runs without a gap, none longer than `most`."""
    calls: list[tuple[int, int]] = []
    for number in numbers:
        if calls and sum(calls[-1]) == number and (most is None or calls[-1][1] < most):
            calls[-1] = (calls[-1][0], calls[-1][1] + 1)
        else:
            calls.append((number, 1))
    return calls
