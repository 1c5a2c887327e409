"""How did a query come, beside what it asks? When, and whether there is room for guides."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Asking:
    """What the one who takes a query in knows of it.

    Attributes:
        arrived: When it came, `time.monotonic()` of this process: its deadline counts from then. None: now.
        text_only: Why it gets no guides, e.g. `the service is busy`; "": it may have them.
    """

    arrived: float | None = None
    text_only: str = ""


NOW = Asking()
"""Came just now, and may have guides."""
