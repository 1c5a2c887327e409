"""Events and trips in photos: what was taken together in time and place, the home of whoever took it, and journeys from there.

Pictures whose gaps in time are short form an event. PhotoBench (section 3.1) uses "an adaptive 4-hour window with a minimum
cluster size of 3 images" and does not say how it adapts. Here a pause ends an event after 4 hours at the latest, and after 2
hours where pictures came much faster before and after it: by the criterion of PhotoTOC (Platt et al. 2003), a pause counts
that is 17 times as long as the geometric mean of the gaps around it. A short pause does not count where both of its sides lie
within a kilometre, and a change of place ends an event at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.positions import Degrees, Points, kilometres, middle, on_sphere

LEAST_PICTURES: Final = 3
"""Pictures of an event, at least."""

_HOUR: Final = 3_600
_LONGEST_PAUSE: Final = 4 * _HOUR  # of an event
_SHORTEST_PAUSE: Final = 2 * _HOUR  # that may end one at one place
_TIMES_THE_GAPS: Final = 17.0  # as long as the gaps around it is a pause that ends an event
_GAPS_AROUND: Final = 10  # on each side
_LEAST_GAP: Final = 1.0  # seconds between pictures of a burst
_SAME_PLACE_KM: Final = 1.0
_OTHER_PLACE_KM: Final = 50.0  # between pictures before and after that end an event without a pause
_LOOKED_AT: Final = 3  # located pictures on each side that say where a side is

_HOME_DEGREES: Final = 0.005  # of the cells in which days are counted: 556 m from north to south
_HOME_DAYS: Final = 5  # on which pictures were taken there, at least
_HOME_SHARE: Final = 0.1  # of all days with positions that were there, at least
_AT_NIGHT: Final = (20, 8)  # hours of the clock when people are at home rather than anywhere else
_NIGHT_COUNTS: Final = 3  # times as much as other hours
_AWAY_KM: Final = 60.0
_BETWEEN_TRIP_EVENTS: Final = 72 * _HOUR
_NIGHT_S: Final = 10 * _HOUR  # a trip lasts longer

Seconds = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Span:
    """Pictures that follow each other in time: from `first` up to `end`, not included."""

    first: int
    end: int

    def __len__(self) -> int:
        return self.end - self.first


def events_of(taken: Seconds, latitudes: Degrees, longitudes: Degrees) -> list[Span]:
    """Return the events among pictures, the oldest first; pictures between them belong to none.

    Args:
        taken: Seconds of absolute time (n,), ascending.
        latitudes: Degrees, north positive (n,); NaN where the position is unknown.
        longitudes: Degrees, east positive (n,); NaN where the position is unknown.
    """
    if not len(taken):
        return []
    gaps = np.diff(taken).astype(np.float64)
    limits = np.clip(_TIMES_THE_GAPS * _gaps_around(gaps), _SHORTEST_PAUSE, _LONGEST_PAUSE)
    moved = _moved_km(latitudes, longitudes, gaps > _SHORTEST_PAUSE)
    ends = (gaps > np.where(moved <= _SAME_PLACE_KM, _LONGEST_PAUSE, limits)) | (moved >= _OTHER_PLACE_KM)
    first = [0, *(np.flatnonzero(ends) + 1).tolist()]
    spans = (Span(begin, end) for begin, end in zip(first, [*first[1:], len(taken)], strict=True))
    return [span for span in spans if len(span) >= LEAST_PICTURES]


def _gaps_around(gaps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the geometric mean of the gaps around each gap (m,), without itself."""
    logs = np.log(np.maximum(gaps, _LEAST_GAP))
    sums = np.concatenate(([0.0], np.cumsum(logs)))
    places = np.arange(len(gaps))
    low, high = np.maximum(places - _GAPS_AROUND, 0), np.minimum(places + _GAPS_AROUND + 1, len(gaps))
    others = np.maximum(high - low - 1, 1)
    means: NDArray[np.float64] = np.exp((sums[high] - sums[low] - logs) / others)
    return means


