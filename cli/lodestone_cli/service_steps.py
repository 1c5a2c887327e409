"""Work on the collections that the running service does for a command: its steps are shown, and its result is returned."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lodestone_schemas.api import SyncProgress


def result_of(steps: Iterable[SyncProgress], show: Callable[[SyncProgress], None]) -> list[dict[str, Any]]:
    """Return the result that the last step carries, after every other step was shown.

    Args:
        steps: What the service reports; raises what the work fails with.
        show: Called with each step that tells how far the work is.
    """
    result: list[dict[str, Any]] = []
    for step in steps:
        if step.type == "done":
            result = step.result or []
        elif step.stage != "waiting":
            show(step)
    return result
