"""Reference pages of settings and metrics: read from the settings' models and from the table of metrics."""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from scripts.reference.tables import cell, table

from lodestone.config.settings import Settings
from lodestone_serve.telemetry import metric_table

_SIGNS = {
    annotated_types.Ge: ("≥", "ge"),
    annotated_types.Gt: (">", "gt"),
    annotated_types.Le: ("≤", "le"),
    annotated_types.Lt: ("<", "lt"),
}
_LENGTHS = {annotated_types.MinLen: ("length ≥", "min_length"), annotated_types.MaxLen: ("length ≤", "max_length")}

_SETTINGS = """Every setting of `lodestone.toml`, and the variables of the environment that override them.
[Configuration](../configuration.md) explains where values come from and what they are for. `lodestone config show` prints those
in force."""
_METRICS = """What `/metrics` exports. [Monitoring](../monitoring.md) explains how to scrape it and what to watch. The last
column says how the values of several replicas become one: a fact of the whole home is reported by each of them alike."""


def settings_page() -> str:
    """Return the page of every setting, section by section."""
    blocks = [
        "# Settings",
        "<!-- Made of the settings' models by `python -m scripts.api_reference`: change those. -->",
        _SETTINGS,
        *_sections(Settings, ""),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _sections(model: type[BaseModel], prefix: str) -> Iterator[str]:
    yield f"## `[{prefix}]`" if prefix else "## At the top of the file"
    yield (model.__doc__ or "").strip().partition("\n\n")[0].replace("\n", " ")
    rows, below = [], []
    for name, field in model.model_fields.items():
        path = f"{prefix}.{name}" if prefix else name
        if nested := _nested(field.annotation):
            inner, named = nested
            below.append((inner, f"{path}.NAME" if named else path))
            continue
        rows.append((f"`{name}`", _type(field.annotation), _default(field), _meaning(field)))
    if rows and "NAME" not in prefix:
        yield f"In the environment: `{variable(prefix)}` and the name in capitals."
    yield table(("setting", "type", "default", "meaning"), rows)
    for inner, path in below:
        yield from _sections(inner, path)


def variable(prefix: str) -> str:
    """Return what the variables of a section's settings begin with."""
    return f"LODESTONE_{prefix.upper().replace('.', '__')}{'__' if prefix else ''}"


def _nested(annotation: Any) -> tuple[type[BaseModel], bool] | None:  # noqa: ANN401 - any type
    """Return the model of a section, and whether sections of it have names of the user's."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    found = [model for one in typing.get_args(annotation) if (model := _nested(one))]
    return (found[0][0], typing.get_origin(annotation) is dict or found[0][1]) if found else None


def _type(annotation: Any) -> str:  # noqa: ANN401, PLR0911 - one return for each kind of type
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return ", ".join(f"`{value}`" for value in inside)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type(one) for one in inside if one is not type(None))
    if origin is typing.Annotated:
        return _type(inside[0])
    if origin in (list, tuple, set, frozenset):
        return f"list of {_type(inside[0])}" if inside else "list"
    if origin is not None and inside:
        return f"table of {_type(inside[-1])}"
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return ", ".join(f"`{member.value}`" for member in annotation)
    names = {str: "text", int: "whole number", float: "number", bool: "true or false", Path: "path"}
    return names.get(annotation, getattr(annotation, "__name__", "any"))


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        # A factory's value is this machine's own (a user's folder), or an empty list or table.
        return "required" if field.is_required() else ""
    if field.default is None:
        return ""
    value = getattr(field.default, "value", field.default)
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _meaning(field: FieldInfo) -> str:
    signs = _SIGNS | _LENGTHS
    bounds = [f"{signs[type(one)][0]} {getattr(one, signs[type(one)][1])}" for one in field.metadata if type(one) in signs]
    text = (field.description or "").replace("<", "&lt;")
    return cell(f"{text} ({', '.join(bounds)})" if bounds else text)


def metrics_page() -> str:
    """Return the page of every metric of the service, in the order of the table that defines them."""
    definitions = [value for value in vars(metric_table).values() if isinstance(value, metric_table.Definition)]
    rows = [
        (
            f"`{definition.series()[0] if definition.kind == 'counter' else definition.name}`",
            definition.kind,
            ", ".join(f"`{label}`" for label in definition.labels),
            cell(definition.help.replace("<", "&lt;")),
            ", ".join(f"{bound:g}" for bound in definition.buckets),
            "maximum" if definition.shared else "sum",
        )
        for definition in definitions
    ]
    blocks = [
        "# Metrics",
        "<!-- Made of the table of metrics by `python -m scripts.api_reference`: change that. -->",
        _METRICS,
        table(("metric", "kind", "labels", "meaning", "buckets", "replicas"), rows),
    ]
    return "\n\n".join(blocks) + "\n"
