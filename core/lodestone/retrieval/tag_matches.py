"""Pictures that match a query by the words that people or searches wrote to them, and what they count in the ranking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from lodestone.retrieval.fusion import RankedList

WHOLE: Final = 30.0  # score of a picture with every word, in units of spread: more than spaces, guides and captions differ by
NAMED: Final = 15.0  # what every name adds to a picture's score, in the same units
HINTED: Final = 6.0  # what some of the words add under which pictures are filed: a good match of the spaces outweighs it


@dataclass(frozen=True, slots=True)
class FiledPictures:
    """Pictures that are filed under words of a query (tags/filed.py); no picture is in two of the sets.

    Attributes:
        whole: Under every content word.
        named: Under every name in the query: numbers, codes, months, and words that no list of English words has.
        hinted: Of a short query: under the most English words that no picture shows, or names where it has no such words.
    """

    whole: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()
    hinted: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.whole or self.named or self.hinted)


@dataclass(frozen=True, slots=True)
class TagMatches:
    """Pictures that match a query by the words that people or searches wrote to them.

    Attributes:
        found: List of guide `text` and space `tags`, by the share of the query's words that the tags hold; scores in (0, 1].
        whole: Pictures to which people wrote every content word of the query.
        named: Pictures to which people wrote every name in the query, but not every content word; of a query of one word, also
            those whose captions hold it, where they are few.
        filed: Pictures that are filed under the words. They say nothing of what a picture shows, so that such a picture is no
            example of it.
    """

    found: RankedList
    whole: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()
    filed: FiledPictures = FiledPictures()

    def __bool__(self) -> bool:
        return bool(self.found.ids or self.whole or self.named or self.filed)

    @property
    def degrees(self) -> RankedList:
        """List of how far the pictures match, in (0, 1]; 1 is for those to which people wrote every word of the query."""
        scores = dict(zip(self.found.ids, self.found.scores.tolist(), strict=True)) | dict.fromkeys(self.whole, 1.0)
        return _ranked(self.found, scores)

    def ranked(self) -> RankedList:
        """Return the list that takes part in the ranking: what people wrote goes before what models see."""
        shares = dict(zip(self.found.ids, self.found.scores.tolist(), strict=True))
        scores = dict(shares)
        filed = self.filed
        scores |= {image_id: HINTED + shares.get(image_id, 0.0) for image_id in filed.hinted}
        scores |= {image_id: NAMED + shares.get(image_id, 0.0) for image_id in self.named | filed.named}
        scores |= dict.fromkeys(self.whole | filed.whole, WHOLE)
        return _ranked(self.found, scores)


def _ranked(found: RankedList, scores: Mapping[str, float]) -> RankedList:
    ids = sorted(scores, key=lambda image_id: (-scores[image_id], image_id))
    return replace(found, ids=tuple(ids), scores=np.array([scores[image_id] for image_id in ids], np.float32))
