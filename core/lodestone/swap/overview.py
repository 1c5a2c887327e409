"""Overview of a home's spaces, their models and their swaps; no model and no embedded store is opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lodestone.catalog.records import SwapRecord, SwapState
from lodestone.catalog.work.swaps import UNSETTLED, unsettled_swaps
from lodestone.errors import InvalidRequestError, LodestoneError, ModelUnavailableError
from lodestone.home.space_definitions import SHIPPED, in_force, projection_of
from lodestone.home.space_standby import OLD, SwapVersions, has_versions
from lodestone.spaces.names import BRIDGE
from lodestone.swap.backfill import left_to_embed, left_to_load, parts_of

if TYPE_CHECKING:
    from lodestone.home.runtime import Runtime

SHADOW: Final = "shadow"  # key of a swap's report


@dataclass(frozen=True, slots=True)
class SwapReport:
    """Reports the state of a swap, and what the last command did for it.

    Attributes:
        swap: The swap's row in the catalog.
        embedded: Number of pictures that a backbone processed in this command.
        computed: Backbones that were run.
        waiting: Number of pictures that the other collection lacks.
        unreadable: A few active pictures that could not be read, each as (uri, reason).
    """

    swap: SwapRecord
    embedded: int = 0
    computed: tuple[str, ...] = ()
    waiting: int = 0
    unreadable: tuple[tuple[str, str], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the report as a JSON-serialisable dict."""
        swap = self.swap
        return {
            "swap_id": swap.swap_id,
            "space": swap.space,
            "from": swap.report.get(OLD, {}).get("source", ""),
            "to": swap.target,
            "state": swap.state.value,
            "old_collection": swap.old_collection,
            "new_collection": swap.new_collection,
            "created_at": swap.created_at.isoformat(),
            "updated_at": swap.updated_at.isoformat(),
            "counts": swap.counts,
            "embedded": self.embedded,
            "computed": list(self.computed),
            "waiting": self.waiting,
            "unreadable": [list(picture) for picture in self.unreadable],
            "shadow": swap.report.get(SHADOW),
            "error": swap.error,
        }

    def why(self) -> str:
        """Return the first unreadable picture as the end of a message, or an empty string."""
        if not self.unreadable:
            return ""
        uri, code = self.unreadable[0]
        return f"; {uri!r} could not be read: {code}"


def models_overview(runtime: Runtime) -> dict[str, Any]:
    """Return the spaces and backbones of a home as a JSON-serialisable dict.

    `spaces` lists source, backbones, collection, promoted collection and unsettled swap of each space; `backbones` lists the
    models.
    """
    exists = runtime.home.exists()
    promoted = runtime.promoted() if exists else {}
    swaps = {swap.space: swap for swap in unsettled_swaps(runtime.catalog)} if exists else {}
    spaces = []
    for space, projection in runtime.projections().items():
        swap = swaps.get(space)
        spaces.append(
            {
                "space": space,
                **_made_of(runtime, space),
                "collection": projection.collection,
                "promoted": promoted.get(space),
                "overridden": exists and space in runtime.catalog.overrides(),
                "swap": None if swap is None else {"to": swap.target, "state": swap.state.value},
                "versions": _versions(runtime) if space == BRIDGE and exists else [],
            }
        )
    return {"spaces": spaces, "backbones": _backbones(runtime)}


def swap_reports(runtime: Runtime, limit: int = 20) -> list[SwapReport]:
    """Return the latest swaps, newest first; unsettled ones with the number of pictures that the other collection lacks."""
    return [SwapReport(swap, waiting=_waiting(runtime, swap)) for swap in runtime.catalog.swaps(limit)]


def _waiting(runtime: Runtime, swap: SwapRecord) -> int:
    if swap.state not in UNSETTLED or not has_versions(swap):
        return 0
    sides = SwapVersions.of(swap)
    promoted = swap.state is SwapState.PROMOTED
    definition, collection = (sides.old, sides.old_collection) if promoted else (sides.new, sides.new_collection)
    try:
        parts = parts_of(runtime, projection_of(definition, runtime))
    except LodestoneError:  # its package was removed; the swap's own commands report that
        return 0
    return left_to_embed(runtime.catalog, parts) + left_to_load(runtime.catalog, parts, collection)


def _made_of(runtime: Runtime, space: str) -> dict[str, Any]:
    try:
        definition = in_force(runtime, space)
    except InvalidRequestError:  # the space belongs to another package
        return {"kind": "package", "source": "an installed package", "backbones": []}
    return {"kind": definition.kind, "source": definition.source, "backbones": list(definition.backbones)}


def _versions(runtime: Runtime) -> list[str]:
    learnt = [artifact.version for artifact in runtime.catalog.artifacts(BRIDGE)]
    return [SHIPPED, *learnt] if learnt else []


def _backbones(runtime: Runtime) -> list[dict[str, Any]]:
    from lodestone.backbones.registry import BACKBONES, make_backbone

    context = runtime.models()
    backbones = []
    for name in dict.fromkeys([*BACKBONES, *runtime.profile.backbones]):
        try:
            version: str | None = make_backbone(name, context).version
        except ModelUnavailableError:
            version = None
        backbones.append({"name": name, "installed": version is not None, "version": version})
    return backbones
