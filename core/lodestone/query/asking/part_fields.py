"""Conditions on facts of pictures, and on the filter fields that further parts declare (docs/recipes/add-a-part.md)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Final

from lodestone.errors import InvalidRequestError, UnknownNameError
from lodestone.facts.facts import KINDS, facts_condition
from lodestone.store.base import AnyOf, Between, Condition, Filter, MatchAny
from lodestone_schemas.collections import FieldKind

FieldValue = str | int | float

_NUMBER: Final = r"[+-]?\d{1,300}(?:\.\d{1,300})?"
_RANGE: Final = re.compile(rf"(?P<first>{_NUMBER})?\.\.(?P<end>{_NUMBER})?", re.ASCII)
_MOST: Final = 2**53  # whole numbers up to here are the same in a vector store, in JSON and on the page


def part_conditions(where: Mapping[str, Sequence[FieldValue]], fields: Mapping[str, FieldKind]) -> list[Condition]:
    """Return a condition for each fact or field: it has at least one of the values.

    Args:
        where: Kind of facts (`lodestone.facts`) or field -> values. Those of a field of numbers may be ranges in words:
            `3000..4000`, the first included, the last not; either may be left out.
        fields: The fields that there are beside the facts.

    Raises:
        UnknownNameError: there is no such field.
        InvalidRequestError: a value is not of the field's kind, or none of the fact's.
    """
    conditions = []
    for name, values in where.items():
        if name in KINDS:
            conditions.append(facts_condition(name, values))
            continue
        if name not in fields:
            raise UnknownNameError.among("field", name, [*KINDS, *fields])
        conditions.append(_condition(name, fields[name], values))
    return conditions


def _condition(name: str, kind: FieldKind, values: Sequence[FieldValue]) -> Condition:
    if kind is FieldKind.KEYWORD:
        return MatchAny(name, tuple(dict.fromkeys(_word(name, value) for value in values)))
    numbers = [_number(name, kind, value) for value in values]
    exact = tuple(dict.fromkeys(number for number in numbers if isinstance(number, int)))
    conditions: list[Condition] = [MatchAny(name, exact)] if exact else []
    conditions += [number for number in numbers if isinstance(number, Between)]
    return conditions[0] if len(conditions) == 1 else AnyOf(tuple(Filter(must=(one,)) for one in conditions))


def _word(name: str, value: FieldValue) -> str:
    if not isinstance(value, str):
        raise InvalidRequestError(
            f"the field {name!r} holds words, and {value!r} is a number", hint=f'give it as a text: "{value}"', field=name
        )
    return value


def _number(name: str, kind: FieldKind, value: FieldValue) -> int | Between:
    """Return a whole number, or a range of numbers."""
    if isinstance(value, str) and (found := _RANGE.fullmatch(value.strip())) is not None:
        first, end = (None if text is None else float(text) for text in (found["first"], found["end"]))
        if (first is None and end is None) or (first is not None and end is not None and first >= end):
            raise _no_value(name, kind, value, "no number lies in the range")
        return Between(name, first, end)
    number = value if not isinstance(value, str) else _read(value)
    if number is None or not math.isfinite(number):
        raise _no_value(name, kind, value, "it holds numbers")
    if kind is FieldKind.FLOAT:
        raise _no_value(name, kind, value, "numbers with decimals are only compared in ranges")
    if number != int(number) or abs(number) > _MOST:
        raise _no_value(name, kind, value, "it holds whole numbers")
    return int(number)


def _read(text: str) -> float | None:
    return float(text) if re.fullmatch(_NUMBER, text.strip(), re.ASCII) else None


def _no_value(name: str, kind: FieldKind, value: FieldValue, why: str) -> InvalidRequestError:
    example = "a range, 3000..4000" if kind is FieldKind.FLOAT else "a whole number, 3000, or a range, 3000..4000"
    return InvalidRequestError(
        f"the field {name!r} has no value {value!r}: {why}",
        hint=f"{example}; the first number is included, the last is not, and either may be left out",
        field=name,
    )
