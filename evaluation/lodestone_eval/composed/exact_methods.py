"""Exact methods over a vector set that the library brings: early abandoning, and rules other than the weighted sum."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.composed.abandon import AbandoningScorer
from lodestone.composed.combining import RULES, Null, combine_values
from lodestone.composed.joint import JointPart
from lodestone_eval.composed.modalities import VectorModality
from lodestone_eval.composed.vector_search import Places, VectorSearch, best, joint_scores
from lodestone_eval.composed.vector_sets import VectorSet

_UNRELATED: Final = 500  # objects and queries that show what unrelated ones are like


class AbandoningJoint(VectorSearch):
    """Joint search by brute force with early abandoning (MUST, lemma 4; figure 10c): the same answers, fewer products."""

    name = "MUST, abandoning"
    has_effort = False

    def __init__(self, vectors: VectorSet, weights: NDArray[np.float64]) -> None:
        self._vectors = vectors
        self._weights = weights
        columns = [modality.columns() for modality in vectors.modalities]
        self._asked = [asked for _, asked in columns]
        self._scorer = AbandoningScorer(
            {
                name: np.where(base.any(1, keepdims=True), base, np.float32(np.nan))
                for name, (base, _) in zip(vectors.names, columns, strict=True)
            }
        )

    def search(self, query: int, k: int, effort: int) -> Places:  # noqa: ARG002 - all objects are considered
        """Return the objects of the highest joint similarity."""
        parts = [
            JointPart(name, name, asked[query], float(weight))
            for name, weight, asked in zip(self._vectors.names, self._weights, self._asked, strict=True)
            if weight > 0 and asked[query].any()
        ]
        if not parts:
            return np.empty(0, np.int64)
        left_out = self._vectors.left_out(query)
        found = self._scorer.search(parts, k + len(left_out)).rows.astype(np.int64)
        return found[~np.isin(found, left_out)][:k]


class RankedByRule(VectorSearch):
    """Candidates of joint search, ranked by a rule of `lodestone.composed.combining` instead of the weighted sum.

    Args:
        vectors: The set.
        weights: (modalities,) squares.
        rule: Key of `RULES`. For `basic`, unrelated objects and queries are drawn from the set itself.
        seed: Seed of what is drawn.
    """

    def __init__(self, vectors: VectorSet, weights: NDArray[np.float64], rule: str, *, seed: int = 0) -> None:
        self.name = f"MUST, {rule}"
        self._vectors = vectors
        self._weights = weights
        self._rule = rule
        self._nulls = _nulls(vectors, seed) if RULES[rule].standardises else None

    def search(self, query: int, k: int, effort: int) -> Places:
        """Return the best of `effort` candidates by the rule; those that it scores alike keep the order of the sum."""
        joint = joint_scores(self._vectors, self._weights, query)
        found = best(joint, max(k, effort), self._vectors.left_out(query))
        if not len(found):
            return found
        columns, weights = [], []
        for number, modality in enumerate(self._vectors.modalities):
            similarities = modality.similarities(query)
            if similarities is None or self._weights[number] <= 0:
                continue
            values = similarities[found].astype(np.float64)
            if self._nulls is not None and (null := self._nulls[number]) is not None and isinstance(modality, VectorModality):
                part = JointPart(modality.name, modality.name, modality.asked[query], 1.0)
                rows = np.where(np.isnan(values)[:, None], np.float32(np.nan), modality.base[found])
                values = null.standardised(part, rows)
            columns.append(np.maximum(values, 0) if RULES[self._rule].clamps else values)
            weights.append(float(self._weights[number]))
        scores = combine_values(self._rule, np.stack(columns, axis=1), weights).scores
        return found[np.argsort(-scores, kind="stable")][:k]


def _nulls(vectors: VectorSet, seed: int) -> list[Null | None]:
    """Return what unrelated objects and queries are like in each modality of vectors; None for attributes."""
    rng = np.random.default_rng(seed)
    nulls: list[Null | None] = []
    for modality in vectors.modalities:
        if isinstance(modality, VectorModality):
            base, asked = modality.base[modality.base.any(1)], modality.asked[modality.asked.any(1)]
            drawn = [rows[rng.permutation(len(rows))[:_UNRELATED]] for rows in (base, asked)]
            nulls.append(Null.of(*drawn) if min(map(len, drawn)) > 1 else None)
        else:
            nulls.append(None)
    return nulls
