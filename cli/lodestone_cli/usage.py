"""Sentences for wrong usage of a command: what is wrong with which option or argument, in place of the parser's own words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, Final

import typer
from typer.core import TyperGroup

DESTRUCTIVE: Final = frozenset({
    "remove", "forget", "revoke", "rotate", "prune", "restore", "rebuild", "compact", "reset", "undo", "unset", "swap", "order",
    "import", "cancel", "--yes", "-y", "--repair", "--force", "--off", "--overwrite", "--local",
})  # fmt: skip
"""Commands of all groups, and options, that take something away or replace it: none of them is ever suggested."""

_ALIKE: Final = 0.6  # as `difflib` has it
_CHOICES: Final = re.compile(r"^'(?P<value>.*)' is not one of (?P<choices>'.*')\.?$", re.DOTALL)
_LIMIT: Final = re.compile(r"^Input should be (?P<relation>greater|less) than (?P<equal>or equal to )?(?P<limit>\S+)")
_KINDS: Final = {"integer": "a whole number", "number": "a number", "boolean": "true or false"}
_KIND: Final = re.compile(r"^Input should be a valid (?P<kind>\w+)")
_NEEDS: Final = re.compile(r"^Option '(?P<option>.*)' requires (?P<number>an|\d+) arguments?\.$")
_EXTRA: Final = re.compile(r"^Got unexpected extra arguments?(?:\(s\))? \((?P<words>.*)\)$", re.DOTALL)
_OF_PYDANTIC: Final = "Value error, "


class SafeCommands(TyperGroup):
    """Group of commands that suggests a similar name for an unknown one, and never one that takes something away."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - Typer does not export these types
        """Return the command that the words name, as Typer does.

        Raises:
            TyperException: There is no such command; the message may suggest one.
        """
        try:
            return super().resolve_command(ctx, args)
        except typer.TyperException as error:
            names = [name for name in self.commands if name not in DESTRUCTIVE]
            if args and (similar := get_close_matches(args[0], names, cutoff=_ALIKE)):
                listed = ", ".join(repr(name) for name in similar)
                error.message = f"{str(error.message).rstrip('.')}. Did you mean {listed}?"
            raise


def usage_sentence(error: typer.TyperException) -> str:
    """Return what is wrong with a command line; "" where the help was printed instead, because nothing was asked for."""
    if possible := getattr(error, "possibilities", None):  # of an unknown option
        error.possibilities = [name for name in possible if name not in DESTRUCTIVE]  # type: ignore[attr-defined]
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
