"""Tests of pictures that are named by the number before them: only those that were shown have one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone_cli.recorded import RecordedAnswer, picture_of

IDS = [f"{number}b269412-5186-5468-95f9-a9c811334dc9" for number in range(10)]
QUERY = "ffffffff-5186-5468-95f9-a9c811334dc9"


def context(**files: list[str]) -> Any:
    def pictures(name: str) -> list[str]:
        if name not in files:
            raise NotFoundError(f"no picture {name!r} is indexed", hint="")
        return files[name]

    return SimpleNamespace(locator=SimpleNamespace(pictures=pictures))


def answer(first: int, last: int) -> RecordedAnswer:
    """An answer of ten pictures that showed those with the numbers from `first` to `last`."""
    return RecordedAnswer(QUERY, "words", "dogs", IDS, {number: IDS[number - 1] for number in range(first, last + 1)})


def test_the_number_of_a_shown_picture_names_it_on_every_page() -> None:
    assert picture_of(context(), answer(1, 2), "2") == IDS[1]
    assert picture_of(context(), answer(5, 6), "5") == IDS[4]


@pytest.mark.parametrize(
    ("shown", "named", "told"),
    [
        ((1, 2), "3", "no picture 3 was shown: the answer showed 2 pictures, 1 to 2"),
        ((1, 2), "0", "no picture 0 was shown"),
        ((5, 6), "1", "the answer showed 2 pictures, 5 to 6"),
        ((5, 5), "6", "the answer showed 1 picture, 5"),
        ((1, 1), "2", "the answer showed 1 picture"),
        ((1, 0), "1", "no picture 1 was shown: the answer is empty"),
    ],
)
def test_a_number_that_was_not_shown_is_refused_with_those_that_were(shown: tuple[int, int], named: str, told: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        picture_of(context(), answer(*shown), named)
    assert told in refused.value.message
    assert "the path or the id of" in refused.value.hint
    assert "lodestone explain ffffffff" in refused.value.hint


def test_a_picture_that_was_not_shown_is_named_by_its_file_or_its_id() -> None:
    assert picture_of(context(photo=[IDS[7]]), answer(1, 2), "photo") == IDS[7]
    assert picture_of(context(), answer(1, 2), IDS[8]) == IDS[8]
    assert picture_of(context(), answer(1, 2), IDS[8][:9]) == IDS[8]
    with pytest.raises(NotFoundError, match="holds no picture 'nowhere'"):
        picture_of(context(), answer(1, 2), "nowhere")
