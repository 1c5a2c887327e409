"""Weights of spaces: fitted ones where label matching and the bridge are both searched, else equal ones; times trust."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Final

import numpy as np

from lodestone.query.contracts import EqualWeights, SpaceWeigher, Vectors
from lodestone.query.weighting.fitted import SpaceWeights
from lodestone.spaces.base import Projection
from lodestone.spaces.bridge import BridgeSpace
from lodestone.spaces.labels import LabelSpace
from lodestone.spaces.names import BRIDGE, LABELS

_QUERIES: Final = 64  # queries under way at once, at most about


class SpaceWeighting:
    """Weighs spaces by the query's closeness to a class name and to what the bridge knows, by parameters in the bridge's file.

    Args:
        labels: Knows the class names; warm by the time of the first query.
        bridge: Its file holds the fitted parameters.
    """

    def __init__(self, labels: LabelSpace, bridge: BridgeSpace) -> None:
        self._labels = labels
        self._bridge = bridge
        # Each query is weighed twice, before its search and after it.
        self._signs = lru_cache(maxsize=_QUERIES)(self._measured)

    @cached_property
    def _parameters(self) -> SpaceWeights:
        return SpaceWeights.from_header(self._bridge.weights.query_weights)

    def weights(
        self, encoded: Mapping[str, Vectors], spaces: Sequence[str], *, best: Mapping[str, float] | None = None
    ) -> Mapping[str, float]:
        """Return the weight of each space, as `SpaceWeigher.weights` says."""
        words, asked = (_bytes(encoded[space.text_encoder]) for space in (self._labels, self._bridge))
        similarity, familiarity, bareness = self._signs(words, asked)
        evidence = (best or {}).get(LABELS, 1.0)
        return self._parameters.weigh(similarity, familiarity, spaces, evidence=evidence, bareness=bareness)

    def ordinary_words(self) -> Mapping[str, Vectors]:
        """Return the mean vector of the class names in the bridge; label matching is relative to theirs as it is."""
        return {} if self._mean_word is None else {BRIDGE: self._mean_word}

    @cached_property
    def _mean_word(self) -> Vectors | None:
        if self._labels.text_encoder != self._bridge.text_encoder:
            return None
        mean: Vectors = self._bridge.project_texts(self._labels.label_vectors).mean(axis=0)
        return mean

    def _measured(self, words: bytes, asked: bytes) -> tuple[float, float, float]:
        """Return what the weights depend on: similarity, familiarity and bareness of the words.

        Args:
            words: (1, d) float32 of the encoder of label matching, as bytes.
            asked: (1, d) float32 of the bridge's encoder, as bytes.
        """
        row = np.frombuffer(words, np.float32)[np.newaxis]
        similarity = float(self._labels.label_similarity(row)[0])
        familiarity = float(self._bridge.weights.familiarity(np.frombuffer(asked, np.float32)[np.newaxis])[0])
        return similarity, familiarity, float(self._labels.name_similarity(row)[0])


def _bytes(row: Vectors) -> bytes:
    return np.ascontiguousarray(row, np.float32).tobytes()


def make_weigher(projections: Mapping[str, Projection]) -> SpaceWeigher:
    """Return the weigher for these spaces. It is light: the bridge's file is read at the first query."""
    labels, bridge = projections.get(LABELS), projections.get(BRIDGE)
    if isinstance(labels, LabelSpace) and isinstance(bridge, BridgeSpace):
        return SpaceWeighting(labels, bridge)
    return EqualWeights()


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
