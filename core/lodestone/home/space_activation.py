"""Activation of another definition of a space: an override in the catalog, and for a bridge an active artifact as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lodestone.home.space_definitions import SHIPPED, SpaceDefinition
from lodestone.spaces.names import BRIDGE

if TYPE_CHECKING:
    from lodestone.home.space_resources import SpaceResources

PRIOR: Final = "prior"


def activate(resources: SpaceResources, definition: SpaceDefinition, swap_id: str) -> None:
    """Activate a definition of a space; its alias follows at the next sync."""
    catalog = resources.catalog
    if definition.kind == BRIDGE:
        _activate_bridge(resources, definition.source)
    configured = resources.configured
    as_configured = definition.kind != BRIDGE and _configured_source(resources, definition) == definition.source
    if as_configured or (definition.kind == BRIDGE and set(definition.backbones) <= set(configured.backbones)):
        catalog.clear_override(definition.space)
    else:
        catalog.set_override(definition.space, definition.as_dict(), swap_id)


def _configured_source(resources: SpaceResources, definition: SpaceDefinition) -> str | None:
    from lodestone.spaces.labels import BACKBONES

    configured = resources.configured
    if definition.space in configured.direct:
        return configured.direct[definition.space]
    return "+".join(configured.labels or BACKBONES)


def _activate_bridge(resources: SpaceResources, version: str) -> None:
    """Activate a version of the bridge, and the prior that was fitted for it, if there is one."""
    catalog = resources.catalog
    if version == SHIPPED:
        catalog.deactivate_artifacts(BRIDGE)
        return
    catalog.activate_artifact(BRIDGE, version)
    prior = next((artifact for artifact in catalog.artifacts(PRIOR) if artifact.metrics.get("bridge") == version), None)
    if prior is not None:
        catalog.activate_artifact(PRIOR, prior.version)
