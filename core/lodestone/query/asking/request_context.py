"""Context of a request: when a query arrived, from whom, and whether there is room for guides."""

from __future__ import annotations

from dataclasses import dataclass

from lodestone.access.visibility import EVERYTHING, Visibility


@dataclass(frozen=True, slots=True)
class RequestContext:
    """What the host knows about a query beside its content.

    Attributes:
        arrived: `time.monotonic()` of this process when it arrived; its deadline counts from then. None for now.
        way_back: Seconds of its allowed time that the answer needs to reach the client.
        text_only: Why it gets no guides, e.g. `the service is busy`; empty if it may have them.
        visibility: What the caller may see: nothing else is searched, and the caller owns the record.
    """

    arrived: float | None = None
    way_back: float = 0.0
    text_only: str = ""
    visibility: Visibility = EVERYTHING


NOW = RequestContext()
"""Context of a query that arrives now, from a caller who sees everything, and may have guides."""
