"""Which pictures have tags that say what the query says? An elementary method of its own, and one more list of the text pass.

A picture's score is the share of the query's words that its tags hold (tags/terms.py), to the third power: half the words in
common are the rule among captions of any two pictures, and should count little; all of them are worth 1. Pictures that share
less than `LEAST` are left out.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from lodestone.retrieval.fusion import TEXT_GUIDE, RankedList
from lodestone.store.base import Filter, SparseQuery, VectorStore
from lodestone.tags.terms import query_vector

TAGS_SPACE: Final = "tags"
LEAST: Final = 0.4  # share of the query's words
POWER: Final = 3.0
WEIGHT: Final = (
    1.0  # of the list, the spaces' weights summing to 1 and their scores being in units of their spread; fitted there too
)


class TagSearch:
    """Searches the sparse collection. Blocking and thread-safe.

    Args:
        store: Where it is.
        weight: What the list counts.
    """

    def __init__(self, store: VectorStore, *, weight: float = WEIGHT) -> None:
        self._store = store
        self._weight = weight

    def search(self, text: str, collection: str, *, filter_: Filter | None = None, limit: int = 100) -> RankedList:
        """Pictures whose tags hold the query's words, best first; equal scores by id.

        Args:
            text: The query's words.
            collection: What the alias `tags` stood for at the start of the query.
            filter_: The query's own: tags of another corpus are never seen.
            limit: Pictures at most.

        Returns:
            A list with scale 1 and scores in (0, 1]; empty when nothing fits. A picture that is not in it scores 0 there.

        Raises:
            UnknownNameError: no such collection.
            StoreError: the store failed.
        """
        vector = query_vector(text)
        if vector is None:
            return RankedList(TEXT_GUIDE, TAGS_SPACE, self._weight, (), np.empty(0, np.float32))
        (found,) = self._store.search_sparse(collection, [SparseQuery(vector, limit=limit, filter=filter_)])
        kept = int((found.scores >= LEAST).sum())  # they descend
        scores = np.minimum(found.scores[:kept], 1.0).astype(np.float32) ** np.float32(POWER)
        return RankedList(TEXT_GUIDE, TAGS_SPACE, self._weight, found.ids[:kept], scores)
