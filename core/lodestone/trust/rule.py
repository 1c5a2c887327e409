"""Update rule of trust: multiplicative weights, and weights as a query uses them; pure functions.

Sums run over the spaces in the order of their names, on Python floats: the same events give the same weights bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping


def learnt(
    weights: Mapping[str, float], losses: Mapping[str, float], *, eta: float, lowest: Mapping[str, float]
) -> dict[str, float]:
    """Return the weights after one feedback: `weight * exp(-eta * loss)`, with the judged spaces' sum kept (NEEDLE, E.1).

    Spaces that were not judged keep their weights, so gains and losses of the others do not change them.

    Args:
        weights: Space -> weight, > 0, of all spaces of the topic; contains those of `losses`.
        losses: Space -> loss of its own list, in [0, 1].
        eta: Learning rate, in (0, 1].
        lowest: Space -> lowest weight, > 0. A space without any weight could never regain trust.
    """
    judged = sorted(losses)
    if len(judged) < 2:
        return dict(weights)
    total = sum(weights[space] for space in judged)
    scaled = {space: weights[space] * math.exp(-eta * losses[space]) for space in judged}
    return dict(weights) | _with_sum(scaled, total, lowest)


def learnt_by_needle(weights: Mapping[str, float], losses: Mapping[str, float], *, eta: float) -> dict[str, float]:
    """Return the weights after one feedback by NEEDLE's own rule: `weight * (1 - eta * loss)`, then scaled to sum 1 (E.1).

    The paper's loss grows with the number of guides and of wrong results, so that the factor can fall below 0. It is cut off at
    0 here, and feedback that would leave no weight at all changes nothing.

    Args:
        weights: Space -> weight, >= 0, not all 0.
        losses: Space -> loss, >= 0 (`reciprocal_rank_losses`); a space without one keeps its share before scaling.
        eta: Learning rate, in (0, 1).
    """
    scaled = {space: weight * max(0.0, 1.0 - eta * losses.get(space, 0.0)) for space, weight in weights.items()}
    kept = scaled if sum(scaled.values()) > 0 else dict(weights)
    total = sum(kept.values())
    return {space: weight / total for space, weight in kept.items()}


def reciprocal_rank_losses(ranks: Iterable[tuple[str, int]]) -> dict[str, float]:
    """Return NEEDLE's loss of each space: the sum of 1 / rank over the wrong results in the lists of its guides (eq. 5).

    Args:
        ranks: (space, rank from 1) of each wrong result in each list of a guide that contains it.
    """
    losses: dict[str, float] = {}
    for space, rank in ranks:
        losses[space] = losses.get(space, 0.0) + 1.0 / rank
    return losses


def relative(weights: Mapping[str, float], spaces: Iterable[str], priors: Mapping[str, float]) -> dict[str, float]:
    """Return the weights of `spaces` with mean 1; a space that the topic does not know gets its prior, else 1."""
    known = {space: weights.get(space, priors.get(space, 1.0)) for space in sorted(set(spaces))}
    mean = sum(known.values()) / len(known) if known else 1.0
    return {space: weight / mean for space, weight in known.items()}


def _with_sum(weights: Mapping[str, float], total: float, lowest: Mapping[str, float]) -> dict[str, float]:
    """Scale `weights` to `total`.

    Weights that would fall below their lowest value get it, and the others share what is left.
    """
    fixed: dict[str, float] = {}
    remaining, factor = dict(weights), 1.0
    while remaining:
        factor = (total - sum(fixed.values())) / sum(remaining.values())
        below = [space for space, weight in remaining.items() if weight * factor < lowest[space]]
        if not below:
            break
        fixed |= {space: lowest[space] for space in below}
        remaining = {space: weight for space, weight in remaining.items() if space not in fixed}
    return {space: fixed[space] if space in fixed else weight * factor for space, weight in weights.items()}
