"""Sets on the command line: alternatives in words (`--any`), and restrictions that hold (`--where`) or do not (`--not`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from lodestone.errors import InvalidRequestError, UnknownNameError
from lodestone_cli.dates import Dates, dates_of, filters_of
from lodestone_cli.naming import checked

if TYPE_CHECKING:
    from lodestone_cli.command_context import CommandContext
    from lodestone_schemas.api import SearchFilters

_PANEL: Final = "Sets of pictures"

AnyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--any", help="Other words that a picture may show instead; may be given several times.", rich_help_panel=_PANEL
    ),
]
WhereOption = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        help="Only pictures of which this holds, e.g. place=Norway, during=christmas, tagged=keep, year=2024; "
        "may be given several times.",
        rich_help_panel=_PANEL,
    ),
]
NotOption = Annotated[
    list[str] | None,
    typer.Option(
        "--not",
        help="Only pictures of which this does not hold, e.g. has=place, tagged=blurry; may be given several times.",
        rich_help_panel=_PANEL,
    ),
]

FactOption = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        help="Only pictures of which this is known: place=Norway, during=christmas, camera=Canon, shape=portrait, has=place; "
        "may be given several times.",
    ),
]

_FILTERS: Final[dict[str, Callable[[CommandContext, str], SearchFilters]]] = {
    "corpus": lambda context, text: filters_of(context, [text], None, None, Dates()),
    "root": lambda context, text: filters_of(context, None, [text], None, Dates()),
    "path": lambda context, text: filters_of(context, None, None, text, Dates()),
    "year": lambda context, text: filters_of(context, None, None, None, dates_of(None, None, text, None)),
    "month": lambda context, text: filters_of(context, None, None, None, dates_of(None, None, None, text)),
    "from": lambda context, text: filters_of(context, None, None, None, dates_of(text, None, None, None)),
    "to": lambda context, text: filters_of(context, None, None, None, dates_of(None, text, None, None)),
}


def match_of(
    context: CommandContext,
    words: str,
    *,
    others: Iterable[str] | None,
    holding: Iterable[str] | None,
    refused: Iterable[str] | None,
) -> tuple[str, dict[str, Any] | None]:
    """Return the words and the sets (`QuerySet`, as a dictionary) of a request; None for no sets.

    With other words the request's own are one of the alternatives, and the request itself has none.

    Args:
        context: Of the command.
        words: The words that are looked for; empty for none.
        others: Other words that may be shown instead.
        holding: Restrictions that hold, as `NAME=TEXT`.
        refused: Restrictions that do not hold.

    Raises:
        InvalidRequestError: a restriction is not of that form, or a date is none.
        UnknownNameError: a folder is unknown.
    """
    sets: list[dict[str, Any]] = []
    if alternatives := list(others or ()):
        sets.append({"any": [{"words": one} for one in (words, *alternatives) if one.strip()]})
        words = ""
    sets += [_restriction(context, "--where", text) for text in holding or ()]
    if negated := [_restriction(context, "--not", text) for text in refused or ()]:
        sets.append({"none": negated})
    return words, {"all": sets} if len(sets) > 1 else next(iter(sets), None)


def with_facts(filters: SearchFilters, texts: Iterable[str] | None) -> SearchFilters:
    """Return filters with conditions on facts, which are texts `NAME=VALUE`; two of one name hold together as alternatives.

    Raises:
        InvalidRequestError: one of them is not of that form.
    """
    from lodestone_schemas.searching import SearchFilters, where_of

    try:
        where = where_of(list(texts or ()))
    except ValueError as error:
        raise InvalidRequestError(f"--where: {error}", hint="e.g. --where place=Norway") from error
    return checked(lambda: SearchFilters.model_validate(filters.model_dump() | {"where": where}))


def said_set(match: Mapping[str, Any]) -> str:
    """Return in words what a set of a request (`QuerySet`, as JSON) asks for: `a dog or a cat, and not tagged blurry`."""
    name = next(iter(match), "")
    value: Any = match.get(name)
    said: dict[str, Callable[[], str]] = {
        "all": lambda: ", and ".join(map(said_set, value)),
        "any": lambda: f"({' or '.join(map(said_set, value))})",
        "none": lambda: f"not {', nor '.join(map(said_set, value))}",
        "words": lambda: str(value),
        "images": lambda: f"{len(value)} named pictures",
        "filters": lambda: said_filters(value),
    }
    return said[name]() if name in said else f"{name.replace('_', ' ')} {value}"


@contextmanager
def knowing_restrictions() -> Iterator[None]:
    """Raise the error that a name of `--where` or `--not` is no field as one that lists all names that sets know."""
    try:
        yield
    except UnknownNameError as error:
        if error.details.get("kind") != "field":
            raise
        raise UnknownNameError.among(
            "restriction", str(error.details.get("name")), list(dict.fromkeys([*_names(), *error.details.get("known", ())]))
        ) from error


def said_filters(filters: Mapping[str, Any]) -> str:
    """Return in words what filters of a request (`SearchFilters`, as JSON) ask for: `corpora family, colour red or blue`."""

    def said(value: object) -> str:
        return " or ".join(map(str, value)) if isinstance(value, list) else str(value)

    members = {name.replace("_", " "): value for name, value in filters.items() if name != "where"} | filters.get("where", {})
    return ", ".join(f"{name} {said(value)}" for name, value in members.items()) or "anything"


def _names() -> list[str]:
    from lodestone.facts.facts import KINDS
    from lodestone_schemas.searching import RESTRICTIONS_IN_WORDS

    return sorted({*RESTRICTIONS_IN_WORDS, *_FILTERS, *KINDS})


def _restriction(context: CommandContext, option: str, text: str) -> dict[str, Any]:
    from lodestone_schemas.searching import RESTRICTIONS_IN_WORDS

    name, equals, value = text.partition("=")
    name, value = name.strip(), value.strip()
    if equals and value and name in RESTRICTIONS_IN_WORDS:
        return {name: value}
    if equals and value and name:
        return {"filters": _FILTERS[name](context, value) if name in _FILTERS else {"where": {name: [value]}}}
    hint = f"NAME=TEXT, where NAME is one of {', '.join(_names())}, or a field of a part; e.g. {option} place=Norway"
    if option == "--not" and not equals:
        hint += ". What pictures show cannot be excluded, only come last: --without"
    raise InvalidRequestError(f"{option} {text!r} is no restriction", hint=hint)
