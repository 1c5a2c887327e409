"""Report of a swap's state, for its commands' output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from lodestone.catalog.records import SwapRecord
from lodestone.home.space_standby import OLD

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
