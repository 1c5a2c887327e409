"""Search by tags: a method of its own, and one more ranked list of the text pass.

A picture's score is the share of the query's words that its tags hold (tags/terms.py), to the third power: captions of any two
pictures often share half their words, which should count little, and a full match is worth 1. Pictures that share less than
`LEAST` are left out.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from lodestone.retrieval.fusion import TEXT_GUIDE, RankedList
from lodestone.spaces.names import TAGS
from lodestone.store.base import Filter, SparseQuery, VectorStore
from lodestone.tags.terms import query_vector

LEAST: Final = 0.4  # share of the query's words
POWER: Final = 3.0
# Weight of the list, where the spaces' weights sum to 1 and their scores are in units of their spread; fitted in those units.
WEIGHT: Final = 1.0


class TagSearch:
    """Searches the sparse collection of tags; its methods block and are thread-safe.

    Args:
        store: The store that holds the collection.
        weight: Weight of the resulting list.
    """

    def __init__(self, store: VectorStore, *, weight: float = WEIGHT) -> None:
        self._store = store
        self._weight = weight

    def search(self, text: str, collection: str, *, filter_: Filter | None = None, limit: int = 100) -> RankedList:
        """Return the pictures whose tags hold the query's words, best first; equal scores are ordered by id.

        Args:
            text: The query's words.
            collection: The collection that the alias `tags` named at the start of the query.
            filter_: The query's own filter, so that tags of another corpus are never used.
            limit: Highest number of pictures.

        Returns:
            A list with scale 1 and scores in (0, 1]; empty when nothing matches. A picture that is not in it scores 0.

        Raises:
            UnknownNameError: there is no such collection.
            StoreError: the store failed.
        """
        vector = query_vector(text)
        if vector is None:
            return RankedList(TEXT_GUIDE, TAGS, self._weight, (), np.empty(0, np.float32))
        (hits,) = self._store.search_sparse(collection, [SparseQuery(vector, limit=limit, filter=filter_)])
        kept = int((hits.scores >= LEAST).sum())  # scores are descending
        scores = np.minimum(hits.scores[:kept], 1.0).astype(np.float32) ** np.float32(POWER)
        return RankedList(TEXT_GUIDE, TAGS, self._weight, hits.ids[:kept], scores)
