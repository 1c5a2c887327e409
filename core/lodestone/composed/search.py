"""Joint search: the pictures of the highest joint similarity with a composed query (MUST, algorithm 2).

Where there is a fused collection, one search of it answers a query of any weights: its HNSW graph takes the place of MUST's own
proximity graph. Where there is none, each space is searched for candidates, and the union of them is scored in every space.
Either way the scores that are returned are those of `joint.scores`, computed from the pictures' own vectors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from lodestone.composed.fused import FusedLayout, FusedSpace, fused_alias, narrowed, summed, weights_of
from lodestone.composed.joint import JointPart, Rows, part_scores, scores
from lodestone.config.compositions import CAPTIONS_SPACE, Composition
from lodestone.errors import InvalidRequestError, UnknownNameError
from lodestone.store.algebra import by_owner
from lodestone.store.base import Filter, HasId, MatchAny, Neighbours, VectorQuery, VectorStore
from lodestone.store.checks import MAX_LIMIT
from lodestone_schemas.collections import HOLDS

MOST_RESULTS: Final = 1_000
FUSED_EF: Final = 512  # candidates in the graph of a fused collection, at least: recall of any weighting (docs/fused-index.md)
_CANDIDATES: Final = 1_024  # of each space, at least, where there is no fused collection
_A_RESULT: Final = 16  # and so many for each wanted result
_SHORTLIST: Final = 128  # candidates whose captions are read, at least: reading them takes longest
_A_SHORTLISTED: Final = 8  # and so many for each wanted result
_DEEPER: Final = 8  # times as many in each further round of an exact search


@dataclass(frozen=True, slots=True, eq=False)
class JointRanking:
    """Result of a joint search, best first; equal scores by ascending id.

    Attributes:
        ids: The pictures (k).
        scores: (k,) float64, their joint similarities.
        similarities: (k, parts) float64, the similarity of each part, in the order of the query's parts; NaN where a picture
            has no vector.
        through: How they were found: by the fused collection or by the spaces' own.
    """

    ids: tuple[str, ...]
    scores: NDArray[np.float64]
    similarities: NDArray[np.float64]
    through: Literal["fused", "spaces"]

    def __len__(self) -> int:
        return len(self.ids)


class JointSearch:
    """Searches a store for composed queries. Blocking; safe to call from several threads.

    Args:
        store: Holds the collections of the spaces and the fused ones.
    """

    def __init__(self, store: VectorStore) -> None:
        self._store = store
        self._dims: dict[str, int] = {}

    def search(
        self,
        parts: Sequence[JointPart],
        k: int,
        *,
        composition: Composition,
        aliases: Mapping[str, str],
        filter_: Filter | None = None,
        exact: bool = False,
        ef: int | None = None,
        with_similarities: bool = True,
    ) -> JointRanking:
        """Return the `k` pictures of the highest joint similarity.

        Args:
            parts: The parts of the query, at least one of weight above 0; vectors of the versions that `aliases` name.
            k: Most pictures to return, 1 to 1,000.
            composition: The composition whose fused collection may be used.
            aliases: Aliases as they were when the query began: space -> collection.
            filter_: Restricts the pictures; None for all.
            exact: Compare with every picture instead of searching graphs.
            ef: Size of the candidate list of a graph search; None for `FUSED_EF`, and in the spaces their collections' own.
            with_similarities: Read the pictures' vectors for the similarities of the parts. Without, a fused collection answers
                with the scores that it found, rounded as the store does, and the similarities are NaN.

        Raises:
            InvalidRequestError: no part has a weight above 0, a part has another length than its space, or k is out of range.
            UnknownNameError: a part is in a space that is not indexed.
            StoreError: the store failed.
        """
        if not 1 <= k <= MOST_RESULTS:
            raise InvalidRequestError(f"{k} results were asked for", hint=f"ask for 1 to {MOST_RESULTS:,}")
        wanted = weights_of(parts)
        summed(parts)  # refuses what has no weight
        for space in wanted:
            if space not in aliases:
                raise UnknownNameError.among("space", space, sorted(aliases))
        layout = self.layout(composition, aliases)
        if layout is not None and layout.covers(wanted):
            found = self._through_fused(parts, k, layout, filter_, exact=exact, ef=ef)
            return self._compared(found, parts, layout) if with_similarities else found
        return self._through_spaces(parts, k, aliases, filter_, exact=exact, ef=ef)

    def layout(self, composition: Composition, aliases: Mapping[str, str]) -> FusedLayout | None:
        """Return the layout of the composition's fused collection; None if there is none of the versions that are searched."""
        alias = fused_alias(composition.name)
        if alias not in aliases or any(space not in aliases for space in composition.spaces):
            return None
        spaces = [
            FusedSpace(name, aliases[name], self._dim(aliases[name]), name in composition.optional)
            for name in composition.spaces
        ]
        layout = FusedLayout(composition.name, tuple(spaces))
        return layout if layout.collection == aliases[alias] else None

    def _dim(self, collection: str) -> int:
        if collection not in self._dims:
            self._dims[collection] = self._store.info(collection).dim
        return self._dims[collection]

    def by_presence(
        self,
        parts: Sequence[JointPart],
        k: int,
        *,
        layout: FusedLayout,
        filter_: Filter | None = None,
        exact: bool = False,
        ef: int | None = None,
        incomplete: Sequence[JointPart] | None = None,
    ) -> list[Neighbours]:
        """Return the best pictures of each group that lacks the same spaces, complete ones first, in one call of the store.

        Joint similarities of two groups are means over different parts. By their definition they compare, but not as a measure
        of how far a picture stands out from ordinary ones: callers that rank by that take the best of each group.

        Args:
            parts: The parts of the query, at least one of weight above 0.
            k: Most pictures of each group.
            layout: Of the fused collection.
            filter_: Restricts the pictures; None for all.
            exact: Compare with every picture instead of searching the graph.
            ef: Size of the candidate list of the graph search; None for `FUSED_EF`.
            incomplete: The parts, in spaces that every picture has, with the weights that hold for pictures that lack a space;
                None for those of `parts`.

        Raises:
            InvalidRequestError: no part has a weight above 0, or a part does not fit the layout.
            StoreError: the store failed.
        """
        groups = []
        for presence in layout.presences(parts):
            own = parts if presence.complete or incomplete is None else incomplete
            weight = presence.weight if own is parts else math.fsum(weights_of(own).values())
            groups.append((layout.asked(own), narrowed(filter_, presence.condition), weight))
        width = ef or max(FUSED_EF, k)
        queries = [VectorQuery(vector, k, filter=within, exact=exact, ef=width) for vector, within, _ in groups]
        answers = self._store.search(layout.collection, queries)
        return [
            Neighbours(answer.ids, answer.scores / np.float32(weight))
            for answer, (_, _, weight) in zip(answers, groups, strict=True)
        ]

    def _through_fused(
        self, parts: Sequence[JointPart], k: int, layout: FusedLayout, filter_: Filter | None, *, exact: bool, ef: int | None
    ) -> JointRanking:
        found: dict[str, float] = {}
        for group in self.by_presence(parts, k, layout=layout, filter_=filter_, exact=exact, ef=ef):
            found |= zip(group.ids, group.scores.tolist(), strict=True)
        best = sorted(found, key=lambda image_id: (-found[image_id], image_id))[:k]
        unknown = np.full((len(best), len(parts)), np.nan)
        return JointRanking(tuple(best), np.array([found[image_id] for image_id in best]), unknown, "fused")

    def _compared(self, found: JointRanking, parts: Sequence[JointPart], layout: FusedLayout) -> JointRanking:
        """Return the ranking with the similarities of the parts and exact scores, from the pictures' own vectors."""
        points = self._store.retrieve(layout.collection, found.ids)
        return ranking(
            parts, points.ids, layout.split(points.vectors, [payload[HOLDS] for payload in points.payloads]), "fused"
        )

    def _through_spaces(
        self,
        parts: Sequence[JointPart],
        k: int,
        aliases: Mapping[str, str],
        filter_: Filter | None,
        *,
        exact: bool,
        ef: int | None,
    ) -> JointRanking:
        asked = {space: vector.astype(np.float32) for space, vector in summed(parts).items()}
        weights = weights_of(parts)
        limit = max(_CANDIDATES, _A_RESULT * k)
        while True:
            limit = min(limit, MAX_LIMIT)
            lists: dict[str, dict[str, float]] = {}
            lasts: dict[str, float] = {}  # the best that a picture outside the union can have in a space
            for space, vector in asked.items():
                lists[space], last = self._list(aliases[space], space, vector, limit, filter_, exact=exact, ef=ef)
                if last is not None:
                    lasts[space] = last
            ids = sorted(set().union(*lists.values()))
            totals = self._totals(ids, asked, weights, aliases, known={} if exact else lists)
            if CAPTIONS_SPACE in asked and not exact:
                ids = sorted(ids[row] for row in np.argsort(-totals, kind="stable")[: max(_SHORTLIST, _A_SHORTLISTED * k)])
                totals = self._totals(ids, asked, weights, aliases, known={})
            best = sorted(range(len(ids)), key=lambda row: (-totals[row], ids[row]))[:k]
            worst = totals[best[-1]] if len(best) == k else -np.inf
            if not exact or limit == MAX_LIMIT or worst >= _most_outside(lasts, weights):
                break
            limit *= _DEEPER
        chosen = [ids[row] for row in best]
        return ranking(parts, chosen, {space: self._vectors(space, aliases[space], chosen) for space in asked}, "spaces")

    def _list(
        self, collection: str, space: str, vector: Rows, limit: int, filter_: Filter | None, *, exact: bool, ef: int | None
    ) -> tuple[dict[str, float], float | None]:
        """Return the pictures that one space finds, with their products, and the last product; None if there are no others.

        A picture that several captions find has the product of the best of them.
        """
        described = space == CAPTIONS_SPACE
        within = by_owner(filter_) if described else filter_
        query = VectorQuery(vector, limit, filter=within, exact=exact, ef=ef, with_payload=described)
        (answer,) = self._store.search(collection, [query])
        ids = [str(payload["image"]) for payload in answer.payloads] if described else answer.ids
        products: dict[str, float] = {}
        for image_id, product in zip(ids, answer.scores.tolist(), strict=True):
            products.setdefault(image_id, product)
        return products, float(answer.scores[-1]) if len(answer) == limit else None

    def _totals(
        self,
        ids: list[str],
        asked: Mapping[str, Rows],
        weights: Mapping[str, float],
        aliases: Mapping[str, str],
        *,
        known: Mapping[str, Mapping[str, float]],
    ) -> NDArray[np.float64]:
        """Return the joint similarities of some pictures, (len(ids),) float64.

        Args:
            ids: The pictures, ascending.
            asked: Space -> vector of the query.
            weights: Space -> weight of its parts.
            aliases: Space -> collection.
            known: Products of the captions that a search found; with them, captions are compared by the best one and the others
                are not read, which is an estimate. Without, by their mean.
        """
        total, present = np.zeros(len(ids)), np.zeros(len(ids))
        if not ids:
            return total
        row_of = {image_id: row for row, image_id in enumerate(ids)}
        for space, vector in asked.items():
            if space == CAPTIONS_SPACE and space in known:
                rows = np.array([row_of[image_id] for image_id in known[space]], np.intp)
                products = np.fromiter(known[space].values(), np.float64, len(rows))
            elif space == CAPTIONS_SPACE:
                means = self._vectors(space, aliases[space], ids) @ vector
                rows = np.flatnonzero(~np.isnan(means))
                products = means[rows].astype(np.float64)
            else:
                query = VectorQuery(vector, len(ids), filter=Filter((HasId(tuple(ids)),)), exact=True)
                (answer,) = self._store.search(aliases[space], [query])
                rows = np.array([row_of[image_id] for image_id in answer.ids], np.intp)
                products = answer.scores.astype(np.float64)
            total[rows] += products
            present[rows] += weights[space]
        return total / np.maximum(present, np.finfo(float).tiny)

    def _vectors(self, space: str, collection: str, ids: Sequence[str]) -> Rows:
        """Return the vectors of pictures in one space, (len(ids), dim) float32, NaN where there is none.

        The vector of a picture's captions is their mean, normalised.
        """
        rows = np.full((len(ids), self._dim(collection)), np.nan, np.float32)
        row_of = {image_id: row for row, image_id in enumerate(ids)}
        if not ids:
            return rows
        if space != CAPTIONS_SPACE:
            points = self._store.retrieve(collection, ids, with_payload=False)
            rows[[row_of[image_id] for image_id in points.ids]] = points.vectors
            return rows
        for batch in self._store.scroll(collection, Filter((MatchAny("image", tuple(ids)),)), batch_size=_CANDIDATES):
            owners = [row_of[str(payload["image"])] for payload in batch.payloads]
            rows[owners] = np.nan_to_num(rows[owners])
            np.add.at(rows, owners, batch.vectors)
        return normalised(rows)


