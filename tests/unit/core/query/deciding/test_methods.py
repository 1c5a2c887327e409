"""Which lists of an answer are elementary methods, that the gate compares."""

from __future__ import annotations

import numpy as np

from lodestone.query.deciding.gate import Method
from lodestone.query.deciding.methods import caption_method, methods_of
from lodestone.retrieval.fusion import TEXT_GUIDE, RankedList
from lodestone.spaces.names import CAPTIONS, TAGS
from lodestone.store.base import Filter, HasId, MatchAny, Neighbours, VectorQuery


def ranked(guide: str, space: str, *ids: str) -> RankedList:
    return RankedList(guide, space, 1.0, ids, np.linspace(0.9, 0.1, len(ids), dtype=np.float32))


def test_the_words_own_lists_are_methods_and_then_captions_and_tags() -> None:
    lists = [
        ranked(TEXT_GUIDE, "bridge", "a", "b"),
        ranked("guide-1", "bridge", "c"),
        ranked(TEXT_GUIDE, TAGS, "d"),
        ranked(TEXT_GUIDE, "labels", "e"),
        ranked("guide-1", TAGS, "f"),
    ]
    captions = Method(CAPTIONS, ("g",), np.array([0.5], np.float32))
    found = methods_of(lists, captions=captions, tags=ranked(TEXT_GUIDE, TAGS, "h"))
    assert [(one.name, one.ids) for one in found] == [
        ("bridge", ("a", "b")),
        ("labels", ("e",)),
        (CAPTIONS, ("g",)),
        (TAGS, ("h",)),
    ]
    np.testing.assert_array_equal(found[0].scores, lists[0].scores)
    assert [one.name for one in methods_of(lists, tags=ranked(TEXT_GUIDE, TAGS))] == ["bridge", "labels"]


def test_captions_are_filtered_by_the_picture_that_they_belong_to() -> None:
    class Store:
        def search(self, collection: str, queries: list[VectorQuery]) -> list[Neighbours]:
            self.asked = queries
            return [Neighbours((), np.empty(0, np.float32), ())]

    store = Store()
    caption_method(store, "captions-1", np.ones(2, np.float32), Filter(must=(HasId(("a",)),)))
    assert [query.filter for query in store.asked] == [Filter(must=(MatchAny("image", ("a",)),))]
