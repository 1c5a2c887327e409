"""What do losses make of weights? The multiplicative rule, and weights as a query sees them. Pure functions.

Sums run over the spaces in the order of their names, on Python floats: the same events give the same weights bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping


def learnt(
    weights: Mapping[str, float], losses: Mapping[str, float], *, eta: float, lowest: Mapping[str, float]
) -> dict[str, float]:
    """Weights after one feedback: `weight * exp(-eta * loss)`, scaled so that the judged spaces keep their sum (NEEDLE, E.1).

    Spaces that were not judged keep their weights, so what the others gain or lose says nothing about them.

    Args:
        weights: Space -> weight, > 0, of all spaces of the topic; contains those of `losses`.
        losses: Space -> loss of its own list, in [0, 1].
        eta: Learning rate, in (0, 1].
        lowest: Space -> least weight, > 0. No space is silenced for good: it could never prove itself again.
    """
    judged = sorted(losses)
    if len(judged) < 2:
        return dict(weights)
    total = sum(weights[space] for space in judged)
    scaled = {space: weights[space] * math.exp(-eta * losses[space]) for space in judged}
    return dict(weights) | _with_sum(scaled, total, lowest)


def relative(weights: Mapping[str, float], spaces: Iterable[str], priors: Mapping[str, float]) -> dict[str, float]:
    """Weights of `spaces` with mean 1; one that the topic does not know yet counts as its prior says, else 1."""
    found = {space: weights.get(space, priors.get(space, 1.0)) for space in sorted(set(spaces))}
    mean = sum(found.values()) / len(found) if found else 1.0
    return {space: weight / mean for space, weight in found.items()}


def _with_sum(weights: Mapping[str, float], total: float, lowest: Mapping[str, float]) -> dict[str, float]:
    """Scale `weights` to `total`; those that would fall below their least weight get it, and the others share the rest."""
    held: dict[str, float] = {}
    free, factor = dict(weights), 1.0
    while free:
        factor = (total - sum(held.values())) / sum(free.values())
        below = [space for space, weight in free.items() if weight * factor < lowest[space]]
        if not below:
            break
        held |= {space: lowest[space] for space in below}
        free = {space: weight for space, weight in free.items() if space not in held}
    return {space: held[space] if space in held else weight * factor for space, weight in weights.items()}
