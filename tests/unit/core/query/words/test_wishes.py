"""Wishes that words cannot fulfil: a table of queries that have one and of others that only look like it."""

from __future__ import annotations

from datetime import date

import pytest

from lodestone.query.words.wishes import wishes_of

TODAY = date(2026, 11, 27)  # a Friday

LEFT_OUT = {
    "a cat, not a dog": ["dog"],
    "a cat but not a dog": ["dog"],
    "Beach without people": ["people"],
    "a street without any cars or buses": ["cars", "buses"],
    "no dogs": ["dogs"],
    "a beach, no people": ["people"],
    "a beach no people": ["people"],
    "a room with no furniture": ["furniture"],
    "animals except cats": ["cats"],
    "everything but dogs": ["dogs"],
    "fruit excluding bananas": ["bananas"],
    "flowers other than roses": ["roses"],
    "a horse instead of a cow": ["cow"],
    "a cat rather than a dog": ["dog"],
    "birds -pigeon": ["pigeon"],
    "cat –dog": ["dog"],
    "nobody on the beach": ["people"],
    "a market with no one": ["people"],
    "mountains, and no snow": ["snow"],
    "a cat that is not black": ["black"],
    "dogs that are not on a leash": None,
    "cars which aren't red": ["red"],
    "don't show people": ["people"],
    "do not include text": ["text"],
    "a city without people at night": ["people"],
    "there are no clouds": ["clouds"],
    "not a dog": ["dog"],
    "a cat, not dogs": ["dogs"],
    "food without meat, fish or eggs": ["meat"],
    "a garden without a fence": ["fence"],
    "A boat — no people": None,
    "sky without clouds": ["clouds"],
    "portrait without glasses": ["glasses"],
    "a cat, not a dog, without people": ["dog", "people"],
    "a forest without the river": ["river"],
    "a plate without \u00adfood": ["food"],
    "children, no adults": ["adults"],
    "a table except for the chairs": ["chairs"],
    "a house leaving out the garden": ["garden"],
    "beach with no Ｐｅｏｐｌｅ": ["People"],
    "flowers, not a single rose": ["single rose"],
    "a church no cars": ["cars"],
    "a man without a shirt is walking": ["shirt"],
}
LEFT_OUT = {text: things for text, things in LEFT_OUT.items() if things}

DATED = {
    "photos from 2019": ("2019-01-01", "2020-01-01"),
    "Photos from 2019": ("2019-01-01", "2020-01-01"),
    "a dog in 2018": ("2018-01-01", "2019-01-01"),
    "before 2015": (None, "2015-01-01"),
    "the garden before 2015": (None, "2015-01-01"),
    "since 2018": ("2018-01-01", None),
    "after 2018": ("2019-01-01", None),
    "until 2018": (None, "2019-01-01"),
    "in March 2020": ("2020-03-01", "2020-04-01"),
    "snow in Dec 2020": ("2020-12-01", "2021-01-01"),
    "before March 2020": (None, "2020-03-01"),
    "after March 2020": ("2020-04-01", None),
    "since march of 2020": ("2020-03-01", None),
    "March 2020": ("2020-03-01", "2020-04-01"),
    "12 March 2020": ("2020-03-12", "2020-03-13"),
    "on the 12th of March 2020": ("2020-03-12", "2020-03-13"),
    "March 12, 2020": ("2020-03-12", "2020-03-13"),
    "the beach on 2020-03-12": ("2020-03-12", "2020-03-13"),
    "pictures from 2020-03": ("2020-03-01", "2020-04-01"),
    "from 2015 to 2018": ("2015-01-01", "2019-01-01"),
    "between 2015 and 2018": ("2015-01-01", "2019-01-01"),
    "photos 2015-2018": ("2015-01-01", "2019-01-01"),
    "from 2015 – 2018": ("2015-01-01", "2019-01-01"),
    "last summer": ("2026-06-01", "2026-09-01"),
    "at the lake last summer": ("2026-06-01", "2026-09-01"),
    "last winter": ("2025-12-01", "2026-03-01"),
    "last autumn": ("2025-09-01", "2025-12-01"),
    "this autumn": ("2026-09-01", "2026-12-01"),
    "last year": ("2025-01-01", "2026-01-01"),
    "this year": ("2026-01-01", "2027-01-01"),
    "last month": ("2026-10-01", "2026-11-01"),
    "this month": ("2026-11-01", "2026-12-01"),
    "last week": ("2026-11-16", "2026-11-23"),
    "this week": ("2026-11-23", "2026-11-30"),
    "last christmas": ("2025-12-24", "2025-12-27"),
    "photos from yesterday": ("2026-11-26", "2026-11-27"),
    "pictures of today": ("2026-11-27", "2026-11-28"),
    "two years ago": ("2024-01-01", "2025-01-01"),
    "a month ago": ("2026-10-01", "2026-11-01"),
    "3 days ago": ("2026-11-24", "2026-11-25"),
    "a week ago": ("2026-11-16", "2026-11-23"),
    "from the 1990s": ("1990-01-01", "2000-01-01"),
    "photos of 2019": ("2019-01-01", "2020-01-01"),
    "summer 2019": ("2019-01-01", "2020-01-01"),
    "christmas 2019": ("2019-01-01", "2020-01-01"),
    "taken in 2021": ("2021-01-01", "2022-01-01"),
    "from the year 2019": ("2019-01-01", "2020-01-01"),
    "dogs in ２０１９": ("2019-01-01", "2020-01-01"),
}

