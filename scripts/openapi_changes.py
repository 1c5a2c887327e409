"""Comparison of two OpenAPI 3.1 documents: changes that break programs written against the older one.

    python scripts/openapi_changes.py OLD.json NEW.json

A request that the old document allows must be allowed by the new one. An answer by the new document must satisfy the old one,
except for new members. The script prints one line for each breaking change and ends with status 1 if there are any. Changes
that somebody should only look at (a new value of an answer's enumeration, another operation id) are printed after `look:` and
are no failure.

These changes break: a path, method, answer, member, enumeration value or media type that is gone, a parameter or member that is
now required, a narrower type of what is sent, a wider type of what is answered.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

Json = Mapping[str, Any]

_METHODS: Final = ("get", "put", "post", "delete", "patch", "head", "options")
_UPPER: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_LOWER: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_EXACT: Final = ("pattern", "format")
_DEEPEST: Final = 40


@dataclass(slots=True)
class Changes:
    """Differences between an older and a newer document.

    Attributes:
        breaking: Changes that break programs.
        look: Changes that somebody should look at.
    """

    breaking: list[str] = field(default_factory=list)
    look: list[str] = field(default_factory=list)


def changes(old: Json, new: Json) -> Changes:
    """Compare two documents and return the changes."""
    found = Changes()
    for path, methods in old["paths"].items():
        for method in _METHODS:
            if method not in methods:
                continue
            where = f"{method.upper()} {path}"
            operation = new["paths"].get(path, {}).get(method)
            if operation is None:
                found.breaking.append(f"{where}: gone")
            else:
                _Operation(where, old, new, found).compare(methods[method], operation)
    return found


class _Operation:
    """Comparison of one operation of two documents."""

    def __init__(self, where: str, old: Json, new: Json, found: Changes) -> None:
        self._where = where
        self._old = old
        self._new = new
        self._found = found

    def compare(self, old: Json, new: Json) -> None:
        if old.get("operationId") != new.get("operationId"):
            self._look(f"operation id {old.get('operationId')!r} is {new.get('operationId')!r} now")
        self._parameters(old, new)
        self._body(old, new)
        self._answers(old, new)

    def _parameters(self, old: Json, new: Json) -> None:
        before, after = _by_name(old, self._old), _by_name(new, self._new)
        for (name, place), parameter in before.items():
            subject = f"{place} parameter {name!r}"
            if (name, place) not in after:
                self._broken(f"{subject} is gone")
                continue
            now = after[name, place]
            if now.get("required", False) and not parameter.get("required", False):
                self._broken(f"{subject} must be given now")
            self._taken(parameter.get("schema", {}), now.get("schema", {}), subject)
        for (name, place), parameter in after.items():
            if (name, place) not in before and parameter.get("required", False):
                self._broken(f"{place} parameter {name!r} is new and must be given")

    def _body(self, old: Json, new: Json) -> None:
        before, after = _resolved(old.get("requestBody", {}), self._old), _resolved(new.get("requestBody", {}), self._new)
        if after.get("required", False) and not before.get("required", False):
            self._broken("a body must be sent now")
        if before and not after:
            self._broken("takes no body any more")
            return
        for kind, content in before.get("content", {}).items():
            if kind not in after["content"]:
                self._broken(f"takes no {kind} any more")
            else:
                self._taken(content.get("schema", {}), after["content"][kind].get("schema", {}), "body")

    def _answers(self, old: Json, new: Json) -> None:
        for status, answer in old.get("responses", {}).items():
            if not status.startswith("2"):
                continue  # problems all look alike, and may come at any time
            if status not in new.get("responses", {}):
                self._broken(f"answer {status} is gone")
                continue
            before, after = _resolved(answer, self._old), _resolved(new["responses"][status], self._new)
            for kind, content in before.get("content", {}).items():
                if kind not in after.get("content", {}):
                    self._broken(f"answer {status} has no {kind} any more")
                else:
                    self._given(content.get("schema", {}), after["content"][kind].get("schema", {}), f"answer {status}")

    def _taken(self, old: Json, new: Json, where: str) -> None:
        comparison = _Values(narrow=self._old, wide=self._new, answering=False)
        for reason in comparison.reasons(old, new, where):
            self._broken(reason)

    def _given(self, old: Json, new: Json, where: str) -> None:
        comparison = _Values(narrow=self._new, wide=self._old, answering=True)
        for reason in comparison.reasons(new, old, where):
            if reason.endswith(_NEW_VALUES):
                self._look(reason)
            else:
                self._broken(reason)

    def _broken(self, what: str) -> None:
        self._found.breaking.append(f"{self._where}: {what}")

    def _look(self, what: str) -> None:
        self._found.look.append(f"{self._where}: {what}")


_NEW_VALUES: Final = "as a new value"


class _Values:
    """Reasons why a value that one schema (`narrow`) allows may not be allowed by another (`wide`).

    Sent values go from old to new. Answers go from new to old, where an unknown member is no reason.
    """

    def __init__(self, *, narrow: Json, wide: Json, answering: bool) -> None:
        self._narrow = narrow
        self._wide = wide
        self._answering = answering
        self._under_way: set[tuple[int, int]] = set()

    def reasons(self, narrow: Json, wide: Json, where: str) -> list[str]:
        """Return one line for each reason; each begins with its place."""
        narrow, wide = _resolved(narrow, self._narrow), _resolved(wide, self._wide)
        pair = (id(narrow), id(wide))
        if pair in self._under_way or len(self._under_way) > _DEEPEST:
            return []
        self._under_way.add(pair)
        try:
            found: list[str] = []
            for option in _alternatives(narrow, self._narrow):
                tries = [
                    (other.get("type") != option.get("type"), self._plain(option, other, where))
                    for other in _alternatives(wide, self._wide)
                ]
                _, fewest = min(tries, key=lambda tried: (tried[0] and bool(tried[1]), len(tried[1])))
                found.extend(fewest)
            return list(dict.fromkeys(found))
        finally:
            self._under_way.discard(pair)

    def _plain(self, narrow: Json, wide: Json, where: str) -> list[str]:
        if not _says_anything(wide):
            return []
        kind, allowed = narrow.get("type"), wide.get("type")
        if allowed is not None and kind != allowed and (kind, allowed) != ("integer", "number"):
            word = "can be" if self._answering else "cannot be"
            return [f"{where}: {word} {_named(narrow)}{' now' if self._answering else ' any more'}"]
        return [*self._choices(narrow, wide, where), *_bounds(narrow, wide, where), *self._inside(narrow, wide, where)]

    def _choices(self, narrow: Json, wide: Json, where: str) -> list[str]:
        values, known = _choices(narrow), _choices(wide)
        if known is None:
            return []
        if values is None:
            return [f"{where}: only {', '.join(map(repr, known))} now" if not self._answering else f"{where}: can be anything"]
        missing = [value for value in values if value not in known]
        if self._answering:
            return [f"{where}: has {value!r} {_NEW_VALUES}" for value in missing]
        return [f"{where}: the value {value!r} is gone" for value in missing]

    def _inside(self, narrow: Json, wide: Json, where: str) -> list[str]:
        found: list[str] = []
        if "items" in narrow and "items" in wide:
            found.extend(self.reasons(narrow["items"], wide["items"], f"{where}[]"))
        if isinstance(narrow.get("additionalProperties"), dict) and isinstance(wide.get("additionalProperties"), dict):
            found.extend(self.reasons(narrow["additionalProperties"], wide["additionalProperties"], f"{where}.*"))
        members, known = narrow.get("properties", {}), wide.get("properties", {})
        surely, demanded = set(narrow.get("required", ())), set(wide.get("required", ()))
        for name in members:
            if name in known:
                found.extend(self.reasons(members[name], known[name], f"{where}.{name}"))
            elif not self._answering and wide.get("additionalProperties") is False:
                found.append(f"{where}.{name}: is not taken any more")
        for name in known:
            if self._answering and name not in members:
                found.append(f"{where}.{name}: is gone")
            elif name in demanded and name not in surely:
                found.append(f"{where}.{name}: {'may be missing' if self._answering else 'must be given'} now")
        return found


def _says_anything(schema: Json) -> bool:
    return bool(schema.keys() - {"title", "description", "examples", "default", "deprecated"})


def _resolved(schema: Json, document: Json) -> Json:
    while "$ref" in schema:
        target: Any = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        schema = target
    return schema


def _alternatives(schema: Json, document: Json) -> Iterator[Json]:
    """Yield the schemas that a value may follow, without anyOf, oneOf, lists of types and references."""
    schema = _resolved(schema, document)
    for word in ("anyOf", "oneOf"):
        if word in schema:
            for option in schema[word]:
                yield from _alternatives(option, document)
            return
    if isinstance(schema.get("type"), list):
        for kind in schema["type"]:
            yield {**schema, "type": kind}
        return
    yield schema


def _choices(schema: Json) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    return list(schema["enum"]) if "enum" in schema else None


def _bounds(narrow: Json, wide: Json, where: str) -> Iterator[str]:
    for name in _UPPER:
        if name in wide and (name not in narrow or narrow[name] > wide[name]):
            yield f"{where}: {name} is {wide[name]}, was {narrow.get(name, 'without bound')}"
    for name in _LOWER:
        if name in wide and (name not in narrow or narrow[name] < wide[name]):
            yield f"{where}: {name} is {wide[name]}, was {narrow.get(name, 'without bound')}"
    for name in _EXACT:
        if name in wide and narrow.get(name) != wide[name] and not (name == "format" and "const" in narrow):
            yield f"{where}: {name} is {wide[name]!r}, was {narrow.get(name)!r}"


def _named(schema: Json) -> str:
    kind = schema.get("type", "of any type")
    return f"{kind} ({schema['title']})" if kind == "object" and "title" in schema else str(kind)


def _by_name(operation: Json, document: Json) -> dict[tuple[str, str], Json]:
    parameters = (_resolved(parameter, document) for parameter in operation.get("parameters", ()))
    return {(parameter["name"], parameter["in"]): parameter for parameter in parameters}


def main(arguments: list[str]) -> int:
    """Compare the two files that `arguments` name."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    chosen = parser.parse_args(arguments)
    found = changes(json.loads(chosen.old.read_text("utf-8")), json.loads(chosen.new.read_text("utf-8")))
    for line in found.look:
        sys.stdout.write(f"look: {line}\n")
    for line in found.breaking:
        sys.stdout.write(f"breaking: {line}\n")
    sys.stdout.write(f"{len(found.breaking)} breaking changes between {chosen.old.name} and {chosen.new.name}\n")
    return 1 if found.breaking else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
