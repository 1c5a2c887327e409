"""Events and trips in photos: what was taken together in time and place, the home of whoever took it, and journeys from there.

Pictures whose gaps in time are short form an event. PhotoBench (section 3.1) uses "an adaptive 4-hour window with a minimum
cluster size of 3 images" and does not say how it adapts. Here a pause ends an event after 4 hours at the latest, and after 2
hours where pictures came much faster before and after it: by the criterion of PhotoTOC (Platt et al. 2003), a pause counts
that is 17 times as long as the geometric mean of the gaps around it. A short pause does not count where both of its sides lie
within a kilometre, and a change of place that lasts ends an event at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.positions import Degrees, Points, kilometres, middle, on_sphere

_LEAST_PICTURES: Final = 3  # of an event
_HOUR: Final = 3_600
_LONGEST_PAUSE: Final = 4 * _HOUR  # of an event
_SHORTEST_PAUSE: Final = 2 * _HOUR  # that may end one at one place
_TIMES_THE_GAPS: Final = 17.0  # as long as the gaps around it is a pause that ends an event
_GAPS_AROUND: Final = 10  # on each side
_LEAST_GAP: Final = 1.0  # seconds between pictures of a burst
_SAME_PLACE_KM: Final = 1.0
_OTHER_PLACE_KM: Final = 50.0  # between pictures before and after that end an event without a pause
_ASIDE: Final = 2  # further located pictures on each side that must be where the nearest one is; one of them must be there

_HOME_DEGREES: Final = 0.005  # of the cells in which days are counted: 556 m from north to south
_HOME_DAYS: Final = 5  # on which pictures were taken there, at least
_HOME_SHARE: Final = 0.1  # of all days with positions that were there, at least
_AT_NIGHT: Final = (20, 8)  # hours of the clock when people are at home rather than anywhere else
_NIGHT_COUNTS: Final = 3  # times as much as other hours
_AWAY_KM: Final = 60.0
_BETWEEN_TRIP_EVENTS: Final = 72 * _HOUR
_NIGHT_S: Final = 10 * _HOUR  # a trip lasts at least
_LONGEST_TRIP: Final = 90 * 24 * _HOUR  # whoever is away for longer lives there

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
    ends = gaps > _LONGEST_PAUSE
    located = _Located.of(latitudes, longitudes, np.concatenate(([0], np.cumsum(ends))))
    ends |= (gaps > limits) & ~(located.moved_km() <= _SAME_PLACE_KM)
    ends[located.changes(gaps)] = True
    first = [0, *(np.flatnonzero(ends) + 1).tolist()]
    spans = (Span(begin, end) for begin, end in zip(first, [*first[1:], len(taken)], strict=True))
    return [span for span in spans if len(span) >= _LEAST_PICTURES]


def _gaps_around(gaps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the geometric mean of the gaps around each gap (m,), without itself."""
    logs = np.log(np.maximum(gaps, _LEAST_GAP))
    sums = np.concatenate(([0.0], np.cumsum(logs)))
    places = np.arange(len(gaps))
    low, high = np.maximum(places - _GAPS_AROUND, 0), np.minimum(places + _GAPS_AROUND + 1, len(gaps))
    others = np.maximum(high - low - 1, 1)
    means: NDArray[np.float64] = np.exp((sums[high] - sums[low] - logs) / others)
    return means


