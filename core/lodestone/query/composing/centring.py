"""Centred queries: the vector of a part without what ordinary pictures, or ordinary words, have in common.

Similarity to a part has two sources: what the part says, and what all parts of its kind say. Some pictures are like every
picture, or like every word, and so come high whatever is asked (hubs). Taking the mean of its kind from a part's vector takes
that away (i-CIR, Psomas et al., 2025, centres all features):

    q' = (q - beta * mean) / |q - beta * mean|

The mean of pictures is that of the sample that calibrates scores. The mean of words is that of the class names, in spaces that
know any. Captions are not centred. Records keep the parts' own vectors, so refinements centre them anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.query.asking.parts import Part
from lodestone.retrieval.rescoring import ListSearch

SHARE: Final = 0.5
"""Share of the mean that is taken (docs/composed.md, chosen on validation photos)."""

_SHORTEST: Final = 1e-6  # of a difference that has a direction

_Row = NDArray[np.float32]


def centred(
    searches: Sequence[ListSearch],
    parts: Sequence[Part],
    *,
    pictures: Callable[[str], _Row],
    words: Mapping[str, _Row],
) -> list[ListSearch]:
    """Return the searches with centred vectors; those without a mean stay as they are.

    Args:
        searches: One a part and space; the vectors of parts to avoid are negated.
        parts: The parts of the query.
        pictures: Collection -> (n, dim) float32 vectors of ordinary pictures, none where there are too few.
        words: Space -> (dim,) float32 mean vector of ordinary words.
    """
    of_part = {part.name: part for part in parts}
    means: dict[str, _Row] = {}
    found = []
    for one in searches:
        part = of_part[one.guide]
        if part.leaf.text:
            mean = SHARE * words[one.space] if one.space in words else None
        else:
            if one.collection not in means:
                means[one.collection] = _mean(pictures(one.collection), len(one.vector))
            mean = SHARE * means[one.collection]
        found.append(one if mean is None else _without(one, mean, avoid=part.avoid))
    return found


def _mean(sample: _Row, dim: int) -> _Row:
    return sample.mean(axis=0, dtype=np.float32) if len(sample) else np.zeros(dim, np.float32)


def _without(one: ListSearch, mean: _Row, *, avoid: bool) -> ListSearch:
    sign = np.float32(-1 if avoid else 1)
    vector = one.vector - sign * np.asarray(mean, np.float32)
    length = float(np.linalg.norm(vector))
    return replace(one, vector=np.asarray(vector / length, np.float32)) if length > _SHORTEST else one
