"""Searches of guides: how many fit into the time left, the vectors of their pixels, and their weights."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.generators.base import Guide
from lodestone.query.contracts import Encoder
from lodestone.retrieval.rescoring import ListSearch

GuideVectors = dict[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class FusionSettings:
    """Fitted numbers of the fusion of guides (research/studies/exemplars.py).

    Attributes:
        guide_weight: What all guides together count at most, the query's own words counting 1.
        guide_depth: Candidates taken from each guide's list, the same for every page. What stands far down a guide's list is
            like the guide, not like the query; and every candidate is scored in every space anyway.
        words: Whether the lists of the query's own words take part. Without them, guides that count equally make the ranking
            alone (NEEDLE, eq. 4); the words still answer where no guide came.
    """

    guide_weight: float = 0.5
    guide_depth: int = 25
    words: bool = True


GUIDES_ALONE: Final = FusionSettings(guide_weight=1.0, guide_depth=60, words=False)
"""NEEDLE's own ranking: the 60 nearest pictures of each guide, and no list of the words."""


def fit(guides: int, spaces: int, *, seconds_a_list: float, left: float) -> tuple[int, int]:
    """Return how many guides in how many spaces fit into the time left; (0, 0) for none.

    What does not fit costs guides first, then spaces.

    Args:
        guides: How many there are.
        spaces: How many can be searched.
        seconds_a_list: What one (guide, space) search costs, as the text pass measured it.
        left: Seconds.
    """
    lists = int(left / seconds_a_list) if seconds_a_list > 0 else guides * spaces
    for kept_spaces in range(spaces, 0, -1):
        kept_guides = min(guides, lists // kept_spaces)
        if kept_guides:
            return kept_guides, kept_spaces
    return 0, 0


async def embed_guides(
    guides: Sequence[Guide], *, encoder: Encoder, collections: Collection[str], deadline: float | None = None
) -> dict[str, GuideVectors]:
    """Map guide ids and collections to (dim,) float32 vectors; the pixels of all guides are embedded in one call.

    Args:
        guides: With vectors for some of `collections`, or with pixels.
        encoder: Embeds pixels.
        collections: Where they will be searched.
        deadline: Of the query, absolute.
    """
    vectors: dict[str, GuideVectors] = {guide.guide_id: dict(guide.vectors) for guide in guides}
    blank = [guide for guide in guides if guide.pixels is not None and not set(collections) <= guide.vectors.keys()]
    if blank:
        pictures = [guide.pixels for guide in blank if guide.pixels is not None]
        embedded = await encoder.embed_pictures(pictures, deadline=deadline)
        for row, guide in enumerate(blank):
            for collection, rows in embedded.items():
                vectors[guide.guide_id].setdefault(collection, rows[row])
    return vectors


def searches_of(
    guides: Sequence[Guide],
    vectors: Mapping[str, Mapping[str, NDArray[np.float32]]],
    *,
    spaces: Mapping[str, str],
    space_weights: Mapping[str, float],
    settings: FusionSettings,
) -> list[ListSearch]:
    """Return the weighted searches of guides, one for each guide and space.

    Args:
        guides: Those that count together.
        vectors: Guide id -> collection -> vector.
        spaces: Space -> collection.
        space_weights: As in the text pass.
        settings: What the guides' weights add up to at most, and how many candidates each list gives.
    """
    trusted = {guide.guide_id: guide.weight if settings.words else 1.0 for guide in guides}
    share = settings.guide_weight / max(1.0, sum(trusted.values()))
    return [
        ListSearch(
            guide.guide_id,
            space,
            collection,
            weight,
            vector,
            depth=settings.guide_depth,
            recurring=guide.pixels is None,  # a picture of the collection
        )
        for guide in guides
        for space, collection in spaces.items()
        if (vector := vectors[guide.guide_id].get(collection)) is not None
        and (weight := share * trusted[guide.guide_id] * space_weights[space]) > 0
    ]
