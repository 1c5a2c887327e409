"""Definitions of spaces: what a space is made of, and what it could be made of instead.

A definition is small and JSON-serialisable: the space, its kind and its source. Overrides (definitions that a swap activated)
are kept in the catalog; a `Runtime`'s profile is the configured one with the overrides applied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from lodestone.errors import CatalogError, InvalidRequestError, UnknownNameError
from lodestone.spaces.names import BRIDGE, LABELS

if TYPE_CHECKING:
    from lodestone.config.profiles import Profile
    from lodestone.home.space_resources import SpaceResources
    from lodestone.models.context import ModelContext
    from lodestone.spaces.base import Projection

DIRECT: Final = "direct"
SHIPPED: Final = "shipped"  # source of the bridge that ships for the profile
_PROBABILITIES: Final = "probabilities"
_CLASSES: Final = 1000


@dataclass(frozen=True, slots=True)
class SpaceDefinition:
    """Describes what a space is made of.

    Attributes:
        space: Name of the space.
        kind: `labels`, `bridge` or `direct`.
        source: For `labels` the classifiers joined by `+`, for `bridge` a version learned here or `shipped`, for `direct` a
            backbone (`NAME` or `NAME#OUTPUT`).
        backbones: Names of the backbones whose outputs it is projected from.
    """

    space: str
    kind: str
    source: str
    backbones: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the definition as a JSON-serialisable dict."""
        return {**asdict(self), "backbones": list(self.backbones)}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """Return the definition that `as_dict` wrote.

        Raises:
            CatalogError: the content is no definition.
        """
        try:
            return cls(str(found["space"]), str(found["kind"]), str(found["source"]), tuple(map(str, found["backbones"])))
        except (KeyError, TypeError) as error:
            raise CatalogError(
                f"the catalog's definition of a space cannot be read: {dict(found)!r}",
                hint="a newer Lodestone may have written it: upgrade",
            ) from error


def overridden(profile: Profile, overrides: Mapping[str, Mapping[str, Any]]) -> Profile:
    """Return the profile with the overrides applied; overrides of spaces that it does not search are ignored."""
    definitions = [SpaceDefinition.from_dict(content) for space, content in overrides.items() if space in profile.spaces]
    if not definitions:
        return profile
    changed = {definition.space: definition for definition in definitions}
    direct = {
        **profile.direct,
        **{name: definition.source for name, definition in changed.items() if definition.kind == DIRECT},
    }
    labels = tuple(changed[LABELS].source.split("+")) if LABELS in changed else profile.labels
    return replace(profile, direct=direct, labels=labels, backbones=_backbones(profile, changed))


def _backbones(profile: Profile, changed: Mapping[str, SpaceDefinition]) -> tuple[str, ...]:
    """Return the backbones that spaces are still made of, in the profile's order, then new ones.

    What learned or fixed spaces and spaces of other packages need is not known before they are loaded, so all backbones of the
    profile that no direct space names are kept for them.
    """
    named = {source.partition("#")[0] for source in profile.direct.values()}
    needed = {source.partition("#")[0] for space, source in profile.direct.items() if space not in changed}
    if any(space not in profile.direct and space not in changed for space in profile.spaces):
        needed |= set(profile.backbones) - named
    new = [backbone for definition in changed.values() for backbone in definition.backbones]
    return tuple(dict.fromkeys([*(name for name in profile.backbones if name in needed or name in new), *new]))


def in_force(resources: SpaceResources, space: str) -> SpaceDefinition:
    """Return what a space is made of now.

    Raises:
        UnknownNameError: the profile has no such space.
        InvalidRequestError: the space belongs to another package, and only that can change what it is made of.
    """
    profile = resources.profile
    if space not in profile.spaces:
        raise UnknownNameError.among("space", space, list(profile.spaces))
    if space == BRIDGE:
        # A version learnt under another profile may not fit this one (home/bridge_fit.py).
        active = resources.catalog.active_artifact(BRIDGE) if BRIDGE in resources.models().artifacts else None
        return _defined(resources, space, BRIDGE, SHIPPED if active is None else active.version)
    if space == LABELS:
        from lodestone.spaces.labels import BACKBONES

        return _defined(resources, space, LABELS, "+".join(profile.labels or BACKBONES))
    if space in profile.direct:
        return _defined(resources, space, DIRECT, profile.direct[space])
    raise InvalidRequestError(
        f"the space {space!r} belongs to an installed package, which says what it is made of",
        hint=f"spaces that can be swapped: {', '.join(name for name in profile.spaces if _ours(profile, name)) or 'none'}",
    )