def ranking(
    parts: Sequence[JointPart], ids: Sequence[str], vectors: Mapping[str, Rows], through: Literal["fused", "spaces"]
) -> JointRanking:
    """Return pictures in the order of their joint similarities, computed from their vectors.

    Args:
        parts: The parts of the query.
        ids: The pictures (n).
        vectors: Space -> (n, dim) float32, for every space with a part of weight above 0; NaN rows where a picture has none.
        through: How they were found.
    """
    similarities = np.full((len(ids), len(parts)), np.nan)
    if not ids:
        return JointRanking((), np.empty(0), similarities, through)
    columns = [column for column, part in enumerate(parts) if part.space in vectors]
    similarities[:, columns] = part_scores([parts[column] for column in columns], vectors)
    joint = scores(parts, vectors)
    order = sorted(range(len(ids)), key=lambda row: (-joint[row], ids[row]))
    return JointRanking(tuple(ids[row] for row in order), joint[order], similarities[order], through)


def normalised(rows: Rows) -> Rows:
    """Return rows of length 1; NaN rows and zeros as they are."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Rows = np.divide(rows, lengths, out=rows.copy(), where=lengths > 0)
    return unit


def _most_outside(lasts: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Return the highest joint similarity that a picture outside of all lists can have.

    Args:
        lasts: Space -> last score of its list, of the spaces that have more pictures than their list.
        weights: Space -> weight of its parts.
    """
    required = [space for space in weights if space != CAPTIONS_SPACE]
    if any(space not in lasts for space in required) or not lasts:
        return -np.inf  # a list is complete, and every picture is in it
    optional = [space for space in lasts if space not in required]
    most = -np.inf
    for number in range(len(optional) + 1):
        for held in combinations(optional, number):
            spaces = [*required, *held]
            if spaces:
                most = max(most, sum(lasts[space] for space in spaces) / sum(weights[space] for space in spaces))
    return most
