"""List of recorded queries for people: what each looked for, and what a refinement changed of the query before it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from lodestone.errors import LodestoneError
from lodestone_cli.command_context import printable
from lodestone_cli.explanation import composition_of, named_picture
from lodestone_cli.naming import local_time, short
from lodestone_cli.terminal.console import print_table

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone_cli.locators import Locator
    from lodestone_client.sync_api import LodestoneApi
    from lodestone_schemas.api import QueryExplanation, QueryInfo, QueryPage

KINDS: Final = {"similar": "like an indexed picture", "picture": "like a picture", "composed": "like several pictures"}
"""What stands in place of the words of a query that has none, by the kind of the query."""

_PICTURES: Final = ("reference", "like", "unlike")  # members of a request that name pictures
_WORDS: Final = {"query": "--with", "without": "--without", "drop": "--drop"}
_TAKEN_OVER: Final = ("diversity", "composition")  # a request holds them too where it only inherited them


def print_history(console: Console, page: QueryPage, api: LodestoneApi, locator: Locator) -> None:
    """Print one page of recorded queries, a row each.

    Args:
        console: Where it is printed.
        page: The page.
        api: Explains the queries: their list knows only the words.
        locator: Knows the names of pictures' files.
    """
    from rich.table import Table
    from rich.text import Text

    if not page.queries:
        console.print('no query is recorded yet: lodestone search "two dogs on a beach"')
        return
    known: dict[str, QueryExplanation | None] = {}
    rows = [(query, _explained(api, query.query_id, known)) for query in page.queries]
    paths = locator.paths({image_id for _, explanation in rows if explanation for image_id in _named(explanation)})
    table = Table(box=None, pad_edge=False)
    table.add_column("id", no_wrap=True)
    table.add_column("asked", no_wrap=True, style="dim")
    table.add_column("query", overflow="fold")
    for query, explanation in rows:
        text = Text(printable(_looked_for(query, explanation, paths)))
        before = None if explanation is None else explanation.request.get("refine_of")
        if explanation is not None and before:
            changes = " ".join(_changes(explanation, _explained(api, before, known), paths))
            text.append(printable(f"  (refines {short(before)}: {changes})"), style="dim")
        table.add_row(short(query.query_id), local_time(query.created_at), text)
    print_table(console, table)
    if page.next_offset is not None:
        console.print("there are more: --limit", style="dim")


def _explained(api: LodestoneApi, query_id: str, known: dict[str, QueryExplanation | None]) -> QueryExplanation | None:
    """Return a query's explanation from `known`, which it is added to; None where its record is gone or somebody else's."""
    if query_id not in known:
        try:
            known[query_id] = api.explain(query_id)
        except LodestoneError:  # the list holds what it knows of the query without it
            known[query_id] = None
    return known[query_id]


def _named(explanation: QueryExplanation) -> Iterator[str]:
    """Yield the ids of the pictures that a query names."""
    yield from (part.image_id for part in explanation.parts if part.image_id is not None)
    for member in _PICTURES:
        yield from _texts(explanation.request.get(member))


def _looked_for(query: QueryInfo, explanation: QueryExplanation | None, paths: Mapping[str, str]) -> str:
    composed = None if explanation is None else composition_of(explanation.parts, paths)
    if composed is not None or query.text:
        return composed or query.text
    request: Mapping[str, Any] = {} if explanation is None else explanation.request
    pictures = [*_texts(request.get("reference")), *_texts(request.get("like"))]
    return f"like {named_picture(pictures[-1], paths)}" if pictures else f"({KINDS.get(query.kind, query.kind)})"


def _changes(explanation: QueryExplanation, before: QueryExplanation | None, paths: Mapping[str, str]) -> Iterator[str]:
    """Yield what a refinement changed, as options of `lodestone refine`."""
    request, former = explanation.request, {} if before is None else before.request
    options = [(option, text) for member, option in _WORDS.items() for text in _texts(request.get(member))]
    options += [(f"--{one}", named_picture(image_id, paths)) for one in _PICTURES for image_id in _texts(request.get(one))]
    weights, former_weights = request.get("weights") or {}, former.get("weights") or {}
    options += [("--weight", f"{name}={value:g}") for name, value in weights.items() if former_weights.get(name) != value]
    if region := request.get("region"):
        options.append(("--region", ",".join(f"{region[side]:g}" for side in "xywh")))
    options += [(f"--{one}", str(request[one])) for one in _TAKEN_OVER if request.get(one) and request[one] != former.get(one)]
    if not options:  # of a picture that was sent nothing but the answer is kept
        options.append(("--like", "FILE"))
    yield from (f"{option} {shlex.quote(value)}" for option, value in options)


def _texts(value: Any) -> Iterable[str]:  # noqa: ANN401 - a member of a recorded request
    """Return the texts of a member of a request that holds one, several or none."""
    return [value] if isinstance(value, str) and value else value if isinstance(value, list) else []