def _moved_km(latitudes: Degrees, longitudes: Degrees, pauses: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the distance between the two sides of each gap (n - 1,); NaN where it is not known or does not matter.

    It matters at pauses, and where the nearest positions on both sides are far apart. A side is then where the median of its
    nearest located pictures is, so that one wrong position moves nothing.
    """
    count = len(latitudes)
    moved = np.full(count - 1, np.nan)
    located = np.flatnonzero(~np.isnan(latitudes) & ~np.isnan(longitudes))
    known = on_sphere(latitudes[located], longitudes[located])
    behind = np.searchsorted(located, np.arange(count - 1), side="right")  # located pictures up to each gap
    between = np.flatnonzero((behind > 0) & (behind < len(located)))
    far = kilometres(known[behind[between] - 1], known[behind[between]]) >= _OTHER_PLACE_KM
    for place in between[far | pauses[between]].tolist():
        before = known[max(behind[place] - _LOOKED_AT, 0) : behind[place]]
        moved[place] = kilometres(middle(before), middle(known[behind[place] : behind[place] + _LOOKED_AT]))
    return moved


@dataclass(frozen=True, slots=True)
class Home:
    """Where somebody lives, in degrees."""

    latitude: float
    longitude: float


def home_of(local: Seconds, latitudes: Degrees, longitudes: Degrees) -> Home | None:
    """Return where whoever took the pictures lives; None where no place stands out.

    It is the place with pictures on most days, where days with pictures in the evening or at night count three times. It must
    have five days, and a tenth of all days with positions.

    Args:
        local: Seconds of the clocks of the places since 1970-01-01T00:00:00 (n,).
        latitudes: Degrees, north positive (n,); NaN where the position is unknown.
        longitudes: Degrees, east positive (n,); NaN where the position is unknown.
    """
    located = ~np.isnan(latitudes) & ~np.isnan(longitudes)
    if not located.any():
        return None
    days, hours = np.divmod(local[located], 24 * _HOUR)
    at_night = (hours >= _AT_NIGHT[0] * _HOUR) | (hours < _AT_NIGHT[1] * _HOUR)
    cells = np.stack((latitudes[located], longitudes[located]), axis=1)
    rows = np.floor(cells / _HOME_DEGREES).astype(np.int64)
    points: dict[tuple[int, int], dict[int, int]] = {}
    for (row, column), day, night in zip(rows.tolist(), days.tolist(), at_night.tolist(), strict=True):
        counted = points.setdefault((row, column), {})
        counted[day] = max(counted.get(day, 1), _NIGHT_COUNTS if night else 1)

    def weight(cell: tuple[int, int]) -> int:
        """Return the weight of the days in a cell and those around it: a home lies on the edge of one as often as not."""
        return sum(sum(points.get(other, {}).values()) for other in _around(cell))

    best = max(points, key=lambda cell: (weight(cell), sum(points[cell].values()), cell))
    around = set(_around(best))
    there = {day for cell in around for day in points.get(cell, {})}
    if len(there) < max(_HOME_DAYS, _HOME_SHARE * len(set(days.tolist()))):
        return None
    chosen = cells[[tuple(row) in around for row in rows.tolist()]]
    return Home(float(np.median(chosen[:, 0])), float(np.median(chosen[:, 1])))


def _around(cell: tuple[int, int]) -> Iterator[tuple[int, int]]:
    yield from ((cell[0] + north, cell[1] + east) for north in (-1, 0, 1) for east in (-1, 0, 1))


def trips_of(events: list[Span], taken: Seconds, latitudes: Degrees, longitudes: Degrees, home: Home) -> list[Span]:
    """Return the trips: events far from home that follow each other within three days and last longer than a night.

    Args:
        events: As `events_of` returns them.
        taken: Seconds of absolute time (n,), ascending.
        latitudes: Degrees, north positive (n,); NaN where the position is unknown.
        longitudes: Degrees, east positive (n,); NaN where the position is unknown.
        home: Where they begin.

    Returns:
        The numbers of the first event of each, and of that after the last one.
    """
    here = on_sphere(np.array([home.latitude]), np.array([home.longitude]))[0]
    trips: list[Span] = []
    begun = last = -1  # numbers of the first and the last event of the trip that goes on
    for number, event in enumerate(events):
        where = _where(event, latitudes, longitudes)
        if where is None:
            continue  # what is between two events of a trip belongs to it
        away = float(kilometres(where, here)) >= _AWAY_KM
        if begun >= 0 and (not away or taken[event.first] - taken[events[last].end - 1] > _BETWEEN_TRIP_EVENTS):
            trips.append(Span(begun, last + 1))
            begun = -1
        if away:
            begun, last = number if begun < 0 else begun, number
    if begun >= 0:
        trips.append(Span(begun, last + 1))
    return [trip for trip in trips if taken[events[trip.end - 1].end - 1] - taken[events[trip.first].first] >= _NIGHT_S]


def _where(event: Span, latitudes: Degrees, longitudes: Degrees) -> Points | None:
    """Return the middle of an event's positions; None where none is known."""
    part = slice(event.first, event.end)
    located = ~np.isnan(latitudes[part]) & ~np.isnan(longitudes[part])
    if not located.any():
        return None
    return middle(on_sphere(latitudes[part][located], longitudes[part][located]))
