"""Look-up of the version of a space whose vectors are in a given collection."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from lodestone.config.profiles import PROFILES
from lodestone.errors import LodestoneError, ModelUnavailableError
from lodestone.home.bridge_fit import is_of_another_profile
from lodestone.home.space_definitions import projection_of
from lodestone.home.space_standby import SwapVersions, has_versions
from lodestone.query.asking.searchable import FormerVersion
from lodestone.spaces.names import BRIDGE

if TYPE_CHECKING:
    from lodestone.config.profiles import Profile
    from lodestone.home.space_resources import SpaceResources
    from lodestone.spaces.base import Projection

_log = logging.getLogger(__name__)


def version_in(resources: SpaceResources, space: str, collection: str) -> Projection | None:
    """Return the version of a space whose vectors are in `collection`, or None.

    The versions are those that ship, were learned here, or took part in a swap.
    """
    learnt = _bridge_versions(resources) if space == BRIDGE else iter(())
    candidates = chain(learnt, _swap_versions(resources, space))
    return next((projection for projection in candidates if projection.collection == collection), None)


def promoted_versions(resources: SpaceResources, in_force: Mapping[str, Projection]) -> dict[str, Projection]:
    """Return space -> the version that is promoted, as far as it can be made, else the one in force.

    Args:
        resources: The opened home.
        in_force: Space -> version in force.
    """
    aliases = resources.promoted()
    versions = dict(in_force)
    for space, projection in in_force.items():
        promoted = aliases.get(space)
        if promoted is not None and promoted != projection.collection:
            versions[space] = version_in(resources, space, promoted) or projection
    return versions


def former_versions(
    searched: Mapping[str, Projection], in_force: Mapping[str, Projection], profile: Profile
) -> dict[str, FormerVersion]:
    """Return the spaces that are searched in the version of another profile, under which the home was indexed.

    A version of this profile that waits for its successor to be loaded is none of them: it answers as well as before.

    Args:
        searched: Space -> version that is searched.
        in_force: Space -> version in force.
        profile: The profile in force.
    """
    return {
        space: FormerVersion(
            in_force[space].collection, None if projection.text_encoder == profile.text_encoder else projection.text_encoder
        )
        for space, projection in searched.items()
        if projection is not in_force[space] and is_of_another_profile(projection, profile)
    }


def _bridge_versions(resources: SpaceResources) -> Iterator[Projection]:
    """Yield the versions of the bridge: those that ship, for this profile first, and those learnt here."""
    from lodestone.spaces.registry import make_space

    context = resources.models()
    others = {kind: path for kind, path in context.artifacts.items() if kind != BRIDGE}
    for shipped in dict.fromkeys([context.bridge, *(profile.bridge for profile in PROFILES.values())]):
        projection = make_space(BRIDGE, replace(context, artifacts=others, bridge=shipped))
        try:
            _ = projection.collection
        except ModelUnavailableError:
            if shipped == context.bridge:
                raise
            continue  # another profile's, whose models are not installed: it has filled no collection
        yield projection
    for artifact in resources.catalog.artifacts(BRIDGE):
        path = resources.home.artifacts / artifact.path
        if path.exists():
            yield make_space(BRIDGE, replace(context, artifacts={**others, BRIDGE: path}))


def _swap_versions(resources: SpaceResources, space: str) -> Iterator[Projection]:
    """Yield both sides of all swaps of this home, newest swap first, as far as they can still be made."""
    for swap in resources.catalog.swaps(space=space):
        for definition, _ in SwapVersions.of(swap) if has_versions(swap) else ():
            try:
                projection = projection_of(definition, resources)
                _ = projection.collection
            except LodestoneError as error:
                _log.warning("a version of the space %s is passed over: %s", space, error.message)
                continue
            yield projection
