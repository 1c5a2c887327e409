"""Weights of spaces multiplied by trust, with the same sum as before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def apply_trust(weights: Mapping[str, float], trust: Mapping[str, float]) -> dict[str, float]:
    """Return the weights multiplied by trust (1 where nothing was learnt), scaled so that their sum stays (NEEDLE, E.1).

    Args:
        weights: Space -> weight, >= 0, as fitted for the query's words.
        trust: Space -> trust, >= 0, 1 being neutral.
    """
    if not trust:
        return dict(weights)
    product = {space: weight * trust.get(space, 1.0) for space, weight in weights.items()}
    before, after = sum(weights.values()), sum(product.values())
    return {space: weight * before / after for space, weight in product.items()} if after > 0 else dict(weights)


def prior_trust(priors: Mapping[str, float], spaces: Sequence[str]) -> dict[str, float]:
    """Return the trust before any feedback, of mean 1; empty where the profile says nothing about these spaces.

    Args:
        priors: The profile's: space -> number > 0, of which only ratios count; 1 where it names none.
        spaces: Names of the searched spaces.
    """
    if not any(space in priors for space in spaces):
        return {}
    known = {space: priors.get(space, 1.0) for space in spaces}
    mean = sum(known.values()) / len(known)
    return {space: prior / mean for space, prior in known.items()}
