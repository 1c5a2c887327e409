"""Use cases of the timeline: events and trips of the pictures that the caller sees, found from their times and positions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.access.caller import Caller
from lodestone.catalog.pictures.dated import TimedPicture
from lodestone.catalog.records import SHOWN
from lodestone.errors import InvalidRequestError
from lodestone.gazetteer.places import Place, known_place
from lodestone.paging import decode_cursor, encode_cursor
from lodestone.positions import degrees_of, middle, on_sphere
from lodestone.services.pictures import picture_filter
from lodestone.services.sessions.session import HomeSession
from lodestone.timeline.calendar import holidays_of, shown_name
from lodestone.timeline.events import HomePosition, Span, events_of, home_of, trips_of
from lodestone_schemas.searching import SearchFilters
from lodestone_schemas.timeline import EventInfo, EventPage, EventsRequest

_NAMED_DAYS: Final = 4  # of an event, at most, that is named by a holiday
_LOOKED_UP: Final = 50  # positions of an event or trip whose places are looked up
_NO_TITLE: Final = re.compile(r"\bday (?:off|preceding|after|before)\b|^(?:national|public|bank) holiday$|\bfollowing\b")
_MOST: Final = 0.5  # of these that a place must have to name it


@dataclass(frozen=True, slots=True)
class _Album:
    """Dated pictures in the order of absolute time, and their columns (n,).

    Attributes:
        pictures: The pictures (n).
        taken: Seconds of absolute time; of pictures of unknown offset, those of the clock.
        local: Seconds of the clock.
        latitudes: Degrees; NaN where the position is unknown.
        longitudes: Degrees; NaN where the position is unknown.
    """

    pictures: Sequence[TimedPicture]
    taken: NDArray[np.int64]
    local: NDArray[np.int64]
    latitudes: NDArray[np.float64]
    longitudes: NDArray[np.float64]

    @classmethod
    def of(cls, pictures: Sequence[TimedPicture]) -> _Album:
        taken = np.array([picture.taken_at for picture in pictures], np.int64)
        offsets = np.array([60 * (picture.utc_offset_minutes or 0) for picture in pictures], np.int64)
        positions = [(picture.latitude, picture.longitude) for picture in pictures]
        known = np.array([pair if None not in pair else (np.nan, np.nan) for pair in positions], np.float64).reshape(-1, 2)
        return cls(pictures, taken, taken + offsets, known[:, 0], known[:, 1])

    def events(self) -> list[Span]:
        """Return the pictures of each event, the oldest first."""
        return events_of(self.taken, self.latitudes, self.longitudes)

    def trips(self, home: HomePosition | None) -> list[Span]:
        """Return the pictures of each trip from a home, the oldest first; none from nowhere."""
        events = self.events()
        trips = [] if home is None else trips_of(events, self.taken, self.latitudes, self.longitudes, home)
        return [Span(events[trip.first].first, events[trip.end - 1].end) for trip in trips]


class TimelineUseCases:
    """Use cases of the timeline.

    Args:
        session: The opened home.
    """

    def __init__(self, session: HomeSession) -> None:
        self._session = session

    def events(self, request: EventsRequest, caller: Caller) -> EventPage:
        """Return one page of events or trips, the newest first.

        Raises:
            UnknownNameError: a corpus or root is unknown or not seen.
            InvalidRequestError: no such cursor; the filters contradict each other, or ask for facts or fields of parts.
        """
        from lodestone.query.asking.filters import FilterSources, restriction

        if request.filters.where:
            raise InvalidRequestError(
                "events cannot be restricted by facts or fields of parts", hint="by corpora, roots, path_prefix or dates"
            )
        catalog = self._session.runtime.catalog
        which = picture_filter(restriction(request.filters, FilterSources(catalog, caller.visibility))[0])
        album = _Album.of(catalog.timed_pictures(which, states=SHOWN))
        spans = album.events() if request.kind == "event" else album.trips(self._home(request, caller, album))
        spans.reverse()
        list_name = f"{request.kind}s"
        if request.cursor is not None:
            before = decode_cursor(list_name, request.cursor, int, str)
            # Those that ended before the last one shown began: one that grew since then is not shown again.
            spans = [span for span in spans if _key(album, span.end - 1) < before]
        shown, more = spans[: request.limit], len(spans) > request.limit
        return EventPage(
            events=[_info(album, span, request.kind) for span in shown],
            next_cursor=encode_cursor(list_name, *_key(album, shown[-1].first)) if more else None,
        )

    def _home(self, request: EventsRequest, caller: Caller, album: _Album) -> HomePosition | None:
        """Return the home of whoever took the pictures of the corpora, of which `album` has those that are asked for."""
        from lodestone.query.asking.filters import FilterSources, restriction

        catalog = self._session.runtime.catalog
        everything = SearchFilters(corpora=request.filters.corpora)
        if request.filters != everything:
            which = picture_filter(restriction(everything, FilterSources(catalog, caller.visibility))[0])
            album = _Album.of(catalog.timed_pictures(which, states=SHOWN))
        return home_of(album.local, album.latitudes, album.longitudes)


def _key(album: _Album, row: int) -> tuple[int, str]:
    picture = album.pictures[row]
    return picture.taken_at, picture.image_id


def _info(album: _Album, span: Span, kind: str) -> EventInfo:
    """Return what is known of an event or trip."""
    part = slice(span.first, span.end)
    ends = (span.first, span.end - 1)
    first, last = (datetime.fromtimestamp(int(album.local[row]), UTC) for row in ends)
    begin, end = (datetime.fromtimestamp(int(album.taken[row]), UTC) for row in ends)
    days = [datetime.fromtimestamp(int(moment), UTC).date() for moment in (album.local[part].min(), album.local[part].max())]
    located = np.flatnonzero(~np.isnan(album.latitudes[part])) + span.first
    place = _place(album, located)
    points = on_sphere(album.latitudes[located], album.longitudes[located])
    latitude, longitude = degrees_of(middle(points)) if len(located) else (None, None)
    return EventInfo(
        event_id=album.pictures[span.first].image_id,
        kind="trip" if kind == "trip" else "event",
        title=_title(place, days[0], days[1], kind),
        place=None if place is None else ", ".join(place.names),
        first_local=first.replace(tzinfo=None).isoformat(),
        last_local=last.replace(tzinfo=None).isoformat(),
        taken_from=begin,
        taken_to=end + timedelta(seconds=1),
        pictures=len(span),
        cover=album.pictures[(span.first + span.end) // 2].image_id,
        latitude=latitude,
        longitude=longitude,
    )


def _place(album: _Album, located: NDArray[np.intp]) -> Place | None:
    """Return the smallest place that most of the located pictures were taken in: a city, else a state, else a country."""
    rows = located[:: max(1, -(-len(located) // _LOOKED_UP))]
    found = [known_place(float(album.latitudes[row]), float(album.longitudes[row])) for row in rows]
    known = [place for place in found if place is not None]
    if not known:
        return None
    for names in (
        [(place.country_code, place.country, place.state, place.city) for place in known],
        [(place.country_code, place.country, place.state, None) for place in known],
        [(place.country_code, place.country, None, None) for place in known],
    ):
        (code, country, state, city), count = Counter(names).most_common(1)[0]
        if count >= _MOST * len(found):
            return Place(code, country, state, city)
    return None


def _title(place: Place | None, first: date, last: date, kind: str) -> str:
    """Return a title: "Bergen, Easter 2018", "Bergen, 1–4 May 2018", or the date alone."""
    when = shown_days(first, last)
    if kind == "event" and (last - first).days < _NAMED_DAYS:
        days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
        code = None if place is None else place.country_code
        names = Counter(name for day in days for name in holidays_of(day, code) if _NO_TITLE.search(name) is None)
        if names:
            when = f"{shown_name(names.most_common(1)[0][0])} {first.year}"
    return when if place is None else f"{place.names[0]}, {when}"


def shown_days(first: date, last: date) -> str:
    """Return days as people write them: "1 May 2018", "1–4 May 2018", "30 April – 2 May 2018"."""
    end = f"{last.day} {last:%B} {last.year}"
    if first == last:
        return end
    if (first.year, first.month) == (last.year, last.month):
        return f"{first.day}–{end}"
    return f"{first.day} {first:%B} – {end}" if first.year == last.year else f"{first.day} {first:%B} {first.year} – {end}"
