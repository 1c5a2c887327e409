"""Compositions: named sets of modalities that one composed query compares pictures by, declared in `[compositions.NAME]`.

A modality is a space in one role (MUST, Wang et al., 2024, section II). In the role `target` a query gives a picture, which
says what the results shall be like; in the role `auxiliary` it gives words that change it. A space that takes pictures and
words is two modalities, one in each role. Every profile has the composition `default` without any setting: its spaces that
take words, in both roles, and the captions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field, field_validator, model_validator

from lodestone.config.section import SettingsSection
from lodestone.errors import ConfigurationError, UnknownNameError

if TYPE_CHECKING:
    from lodestone.config.profiles import Profile

DEFAULT_COMPOSITION: Final = "default"
FUSED_FROM: Final = 2_000
"""Pictures from which a fused index is kept where the settings do not say. At 2,000 pictures with five captions each, a query
of three spaces took 4 ms of processor time through a fused index and 39 ms through the spaces (docs/fused-index.md)."""

FUSED_UP_TO: Final = 1_000_000
"""Pictures up to which a fused index is begun where the settings do not say. It takes as much room as all spaces together,
which is for the owner of a larger collection to decide (docs/capacity.md)."""

_KEPT: Final = 0.5  # a fused index stays while there are this share of `FUSED_FROM`

Rule = Literal["sum", "product", "harris"]
TargetVector = Literal["own", "composed", "guide"]
DEFAULT_STRENGTH: Final = 0.6
DEFAULT_RULE: Final[Rule] = "product"  # it measures best (research/studies/composed.py)

CAPTIONS_SPACE: Final = "captions"  # `lodestone.spaces.names` is above this package
_NAME: Final = r"^[a-z0-9][a-z0-9_-]{0,39}$"


class Role(StrEnum):
    """Role of a modality: a query gives a picture for a target modality, and words for an auxiliary one."""

    TARGET = "target"
    AUXILIARY = "auxiliary"


class ModalitySettings(SettingsSection):
    """Settings of one modality of a composition."""

    space: str = Field(description="A space of the profile, or `captions`.")
    role: Role = Role.TARGET


class CompositionSettings(SettingsSection):
    """Settings of one composition; whatever is left out is as in the composition `default`."""

    modalities: dict[str, ModalitySettings] = Field(
        default_factory=dict, description="Modality to space and role, in order; default: those of the profile."
    )
    weights: dict[str, float] = Field(
        default_factory=dict,
        description="Modality to weight (MUST's square), in any ratio; default: learnt ones, or else the usual shares.",
    )
    target: TargetVector = Field(
        "own",
        description="own: the picture's vector; composed: the sum of its vector and the words' in their joint space; "
        "guide: the vector of the picture as a generator edits it by the words.",
    )
    strength: float = Field(
        DEFAULT_STRENGTH, gt=0, le=1, description="How far a guide may go from the picture: 1 keeps next to nothing of it."
    )
    rule: Rule = Field(DEFAULT_RULE, description="How the parts' similarities of a candidate are joined: sum, product, harris.")
    fused: bool | None = Field(None, description="Keep one index of all modalities; default: from 2,000 to 1,000,000 pictures.")

    @field_validator("weights")
    @classmethod
    def _at_least_0(cls, weights: dict[str, float]) -> dict[str, float]:
        for modality, weight in weights.items():
            if not math.isfinite(weight) or weight < 0:
                raise ValueError(f"the weight of {modality!r} is {weight}; expected a finite number of at least 0")
        if weights and not any(weights.values()):
            raise ValueError("all weights are 0; expected at least one above 0")
        return weights

    @model_validator(mode="after")
    def _fits(self) -> CompositionSettings:
        roles = [one.role for one in self.modalities.values()]
        if roles and Role.TARGET not in roles:
            raise ValueError("no modality is a target; expected at least one with role = 'target'")
        if self.modalities and (unknown := self.weights.keys() - self.modalities.keys()):
            raise ValueError(f"a weight is given for {min(unknown)!r}, which is no modality; there are {list(self.modalities)}")
        pairs = [(one.space, one.role) for one in self.modalities.values()]
        if twice := next((pair for pair in pairs if pairs.count(pair) > 1), None):
            raise ValueError(f"two modalities are the space {twice[0]!r} as {twice[1].value}; expected each once")
        return self


@dataclass(frozen=True, slots=True)
class Modality:
    """One modality of a composition: its `name`, the `space` that it is compared in, and its `role`."""

    name: str
    space: str
    role: Role


@dataclass(frozen=True, slots=True)
class Composition:
    """A composition as it is used.

    Attributes:
        name: Its name, as in `[compositions.NAME]`.
        modalities: Its modalities in order, at least one of them a target.
        weights: Modality -> weight in any ratio, as set or, where an engine is made, learnt; empty for neither.
        target: What the target part of a query is: the picture's own vector, or a composition vector (MUST, options 1 and 2).
        strength: How far a guide may go from the picture, in (0, 1].
        rule: How the parts' similarities of a candidate are joined.
        fused: Whether a fused index is kept; None: from a size on.
        declared: Whether the settings name its modalities. Then a query is compared in these alone.
    """

    name: str
    modalities: tuple[Modality, ...]
    weights: Mapping[str, float]
    target: TargetVector = "own"
    rule: Rule = DEFAULT_RULE
    fused: bool | None = None
    strength: float = DEFAULT_STRENGTH
    declared: bool = False

    @property
    def spaces(self) -> tuple[str, ...]:
        """Return the spaces of its modalities, each once, in order: the parts of a fused vector."""
        return tuple(dict.fromkeys(modality.space for modality in self.modalities))

    @property
    def optional(self) -> frozenset[str]:
        """Return the spaces that a picture may have no vector in."""
        return frozenset({CAPTIONS_SPACE}) & set(self.spaces)

    def keeps_fused(self, pictures: int, *, exists: bool = False) -> bool:
        """Return whether a home with so many pictures keeps a fused index of this composition.

        Args:
            pictures: Number of pictures.
            exists: Whether there is one already. It stays while there are half as many pictures as one is begun with.
        """
        if self.fused is not None:
            return self.fused
        return pictures >= FUSED_FROM * _KEPT if exists else FUSED_FROM <= pictures <= FUSED_UP_TO

    def modality(self, name: str) -> Modality:
        """Return one modality by its name.

        Raises:
            UnknownNameError: There is none of this name; the hint lists them.
        """
        for modality in self.modalities:
            if modality.name == name:
                return modality
        raise UnknownNameError.among("modality", name, [modality.name for modality in self.modalities])

    def of_role(self, role: Role) -> tuple[Modality, ...]:
        """Return the modalities in one role."""
        return tuple(modality for modality in self.modalities if modality.role is role)


def all_compositions(own: Mapping[str, CompositionSettings], profile: Profile) -> dict[str, Composition]:
    """Return every composition of a profile by name: `default` first, then those of the settings.

    Raises:
        ConfigurationError: One of the settings names a space that the profile lacks, a role that a space cannot have, or a
            weight of a modality that does not exist.
    """
    ordinary = _default_modalities(profile)
    compositions = {DEFAULT_COMPOSITION: Composition(DEFAULT_COMPOSITION, ordinary, {})}
    for name, wanted in own.items():
        if not re.fullmatch(_NAME, name):
            raise ConfigurationError(
                f"the composition {name!r} has a name that no collection can have",
                hint="use up to 40 small letters, digits, hyphens and underscores",
            )
        modalities = tuple(Modality(key, one.space, one.role) for key, one in wanted.modalities.items()) or ordinary
        _check(name, modalities, wanted.weights, profile)
        compositions[name] = Composition(
            name,
            modalities,
            wanted.weights,
            wanted.target,
            wanted.rule,
            wanted.fused,
            wanted.strength,
            declared=bool(wanted.modalities),
        )
    return compositions


def choose_composition(name: str, own: Mapping[str, CompositionSettings], profile: Profile) -> Composition:
    """Return one composition of a profile.

    Raises:
        UnknownNameError: There is no such composition; the hint lists those that there are.
        ConfigurationError: As `all_compositions`.
    """
    compositions = all_compositions(own, profile)
    if name not in compositions:
        raise UnknownNameError.among("composition", name, list(compositions))
    return compositions[name]


def takes_words(space: str, profile: Profile) -> bool:
    """Return whether words can be compared with pictures in a space: all but those of image models without a text tower."""
    return space == CAPTIONS_SPACE or space not in profile.direct or profile.direct[space].startswith("open_clip:")


def _default_modalities(profile: Profile) -> tuple[Modality, ...]:
    joint = [space for space in profile.spaces if takes_words(space, profile)]
    targets = [Modality(f"{space}-picture", space, Role.TARGET) for space in joint or profile.spaces]
    words = [Modality(f"{space}-words", space, Role.AUXILIARY) for space in joint]
    return (*targets, *words, Modality(CAPTIONS_SPACE, CAPTIONS_SPACE, Role.AUXILIARY))


def _check(name: str, modalities: tuple[Modality, ...], weights: Mapping[str, float], profile: Profile) -> None:
    spaces = (*profile.spaces, CAPTIONS_SPACE)
    for modality in modalities:
        where = f"the modality {modality.name!r} of the composition {name!r}"
        if modality.space not in spaces:
            raise ConfigurationError(
                f"{where} is the space {modality.space!r}, which the profile {profile.name!r} does not have",
                hint=f"it has {', '.join(spaces)}; `[profiles.NAME] direct` adds a space",
            )
        if modality.role is Role.TARGET and modality.space == CAPTIONS_SPACE:
            raise ConfigurationError(
                f"{where} is a target, but captions are compared with words alone", hint="set role = 'auxiliary'"
            )
        if modality.role is Role.AUXILIARY and not takes_words(modality.space, profile):
            raise ConfigurationError(
                f"{where} is auxiliary, but no words can be compared in the space {modality.space!r}",
                hint="set role = 'target', or choose a space whose model has a text tower",
            )
    names = [modality.name for modality in modalities]
    if unknown := weights.keys() - set(names):
        raise ConfigurationError(
            f"the composition {name!r} gives a weight to {min(unknown)!r}, which is none of its modalities",
            hint=f"its modalities are {', '.join(names)}",
        )
