"""Guides of one space merged into one search, for collections so large that a search for each guide costs too much.

The merged vector is the weighted sum of the guides' vectors, normalised: by inner product it finds the pictures of the highest
weighted mean score, which is what `mean_distance` ranks by. Each guide's own list is then made of the exact scores of what was
found, so explanations, trust and fusions by rank work as with searches of their own. A picture that one guide alone likes is
missed: that is the price (docs/capacity.md).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from lodestone.retrieval.fusion import TEXT_GUIDE
from lodestone.retrieval.rescoring import ALL_GUIDES, ListSearch
from lodestone.store.base import Neighbours, PointBatch, VectorQuery, VectorStore

_COUNTED_S: Final = 300.0  # a collection does not grow past ten millions unnoticed for long


class LargeCollections:
    """Says which collections have more points than a limit; counts are kept for minutes. Thread-safe.

    Args:
        store: Counts the points.
        above: The limit.
        clock: Returns seconds; for tests.
    """

    def __init__(self, store: VectorStore, above: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._above = above
        self._clock = clock
        self._known: dict[str, tuple[float, bool]] = {}
        self._lock = threading.Lock()

    def __contains__(self, collection: str) -> bool:
        """Return whether the collection has more points. Blocking."""
        with self._lock:
            known = self._known.get(collection)
        if known is None or self._clock() > known[0]:
            known = (self._clock() + _COUNTED_S, self._store.info(collection).points > self._above)
            with self._lock:
                self._known[collection] = known
        return known[1]


def merged(group: Sequence[ListSearch]) -> list[ListSearch]:
    """Return the searches of a space with all guides but the query's own words merged into one."""
    guides = [one for one in group if one.guide != TEXT_GUIDE]
    if len(guides) < 2:
        return list(group)
    weights = np.array([one.weight for one in guides], np.float32)
    vector = weights @ np.stack([one.vector for one in guides])
    length = float(np.linalg.norm(vector))
    if length == 0:  # the guides cancel out
        return list(group)
    depths = [one.depth for one in guides]
    depth = None if None in depths else max(each for each in depths if each is not None)
    together = replace(guides[0], guide=ALL_GUIDES, weight=float(weights.sum()), vector=vector / length, depth=depth)
    return [*(one for one in group if one.guide == TEXT_GUIDE), together]


def search_merged(
    store: VectorStore,
    collection: str,
    group: Sequence[ListSearch],
    fewer: Sequence[ListSearch],
    queries: Sequence[VectorQuery],
) -> list[Neighbours]:
    """Answer all searches of a group by at most two searches and the exact scores of what they find.

    Args:
        store: Where the vectors are.
        collection: The collection of the group.
        group: The searches.
        fewer: What `merged` made of them.
        queries: The query of each search of the group.
    """
    limit = max(query.limit for query in queries)
    few = [replace(queries[0], vector=one.vector, limit=one.depth or limit) for one in fewer]
    found = store.search(collection, few)
    union = list(dict.fromkeys(image_id for neighbours in found for image_id in neighbours.ids))
    points = store.retrieve(collection, union, with_payload=False)
    return [_best(points, one, query.limit) for one, query in zip(group, queries, strict=True)]


def _best(points: PointBatch, search: ListSearch, limit: int) -> Neighbours:
    """Return the points of the highest scores, equal ones by ascending id."""
    scores = points.vectors @ search.vector
    order = sorted(range(len(points)), key=lambda row: (-scores[row], points.ids[row]))[:limit]
    return Neighbours(tuple(points.ids[row] for row in order), scores[order].astype(np.float32))
