"""Weights of the parts of a composed query: each part's share of the score, in each space that it is compared in.

What a part decides of the score is divided among the spaces that it is compared in: for words as the weights of spaces fitted
to these words say, trust included, for pictures mostly to spaces that know scenes. Words are compared with captions too, where
there are any.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from lodestone.config.compositions import Role
from lodestone.query.asking.parts import Part
from lodestone.query.asking.running import RunningQuery
from lodestone.query.composing.candidates import Standing
from lodestone.query.contracts import SpaceWeigher
from lodestone.query.retrieving.first_pass import QueryWeights
from lodestone.query.retrieving.leaves import EncodedLeaf, EncodedQuery
from lodestone.query.weighting.choice import apply_trust, prior_trust
from lodestone.retrieval.fusion import RankedList
from lodestone.retrieval.rescoring import ListSearch
from lodestone.spaces.names import CAPTIONS, LABELS

CAPTION_SHARE: Final = 0.6
"""Share of a part in words that is decided by captions, where there are any (research/studies/composed.py)."""

PICTURE_TRUST: Final[Mapping[str, float]] = {LABELS: 1 / 3}
"""Space -> how much it counts for pictures beside others, which count 1: labels tell pictures of one kind of thing apart less
(research/studies/composed.py)."""

Standings = Mapping[tuple[str, str], Standing]
"""(Part, space) -> the part's similarity with ordinary pictures there."""


