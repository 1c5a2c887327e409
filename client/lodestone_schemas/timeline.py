"""API models of the timeline: events and trips."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from lodestone_schemas.base import MAX_CURSOR_CHARS, MAX_LIMIT, NEXT_CURSOR, Model
from lodestone_schemas.searching import SearchFilters


class EventsRequest(Model):
    """Asks for the events or trips of the pictures that pass filters, the newest first."""

    kind: Literal["event", "trip"] = Field(
        "event", description="Events are pictures taken together; trips, events that follow each other far from home."
    )
    filters: SearchFilters = Field(
        default_factory=SearchFilters, description="Pictures to look at; facts and fields of parts (`where`) are not taken."
    )
    limit: int = Field(50, ge=1, le=MAX_LIMIT, description="Events a page.")
    cursor: str | None = Field(None, max_length=MAX_CURSOR_CHARS, description="`next_cursor` of the page before.")


class EventInfo(Model):
    """Describes an event or a trip.

    It has all pictures that pass the filters of the request and were taken between its first and its last one, apart from those
    of which only the day, month or year is known.
    """

    event_id: str = Field(description="Id of its first picture among those that pass the filters.")
    kind: Literal["event", "trip"]
    title: str = Field(description="Place, and the holiday or the days, e.g. `Bergen, Easter 2018`.")
    place: str | None = Field(description="Names of the place of most of its pictures; null where it is not known.")
    first_local: str = Field(description="What the clock showed at its first picture, ISO 8601.")
    last_local: str = Field(description="What the clock showed at its last picture, ISO 8601.")
    taken_from: datetime = Field(description="Absolute time of its first picture, as filters take it.")
    taken_to: datetime = Field(description="Absolute time after its last picture, as filters take it.")
    pictures: int
    cover: str = Field(description="Id of a picture to show.")
    latitude: float | None = Field(description="Degrees, of the middle of its pictures; null where it is not known.")
    longitude: float | None = Field(description="Degrees, of the middle of its pictures; null where it is not known.")


class EventPage(Model):
    """Holds one page of events or trips, the newest first."""

    events: list[EventInfo]
    next_cursor: str | None = Field(None, description=NEXT_CURSOR)
