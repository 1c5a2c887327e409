"""Fitting of the weights between label matching and the bridge (query/weighting/fitted.py) on validation data.

Two kinds of queries are scored against the same pictures: captions, which people wrote, and names, made from the pictures that
both classifiers are sure of ("a photo of a ..." with the class's name). The parameters with the best mean of both kinds' R@10
and R@5 win; among those within `TOLERANCE` of the best, the lowest ceiling wins, because label matching knows only photos. The
parameters for unfamiliar words are not fitted here: that needs bridges that were not trained on some topics
(research/studies/strange_topics.py), and these parameters are the defaults of `SpaceWeights`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.query.weighting.fitted import SpaceWeights
from lodestone.retrieval.metrics import first_ranks
from lodestone.spaces.bridge_arrays import Array
from lodestone.spaces.names import BRIDGE, LABELS

MIDDLES: Final = (0.55, 0.6, 0.65, 0.7)
SLOPES: Final = (15.0, 25.0)
CEILINGS: Final = (0.4, 0.5, 0.6, 0.7, 0.85, 1.0)
FLOOR: Final = 0.03  # on topics that training never saw, some label matching helps captions too (docs/quality.md)
TOLERANCE: Final = 0.005  # the share of half a query of the made names; a smaller difference is chance
SURE: Final = 0.5


@dataclass(frozen=True, slots=True)
class ScoredQueries:
    """Holds queries' scores against the same pictures in both spaces.

    Attributes:
        labels: (queries, pictures) cosines in the label space.
        bridge: (queries, pictures) cosines in the bridge space.
        similarity: (queries,) cosine to the nearest class name.
        familiarity: (queries,) cosine to the nearest group of the bridge's training texts.
        truth: (queries,) column of the right picture.
        bareness: (queries,) cosine to the nearest form of a class name; None where no query is a bare name.
    """

    labels: Array
    bridge: Array
    similarity: Array
    familiarity: Array
    truth: NDArray[np.intp]
    bareness: Array | None = None


def sure_pictures(probabilities: Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the classes that some picture certainly shows, and for each the picture with the highest probability.

    Args:
        probabilities: (n, classes) mean probabilities.
    """
    best = probabilities.argmax(1)
    top = probabilities[np.arange(len(best)), best]
    classes = np.unique(best[top > SURE])
    return classes, np.array([np.where(best == c, top, -1.0).argmax() for c in classes], np.intp)


def fuse(queries: ScoredQueries, weights: SpaceWeights, *, fixed_scales: bool = False) -> Array:
    """Return the weighted mean of the two spaces' scores, each divided by its scale: (queries, pictures).

    Args:
        queries: Scores in both spaces.
        weights: Weight of each space.
        fixed_scales: Whether to divide by the fitted scales; otherwise by the spread of each query's own scores, as the engine
            does.
    """
    labels, bridge = (
        scores / (weights.scale(space) if fixed_scales else np.maximum(scores.std(1, keepdims=True), 1e-6))
        for space, scores in ((LABELS, queries.labels), (BRIDGE, queries.bridge))
    )
    trust = trust_of(queries, weights)[:, None]
    fused: Array = trust * labels + (1 - trust) * bridge
    return fused


def trust_of(queries: ScoredQueries, weights: SpaceWeights) -> Array:
    """Return the share of label matching: (queries,)."""
    bareness = np.zeros_like(queries.similarity) if queries.bareness is None else queries.bareness
    evidence = zip(queries.similarity, queries.familiarity, queries.labels.max(1), bareness, strict=True)
    return np.array(
        [
            weights.label_trust(float(similarity), float(familiarity), float(best_label), bareness=float(bare))
            for similarity, familiarity, best_label, bare in evidence
        ],
        np.float32,
    )


def fit_space_weights(captions: ScoredQueries, names: ScoredQueries) -> SpaceWeights:
    """Return the best parameters of a small grid, by the rule in the module's docstring.

    The rule for bare names is left out of the comparison, so that words which only resemble a name are served too.
    """
    scales = {
        LABELS: round(float(captions.labels.std(1).mean()), 4),
        BRIDGE: round(float(captions.bridge.std(1).mean()), 4),
    }
    scored = []
    for middle, slope, ceiling in product(MIDDLES, SLOPES, CEILINGS):
        weights = SpaceWeights(middle=middle, slope=slope, named=ceiling, floor=FLOOR, ceiling=ceiling, bare=0.0, scales=scales)
        caption = (first_ranks(fuse(captions, weights), captions.truth) <= 10).mean()
        # Names are made from pictures with a certain class, so R@10 among a few hundred pictures is nearly always 1.
        name = (first_ranks(fuse(names, weights), names.truth) <= 5).mean()
        scored.append((float(caption + name) / 2, weights))
    best = max(score for score, _ in scored)
    near = [(weights.ceiling, -score, weights.middle, weights) for score, weights in scored if score >= best - TOLERANCE]
    return replace(min(near, key=lambda entry: entry[:3])[3], bare=SpaceWeights().bare)