@dataclass(frozen=True, slots=True)
class _Located:
    """The located ones of pictures (n) that follow each other in time.

    Attributes:
        rows: Which of them are located (m,), ascending.
        points: Where they were taken (m, 3), on the unit sphere.
        stretch_of: Number of the stretch without a long pause that each picture lies in, located or not (n,).
    """

    rows: NDArray[np.intp]
    points: Points
    stretch_of: NDArray[np.int64]

    @classmethod
    def of(cls, latitudes: Degrees, longitudes: Degrees, stretch_of: NDArray[np.int64]) -> _Located:
        rows = np.flatnonzero(~np.isnan(latitudes) & ~np.isnan(longitudes))
        return cls(rows, on_sphere(latitudes[rows], longitudes[rows]), stretch_of)

    @property
    def stretches(self) -> NDArray[np.int64]:
        """The stretches of the located pictures (m,)."""
        return self.stretch_of[self.rows]

    def moved_km(self) -> NDArray[np.float64]:
        """Return the distance of the nearest located pictures on both sides of each gap (n - 1,); NaN where there are none.

        They lie in the stretch of the gap.
        """
        count, stretches = len(self.stretch_of), self.stretches
        moved = np.full(count - 1, np.nan)
        behind = np.searchsorted(self.rows, np.arange(count - 1), side="right")  # located pictures up to each gap
        gaps = np.flatnonzero((behind > 0) & (behind < len(self.rows)))
        before, after = behind[gaps] - 1, behind[gaps]
        together = (stretches[before] == self.stretch_of[gaps]) & (stretches[after] == self.stretch_of[gaps])
        gaps, before, after = gaps[together], before[together], after[together]
        moved[gaps] = kilometres(self.points[before], self.points[after])
        return moved

    def changes(self, gaps: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return the gaps at which people went to another place.

        The pictures before must be near each other, at least two, and so must those after: neither a wrong position nor two
        people who photograph at the same time are a change. Among pictures without a position between, it is at the longest
        gap.

        Args:
            gaps: Seconds between the pictures (n - 1,).
        """
        steps = kilometres(self.points[:-1], self.points[1:])
        far = np.flatnonzero(steps >= _OTHER_PLACE_KM)
        lasting = far[self._is_compact(far, -1) & self._is_compact(far + 1, 1)]
        between = [slice(self.rows[place], self.rows[place + 1]) for place in lasting.tolist()]
        found = (part.start + int(np.argmax(gaps[part])) for part in between if gaps[part].max() > 0)
        return np.array(list(found), np.intp)

    def _is_compact(self, places: NDArray[np.intp], direction: int) -> NDArray[np.bool_]:
        """Return whether the next located pictures of each of some (k,) in a direction are near it, one of them at least."""
        stretches = self.stretches
        compact, has_one = np.ones(len(places), np.bool_), np.zeros(len(places), np.bool_)
        for steps in range(1, _ASIDE + 1):
            others = places + direction * steps
            there = (others >= 0) & (others < len(self.rows))
            others = np.where(there, others, 0)
            there &= stretches[others] == stretches[places]
            compact &= ~there | (kilometres(self.points[others], self.points[places]) < _OTHER_PLACE_KM)
            has_one |= there
        return compact & has_one


@dataclass(frozen=True, slots=True)
class HomePosition:
    """Where somebody lives, in degrees."""

    latitude: float
    longitude: float


def home_of(local: Seconds, latitudes: Degrees, longitudes: Degrees) -> HomePosition | None:
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
    return HomePosition(float(np.median(chosen[:, 0])), float(np.median(chosen[:, 1])))


def _around(cell: tuple[int, int]) -> Iterator[tuple[int, int]]:
    yield from ((cell[0] + north, cell[1] + east) for north in (-1, 0, 1) for east in (-1, 0, 1))


def trips_of(events: list[Span], taken: Seconds, latitudes: Degrees, longitudes: Degrees, home: HomePosition) -> list[Span]:
    """Return the trips: events far from home that follow each other within three days, from a night to three months in all.

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
    lasted = [int(taken[events[trip.end - 1].end - 1] - taken[events[trip.first].first]) for trip in trips]
    return [trip for trip, seconds in zip(trips, lasted, strict=True) if _NIGHT_S <= seconds <= _LONGEST_TRIP]


def _where(event: Span, latitudes: Degrees, longitudes: Degrees) -> Points | None:
    """Return the middle of an event's positions; None where none is known."""
    part = slice(event.first, event.end)
    located = ~np.isnan(latitudes[part]) & ~np.isnan(longitudes[part])
    if not located.any():
        return None
    return middle(on_sphere(latitudes[part][located], longitudes[part][located]))
