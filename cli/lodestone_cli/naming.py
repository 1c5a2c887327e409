"""Names, ids and counts as people type and read them."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from lodestone.errors import InvalidRequestError, NotFoundError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from lodestone.catalog.catalog import Catalog
    from lodestone.catalog.records import Corpus

    M = TypeVar("M", bound=BaseModel)
else:
    M = TypeVar("M")

SHORT = 8  # characters of an id that people see
_LISTED = 3
_CORPORA = 10_000


def corpora_of(catalog: Catalog, name: str | None = None) -> list[Corpus]:
    """Return the corpus of that name; all corpora without a name.

    Raises:
        UnknownNameError: there is no such corpus.
    """
    return [catalog.corpus(name)] if name else catalog.corpora(offset=0, limit=_CORPORA)


def counted(number: int, what: str) -> str:
    """Return a number with its noun: `1 tag`, `2 tags`, `1,000 tags`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def confirm(question: str) -> None:
    """Ask before something is forgotten; "no" ends the command.

    Raises:
        InvalidRequestError: nobody can answer, because there is no terminal.
    """
    import typer

    if not sys.stdin.isatty():
        raise InvalidRequestError(f"nobody can be asked here: {question}", hint="say --yes to do it without a question")
    typer.confirm(question, abort=True, err=True)


def local_time(moment: datetime, *, seconds: bool = False) -> str:
    """Return a moment in this machine's time zone: `2026-05-01 14:03`."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}" if seconds else f"{moment.astimezone():%Y-%m-%d %H:%M}"


def short(id_: str) -> str:
    """Return the beginning of an id, as people see and type it."""
    return id_[:SHORT]


def is_id(text: str) -> bool:
    """Return whether `text` is a complete id (a UUID)."""
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


def id_among(text: str, ids: Collection[str], *, what: str, hint: str) -> str:
    """Return the only one of `ids` that begins with `text`.

    Args:
        text: An id or its beginning.
        ids: All ids that are known.
        what: Noun for messages: `query`, `tag`.
        hint: How to list the ids.

    Raises:
        NotFoundError: no id begins so.
        InvalidRequestError: several ids begin so.
    """
    wanted = text.strip().lower()
    matches = [known for known in ids if known.lower().startswith(wanted)] if wanted else []
    if wanted in ids:
        return wanted
    if not matches:
        raise NotFoundError(f"there is no {what} {text!r}", hint=hint)
    if len(matches) > 1:
        listed = ", ".join(matches[:_LISTED]) + (" …" if len(matches) > _LISTED else "")
        raise InvalidRequestError(f"{len(matches)} ids begin with {text!r}: {listed}", hint="give more of the id")
    return matches[0]


def checked(make: Callable[[], M]) -> M:
    """Return the API model that `make` builds from the user's values.

    Raises:
        InvalidRequestError: a value is outside the limits of the model.
    """
    from pydantic import ValidationError

    try:
        return make()
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InvalidRequestError(f"{place}: {first['msg']}", hint="see --help for what is allowed") from error


def first_few(names: Sequence[str], most: int) -> str:
    """Return the first names, separated by commas, with the number of the others."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def names_in(text: str | None) -> tuple[str, ...]:
    """Return the names of a comma-separated list; none for None."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())
