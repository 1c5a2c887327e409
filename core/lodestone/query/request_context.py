"""How did a query come, beside what it asks? When, from whom, and whether there is room for guides."""

from __future__ import annotations

from dataclasses import dataclass

from lodestone.access.visibility import EVERYTHING, Visibility


@dataclass(frozen=True, slots=True)
class RequestContext:
    """What the one who takes a query in knows of it.

    Attributes:
        arrived: When it came, `time.monotonic()` of this process: its deadline counts from then. None: now.
        way_back: Seconds of the time that it allows which its answer needs to reach whoever asked.
        text_only: Why it gets no guides, e.g. `the service is busy`; "": it may have them.
        visibility: Of whoever asks: nothing else is searched, and the record is theirs.
    """

    arrived: float | None = None
    way_back: float = 0.0
    text_only: str = ""
    visibility: Visibility = EVERYTHING


NOW = RequestContext()
"""Came just now, from somebody who sees everything, and may have guides."""
