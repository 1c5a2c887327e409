"""Reference page of the HTTP API: routes and models, read from the OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scripts.reference.tables import cell, table

# Order of the groups on the page; the others follow by name.
_FIRST = ("search", "images", "queries", "learning", "corpora", "directories", "runs", "models", "keys", "sessions")
_HIDDEN = {"internal"}
_INTRODUCTION = """[The HTTP API](../api.md) explains requests, pages, streams and batches. Every route can answer with a
problem ([errors](../errors.md)). The service shows the same document at `/docs`."""


def routes_page(document: Path) -> str:
    """Return the page of all routes and of the models that they take and give.

    Args:
        document: The OpenAPI document.
    """
    described = json.loads(document.read_text(encoding="utf-8"))
    operations = [
        (tag, method, path, operation)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
        for tag in operation.get("tags", ["other"])[:1]
        if tag not in _HIDDEN
    ]
    names = sorted({tag for tag, *_ in operations}, key=lambda tag: (_FIRST.index(tag) if tag in _FIRST else len(_FIRST), tag))
    blocks = [
        "# HTTP API",
        "<!-- Made of schemas/openapi.json by `python -m scripts.api_reference`: change the routes. -->",
        _INTRODUCTION,
    ]
    for name in names:
        blocks.append(f"## {name.capitalize()}")
        for tag, method, path, operation in operations:
            if tag == name:
                blocks += _operation(method, path, operation)
    blocks.append("## Models")
    for name, schema in sorted(described["components"]["schemas"].items()):
        blocks += _model(name, schema)
    return "\n\n".join(block for block in blocks if block) + "\n"


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f"### `{method.upper()} {path}`"
    yield _escaped(operation.get("description") or operation.get("summary", ""))
    yield table(
        ("parameter", "in", "type", "meaning"),
        [
            (
                f"`{one['name']}`",
                one["in"],
                _type(one["schema"]),
                _meaning(one["schema"] | {"description": one.get("description", "")}),
            )
            for one in operation.get("parameters", [])
        ],
    )
    bodies = [
        f"{_type(body['schema'])} (`{kind}`)"
        for kind, body in operation.get("requestBody", {}).get("content", {}).items()
        if "schema" in body
    ]
    if bodies:
        yield f"Body: {' or '.join(bodies)}."
    answers = [
        f"{status}: {_answer(answer)}"
        for status, answer in operation["responses"].items()
        if status.startswith(("2", "3")) and "$ref" not in answer
    ]
    yield f"Answers: {'; '.join(answers)}." if answers else ""


def _answer(answer: Mapping[str, Any]) -> str:
    kinds = [
        f"{_type(content['schema'])} (`{kind}`)" if content.get("schema") else f"`{kind}`"
        for kind, content in answer.get("content", {}).items()
    ]
    return " or ".join(kinds) if kinds else _escaped(answer.get("description", "no content"))


def _model(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {name}"
    yield _escaped(schema.get("description", ""))
    if "enum" in schema:
        yield f"One of {', '.join(f'`{value}`' for value in schema['enum'])}."
    required = set(schema.get("required", ()))
    yield table(
        ("member", "type", "meaning"),
        [
            (f"`{member}`{'' if member not in required else ' (required)'}", _type(one), _meaning(one))
            for member, one in schema.get("properties", {}).items()
        ],
    )


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(_type(one) for one in schema[key]))
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if isinstance(schema.get("additionalProperties"), Mapping):
        return f"object of {_type(schema['additionalProperties'])}"
    kind = str(schema.get("type", "any"))
    return f"{kind} ({schema['format']})" if "format" in schema else kind


_BOUNDS = {
    "minimum": "≥", "maximum": "≤", "exclusiveMinimum": ">", "exclusiveMaximum": "<",
    "minLength": "length ≥", "maxLength": "length ≤", "minItems": "items ≥", "maxItems": "items ≤",
}  # fmt: skip


def _meaning(schema: Mapping[str, Any]) -> str:
    """Return description, bounds and default of a member; bounds may stand in one of several schemas."""
    parts = [_escaped(schema.get("description", ""))]
    for one in (schema, *schema.get("anyOf", ())):
        parts += [f"{sign} {one[key]}" for key, sign in _BOUNDS.items() if key in one]
    text = parts[0] + (f" ({', '.join(parts[1:])})" if parts[1:] else "")
    if schema.get("default") not in (None, [], {}, ""):
        text += f" Default: `{json.dumps(schema['default'], ensure_ascii=False)}`."
    return cell(text.strip())


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;")
