"""Conditions on the filter fields of parts: values, ranges and their bounds, and what is refused."""

from __future__ import annotations

import pytest

from lodestone.errors import InvalidRequestError, UnknownNameError
from lodestone.facts.facts import KINDS, code_of
from lodestone.query.asking.part_fields import part_conditions
from lodestone.store.base import AnyOf, Between, Condition, Filter, MatchAny
from lodestone_schemas.api import SearchFilters
from lodestone_schemas.collections import FieldKind

FIELDS = {"colour": FieldKind.KEYWORD, "faces": FieldKind.INTEGER, "sharpness": FieldKind.FLOAT}


def condition_of(name: str, *values: str | float) -> Condition:
    (condition,) = part_conditions({name: values}, FIELDS)
    return condition


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("colour", ["red"], MatchAny("colour", ("red",))),
        ("colour", ["red", "blue", "red"], MatchAny("colour", ("red", "blue"))),
        ("colour", ["1..2"], MatchAny("colour", ("1..2",))),
        ("faces", [3], MatchAny("faces", (3,))),
        ("faces", ["3", 4, 3.0], MatchAny("faces", (3, 4))),
        ("faces", ["-3"], MatchAny("faces", (-3,))),
        ("faces", [2**53], MatchAny("faces", (2**53,))),
        ("faces", ["2..5"], Between("faces", 2, 5)),
        ("faces", ["2.."], Between("faces", 2, None)),
        ("faces", [" ..5 "], Between("faces", None, 5)),
        ("sharpness", ["-0.5..1.25"], Between("sharpness", -0.5, 1.25)),
        ("faces", ["7..", 1, "..0", 2], AnyOf((
            Filter(must=(MatchAny("faces", (1, 2)),)),
            Filter(must=(Between("faces", 7, None),)),
            Filter(must=(Between("faces", None, 0),)),
        ))),
    ],
)  # fmt: skip
def test_a_field_has_one_of_its_values_or_lies_in_a_range(name, values, expected) -> None:
    assert condition_of(name, *values) == expected


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("colour", 3, "holds words"),
        ("faces", "many", "it holds numbers"),
        ("faces", "..", "no number lies in the range"),
        ("faces", "5..5", "no number lies in the range"),
        ("faces", "5..2", "no number lies in the range"),
        ("faces", "5...7", "it holds numbers"),
        ("faces", "1e3", "it holds numbers"),
        ("faces", 2.5, "it holds whole numbers"),
        ("faces", 2**53 + 2, "it holds whole numbers"),
        ("faces", float("nan"), "it holds numbers"),
        ("faces", float("inf"), "it holds numbers"),
        ("sharpness", 0.5, "only compared in ranges"),
        ("sharpness", "0.5", "only compared in ranges"),
        ("sharpness", "9" * 301, "it holds numbers"),
    ],
)
def test_a_value_of_another_kind_is_refused_with_what_fits(name, value, said) -> None:
    with pytest.raises(InvalidRequestError, match=said) as raised:
        condition_of(name, value)
    assert raised.value.details["field"] == name and raised.value.hint


def test_fields_hold_together_and_an_unknown_one_is_told_with_those_that_there_are() -> None:
    both = part_conditions({"colour": ["red"], "faces": ["1.."]}, FIELDS)
    assert both == [MatchAny("colour", ("red",)), Between("faces", 1, None)]
    with pytest.raises(UnknownNameError, match="unknown field 'color'") as raised:
        part_conditions({"color": ["red"]}, FIELDS)
    assert raised.value.details["known"] == sorted({*KINDS, *FIELDS})


def test_facts_and_fields_hold_together() -> None:
    both = part_conditions({"place": ["Norway", "Oslo"], "colour": ["red"]}, FIELDS)
    assert both == [MatchAny("facts", (code_of("place=norway"), code_of("place=oslo"))), MatchAny("colour", ("red",))]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["colour=red", " colour = blue ", "faces=2..5"], {"colour": ["red", "blue"], "faces": ["2..5"]}),
        (["text=a=b"], {"text": ["a=b"]}),
        ({"faces": [2, 2.5, "3.."]}, {"faces": [2, 2.5, "3.."]}),
        ([], {}),
    ],
)
def test_conditions_are_written_as_texts_or_by_name(given, expected) -> None:
    assert SearchFilters.model_validate({"where": given}).where == expected


@pytest.mark.parametrize(
    "given",
    [
        ["colour"], ["=red"], ["colour="], ["colour= "], {"colour": []}, {"": ["x"]}, {"colour": [True]}, {"colour": [""]},
        {"x" * 101: ["a"]}, {"colour": ["x" * 1_001]}, {"colour": ["x"] * 101}, {f"f{n}": ["x"] for n in range(17)},
    ],
)  # fmt: skip
def test_conditions_of_another_form_or_size_are_refused(given) -> None:
    with pytest.raises(ValueError, match="where"):
        SearchFilters.model_validate({"where": given})
