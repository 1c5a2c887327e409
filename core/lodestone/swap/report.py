"""Where does a swap stand? What its commands tell people and machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from lodestone.catalog.records import SwapRecord
from lodestone.home.space_standby import OLD

SHADOW: Final = "shadow"  # key of a swap's report


@dataclass(frozen=True, slots=True)
class SwapReport:
    """Where a swap stands, and what the last command did for it.

    Attributes:
        swap: Its row.
        embedded: Pictures that went through a backbone just now.
        computed: Backbones that were run.
        waiting: Pictures that the other collection lacks.
        unreadable: Findable pictures that could not be looked at, with the reason; at most a few.
    """

    swap: SwapRecord
    embedded: int = 0
    computed: tuple[str, ...] = ()
    waiting: int = 0
    unreadable: tuple[tuple[str, str], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """JSON-serialisable."""
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
            "unreadable": [list(one) for one in self.unreadable],
            "shadow": swap.report.get(SHADOW),
            "error": swap.error,
        }

    def why(self) -> str:
        """The first picture that could not be looked at, for a message."""
        if not self.unreadable:
            return ""
        uri, code = self.unreadable[0]
        return f"; {uri!r} could not be read: {code}"
