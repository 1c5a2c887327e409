"""Status of a profile's spaces without fetching or loading a model: collections that it needs, models that are missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from lodestone.backbones.registry import make_backbone
from lodestone.errors import ModelUnavailableError
from lodestone.spaces.names import CAPTIONS, captions_collection
from lodestone.text_encoders.registry import make_text_encoder

if TYPE_CHECKING:
    from lodestone.home.runtime import Runtime


@dataclass(frozen=True, slots=True)
class SpaceStatus:
    """Tells what a profile needs in this home.

    Attributes:
        collections: Space -> collection of the version in force; None where the space's models are missing.
        captions: Collection of captions in the version in force of the text encoder; None where that is missing.
        missing: Model of the profile that cannot be used on this machine -> the error, whose hint tells how to get the model.
            A space of another package that lacks a model of its own stands here under its own name.
    """

    collections: dict[str, str | None]
    captions: str | None
    missing: dict[str, ModelUnavailableError]


def space_status(runtime: Runtime) -> SpaceStatus:
    """Return the collections and the missing models of the profile in force. Asks no hub, and loads no model.

    Raises:
        ConfigurationError: the bridge does not fit the profile's models.
    """
    profile, context = runtime.profile, runtime.models(fetch=False)
    spaces = runtime.projections(fetch=False)
    models: dict[str, _Versioned] = {name: make_backbone(name, context) for name in profile.backbones}
    text_encoder = make_text_encoder(profile.text_encoder, context)
    models.setdefault(profile.text_encoder, text_encoder)
    unusable = _missing(spaces)
    return SpaceStatus(
        {name: None if name in unusable else projection.collection for name, projection in spaces.items()},
        None if _missing({CAPTIONS: text_encoder}) else captions_collection(text_encoder.version),
        _missing(models) or unusable,
    )


class _Versioned(Protocol):
    @property
    def version(self) -> str: ...


def _missing(parts: Mapping[str, _Versioned]) -> dict[str, ModelUnavailableError]:
    """Return name -> error of the parts whose version cannot be computed, because files or packages are missing."""
    missing = {}
    for name, part in parts.items():
        try:
            _ = part.version
        except ModelUnavailableError as error:
            missing[name] = error
    return missing
