"""Resolution of recorded queries and of pictures in their answers, from this home or from a remote service."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone_cli.naming import id_among, is_id, pictures_named, short

if TYPE_CHECKING:
    from lodestone.query_log.trace import Trace
    from lodestone_cli.command_context import CommandContext
    from lodestone_client import Lodestone
    from lodestone_schemas.api import QueryExplanation

_SEEN: Final = 100_000  # queries looked through for the beginning of an id


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """One recorded query with its answer.

    Attributes:
        query_id: Complete id.
        kind: Kind of the query: words, similar or picture.
        text: Words of the query; empty for a picture.
        ids: Image ids of its answer, best first.
    """

    query_id: str
    kind: str
    text: str
    ids: list[str]

    @classmethod
    def of_trace(cls, trace: Trace) -> RecordedAnswer:
        """Return the record that the trace in this home's catalog holds."""
        return cls(trace.query_id, trace.kind, trace.text, list(trace.ranking.ids))

    @classmethod
    def of_explanation(cls, told: QueryExplanation) -> RecordedAnswer:
        """Return the record that an explanation by a service holds."""
        return cls(told.query_id, told.kind, told.text, [hit.image_id for hit in told.hits])


def load_recorded(context: CommandContext, query_id: str | None) -> Trace:
    """Return this home's trace of a query; of the newest query for None."""
    from lodestone.query_log.trace import load_trace

    catalog = context.runtime.catalog
    if query_id is not None and is_id(query_id):
        return load_trace(catalog, query_id.lower())
    recorded = (one.query_id for one in catalog.queries(0, 1 if query_id is None else _SEEN))
    return load_trace(catalog, _chosen(recorded, query_id))


def ask_recorded(remote: Lodestone, query_id: str | None) -> QueryExplanation:
    """Return a service's explanation of a query; of the newest query for None."""
    if query_id is not None and is_id(query_id):
        return remote.explain(query_id.lower())
    if query_id is None:
        return remote.explain(_chosen((one.query_id for one in remote.queries(limit=1).queries), None))
    return remote.explain(_chosen((one.query_id for one in remote.iter_queries()), query_id))


def _chosen(recorded: Iterable[str], query_id: str | None) -> str:
    known = list(recorded)
    if not known:
        raise NotFoundError("no query is recorded yet", hint='lodestone search "two dogs on a beach"')
    if query_id is None:
        return known[0]
    hint = "lodestone explain --list; the setting query.history says how many are kept"
    return id_among(query_id, known, what="recorded query", hint=hint)


def picture_of(context: CommandContext, recorded: RecordedAnswer, name: str) -> str:
    """Return the image id that a rank, a file, an id or the beginning of an id means."""
    answer = recorded.ids
    hint = f"its rank, 1 to {len(answer)}, its file or its id: lodestone explain {short(recorded.query_id)}"
    if name.isdecimal() and (len(name) < len(short(recorded.query_id)) or int(name) <= len(answer)):
        if not 1 <= int(name) <= len(answer):
            raise InvalidRequestError(f"the answer has no rank {name}", hint=hint)
        return answer[int(name) - 1]
    if is_id(name):
        return name.lower()
    try:
        return id_among(name, answer, what="picture", hint=hint)
    except NotFoundError as error:
        try:
            files = pictures_named(context, name)
        except NotFoundError:
            raise NotFoundError(f"the answer holds no picture {name!r}", hint=hint) from error
        return next((one for one in files if one in answer), files[0])
