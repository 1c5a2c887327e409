"""Words that a bridge has learnt one by one, beside the map of texts that it learnt from sentences.

A bridge puts any text into its space by one map, and what it knows of a single word is blurred by all other words. Of a word
that the captions of some pictures had, more is known: a ridge regression on the pictures' vectors tells pictures that have the
word from others. Its weights are a vector of the same space. A query that is such a word, bare or as "a photo of a ...", is
moved towards it; other queries stay as they are. A word is recognised by its vector, as the class names of label matching are,
because that is all a space is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.spaces.base import Vectors
from lodestone.spaces.bridge_arrays import Array, unit

_UNKNOWN: Final = 0.8  # cosine to a learnt word up to which a text is left as it is
_KNOWN: Final = 0.9  # cosine from which it counts as the word; both were chosen on the validation part (docs/quality.md)


@dataclass(frozen=True, slots=True)
class LearntWords:
    """Holds n learnt words.

    Attributes:
        texts: (d, n) text vectors of the words, L2-normalised.
        vectors: (dim, n) what is added to the vector of a text that is the word.
        shift: (d,) what "a photo of a" adds to the text vector of a word, in the mean.
    """

    texts: Array
    vectors: Array
    shift: Array

    def __len__(self) -> int:
        return int(self.texts.shape[1])

    def added_to(self, encoded: Array) -> Vectors:
        """Return what is added to the vectors of m texts: (m, d) text vectors -> (m, dim) float32, zeros for unknown texts."""
        word, share = self.recognised(encoded)
        added: Vectors = self.vectors[:, word].T * share[:, None]
        return added

    def recognised(self, encoded: Array) -> tuple[NDArray[np.intp], Array]:
        """Return the nearest word of each of m texts, (m,) ints, and how far the text is that word, (m,) in [0, 1]."""
        cosines = np.maximum(encoded @ self.texts, unit(encoded - self.shift) @ self.texts)
        word = cosines.argmax(axis=1)
        nearest = cosines[np.arange(len(encoded)), word]
        share: Array = np.clip((nearest - _UNKNOWN) / (_KNOWN - _UNKNOWN), 0, 1).astype(np.float32)
        return word, share
