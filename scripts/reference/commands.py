"""Reference page of the command line: every command with its arguments and options, read from the parser itself."""

from __future__ import annotations

import enum
import inspect
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from scripts.reference.tables import cell, table

from lodestone_cli import main

_EVERYWHERE = {"help"}
_KINDS = {str: "text", int: "whole number", float: "number", Path: "path", bool: ""}


def commands_page() -> str:
    """Return the page of all commands in the order of `lodestone --help`."""
    main._load_commands()  # noqa: SLF001 - what `lodestone --help` calls, too
    root = typer.main.get_command(main.app)
    blocks = [
        "# Command line",
        "<!-- Made of the commands by `python -m scripts.api_reference`: change those. -->",
        "Every command takes `--help`. [Errors](../errors.md) lists the exit codes.",
        *_command("lodestone", root, level=2),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _command(path: str, command: Any, *, level: int) -> Iterator[str]:  # noqa: ANN401 - classes of a copy of click inside Typer
    # `serve` alone is a command and has commands below it.
    children = getattr(command, "commands", {})
    yield f"{'#' * level} `{path}`"
    yield _text(command.help)
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    words = [_argument_name(argument) for argument in arguments]
    rest = " COMMAND" if children else ""
    yield f"```text\n{' '.join([path, *words])} [OPTIONS]{rest}\n```"
    yield table(("argument", "meaning"), [(f"`{argument.name}`", _meaning(argument)) for argument in arguments])
    yield table(
        ("option", "value", "meaning"),
        [
            (", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts)), _value(option), _meaning(option))
            for option in options
            if option.name not in _EVERYWHERE and not option.hidden
        ],
    )
    for name, child in children.items():
        if not child.hidden:
            yield from _command(f"{path} {name}", child, level=min(level + 1, 3))


def _argument_name(argument: Any) -> str:  # noqa: ANN401
    name = argument.name.upper() + ("…" if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _value(option: Any) -> str:  # noqa: ANN401
    if option.is_flag:
        return ""
    kind = _kind(option.type_descriptor.annotation)
    return f"{kind}; may be repeated" if option.multiple else kind


def _kind(annotation: Any) -> str:  # noqa: ANN401 - any type
    inside = [one for one in typing.get_args(annotation) if one is not type(None)]
    if inside:
        return _kind(inside[0])
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return ", ".join(f"`{member.value}`" for member in annotation)
    return _KINDS.get(annotation, getattr(annotation, "__name__", "text").lower())


def _meaning(parameter: Any) -> str:  # noqa: ANN401
    text = _text(parameter.help or "")
    default = parameter.default
    if parameter.required or default in (None, (), [], "", False) or callable(default) or not parameter.show_default:
        return cell(text)
    shown = getattr(default, "value", default)
    return cell(f"{text} Default: `{shown}`.")


def _text(text: str | None) -> str:
    """Return a help text with one line for each paragraph; a name in angle brackets is no tag."""
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(text or "").replace("\b", ""))
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs).replace("<", "&lt;")
