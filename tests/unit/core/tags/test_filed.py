"""Pictures are filed under the words of their paths, cameras and dates, and found first where a query says such words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from tests.support.catalogs import picture

from lodestone.catalog.records import ImageRecord, Root
from lodestone.retrieval.tag_matches import FiledPictures
from lodestone.store.base import Neighbours
from lodestone.tags.filed import FiledQuery, filed_query, filed_words
from lodestone.tags.terms import PictureTag, picture_vector

ROOT = Root(str(UUID(int=1)), str(UUID(int=2)), "Pictures", "/home/ottilie/Pictures")


def image(uri: str, taken: str | None = None, **facts: Any) -> ImageRecord:
    at = None if taken is None else int(datetime.fromisoformat(taken).replace(tzinfo=UTC).timestamp())
    return picture(ROOT, uri, taken_at=at, **facts)


def query(text: str) -> FiledQuery:
    found = filed_query(text)
    assert found is not None, text
    return found


def score(text: str, words: frozenset[str], *tags: str, captions: tuple[str, ...] = ()) -> float:
    vector = picture_vector([PictureTag(tag, given="words") for tag in tags], captions, words)
    assert vector is not None
    asked = query(text).vector
    _, here, there = np.intersect1d(asked.indices, vector.indices, return_indices=True)
    return float(asked.values[here] @ vector.values[there])


def kind(text: str, uri: str, *tags: str, captions: tuple[str, ...] = (), **facts: Any) -> str:
    """Return which of the sets of `FiledPictures` a picture is in, or "nowhere"."""
    value = score(text, filed_words(image(uri, **facts), ROOT.name), *tags, captions=captions)
    ids = ("it",) if value else ()
    found = query(text).split(Neighbours(ids, np.array([value] * len(ids), np.float32)))
    kinds = [name for name in ("whole", "named", "hinted") if getattr(found, name)]
    assert len(kinds) <= 1
    return kinds[0] if kinds else "nowhere"


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("Norway", "Norway 2016/P0001.jpg"),
        ("norway 2016", "Norway 2016/P0001.jpg"),
        ("IMG_1343", "camera/IMG_1343.JPG"),
        ("img 1343", "camera/IMG_1343.JPG"),
        ("1343", "camera/IMG_1343.JPG"),
        ("WA0012", "WhatsApp/IMG-20161224-WA0012.jpg"),
        ("IMG_1343.jpg", "camera/IMG_1343.JPG"),
        ("IMG_012", "camera/IMG_012.jpg"),
        ("dsc00217", "DSC00217.ARW"),
        ("birthday Jürgen", "family/birthday Jürgen/a.jpg"),
        ("birthday jurgen", "family/birthday Ju\u0308rgen/a.jpg"),
        ("christmas 2017", "2017/Christmas/x.jpg"),
        ("Oslo trip", "OsloTrip/x.jpg"),
        ("oslotrip", "OsloTrip/x.jpg"),
        ("photos of Lillehammer", "Lillehammer/x.jpg"),
        ("東京", "東京/x.jpg"),
        ("Pictures Norway", "Norway/x.jpg"),
    ],
)
def test_names_of_folders_and_files_are_found(text: str, uri: str) -> None:
    assert kind(text, uri) == "whole"


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("Canon", {"camera_make": "Canon", "camera_model": "Canon EOS 5D"}),
        ("canon eos 5d", {"camera_make": "Canon", "camera_model": "Canon EOS 5D"}),
        ("iPhone 6s", {"camera_make": "Apple", "camera_model": "iPhone 6s"}),
        ("2019", {"taken": "2019-12-31T23:30:00"}),
        ("December 2019", {"taken": "2019-12-31T23:30:00"}),
        ("january 2020", {"taken": "2019-12-31T23:30:00", "utc_offset_minutes": 60}),
        ("1987", {"taken": "1987-01-01T00:00:00", "taken_precision": "year"}),
    ],
)
def test_cameras_years_and_months_are_found(text: str, facts: dict[str, Any]) -> None:
    assert kind(text, "a/x.jpg", **facts) == "whole"


def test_of_a_partial_date_no_month_is_known() -> None:
    words = filed_words(image("x.jpg", "1987-01-01T00:00:00", taken_precision="year"), "")
    assert "1987" in words
    assert "januari" not in words
    assert "januari" in filed_words(image("x.jpg", "1987-01-01T00:00:00", taken_precision="month"), "")
    assert filed_words(image("x.jpg"), "") == {"x"}


@pytest.mark.parametrize(
    "text", ["a dog on the beach", "beach", "a red car at night", "two dogs", "2 dogs", "100 people", "camera", "dcim photos"]
)
def test_what_pictures_show_is_left_to_the_models(text: str) -> None:
    assert filed_query(text) is None


@pytest.mark.parametrize(
    "text",
    [
        *("people march in the street", "you may swim", "me", "dogs since 2018", "before june", "before 25 june 2019"),
        *("from 2017 to 2019", "2017-2019", "photos not from Norway", "a dog without Canon", "beach, not 2017"),
    ],
)
def test_words_that_mean_something_else_what_is_left_out_and_ends_of_spans_say_nothing(text: str) -> None:
    assert filed_query(text) is None


@pytest.mark.parametrize("text", ["photos taken in 2017", "find pictures from 2017", "please show only 2017", "my best 2017"])
def test_words_of_asking_count_for_nothing(text: str) -> None:
    assert kind(text, "x.jpg", taken="2017-03-01T10:00:00") == "whole"


def test_march_and_may_are_months_beside_a_year_or_a_day() -> None:
    for text in ("march 2017", "March 2017", "2017 march"):
        assert kind(text, "x.jpg", taken="2017-03-05T10:00:00") == "whole"
        assert kind(text, "x.jpg", taken="2017-08-05T10:00:00") == "hinted"
    assert kind("people march 2017", "x.jpg", taken="2017-03-05T10:00:00") == "named"


def test_names_come_next_and_a_part_of_them_is_nothing() -> None:
    assert kind("a beach in Lillehammer", "Lillehammer 2016/x.jpg") == "named"
    assert kind("a beach in Lillehammer", "beach/Lillehammer/x.jpg") == "whole"
    assert kind("a beach in Lillehammer", "beach/x.jpg") == "nowhere"
    assert kind("christmas 2017", "x.jpg", taken="2017-03-01T10:00:00") == "named"
    assert kind("a dog and a cat at Ottilie's house in Lillehammer", "Lillehammer/Ottilie/x.jpg") == "named"
    assert kind("a dog and a cat at Ottilie's house in Lillehammer", "Lillehammer/x.jpg") == "nowhere"
    assert kind("IMG_1343", "camera/DSC_1343.jpg") == "nowhere"


def test_of_a_short_query_the_most_english_words_under_which_anything_is_filed_are_a_hint() -> None:
    assert kind("a fjord in Norway", "Norway 2016/x.jpg") == "hinted"
    assert kind("a dog in summer", "summer 2019/x.jpg") == "hinted"
    assert kind("Oslo 2019", "Oslo/x.jpg") == "hinted"
    assert kind("Oslo 2019", "x.jpg", taken="2019-03-01T10:00:00") == "named"
    assert kind("Lillehammer Lofoten", "Lofoten/x.jpg") == "hinted"
    assert kind("a fjord in Norway with Anna", "Norway 2016/x.jpg") == "hinted"
    assert kind("a fjord in Norway with Anna and Peter", "Norway 2016/x.jpg") == "nowhere"  # a description, not a name
    asked = query("a fjord in Norway")

    def split(*scores: int, most: int = 9) -> tuple[set[str], set[str], set[str]]:
        ids = ("a", "b", "c", "d")[: len(scores)]
        found = asked.split(Neighbours(ids, np.array(scores, np.float32)), most)
        return set(found.whole), set(found.named), set(found.hinted)

    assert split(1, 1) == (set(), set(), {"a", "b"})
    assert split(2, 1, 1) == ({"a"}, set(), {"b", "c"})
    assert split(1, 1, most=2) == (set(), set(), set())
    assert split(2, 1, most=2) == ({"a"}, set(), set())
    assert split() == (set(), set(), set())


def test_tags_of_people_and_names_in_captions_count_with_names_of_files_and_other_words_of_captions_do_not() -> None:
    assert kind("Jürgen 2017", "2017/x.jpg", "Jürgen") == "whole"
    assert kind("Ottilie 2017", "2017/x.jpg", captions=("with Ottilie by the lake",)) == "whole"
    assert kind("cheerful", "2017/x.jpg", captions=("a cheerful child",)) == "nowhere"


def test_too_many_pictures_tell_nothing() -> None:
    asked = query("a beach in Lillehammer")  # one name, one other: 2 and 1
    ids, scores = ("a", "b", "c"), np.array([3, 2, 2], np.float32)
    assert asked.split(Neighbours(ids, scores), most=4) == FiledPictures(frozenset({"a"}), frozenset({"b", "c"}))
    assert asked.split(Neighbours(ids, scores), most=3) == FiledPictures(frozenset({"a"}))
    assert asked.split(Neighbours(ids, np.array([3, 3, 3], np.float32)), most=3) == FiledPictures()
    assert not asked.split(Neighbours((), np.zeros(0, np.float32)))
    assert FiledPictures(hinted=frozenset({"a"}))


def test_names_are_found_as_they_are_shown_and_copied() -> None:
    assert kind("2017/Christmas/DSC_0006.jpg", "2017/Christmas/DSC_0006.jpg") == "whole"
    for text in ('"IMG_1343.jpg"', "IMG_1343.jpg,", "(IMG_1343)"):
        assert kind(text, "camera/IMG_1343.jpg") == "whole", text
    for name in ("IMG_1343-edited.jpg", "IMG_1343_1.jpg", "IMG_1343(1).jpg"):
        assert kind("IMG_1343", name) == "whole", name
    assert kind("IMG_20170503", "IMG_20170503_1234.jpg") == "whole"
    assert kind("東京2017", "東京/x.jpg", taken="2017-05-01T10:00:00") == "whole"
    assert kind("2017年", "x.jpg", taken="2017-05-01T10:00:00") == "whole"
    assert "2016" in filed_words(image("Norway.2016"), "")


@pytest.mark.parametrize("uri", ["bytes:%FF%FE/a.jpg", "a" * 4_000, "\u202eabc/x.jpg", ".jpg", "///"])
def test_odd_names_are_filed_under_what_can_be_read_of_them(uri: str) -> None:
    assert isinstance(filed_words(image(uri), "\n"), frozenset)


def test_a_query_of_very_many_words_is_none() -> None:
    assert filed_query(" ".join(f"word{number}" for number in range(300))) is None
    assert filed_query("?!") is None


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("Bergen", (60.39, 5.32), "whole"),
        ("Norway", (60.39, 5.32), "whole"),
        ("New York", (40.7, -73.95), "whole"),
        ("new york city", (40.7, -73.95), "whole"),
        ("USA", (40.7, -73.95), "whole"),
        ("New York", (53.96, -1.08), "nowhere"),  # York
        ("York", (40.7, -73.95), "nowhere"),
        ("Mexico", (35.08, -106.65), "nowhere"),  # New Mexico
        ("Wales", (-33.86, 151.2), "nowhere"),  # New South Wales
        ("New South Wales", (-33.86, 151.2), "whole"),
        ("South Korea", (37.5665, 126.978), "whole"),
        ("Russia", (55.75, 37.62), "whole"),
        ("the capital", (64.14, -21.94), "nowhere"),  # Capital Region
        ("a bridge in Bergen", (60.39, 5.32), "hinted"),
        ("Norway", (None, None), "nowhere"),
    ],
)
def test_places_are_found_by_their_whole_names(text: str, position: tuple[Any, Any], expected: str) -> None:
    latitude, longitude = position
    assert kind(text, "camera/P0001.jpg", latitude=latitude, longitude=longitude) == expected


@pytest.mark.parametrize("text", ["a hamburger", "hamburgers", "an angel", "a cork", "a new car"])
def test_things_that_are_called_like_towns_are_left_to_the_models(text: str) -> None:
    assert filed_query(text) is None


@pytest.mark.parametrize(
    ("text", "taken", "expected"),
    [
        ("christmas 2017", "2017-12-24", "whole"),
        ("christmas eve", "2017-12-24", "whole"),
        ("christmas eve", "2017-12-31", "nowhere"),
        ("New Year's Eve 2017", "2017-12-31", "whole"),
        ("new year’s eve", "2017-12-24", "nowhere"),
        ("new year", "2018-01-01", "whole"),
        ("good friday", "2018-03-30", "whole"),
        ("good friday", "2018-04-06", "nowhere"),
        ("easter 2018", "2018-04-02", "whole"),
        ("sunday in march 2018", "2018-03-25", "whole"),
        ("halloween 2019", "2019-10-31", "whole"),
        ("winter 2018", "2018-01-05", "named"),  # nobody knows where
    ],
)
def test_days_are_found_by_their_names(text: str, taken: str, expected: str) -> None:
    assert kind(text, "camera/P0001.jpg", taken=taken, taken_precision="day") == expected


@pytest.mark.parametrize(
    ("text", "position", "taken", "expected"),
    [
        ("winter 2018", (60.39, 5.32), "2018-01-05", "whole"),
        ("winter 2018", (-33.86, 151.2), "2018-01-05", "named"),
        ("constitution day", (60.39, 5.32), "2018-05-17", "whole"),
        ("labour day", (40.7, -73.95), "2018-09-03", "whole"),
        ("labor day", (40.7, -73.95), "2018-09-03", "whole"),
        ("a national park", (48.8584, 2.2945), "2018-07-14", "nowhere"),  # National Day
        ("1994", (-1.95, 30.06), "2018-04-07", "nowhere"),  # a memorial day of what happened in that year
    ],
)
def test_seasons_and_public_holidays_are_those_of_the_place(
    text: str, position: tuple[float, float], taken: str, expected: str
) -> None:
    latitude, longitude = position
    found = kind(text, "camera/P0001.jpg", latitude=latitude, longitude=longitude, taken=taken, taken_precision="day")
    assert found == expected


def test_of_a_year_or_a_month_alone_no_day_is_known() -> None:
    assert kind("new year 2017", "camera/P0001.jpg", taken="2017-01-01", taken_precision="month") == "hinted"
    assert kind("january 2017", "camera/P0001.jpg", taken="2017-01-01", taken_precision="month") == "whole"
    assert kind("january 2017", "camera/P0001.jpg", taken="2017-01-01", taken_precision="year") == "hinted"
