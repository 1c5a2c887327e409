"""Values that no sensible client sends, put into every place of every message that the OpenAPI document describes."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

HALF_PAIR = "\ud800"
Place = tuple[str | int, ...]


def deep(levels: int) -> object:
    """Return lists inside lists, so many levels deep."""
    value: object = []
    for _ in range(levels):
        value = [value]
    return value


HOSTILE: Mapping[str, object] = {
    "nul": "a\0b",
    "long": "x" * 20_000,
    "half pair at the end": "dots\udfff",
    "empty": "",
    "right to left": "\u202edots\u0000\ufeff",
    "huge": 10**400,
    "larger than 64 bits": 2**70,
    "negative": -(2**65),
    "nan": float("nan"),
    "infinite": float("inf"),
    "tiny": 5e-324,
    "deep": deep(400),
    "table": {"": None, "a": {"b": [1, {"c": "\0"}]}},
    "null": None,
    "truth": True,
    "many": ["x"] * 3_000,
}


class Messages:
    """Makes messages from the schemas of an OpenAPI document.

    Args:
        document: The document.
        known: Member to a value that is known to the service, for members of that name.
    """

    def __init__(self, document: Mapping[str, Any], known: Mapping[str, object]) -> None:
        self._document = document
        self._known = known

    def full(self, schema: Mapping[str, Any], *, name: str = "", depth: int = 5) -> Any:
        """Return a value with every member that the schema has, lists and tables with one item."""
        schema = self._resolved(schema)
        if name in self._known:
            return copy.deepcopy(self._known[name])
        for alternatives in ("anyOf", "oneOf", "allOf"):
            if alternatives in schema:
                given = [one for one in schema[alternatives] if one.get("type") != "null"]
                return self.full(given[0], name=name, depth=depth) if given else None
        if "enum" in schema or "const" in schema:
            return schema.get("const", (schema.get("enum") or [None])[0])
        kind = schema.get("type")
        if kind == "object":
            members = {
                key: self.full(inner, name=key, depth=depth - 1) for key, inner in schema.get("properties", {}).items() if depth
            }
            further = schema.get("additionalProperties")
            return members or ({"some": self.full(further, depth=depth - 1)} if isinstance(further, dict) and depth else {})
        if kind == "array":
            return [self.full(schema.get("items", {}), depth=depth - 1)] if depth else []
        plain = {"string": "dots", "integer": schema.get("minimum", 1), "number": schema.get("minimum", 1.0), "boolean": False}
        return plain.get(str(kind), "dots")

    def least(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return a table with the members alone that the schema asks for."""
        resolved = self._resolved(schema)
        whole = self.full(resolved)
        return {name: whole[name] for name in resolved.get("required", [])}

    def _resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        while "$ref" in schema:
            target: Any = self._document
            for part in schema["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            schema = target
        return schema


def leaves(value: object, place: Place = ()) -> Iterator[Place]:
    """Yield the place of every value that is neither a table nor a list."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, (*place, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from leaves(inner, (*place, number))
    else:
        yield place


def replaced(value: Any, place: Place, by: object) -> Any:
    """Return a copy with another value at a place."""
    if not place:
        return by
    copied = copy.copy(value)
    copied[place[0]] = replaced(value[place[0]], place[1:], by)
    return copied


def renamed(value: Any, place: Place, name: str) -> Any:
    """Return a copy in which the table that holds a place calls it by another name."""
    *outer, last = place
    holder = value
    for part in outer:
        holder = holder[part]
    return replaced(value, tuple(outer), {name if key == last else key: inner for key, inner in holder.items()})
