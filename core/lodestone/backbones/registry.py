"""Which backbones are there? One table of names.

Other packages add theirs by the entry point group `lodestone.backbones`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from lodestone.backbones.base import Backbone
from lodestone.backbones.efficientnet_lite import lite0, lite2
from lodestone.models.context import ModelContext
from lodestone.models.lookup import make

ENTRY_POINTS: Final = "lodestone.backbones"

BACKBONES: Final[Mapping[str, Callable[[ModelContext], Backbone]]] = {
    "efficientnet-lite0": lite0,
    "efficientnet-lite2": lite2,
}


def make_backbone(name: str, context: ModelContext) -> Backbone:
    """A backbone by name, light: nothing is loaded before `warm_up`.

    Raises:
        UnknownNameError: no such backbone; the hint lists them.
    """
    return make("backbone", name, context, table=BACKBONES, group=ENTRY_POINTS)
