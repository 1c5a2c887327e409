"""Resolution of what a user names (by path, id or the beginning of an id), and names for output."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from lodestone.errors import InvalidRequestError, NotFoundError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from lodestone.catalog.catalog import Catalog
    from lodestone.catalog.records import Corpus
    from lodestone_cli.command_context import CommandContext

    M = TypeVar("M", bound=BaseModel)
else:
    M = TypeVar("M")

SHORT = 8  # characters of an id that people see
_LISTED = 3
_CORPORA = 10_000


def require_home(context: CommandContext) -> None:
    """Refuse a home that does not exist, so that a reading command does not create it. A remote service has its own home.

    Raises:
        NotFoundError: there is no home yet.
    """
    from lodestone.config.home import home_of

    if context.remote is not None:
        return
    home = home_of(context.loaded.settings)
    if not home.exists():
        raise NotFoundError(f"nothing is indexed in {str(home.path)!r} yet", hint="lodestone index ~/Pictures")


def corpora_of(catalog: Catalog, name: str | None = None) -> list[Corpus]:
    """Return the corpus of that name; all corpora without a name.

    Raises:
        UnknownNameError: there is no such corpus.
    """
    return [catalog.corpus(name)] if name else catalog.corpora(offset=0, limit=_CORPORA)


def counted(number: int, what: str) -> str:
    """Return a number with its noun: `1 tag`, `2 tags`, `1,000 tags`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


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
    found = [one for one in ids if one.lower().startswith(wanted)] if wanted else []
    if wanted in ids:
        return wanted
    if not found:
        raise NotFoundError(f"there is no {what} {text!r}", hint=hint)
    if len(found) > 1:
        listed = ", ".join(found[:_LISTED]) + (" …" if len(found) > _LISTED else "")
        raise InvalidRequestError(f"{len(found)} ids begin with {text!r}: {listed}", hint="give more of the id")
    return found[0]


def paths_of(context: CommandContext, image_ids: Iterable[str]) -> dict[str, str]:
    """Return the path on this machine, or the URL, of each picture by its image id.

    The API never shows paths, so there are none for the pictures of a remote service.
    """
    if context.remote is not None:
        return {}
    from lodestone.sources.locators import shown_place

    catalog = context.runtime.catalog
    images = catalog.images(dict.fromkeys(image_ids))
    roots = {root.root_id: root for root in catalog.roots(None)} if images else {}
    return {image_id: shown_place(roots[image.root_id], image) for image_id, image in images.items() if image.root_id in roots}


def pictures_named(context: CommandContext, name: str) -> list[str]:
    """Return the ids of the picture that `name` means: an id, or a file, which may be indexed in several corpora.

    Raises:
        NotFoundError: `name` is neither.
    """
    from lodestone.sources.uris import uri_of

    if context.remote is not None:
        if is_id(name):
            return [name.lower()]
        raise NotFoundError(f"{name!r} is no image id", hint="a service elsewhere knows pictures by their ids: -o json")
    catalog = context.runtime.catalog
    if is_id(name) and name.lower() in catalog.images([name.lower()]):
        return [name.lower()]
    file = Path(os.path.abspath(Path(name).expanduser()))  # noqa: PTH100 - not resolve(): a linked root keeps its name
    found = []
    for root in catalog.roots(None):
        if file.is_relative_to(root.path) and file != Path(root.path):
            by_uri = catalog.images_by_uri(root.root_id, [uri_of(file.relative_to(root.path))])
            found += [image.image_id for image in by_uri.values() if image.state != "gone"]
    if not found:
        raise NotFoundError(f"no picture {name!r} is indexed", hint="give its file as lodestone search shows it, or its id")
    return found


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
