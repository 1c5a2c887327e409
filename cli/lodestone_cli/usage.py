"""Sentences for wrong usage of a command: what is wrong with which option or argument, in place of the parser's own words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import typer

_CHOICES: Final = re.compile(r"^'(?P<value>.*)' is not one of (?P<choices>'.*')\.?$", re.DOTALL)
_LIMIT: Final = re.compile(r"^Input should be (?P<relation>greater|less) than (?P<equal>or equal to )?(?P<limit>\S+)")
_KINDS: Final = {"integer": "a whole number", "number": "a number", "boolean": "true or false"}
_KIND: Final = re.compile(r"^Input should be a valid (?P<kind>\w+)")
_NEEDS: Final = re.compile(r"^Option '(?P<option>.*)' requires (?P<number>an|\d+) arguments?\.$")
_EXTRA: Final = re.compile(r"^Got unexpected extra arguments?(?:\(s\))? \((?P<words>.*)\)$", re.DOTALL)
_OF_PYDANTIC: Final = "Value error, "


def usage_sentence(error: typer.TyperException) -> str:
    """Return what is wrong with a command line; "" where the help was printed instead, because nothing was asked for."""
    param: Any = getattr(error, "param", None)
    message = str(getattr(error, "message", "")).removeprefix(_OF_PYDANTIC)
    if not error.format_message():
        return ""
    if type(error).__name__ == "MissingParameter" and param is not None:
        about = str(getattr(param, "help", "") or "").rstrip(".")
        return f"{_named(param)} is missing" + (f": {about[0].lower()}{about[1:]}" if about else "")
    if param is not None:
        return f"{_named(param)} {_fault(message)}"
    return message if type(error).__name__ == "BadParameter" else _without_parameter(error, message)


def _without_parameter(error: typer.TyperException, message: str) -> str:
    if needs := _NEEDS.match(message):
        return f"{needs['option']} needs {'a value' if needs['number'] == 'an' else needs['number'] + ' values'}"
    if extra := _EXTRA.match(message):
        return f"too much is given: {extra['words']}"
    whole = error.format_message().rstrip(".")
    return whole[:1].lower() + whole[1:]


def _named(param: Any) -> str:  # noqa: ANN401 - Typer does not export the class of its parameters
    """Return an option as it is typed, or an argument as the help names it."""
    if param.param_type_name == "option":
        return str(max(param.opts, key=len))
    return str(param.metavar or param.name).upper()


def _fault(message: str) -> str:
    if choices := _CHOICES.match(message):
        *most, last = re.findall(r"'([^']*)'", choices["choices"])
        return f"is {', '.join(most)}{' or ' if most else ''}{last}, not {choices['value']!r}"
    if limit := _LIMIT.match(message):
        least = "at least" if limit["relation"] == "greater" else "at most"
        other = "more than" if limit["relation"] == "greater" else "less than"
        return f"must be {least if limit['equal'] else other} {limit['limit']}"
    if (kind := _KIND.match(message)) and kind["kind"] in _KINDS:
        return f"must be {_KINDS[kind['kind']]}"
    return f"is not understood: {message[:1].lower()}{message[1:]}"


def command_of(error: typer.TyperException, arguments: Sequence[str], names: Sequence[str]) -> str:
    """Return the command whose usage is wrong, as it was typed; the parser does not always know it.

    Args:
        error: The parser's.
        arguments: Words of the command line.
        names: Names of commands and groups.
    """
    context = getattr(error, "ctx", None)
    if context is not None:
        return str(context.command_path)
    return " ".join(["lodestone", *[word for word in arguments if word in names][:1]])
