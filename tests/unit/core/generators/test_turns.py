"""Turns of guide engines: shares, rounds and calls."""

from __future__ import annotations

import pytest

from lodestone.generators.turns import calls_of, next_round, turns_of


@pytest.mark.parametrize(
    ("limits", "missing", "first", "quota"),
    [
        ({"a": None, "b": None}, 5, 0, {"a": [0, 1, 2], "b": [0, 1]}),  # the first has the remainder
        ({"a": 1, "b": None}, 5, 0, {"a": [0], "b": [0, 1, 2, 3]}),
        ({"a": 9, "b": 9}, 2, 0, {"a": [0, 1], "b": [0, 1]}),  # nobody gives more than is wanted
        ({"a": 3, "b": None}, 4, 2, {"a": [2], "b": [2, 3, 4]}),  # two of three were given before
        ({"a": 0}, 4, 0, {}),
        ({}, 4, 0, {}),
    ],
)
def test_engines_take_turns_up_to_their_own_number_or_an_equal_share(limits, missing, first, quota) -> None:
    turns = turns_of(limits, missing, first=first)
    assert [number for _, number in turns] == sorted(number for _, number in turns)  # each one's first, then each one's second
    assert next_round(turns, set(), size=100) == quota
    assert not turns


def test_a_round_skips_engines_that_are_asked_no_more_and_leaves_the_rest() -> None:
    turns = turns_of({"a": None, "b": None, "c": None}, 9, first=0)
    assert next_round(turns, {"b"}, size=3) == {"a": [0, 1], "c": [0]}
    assert next_round(turns, {"a"}, size=3) == {"b": [1, 2], "c": [1]}
    assert next_round(turns, set(), size=3) == {"c": [2]}


@pytest.mark.parametrize(
    ("numbers", "most", "calls"),
    [
        ([], None, []),
        ([0, 1, 2], None, [(0, 3)]),
        ([0, 1, 2], 2, [(0, 2), (2, 1)]),
        ([1, 3, 4, 7], None, [(1, 1), (3, 2), (7, 1)]),
    ],
)
def test_a_call_is_a_run_of_numbers_without_a_gap(numbers, most, calls) -> None:
    assert calls_of(numbers, most) == calls
