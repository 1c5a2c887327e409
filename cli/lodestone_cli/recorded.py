"""Resolution of recorded queries, and of pictures in their answers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone_cli.naming import counted, id_among, is_id, short

if TYPE_CHECKING:
    from lodestone_cli.command_context import CommandContext
    from lodestone_client.sync_api import LodestoneApi


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """One recorded query with its answer.

    Attributes:
        query_id: Complete id.
        kind: Kind of the query: words, similar or picture.
        text: Words of the query; empty for a picture.
        ids: Image ids of its answer, best first. They may be more than were shown.
        shown: Image ids of the page that was shown, by the number that stood before them.
    """

    query_id: str
    kind: str
    text: str
    ids: list[str]
    shown: Mapping[int, str]


def load_recorded(context: CommandContext, query_id: str | None) -> RecordedAnswer:
    """Return a recorded query by its id or the beginning of it; the newest query for None."""
    explanation = context.api.explain(recorded_id(context.api, query_id))
    ids = context.locator.answer(explanation)
    shown = {hit.rank: hit.image_id for hit in explanation.hits}
    return RecordedAnswer(explanation.query_id, explanation.kind, explanation.text, ids, shown)


def recorded_id(api: LodestoneApi, query_id: str | None) -> str:
    """Return the complete id of a recorded query by its beginning; that of the newest query for None.

    Raises:
        NotFoundError: no query is recorded, or none with this id.
        InvalidRequestError: several ids begin so.
    """
    if query_id is not None and is_id(query_id):
        return query_id.lower()
    if query_id is None:
        return _chosen((query.query_id for query in api.queries(limit=1).queries), None)
    return _chosen((query.query_id for query in api.iter_queries()), query_id)


def _chosen(recorded: Iterable[str], query_id: str | None) -> str:
    known = list(recorded)
    if not known:
        raise NotFoundError("no query is recorded yet", hint='lodestone search "two dogs on a beach"')
    if query_id is None:
        return known[0]
    hint = "lodestone explain --list; the setting query.history says how many are kept"
    return id_among(query_id, known, what="recorded query", hint=hint)


def picture_of(context: CommandContext, recorded: RecordedAnswer, name: str) -> str:
    """Return the image id that the number of a shown picture, a file, an id or the beginning of an id means.

    Raises:
        InvalidRequestError: no picture with this number was shown, or several ids begin so.
        NotFoundError: the answer holds no such picture.
    """
    answer, shown = recorded.ids, recorded.shown
    if name.isdecimal() and (len(name) < len(short(recorded.query_id)) or int(name) in shown):
        if int(name) not in shown:
            raise InvalidRequestError(f"no picture {name} was shown: {_shown(shown)}", hint=_hint(recorded))
        return shown[int(name)]
    if is_id(name):
        return name.lower()
    hint = _hint(recorded)
    try:
        return id_among(name, answer, what="picture", hint=hint)
    except NotFoundError as error:
        try:
            files = context.locator.pictures(name)
        except NotFoundError:
            raise NotFoundError(f"the answer holds no picture {name!r}", hint=hint) from error
        return next((image_id for image_id in files if image_id in answer), files[0])


def _shown(shown: Collection[int]) -> str:
    if not shown:
        return "the answer is empty"
    numbers = f", {min(shown)} to {max(shown)}" if len(shown) > 1 else "" if min(shown) == 1 else f", {min(shown)}"
    return f"the answer showed {counted(len(shown), 'picture')}{numbers}"


def _hint(recorded: RecordedAnswer) -> str:
    """Return how a picture of the answer is named."""
    ways = "the path or the id of a picture"
    if recorded.shown:
        ways = "the number before a picture that was shown, or the path or the id of another"
    return f"give {ways}; lodestone explain {short(recorded.query_id)} shows the answer"
