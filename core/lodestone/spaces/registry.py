"""Registry of spaces: one table of names.

Other packages add theirs by the entry point group `lodestone.spaces`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from lodestone.models.context import ModelContext
from lodestone.models.lookup import make
from lodestone.spaces.base import Projection
from lodestone.spaces.bridge import BridgeSpace
from lodestone.spaces.direct import DirectSpace
from lodestone.spaces.labels import BACKBONES, TEXT_ENCODER, LabelSpace

ENTRY_POINTS: Final = "lodestone.spaces"

# A factory takes only the context and is light: weights are read by `warm_up`.
SPACES: Final[Mapping[str, Callable[[ModelContext], Projection]]] = {
    "bridge": lambda context: BridgeSpace(context, weights=context.artifacts.get("bridge")),
    "labels": LabelSpace,
}


def make_space(
    name: str,
    context: ModelContext,
    *,
    direct: Mapping[str, str] | None = None,
    labels: Sequence[str] = (),
    text_encoder: str = TEXT_ENCODER,
) -> Projection:
    """Make the space with this name; it is light, because nothing is loaded before `warm_up`.

    Args:
        name: A name in the table, of an entry point, or in `direct`.
        context: Cache, threads and learned artifacts.
        direct: Name -> the backbone (`NAME` or `NAME#OUTPUT`) whose output is the space without change; as in `Profile.direct`.
        labels: Classifiers of the space `labels`; as in `Profile.labels`.
        text_encoder: Text encoder of the space `labels`; as in `Profile.text_encoder`.

    Raises:
        UnknownNameError: there is no such space; the hint lists the known names.
    """
    if direct and name in direct and name not in SPACES:
        return DirectSpace(name, context, source=direct[name])
    if name == LabelSpace.name:
        return LabelSpace(context, backbones=labels or BACKBONES, text_encoder=text_encoder)
    return make("space", name, context, table=SPACES, group=ENTRY_POINTS)
