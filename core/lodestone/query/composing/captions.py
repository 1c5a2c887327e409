"""Similarity of words with the captions of pictures, for composed queries: that of the caption that is most like the words."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lodestone.query.guides.captions import CaptionWords
from lodestone.retrieval.fusion import RankedList
from lodestone.retrieval.rescoring import ListSearch
from lodestone.store.algebra import by_owner
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
            without: Pictures that are not among the results.
        """
        if not searches:
            return []
        collection = searches[0].collection
        instant = self._store.instant(collection)
        within = by_owner(filter_)
        queries = [VectorQuery(one.vector, limit=depth, filter=within, with_payload=not instant) for one in searches]
        answers = self._store.search(collection, queries)
        owners = self._owners(collection, answers)
        return [
            _by_picture(
                one,
                [owners[key] for key in answer.ids if key in owners],
                np.array([score for key, score in zip(answer.ids, answer.scores, strict=True) if key in owners], np.float32),
                without,
            )
            for one, answer in zip(searches, answers, strict=True)
        ]

    def _owners(self, collection: str, answers: Sequence[Neighbours]) -> dict[str, str]:
        """Return caption id -> picture of what was found: as is known, else from the points themselves."""
        known = self._words.known
        owners = {key: known[key][0] for answer in answers for key in answer.ids if key in known}
        for answer in answers:
            if answer.payloads:
                owners |= {key: str(payload["image"]) for key, payload in zip(answer.ids, answer.payloads, strict=True)}
        new = [key for answer in answers for key in answer.ids if key not in owners]
        if new:
            points = self._store.retrieve(collection, list(dict.fromkeys(new)))
            owners |= {key: str(payload["image"]) for key, payload in zip(points.ids, points.payloads, strict=True)}
        return owners

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
    ) -> tuple[list[Neighbours], Mapping[str, tuple[str, int]]]:
        """Return what each vector finds among the captions of some pictures, and caption id -> picture and number of words."""
        if self._store.instant(collection):
            among = Filter((MatchAny("image", tuple(image_ids)),))
            answers = self._store.search(collection, [VectorQuery(one, MAX_LIMIT, filter=among, exact=True) for one in vectors])
            words = self._words.known
            if not all(key in words for answer in answers for key in answer.ids):
                words = self._words.read(image_ids)
            return answers, words
        words = self._words.read(image_ids)
        if not words:
            return [Neighbours((), np.empty(0, np.float32)) for _ in vectors], words
        among = Filter((HasId(tuple(words)),))
        return self._store.search(
            collection, [VectorQuery(one, len(words), filter=among, exact=True) for one in vectors]
        ), words


def _by_picture(
    one: ListSearch, pictures: Sequence[str], scores: NDArray[np.float32], without: Collection[str] = ()
) -> RankedList:
    """Return the list of pictures by their first caption, which is their best."""
    best: dict[str, float] = {}
    for image_id, score in zip(pictures, scores.tolist(), strict=True):
        if image_id not in without:
            best.setdefault(image_id, score)
    return RankedList(one.guide, one.space, one.weight, tuple(best), np.fromiter(best.values(), np.float32, len(best)))
