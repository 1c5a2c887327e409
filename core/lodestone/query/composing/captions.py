"""Similarity of words with the captions of pictures, for composed queries: that of the caption that is most like the words."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from lodestone.query.guides.captions import CaptionWords
from lodestone.retrieval.fusion import RankedList
from lodestone.retrieval.rescoring import ListSearch
from lodestone.store.base import Filter, HasId, MatchAny, Neighbours, VectorQuery, VectorStore
from lodestone.store.checks import MAX_LIMIT


class CaptionSearch:
    """Compares parts in words with captions. Blocking and thread-safe.

    A part to avoid has its vector negated: it is compared with the caption that is most like what is to be avoided.

    Args:
        store: Holds the captions' vectors.
        words: Knows the picture of each caption.
    """

    def __init__(self, store: VectorStore, words: CaptionWords) -> None:
        self._store = store
        self._words = words

    def found(
        self, searches: Sequence[ListSearch], *, depth: int, filter_: Filter | None, without: Collection[str] = ()
    ) -> list[RankedList]:
        """Return one list a search: the pictures of the captions that are most like it, best first.

        Args:
            searches: Parts in words that are looked for, in the collection of captions.
            depth: Captions at most.
            filter_: The query's own.
            without: Pictures that are not among the results; the filter excludes them by ids that captions do not have.
        """
        if not searches:
            return []
        queries = [VectorQuery(one.vector, limit=depth, filter=filter_, with_payload=True) for one in searches]
        answers = self._store.search(searches[0].collection, queries)
        owners = [[str(payload["image"]) for payload in answer.payloads] for answer in answers]
        return [
            _by_picture(one, pictures, answer.scores, without)
            for one, pictures, answer in zip(searches, owners, answers, strict=True)
        ]

    def scored(
        self, searches: Sequence[ListSearch], image_ids: Sequence[str], *, avoided: Sequence[str] = ()
    ) -> list[RankedList]:
        """Return one list a search: its inner product with the nearest caption of each of these pictures that has one.

        Args:
            searches: Parts in words, in the collection of captions.
            image_ids: The candidates.
            avoided: Names of the parts to avoid, whose vectors are negated.

        Raises:
            StoreError, CatalogError: what the captions are read from failed.
        """
        if not searches or not image_ids:
            return []
        collection = searches[0].collection
        # A negated vector is nearest to the caption that is least like the words: what is to be avoided is searched itself.
        signs = [np.float32(-1 if one.guide in avoided else 1) for one in searches]
        vectors = [sign * one.vector for sign, one in zip(signs, searches, strict=True)]
        answers, words = self._compared(collection, vectors, image_ids)
        lists = []
        for one, sign, answer in zip(searches, signs, answers, strict=True):
            kept = [(words[key][0], score) for key, score in zip(answer.ids, answer.scores, strict=True) if key in words]
            best = _by_picture(one, [image_id for image_id, _ in kept], np.array([score for _, score in kept], np.float32))
            order = np.argsort(-sign * best.scores, kind="stable")
            ids = tuple(best.ids[row] for row in order)
            lists.append(RankedList(one.guide, one.space, one.weight, ids, sign * best.scores[order]))
        return lists

    def _compared(
        self, collection: str, vectors: Sequence[NDArray[np.float32]], image_ids: Sequence[str]
    ) -> tuple[list[Neighbours], dict[str, tuple[str, int]]]:
        words = dict(self._words.read(image_ids))
        if not words:
            return [Neighbours((), np.empty(0, np.float32)) for _ in vectors], words
        if self._store.instant(collection):
            among, limit = Filter((MatchAny("image", tuple(image_ids)),)), MAX_LIMIT
        else:
            among, limit = Filter((HasId(tuple(words)),)), len(words)
        queries = [VectorQuery(vector, limit=limit, filter=among, exact=True) for vector in vectors]
        return self._store.search(collection, queries), words


def _by_picture(
    one: ListSearch, pictures: Sequence[str], scores: NDArray[np.float32], without: Collection[str] = ()
) -> RankedList:
    """Return the list of pictures by their first caption, which is their best."""
    best: dict[str, float] = {}
    for image_id, score in zip(pictures, scores.tolist(), strict=True):
        if image_id not in without:
            best.setdefault(image_id, score)
    return RankedList(one.guide, one.space, one.weight, tuple(best), np.fromiter(best.values(), np.float32, len(best)))