NO_WISH = [
    "knot",
    "a knot in a rope",
    "Not Your Mother's",
    "not your mother's shampoo",
    "1984 poster",
    "a house number 2019",
    "2019",
    "No. 5 perfume",
    "no 10 downing street",
    "no parking sign",
    "a sign with no smoking",
    "a no entry sign",
    "no u-turn",
    "a poster of Dr No",
    "dr. no people",
    "say no to drugs",
    "forget me not flowers",
    "touch-me-not",
    "do not disturb sign",
    "do not enter",
    "do not touch",
    "to be or not to be",
    "waste not want not",
    "404 not found",
    "No Country for Old Men",
    "no man's land",
    "No Doubt concert",
    "no time to die",
    "Doctors Without Borders",
    "without a trace",
    "not only dogs",
    "a notebook",
    "noodles",
    "notre dame at night",
    "Mr. Nobody",
    "nobody's fool",
    "snow",
    "a woman in a nightgown with knots",
    "a whether-or-not sign",
    "t-shirt",
    "x-ray",
    "merry-go-round",
    "blade runner 2049",
    "2001: a space odyssey",
    "from 2001: a space odyssey",
    "class of 2019",
    "room 2019",
    "in 2000 pieces",
    "from 2000 feet",
    "a view from 2000m",
    "video in 1080p",
    "area 51",
    "from 1600 pennsylvania avenue",
    "from 2010 main street",
    "route 1920",
    "the last supper",
    "last week tonight",
    "I know what you did last summer",
    "the last samurai",
    "USA Today newspaper",
    "yesterday",
    "an army in march formation",
    "may flowers",
    "march of penguins",
    "a 2015 honda civic",
    "from 2150",
    "in the year 1492",
    "boeing 747 from behind",
    "80s hairstyle",
    "a man in his 1950s style suit",
    "12-34-2019x",
    "2019-2020-2021",
    "the year of the dragon",
    "before sunrise",
    "after the rain",
    "since you asked",
    "everything but the girl",
    "a dog leaping, but not very high",
    "a sign behind the fence instead of on the street",
    "a plane at take off",
    "less is more",
    "plus minus sign",
    "a dog in 2019 degrees",
    "lego in 2019 pieces",
]


@pytest.mark.parametrize(("text", "things"), LEFT_OUT.items())
def test_what_is_to_be_left_out_is_noted_with_the_option_that_does_it(text: str, things: list[str]) -> None:
    (note,) = wishes_of(text, today=TODAY)
    assert note.code == "leave_out_by_option"
    assert note.without == things
    assert note.option.startswith(f"--without {things[0]}" if " " not in things[0] else f"--without '{things[0]}'")
    assert note.option.count("--without") == len(things)
    assert note.phrase and note.phrase in note.message
    assert wishes_of(text, today=TODAY, parts=False) == ()


