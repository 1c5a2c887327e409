"""Composition vectors: what a picture to look for is compared by in the place of its own vector (MUST, option 2).

A *sum*: in a space that knows pictures and words, the part of a picture becomes

    (q_picture + q_words) / |q_picture + q_words|

where q_words is the weighted mean of the words that are looked for, of length 1. Words stay parts of their own beside it.
Pictures and words to avoid are left as they are, and so are spaces without words.

A *guide*: the vectors of the picture as a generator edited it by the words (edits.py), in every space.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.query.asking.parts import OWN, Part
from lodestone.query.retrieving.leaves import EncodedQuery
from lodestone.retrieval.rescoring import ListSearch

_SHORTEST: Final = 1e-6  # of a sum that has a direction


def composed_targets(
    encoded: EncodedQuery, parts: Sequence[Part], spaces: Collection[str]
) -> tuple[EncodedQuery, tuple[ListSearch, ...]]:
    """Return the query with composition vectors for its pictures, and searches of weight 0 that keep their own vectors.

    Args:
        encoded: The leaves of the parts.
        parts: The parts, in the order of the leaves.
        spaces: Spaces in which composition vectors are wanted.
    """
    leaves = list(encoded.leaves)
    kept: list[ListSearch] = []
    for space, collection in encoded.spaces.items():
        if space not in spaces:
            continue
        words = _words(encoded, parts, collection)
        for number, part in enumerate(parts):
            own = leaves[number].vectors.get(collection)
            if words is None or own is None or part.avoid or part.leaf.text:
                continue
            composed = _unit(own + words)
            if composed is None:
                continue  # the words are the opposite of the picture
            kept.append(ListSearch(part.name + OWN, space, collection, 0.0, own))
            leaves[number] = replace(leaves[number], vectors={**leaves[number].vectors, collection: composed})
    return replace(encoded, leaves=tuple(leaves)), tuple(kept)


def guided_targets(
    encoded: EncodedQuery, parts: Sequence[Part], vectors: Mapping[int, Mapping[str, NDArray[np.float32]]]
) -> tuple[EncodedQuery, tuple[ListSearch, ...]]:
    """Return the query with the vectors of edited pictures, and searches of weight 0 that keep the pictures' own vectors.

    Args:
        encoded: The leaves of the parts.
        parts: The parts, in the order of the leaves.
        vectors: Number of a part -> collection -> (dim,) float32 vector of its edited picture.
    """
    leaves = list(encoded.leaves)
    kept: list[ListSearch] = []
    for number, edited in vectors.items():
        own = leaves[number].vectors
        found = {collection: edited[collection] for collection in encoded.spaces.values() if collection in edited}
        kept += [
            ListSearch(parts[number].name + OWN, space, collection, 0.0, own[collection])
            for space, collection in encoded.spaces.items()
            if collection in own
        ]
        leaves[number] = replace(leaves[number], vectors={**own, **found})
    return replace(encoded, leaves=tuple(leaves)), tuple(kept)


def _words(encoded: EncodedQuery, parts: Sequence[Part], collection: str) -> NDArray[np.float32] | None:
    """Return the (dim,) unit vector of all words that are looked for, in one collection; None without any."""
    vectors = [
        part.weight * leaf.vectors[collection]
        for part, leaf in zip(parts, encoded.leaves, strict=True)
        if part.leaf.text and not part.avoid and collection in leaf.vectors
    ]
    return _unit(np.sum(vectors, axis=0)) if vectors else None


def _unit(vector: NDArray[np.float32]) -> NDArray[np.float32] | None:
    length = float(np.linalg.norm(vector))
    return np.asarray(vector / length, np.float32) if length > _SHORTEST else None
