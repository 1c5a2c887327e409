"""Search by tags: a method of its own, and one more ranked list of the text pass.

A picture's score is the share of the query's words that its tags hold (tags/terms.py), to the third power: captions of any two
pictures often share half their words, which should count little, and a full match is worth 1. Pictures that share less than
`LEAST` are left out.

What people wrote to a picture goes before what models see in it: pictures whose tags, given by people, or names in captions
hold every content word of the query come first, and then those that hold every name in it. With these come, for a query of one
word, the pictures whose captions hold it, where they are few: the word was written to tell them from the others. The pictures
that are filed under the words of a query which no picture shows (tags/filed.py) come first in the same way.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from lodestone.retrieval.fusion import TEXT_GUIDE, RankedList
from lodestone.retrieval.tag_matches import TagMatches
from lodestone.spaces.names import TAGS
from lodestone.store.base import Filter, Neighbours, SparseQuery, VectorStore
from lodestone.tags.filed import MOST_FILED, filed_query
from lodestone.tags.terms import LiteralQuery, literal_query, query_vector

LEAST: Final = 0.4  # share of the query's words
POWER: Final = 3.0
FEW: Final = 40  # pictures whose captions hold the one word of a query, at most; research/studies/caption_words.py chose it
# Weight of the list, where the spaces' weights sum to 1 and their scores are in units of their spread; fitted in those units.
WEIGHT: Final = 1.0


class TagSearch:
    """Searches the sparse collection of tags; its methods block and are thread-safe.

    Args:
        store: The store that holds the collection.
        weight: Weight of the resulting list.
        few: Highest number of pictures whose captions hold the one word of a query, for these to come first.
    """

    def __init__(self, store: VectorStore, *, weight: float = WEIGHT, few: int = FEW) -> None:
        self._store = store
        self._weight = weight
        self._few = few

    def search(self, text: str, collection: str, *, filter_: Filter | None = None, limit: int = 100) -> TagMatches:
        """Return the pictures whose tags hold the query's words, best first; equal scores are ordered by id.

        Args:
            text: The query's words.
            collection: The collection that the alias `tags` named at the start of the query.
            filter_: The query's own filter, so that tags of another corpus are never used.
            limit: Highest number of pictures of each kind.

        Returns:
            Pictures by the share of words that their tags hold, of scale 1 and scores in (0, 1], and those that people's own
            words put first. Both are empty when nothing matches. A picture that is not in the list scores 0.

        Raises:
            UnknownNameError: there is no such collection.
            StoreError: the store failed.
        """
        vector, literal = query_vector(text), literal_query(text)
        if vector is None:
            return TagMatches(RankedList(TEXT_GUIDE, TAGS, self._weight, (), np.empty(0, np.float32)))
        filed = filed_query(text)
        queries = [SparseQuery(vector, limit=limit, filter=filter_)]
        most = max(limit, 2 * self._few)
        if filed is not None:
            queries.append(SparseQuery(filed.telling_vector, limit=MOST_FILED, filter=filter_, ties_by_id=False))
        if literal is not None:
            # A word may be in the captions of a large part of the collection. Which of these are found does not matter.
            queries.append(SparseQuery(literal.vector, limit=most, filter=filter_, ties_by_id=False))
        found = self._store.search_sparse(collection, queries)
        is_all = len(found[-1].ids) < most
        if literal is not None and not is_all and literal.held(float(found[-1].scores[-1])) not in ("nothing", "caption"):
            found[-1:] = self._store.search_sparse(collection, [replace(queries[-1], ties_by_id=True)])
        matches = matches_of(
            found[0], weight=self._weight, literal=literal, literally=found[-1], few=self._few if is_all else 0
        )
        if filed is None or not found[1].ids:
            return matches
        if filed.others:  # pictures that are filed under other words alone may be many, and were left out until now
            found[1:2] = self._store.search_sparse(collection, [replace(queries[1], vector=filed.vector)])
        return replace(matches, filed=filed.split(found[1]))


def matches_of(
    shares: Neighbours,
    *,
    weight: float = WEIGHT,
    literal: LiteralQuery | None = None,
    literally: Neighbours | None = None,
    few: int = FEW,
) -> TagMatches:
    """Return the pictures that match a query.

    Args:
        shares: Pictures by the share of the query's words, best first.
        weight: Weight of the list.
        literal: The query for words that people wrote; None without one.
        literally: Pictures that it found.
        few: Highest number of pictures whose captions hold the one word of the query, for these to come first.
    """
    kept = int((shares.scores >= LEAST).sum())  # scores are descending
    scores = np.minimum(shares.scores[:kept], 1.0).astype(np.float32) ** np.float32(POWER)
    found = RankedList(TEXT_GUIDE, TAGS, weight, shares.ids[:kept], scores)
    if literal is None or literally is None:
        return TagMatches(found)
    held = {image_id: literal.held(score) for image_id, score in zip(literally.ids, literally.scores.tolist(), strict=True)}
    captioned = [image_id for image_id, what in held.items() if what == "caption"]
    if len(captioned) > few:
        captioned = []
    return TagMatches(
        found,
        whole=frozenset(image_id for image_id, what in held.items() if what == "everything"),
        named=frozenset([*captioned, *(image_id for image_id, what in held.items() if what == "names")]),
    )