@pytest.mark.parametrize(("text", "dates"), DATED.items())
def test_dates_are_noted_with_the_filter_for_them(text: str, dates: tuple[str | None, str | None]) -> None:
    (note,) = wishes_of(text, today=TODAY)
    assert note.code == "dates_by_filter"
    first, end = (None if day is None else date.fromisoformat(day) for day in dates)
    assert (note.taken_from, note.taken_to) == (first, end)
    options = [f"--from {first}" if first else "", f"--to {end}" if end else ""]
    assert note.option == " ".join(filter(None, options))
    assert wishes_of(text, today=TODAY, dates=False) == ()


@pytest.mark.parametrize("text", NO_WISH)
def test_names_and_numbers_are_no_wishes(text: str) -> None:
    assert wishes_of(text, today=TODAY) == ()


def test_both_kinds_are_noted_of_one_query() -> None:
    parts, dates = wishes_of("a beach without people from 2019", today=TODAY)
    assert (parts.without, parts.phrase) == (["people"], "without people")
    assert (dates.taken_from, dates.phrase) == (date(2019, 1, 1), "from 2019")


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("a cat, not a dog", "a cat"),
        ("a cat but not a dog", "a cat"),
        ("no dogs", ""),
        ("without people, a beach", "a beach"),
        ("a street without any cars or buses at night", "a street at night"),
        ("photos from 2019", "photos"),
        ("last summer at the lake", "at the lake"),
        ("March 2020", ""),
        ("a dog 3 days ago", "a dog"),
        ("a dog two months ago at the lake", "a dog at the lake"),
        ("a week ago, snow", "snow"),
        ("a cat last month", "a cat"),
        ("photos from yesterday", "photos"),
        ("a boat from 2015 to 2018", "a boat"),
        ("a boat on March 12, 2020", "a boat"),
        ("a party from the 1990s", "a party"),
        ("christmas 2019", ""),
        ("snow on 2020-03-12", "snow"),
    ],
)
def test_a_note_has_the_words_without_their_wish(text: str, rest: str) -> None:
    (note,) = wishes_of(text, today=TODAY)
    assert note.query == rest


@pytest.mark.parametrize(
    ("today", "first"),
    [("2026-07-15", "2025-06-01"), ("2026-09-01", "2026-06-01"), ("2026-05-31", "2025-06-01"), ("2026-08-31", "2025-06-01")],
)
def test_last_summer_is_the_last_whole_one(today: str, first: str) -> None:
    (note,) = wishes_of("last summer", today=date.fromisoformat(today))
    assert note.taken_from == date.fromisoformat(first)


@pytest.mark.parametrize(
    ("text", "today", "first", "end"),
    [
        ("last month", "2026-01-31", "2025-12-01", "2026-01-01"),
        ("last winter", "2026-02-10", "2024-12-01", "2025-03-01"),
        ("this winter", "2026-02-10", "2025-12-01", "2026-03-01"),
        ("this winter", "2026-12-01", "2026-12-01", "2027-03-01"),
        ("last christmas", "2026-12-27", "2026-12-24", "2026-12-27"),
        ("last christmas", "2026-12-26", "2025-12-24", "2025-12-27"),
        ("last week", "2026-11-23", "2026-11-16", "2026-11-23"),
        ("12 months ago", "2026-01-31", "2025-01-01", "2025-02-01"),
    ],
)
def test_relative_dates_go_over_the_ends_of_years_and_months(text: str, today: str, first: str, end: str) -> None:
    (note,) = wishes_of(text, today=date.fromisoformat(today))
    assert (str(note.taken_from), str(note.taken_to)) == (first, end)


def test_days_that_are_none_or_come_later_are_no_dates() -> None:
    for text in ("31 February 2020", "on 2020-13-01", "in 2027", "from 1825", "between 2019 and 2015"):
        assert wishes_of(text, today=TODAY) == (), text
    assert wishes_of("from 1826", today=TODAY) and wishes_of("in 2026", today=TODAY)
