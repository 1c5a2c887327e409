"""Rehearsal averages that replace training pairs which cannot be kept: means of groups of similar pairs (k-means.

Lloyd, 1982).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.spaces.bridge_arrays import Array, Rehearsal, unit

PER_GROUP: Final = 8  # pairs per group on average; a mean of fewer would reveal too much of each
_ROUNDS: Final = 8


def group_pairs(pictures: Array, texts: Array, *, groups: int, seed: int) -> Rehearsal:
    """Group (n, k) pictures and their (n, d) mean texts by both, and average each group.

    Args:
        pictures: Principal components.
        texts: Mean text vector of each picture.
        groups: Highest number of groups; fewer where there are less than `PER_GROUP` pairs for each. Empty groups are left out.
        seed: Seed of the choice of the groups' first pairs.
    """
    rng = np.random.default_rng(seed)
    features = np.hstack([unit(pictures), unit(texts)])
    m = max(1, min(groups, len(features) // PER_GROUP))
    centres = features[rng.choice(len(features), m, replace=False)]
    member = np.zeros(len(features), np.intp)
    for _ in range(_ROUNDS):
        member = (features @ centres.T - (centres**2).sum(1) / 2).argmax(1)
        counts = np.bincount(member, minlength=m)
        sums = np.zeros_like(centres)
        np.add.at(sums, member, features)
        centres = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centres)
    _, member = np.unique(member, return_inverse=True)
    counts = np.bincount(member)
    picture_means, text_means = (_means(rows, member, counts) for rows in (pictures, texts))
    return Rehearsal(
        pictures=picture_means,
        texts=text_means,
        picture_spread=(pictures - picture_means[member]).std(0),
        text_spread=(texts - text_means[member]).std(0),
        counts=counts.astype(np.float32),
    )


def merge(old: Rehearsal, new: Rehearsal) -> Rehearsal:
    """Return both sets of groups together; spreads are averaged by the number of pairs."""
    a, b = float(old.counts.sum()), float(new.counts.sum())
    share = a / (a + b)
    return Rehearsal(
        pictures=np.vstack([old.pictures, new.pictures]),
        texts=np.vstack([old.texts, new.texts]),
        picture_spread=share * old.picture_spread + (1 - share) * new.picture_spread,
        text_spread=share * old.text_spread + (1 - share) * new.text_spread,
        counts=np.concatenate([old.counts, new.counts]),
    )


def _means(rows: Array, member: NDArray[np.intp], counts: NDArray[np.intp]) -> Array:
    sums = np.zeros((len(counts), rows.shape[1]), np.float32)
    np.add.at(sums, member, rows)
    means: Array = (sums / counts[:, None]).astype(np.float32)
    return means
