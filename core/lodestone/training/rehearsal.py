"""Rehearsal averages that replace training pairs which cannot be kept: means of groups of similar pairs (k-means.

Lloyd, 1982).

Additional components for an update of a bridge, taken from what the present components leave out. The components that a bridge
was trained with span what varied among its pictures. Drawings vary in other directions too. An update takes the largest
components of the new pictures' residuals and appends them. Of the old pictures only the residual variance of each column was
kept: in the new directions they count as uncorrelated noise of that variance, so that the ridge does not take photos' noise
for signal. New inputs of the picture tower start at zero, so that at first nothing changes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.backbones.base import BackboneOutputs
from lodestone.spaces.bridge_arrays import Array, Rehearsal, Statistics, Tower, picture_columns, standardised, unit
from lodestone.spaces.bridge_weights import BridgeWeights, as_stored

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


MOST_COMPONENTS: Final = 1024  # limit over any number of updates
FEWEST_PICTURES: Final = 60  # with fewer pictures a residual's direction is chance


def principal(rows: Array, k: int) -> Array:
    """Return the k directions of largest variance about 0: (n, columns) -> (columns, k), orthonormal, with fixed signs.

    The largest comes first.
    """
    if len(rows) < rows.shape[1]:
        values, vectors = np.linalg.eigh(rows @ rows.T)
        vectors = rows.T @ (vectors[:, ::-1][:, :k] / np.sqrt(np.maximum(values[::-1][:k], 1e-6)))
    else:
        vectors = np.linalg.eigh(rows.T @ rows)[1][:, ::-1][:, :k]
    largest = np.abs(vectors).argmax(0)
    signed: Array = (vectors * np.sign(vectors[largest, np.arange(vectors.shape[1])])).astype(np.float32)
    return signed


def extend_components(base: BridgeWeights, outputs: BackboneOutputs, *, most: int) -> BridgeWeights:
    """Return `base` with up to `most` further components, fewer for few pictures; its vectors stay the same.

    Args:
        base: The bridge. Its ridge gets zeros for the new components and must be solved again.
        outputs: Outputs of the new pictures.
        most: Highest number of components to add; 0 for none.
    """
    count = min(most, outputs.rows // 3, MOST_COMPONENTS - base.basis.shape[1])
    if outputs.rows < FEWEST_PICTURES or count <= 0:
        return base
    scaled = standardised(picture_columns(outputs, base.inputs), base.mean, base.spread)
    residuals = (scaled - (scaled @ base.basis) @ base.basis.T).astype(np.float32, copy=False)
    added = as_stored(principal(residuals, count))
    variance = (added**2).T @ base.residual
    old = base.rehearsal
    return replace(
        base,
        basis=np.hstack([base.basis, added]),
        residual=np.maximum(base.residual - (added**2) @ variance, 0),
        ridge=_more_rows(base.ridge, count),
        picture=tuple(
            Tower(_more_rows(t.line, count), _more_rows(t.up, count), t.up_bias, t.down, t.bias) for t in base.picture
        ),
        statistics=_more_components(base.statistics, variance),
        rehearsal=Rehearsal(
            pictures=np.pad(old.pictures, ((0, 0), (0, count))),
            texts=old.texts,
            picture_spread=np.concatenate([old.picture_spread, np.sqrt(variance)]),
            text_spread=old.text_spread,
            counts=old.counts,
        ),
    )


def _more_rows(array: Array, count: int) -> Array:
    return np.pad(array, ((0, count), (0, 0)))


def _more_components(statistics: Statistics, variance: Array) -> Statistics:
    k, more = len(statistics.gram) - 1, len(variance)
    positions = np.r_[np.arange(k), k + more]  # the constant stays last
    gram = np.zeros((k + more + 1, k + more + 1), np.float32)
    gram[np.ix_(positions, positions)] = statistics.gram
    gram[np.arange(k, k + more), np.arange(k, k + more)] = variance * statistics.weight
    cross = np.zeros((k + more + 1, statistics.cross.shape[1]), np.float32)
    cross[positions] = statistics.cross
    return Statistics(gram, cross, statistics.weight)
