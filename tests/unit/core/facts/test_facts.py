"""Facts of pictures: which ones a picture has, how people may write them, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from lodestone.catalog.records import ImageRecord, ImageState
from lodestone.errors import InvalidRequestError
from lodestone.facts.facts import KINDS, code_of, facts_condition, facts_of, folded, shown_fact
from lodestone.facts.points import point_fields
from lodestone.store.base import AnyOf, Filter, MatchAny

NOTHING = ImageRecord("id", "corpus", "root", "2018/a.jpg", "0" * 64, 1, 0, ImageState.ACTIVE)
NOON = int(datetime(2018, 12, 25, 12, tzinfo=UTC).timestamp())
BERGEN, SYDNEY = (60.39, 5.32), (-33.87, 151.21)


def at(latitude: float, longitude: float) -> ImageRecord:
    return replace(NOTHING, latitude=latitude, longitude=longitude)


def any_of(*facts: str) -> MatchAny:
    """The condition that a point holds the code of one of these facts."""
    return MatchAny("facts", tuple(map(code_of, facts)))


def values(picture: ImageRecord, name: str) -> list[str]:
    """The values of one kind."""
    return [value for kind, _, value in (fact.partition("=") for fact in facts_of(picture)) if kind == name]


def test_a_picture_of_which_nothing_is_known_has_no_facts() -> None:
    assert facts_of(NOTHING) == []
    assert point_fields(NOTHING) == {"corpus": "corpus", "root": "root", "folders": ["", "2018"]}


def test_a_place_is_its_town_city_state_and_country() -> None:
    assert values(at(*BERGEN), "place") == ["bergen", "vestland", "norway"]
    assert values(at(*BERGEN), "has") == ["place"]
    assert values(at(0.0, -30.0), "place") == []  # in the middle of an ocean


def test_a_time_has_the_names_of_its_month_season_weekday_and_holidays() -> None:
    picture = replace(at(*BERGEN), taken_at=NOON)
    assert values(picture, "during")[:4] == ["december", "winter", "tuesday", "christmas"]
    assert values(replace(at(*SYDNEY), taken_at=NOON), "during")[1] == "summer"
    assert values(replace(NOTHING, taken_at=NOON), "during")[:3] == ["december", "tuesday", "christmas"]


@pytest.mark.parametrize(("precision", "names"), [("year", []), ("month", ["december"])])
def test_what_is_not_known_of_a_time_has_no_name(precision: str, names: list[str]) -> None:
    picture = replace(NOTHING, taken_at=NOON, taken_precision=precision)
    assert values(picture, "during") == names
    assert values(picture, "has") == ["time"]


def test_a_day_is_that_of_the_place_and_not_that_of_utc() -> None:
    late = replace(NOTHING, taken_at=NOON + 11 * 3600, utc_offset_minutes=120)  # 01:00 of the next day
    assert "wednesday" in values(late, "during")


@pytest.mark.parametrize(
    ("make", "model", "names"),
    [
        ("Canon", "Canon EOS 5D", {"canon", "eos 5d", "canon eos 5d"}),
        ("NIKON CORPORATION", "NIKON D750", {"nikon corporation", "nikon", "d750", "nikon d750"}),
        ("Apple", "iPhone 12", {"apple", "iphone 12", "apple iphone 12"}),
        (None, "X100V", {"x100v"}),
        ("Sony", None, {"sony"}),
        ("---", None, set()),
        ("None", "unknown", set()),
        ("Canon", "Canon", {"canon"}),
        ("-- Canon ", "Canon  EOS R", {"canon", "canon eos r", "eos r"}),
        ("EASTMAN KODAK COMPANY", "KODAK Z730", {"kodak", "z730", "kodak z730", "eastman kodak company"}),
        ("RICOH IMAGING COMPANY, LTD.", "PENTAX K-1", {"ricoh", "pentax", "pentax k 1", "k 1", "ricoh imaging company ltd"}),
        ("Konica Minolta", "DiMAGE A2", {"konica minolta", "konica minolta dimage a2", "dimage a2", "konica", "minolta"}),
        ("FUJIFILM", "X-T4", {"fujifilm", "fujifilm x t4", "x t4"}),
    ],
)
def test_a_camera_is_found_by_maker_and_model(make: str | None, model: str | None, names: set[str]) -> None:
    picture = replace(NOTHING, camera_make=make, camera_model=model)
    assert set(values(picture, "camera")) == names
    assert values(picture, "has") == (["camera"] if names else [])


@pytest.mark.parametrize(
    ("width", "height", "shapes"),
    [
        (1000, 1000, ["square"]),
        (1050, 1000, ["square"]),
        (1051, 1000, ["landscape"]),
        (1000, 1051, ["portrait"]),
        (1999, 1000, ["landscape"]),
        (2000, 1000, ["landscape", "panorama"]),
        (1000, 2000, ["portrait", "panorama"]),
        (0, 0, []),
    ],
)
def test_shapes_are_those_of_width_and_height(width: int, height: int, shapes: list[str]) -> None:
    assert values(replace(NOTHING, width=width, height=height), "shape") == shapes


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("Tromsø", "tromso"),
        ("  NEW   York ", "new york"),
        ("Baden-Baden", "baden baden"),
        ("St. Gallen", "st gallen"),
        ("New Year\u2019s Eve", "new years eve"),
        ("Zu\u0308rich", "zurich"),
        ("東京", "東京"),
        ("!?", ""),
    ],
)
def test_names_are_compared_however_they_are_written(written: str, plain: str) -> None:
    assert folded(written) == plain


@pytest.mark.parametrize(
    ("other", "usual"),
    [("USA", "united states"), ("uk", "united kingdom"), ("Holland", "netherlands"), ("Cologne", "koln")],
)
def test_places_are_asked_for_by_other_names_too(other: str, usual: str) -> None:
    assert facts_condition("place", [other]) == any_of(f"place={folded(other)}", f"place={usual}")


def test_a_town_that_is_called_like_a_country_elsewhere_is_not_there() -> None:
    assert values(at(42.79, -86.11), "place") == ["holland", "michigan", "united states"]


def test_a_countrys_own_name_is_found_with_and_without_its_article() -> None:
    assert "netherlands" in values(at(52.37, 4.90), "place")
    assert facts_condition("place", ["The Netherlands"]) == any_of(*("place=netherlands",))


def test_seasons_and_holidays_have_other_names() -> None:
    names = ("during=autumn", "during=christmas")
    assert facts_condition("during", ["Fall", "Xmas"]) == any_of(*names)


def test_one_of_several_values_is_enough() -> None:
    assert facts_condition("place", ["Norway", "norway", "Oslo"]) == any_of(*("place=norway", "place=oslo"))


def test_the_parts_of_a_place_with_commas_hold_together_unless_it_is_a_name_as_a_whole() -> None:
    whole = Filter(must=(any_of(*("place=paris texas", "place=oslo")),))
    both = Filter(must=(any_of(*("place=paris",)), any_of(*("place=texas",))))
    assert facts_condition("place", ["Paris, Texas", "Oslo"]) == AnyOf((whole, both))
    assert facts_condition("camera", ["iPhone12,1"]) == any_of(*("camera=iphone12 1",))


def test_a_place_has_a_bounded_number_of_parts() -> None:
    facts_condition("place", [",".join("abcdefgh")])
    with pytest.raises(InvalidRequestError, match="at most 8 parts"):
        facts_condition("place", [",".join("abcdefghi")])


@pytest.mark.parametrize(
    ("name", "value", "said", "hint"),
    [
        ("place", 7, "takes words", '"7"'),
        ("place", " , ", "names nothing", "town, city, state or country"),
        ("shape", "round", "no shape 'round'", "landscape, panorama, portrait, square"),
        ("has", "faces", "no has 'faces'", "camera, place, time"),
    ],
)
def test_what_no_picture_can_have_is_refused(name: str, value: object, said: str, hint: str) -> None:
    with pytest.raises(InvalidRequestError, match=said) as refused:
        facts_condition(name, [value])
    assert hint in (refused.value.hint or "")


def test_values_are_shown_as_people_write_them_and_those_that_repeat_others_are_not() -> None:
    picture = replace(at(69.65, 18.96), taken_at=NOON - 70 * 86_400, camera_make="NIKON CORPORATION", camera_model="NIKON D750")
    shown = {fact: shown_fact(picture, code_of(fact)) for fact in facts_of(picture)}
    assert shown["place=tromso"] == ("tromso", "Tromsø")
    assert shown["during=autumn"] == ("autumn", "Autumn") and "during=fall" not in shown
    assert shown["camera=nikon d750"] == ("nikon d750", "NIKON D750")
    assert (shown["camera=d750"], shown["camera=nikon corporation"]) == (None, None)
    assert shown_fact(picture, code_of("place=oslo")) is None


def test_points_hold_codes_and_no_text_of_a_fact() -> None:
    (code,) = (code for code in point_fields(at(*BERGEN))["facts"] if code == code_of("place=norway"))
    assert code == "place:aa1eadffa725883e", "with other codes, raise VERSION: collections hold these"


def test_every_kind_says_what_it_means() -> None:
    assert all(kind.meaning for kind in KINDS.values())
