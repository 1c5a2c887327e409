"""Elementary methods: the lists that each answers by itself, which the complexity gate compares (NEEDLE, F.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.query.deciding.gate import Method
from lodestone.retrieval.fusion import TEXT_GUIDE, RankedList
from lodestone.spaces.names import CAPTIONS, TAGS
from lodestone.store.algebra import by_owner
from lodestone.store.base import Filter, VectorQuery, VectorStore

_LIMIT: Final = 50  # captions; a picture may have several


def methods_of(lists: Sequence[RankedList], *, captions: Method | None = None, tags: RankedList | None = None) -> list[Method]:
    """Return the text pass's own lists, one a space, then captions and tags where there are any."""
    found = [Method(one.space, one.ids, one.scores) for one in lists if one.guide == TEXT_GUIDE and one.space != TAGS]
    if captions is not None:
        found.append(captions)
    if tags is not None and tags.ids:
        found.append(Method(tags.space, tags.ids, tags.scores))
    return found


def caption_method(store: VectorStore, collection: str, vector: NDArray[np.float32], filter_: Filter | None) -> Method:
    """Return pictures ranked by their best caption. Blocking.

    Args:
        store: Holds the captions.
        collection: Where.
        vector: (d,) float32, the query's words by the encoder of the captions.
        filter_: The query's.
    """
    (found,) = store.search(collection, [VectorQuery(vector, limit=_LIMIT, filter=by_owner(filter_), with_payload=True)])
    best: dict[str, float] = {}
    for score, payload in zip(found.scores, found.payloads, strict=True):
        best.setdefault(str(payload["image"]), float(score))
    return Method(CAPTIONS, tuple(best), np.fromiter(best.values(), np.float32, len(best)))