def _ours(profile: Profile, space: str) -> bool:
    return space in {LABELS, BRIDGE} or space in profile.direct


def target_of(resources: SpaceResources, space: str, target: str) -> SpaceDefinition:
    """Return the definition that a space shall get, after checking it; no model is loaded.

    The check is that the models are installed and have the outputs that the space needs.

    Args:
        resources: The opened home.
        space: One of the profile's spaces.
        target: Text as a person writes it: a backbone, for `labels` several joined by `+` or `,`, for `bridge` a version or its
            beginning, or `shipped`.

    Raises:
        UnknownNameError: no such space, backbone, output or version.
        InvalidRequestError: the space cannot be made of that.
        ConfigurationError: that version of the bridge reads the vectors of another text encoder.
        ModelUnavailableError: a model's package is not installed.
    """
    current = in_force(resources, space)
    source = target.strip()
    if not source:
        raise InvalidRequestError("the target is empty", hint=_EXAMPLES[current.kind])
    if current.kind == BRIDGE:
        source = _bridge_version(resources, source)
    elif current.kind == LABELS:
        source = "+".join(dict.fromkeys(name.strip() for name in source.replace(",", "+").split("+") if name.strip()))
        _check_classifiers(resources.models(), source)
    wanted = _defined(resources, space, current.kind, source)
    if current.kind == BRIDGE:
        from lodestone.home.bridge_fit import check_bridge

        backbones = tuple(dict.fromkeys([*resources.profile.backbones, *wanted.backbones]))  # a swap brings what it needs
        check_bridge(projection_of(wanted, resources), replace(resources.profile, backbones=backbones))
    _ = projection_of(wanted, resources).collection  # reads the versions, and raises for what is unknown or not installed
    return wanted


_EXAMPLES: Final = {
    LABELS: "--to efficientnet-lite1",
    BRIDGE: f"--to {SHIPPED}, or a version of `lodestone models list`",
    DIRECT: "--to open_clip:/models/clip, or any backbone of docs/models.md",
}


def _bridge_version(resources: SpaceResources, prefix: str) -> str:
    versions = [artifact.version for artifact in resources.catalog.artifacts(BRIDGE)]
    matches = [version for version in [SHIPPED, *versions] if version.startswith(prefix)]
    if prefix in matches:
        return prefix
    if len(matches) != 1:
        raise UnknownNameError.among("version of the bridge", prefix, [SHIPPED, *versions])
    return matches[0]


def _check_classifiers(context: ModelContext, names: str) -> None:
    from lodestone.backbones.registry import make_backbone

    for name in names.split("+"):
        backbone = make_backbone(name, context)
        if not any(spec.name == _PROBABILITIES and spec.dim == _CLASSES for spec in backbone.outputs):
            raise InvalidRequestError(
                f"{name!r} does not classify pictures into the {_CLASSES:,} classes that label matching knows",
                hint="name classifiers: efficientnet-lite0, efficientnet-lite1, efficientnet-lite2",
            )


def _defined(resources: SpaceResources, space: str, kind: str, source: str) -> SpaceDefinition:
    draft = SpaceDefinition(space, kind, source, ())
    needed = dict.fromkeys(key.backbone for key in projection_of(draft, resources).requires)
    return replace(draft, backbones=tuple(needed))


def projection_of(definition: SpaceDefinition, resources: SpaceResources) -> Projection:
    """Make the projection of a definition; it is light.

    Raises:
        UnknownNameError: there is no such version of the bridge.
    """
    context = resources.models()
    if definition.kind == LABELS:
        from lodestone.spaces.labels import LabelSpace

        return LabelSpace(context, backbones=definition.source.split("+"), text_encoder=resources.profile.text_encoder)
    if definition.kind == BRIDGE:
        from lodestone.spaces.bridge import BridgeSpace

        return BridgeSpace(context, weights=_bridge_file(resources, definition.source))
    from lodestone.spaces.direct import DirectSpace

    return DirectSpace(definition.space, context, source=definition.source)


def _bridge_file(resources: SpaceResources, version: str) -> Path | None:
    if version == SHIPPED:
        return None
    artifacts = {artifact.version: artifact for artifact in resources.catalog.artifacts(BRIDGE)}
    if version not in artifacts:
        raise UnknownNameError.among("version of the bridge", version, [SHIPPED, *artifacts])
    return resources.home.artifacts / artifacts[version].path
