"""Phrases of change: what they look for and what they avoid."""

from __future__ import annotations

import pytest

from lodestone.query.words.phrases import Change, affirmed, change_of


@pytest.mark.parametrize(
    "text",
    [
        "change it to a cat",
        "make it a cat",
        "turn this into a cat",
        "but a cat",
        "like this but a cat",
        "the same but with a cat",
        "it should be a cat",
        "nothing but a cat",
        "with nothing but a cat",
        "like this, but only a cat, please",
        "remove not-a cat",
        "remove everything but a cat",
        "remove everything except a cat",
        "remove anything that is not a cat",
        "not without a cat",
        "change the background to a cat",
    ],
)
def test_the_content_is_looked_for_however_it_is_asked(text: str) -> None:
    assert change_of(text) == Change("a cat")


@pytest.mark.parametrize(
    "text",
    [
        "without people",
        "like this but without people",
        "no people",
        "but no people!",
        "with no people at all",
        "not people",
        "remove the people from the picture",
        "make it without any people",
        "get rid of people, please",
        "don’t show people",
        "it isn't people",
        "nobody in it",
        "anything but people",
    ],
)
def test_negations_are_to_be_avoided(text: str) -> None:
    assert change_of(text) == Change("", ("people",))


@pytest.mark.parametrize(
    ("text", "wanted", "avoided"),
    [
        ("with a cat instead of a dog", "a cat", ("dog",)),
        ("a cat rather than the dog", "a cat", ("dog",)),
        ("change the dog to a cat", "a cat", ("dog",)),
        ("replace the dog with a cat", "a cat", ("dog",)),
        ("a dog without a leash and no people", "a dog", ("leash", "people")),
        ("at night, without people or cars, and make it a boat", "at night, a boat", ("people", "cars")),
        ("Make it Night", "Night", ()),
        ("without people, cars or dogs", "", ("people", "cars", "dogs")),
        ("at night, remove the people, the cars, or the dogs", "at night", ("people", "cars", "dogs")),
        ("no people, cars nor dogs", "", ("people", "cars", "dogs")),
        ("without people, at night or at dawn", "at night or at dawn", ("people",)),
        ("without people, make it a cat or a dog", "a cat or a dog", ("people",)),
        ("no dog, a cat or a horse", "a cat or a horse", ("dog",)),
        ("not a dog, a cat or a horse", "a cat or a horse", ("dog",)),
        ("no more than two people", "", ("more than two people",)),
    ],
)
def test_several_phrases_are_read_together(text: str, wanted: str, avoided: tuple[str, ...]) -> None:
    assert change_of(text) == Change(wanted, avoided)


@pytest.mark.parametrize(
    "text",
    [
        "a red boat",
        "at night",
        "with a face",
        "this cheese, mouldy",
        "black and white",
        "dogs, cats and horses",
        "dogs; cats.",
        "dogs but cats",
        "dogs, cats or horses",
        "fewer than three people",
        "show jumping",
        "a no smoking sign",
        "no smoking sign",
        "non-smoking area",
        "a drop of water",
        "change it to",
        "remove",
    ],
)
def test_other_words_stay_as_they_are(text: str) -> None:
    assert change_of(text) is None


def test_words_for_the_picture_itself_say_nothing_more() -> None:
    assert change_of("like this one") == Change("")


def test_what_is_avoided_and_negated_is_asked_for() -> None:
    assert [affirmed(words) for words in ("not-a cat", "anything but a cat", "people", "no smoking sign")] == [
        "a cat",
        "a cat",
        None,
        None,
    ]