class PartWeighing:
    """Divides what each part decides among the spaces.

    Args:
        weigher: Fits weights of spaces to words.
        priors: Space -> trust before any feedback, of the profile.
        modality_weights: (space, role) -> weight of the modality in the composition, as set or learnt; empty for neither.
        text_encoder: Name of the encoder whose vectors captions have.
        modalities: (space, role) of the modalities that parts are compared in; None for every space that they have a vector in.
    """

    def __init__(
        self,
        weigher: SpaceWeigher,
        *,
        priors: Mapping[str, float],
        modality_weights: Mapping[tuple[str, Role], float],
        text_encoder: str,
        modalities: Collection[tuple[str, Role]] | None = None,
    ) -> None:
        self._weigher = weigher
        self._priors = priors
        self._modality_weights = modality_weights
        self._text_encoder = text_encoder
        self._modalities = None if modalities is None else frozenset(modalities)

    def searches(
        self,
        query: RunningQuery,
        encoded: EncodedQuery,
        trust: Mapping[str, float],
        captions: str | None,
        best: Mapping[str, Mapping[str, float]] | None = None,
    ) -> list[ListSearch]:
        """Return the searches of all parts, one a part and space; the vector of a part to avoid is negated.

        Args:
            query: The query under way.
            encoded: Its leaves.
            trust: Space -> learnt trust.
            captions: Collection of captions; None where there are none, so that they take nothing from other spaces.
            best: Part -> space -> similarity of the nearest picture; None before searching.
        """
        resolved = query.resolved
        searches = []
        for part, leaf in zip(resolved.composing.parts, encoded.leaves, strict=True):
            sign = np.float32(-1 if part.avoid else 1)
            shares = self._shares(part, leaf, encoded.spaces, trust, (best or {}).get(part.name))
            words = leaf.text_vectors.get(self._text_encoder)
            if words is not None and captions is not None and self._is_compared(CAPTIONS, Role.AUXILIARY):
                rest = 1 - CAPTION_SHARE if shares else 0.0
                shares = {space: share * rest for space, share in shares.items()}
                weight = part.weight * (1 - rest)
                searches.append(ListSearch(part.name, CAPTIONS, captions, weight, sign * words))
            searches += [
                ListSearch(part.name, space, collection, part.weight * shares[space], sign * leaf.vectors[collection])
                for space, collection in encoded.spaces.items()
                if part.weight * shares.get(space, 0.0) > 0  # the product of small numbers may be 0
            ]
        return searches

    def reweighed(
        self,
        query: RunningQuery,
        encoded: EncodedQuery,
        weights: QueryWeights,
        scored: Sequence[RankedList],
        standings: Standings,
    ) -> tuple[list[ListSearch], QueryWeights]:
        """Return the searches, weighed by what was found: words that no picture matches by its labels count little there.

        Args:
            query: The query under way.
            encoded: Its leaves.
            weights: As they were before searching.
            scored: What the searches found.
            standings: Similarity of each search with ordinary pictures.
        """
        avoided = {part.name for part in query.resolved.composing.parts if part.avoid}
        best: dict[str, dict[str, float]] = {}
        for one in scored:
            if one.ids:
                nearest = -one.scores[-1] if one.guide in avoided else one.scores[0]
                best.setdefault(one.guide, {})[one.space] = float(nearest)
        captions = query.resolved.captions if any(space == CAPTIONS for _, space in standings) else None
        searches = self.by_modality(query, self.searches(query, encoded, weights.trust, captions, best), standings)
        return searches, replace(weights, by_space=by_space(searches))

    def by_modality(self, query: RunningQuery, searches: Sequence[ListSearch], standings: Standings) -> list[ListSearch]:
        """Return the searches weighed as the composition's modalities are.

        Those weights are of cosines (MUST, lemma 1), and the ranking joins similarities in units of their spread, so each is
        multiplied by it. By the rule `sum` the order is then that of the joint similarity under these weights. Modalities
        without a weight are not compared; if none has one, the searches stay as they are.

        Args:
            query: The query under way.
            searches: Those of all parts.
            standings: Similarity of each search with ordinary pictures.
        """
        of_part = {part.name: part for part in query.resolved.composing.parts}
        amounts = []
        for one in searches:
            part = of_part[one.guide]
            spread = standings[one.guide, one.space].spread
            amounts.append(part.weight * self._modality_weights.get((one.space, part.role), 0.0) * spread)
        total = sum(amounts)
        if total <= 0:
            return list(searches)
        weighed = zip(searches, amounts, strict=True)
        return [replace(one, weight=amount / total) for one, amount in weighed if amount > 0]

    def _shares(
        self,
        part: Part,
        leaf: EncodedLeaf,
        spaces: Mapping[str, str],
        trust: Mapping[str, float],
        best: Mapping[str, float] | None,
    ) -> Mapping[str, float]:
        """Return the share of each space in what a part decides; they sum to 1, or there are none."""
        names = [
            space for space, collection in spaces.items() if collection in leaf.vectors and self._is_compared(space, part.role)
        ]
        if not names:
            return {}
        vectors = {name: vector[np.newaxis] for name, vector in leaf.text_vectors.items()}
        if part.leaf.text:
            weights = self._weigher.weights(vectors, names, best=best)
            learnt = {space: trust[space] for space in names if space in trust}
        else:
            weights, learnt = {space: PICTURE_TRUST.get(space, 1.0) for space in names}, {}
        trusted = apply_trust(weights, learnt or prior_trust(self._priors, names))
        total = sum(trusted.values())
        return {space: weight / total for space, weight in trusted.items()} if total > 0 else {}

    def _is_compared(self, space: str, role: Role) -> bool:
        return self._modalities is None or (space, role) in self._modalities


def without_captions(in_spaces: Sequence[ListSearch], in_captions: Sequence[ListSearch]) -> list[ListSearch]:
    """Return the searches of the spaces weighed as for pictures without captions: there they decide all that their part does.

    Args:
        in_spaces: The searches of the spaces.
        in_captions: Those of the captions.
    """
    total, spoken = by_part(in_spaces), by_part(in_captions)
    return [
        replace(one, weight=one.weight * (1 + spoken.get(one.guide, 0.0) / total[one.guide])) if one.weight > 0 else one
        for one in in_spaces
    ]


def by_part(searches: Sequence[ListSearch]) -> dict[str, float]:
    """Return what each part decides of the score, over all spaces."""
    weights: dict[str, float] = {}
    for one in searches:
        weights[one.guide] = weights.get(one.guide, 0.0) + one.weight
    return weights


def by_space(searches: Sequence[ListSearch]) -> dict[str, float]:
    """Return what each space decides of the score, over all parts."""
    weights: dict[str, float] = {}
    for one in searches:
        weights[one.space] = weights.get(one.space, 0.0) + one.weight
    return weights
