"""Recorded queries: listed, explained, replayed, and the pictures of their guides."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lodestone.access.caller import Caller
from lodestone.paging import PageRequest
from lodestone.services.limits import shown
from lodestone.services.redaction import redact_explanation, redact_queries
from lodestone.services.sessions.recording import wait_until_recorded
from lodestone_schemas.api import QueryExplanation, QueryPage, ReplayResult

if TYPE_CHECKING:
    from lodestone.query_log.trace import Trace
    from lodestone.services.sessions.session import HomeSession


@dataclass(frozen=True, slots=True)
class GuidePicture:
    """The small picture of a guide: a file's content and its media type."""

    data: bytes
    media_type: str


class QueryUseCases:
    """Looks back at the recorded queries of one home. Those that the caller does not see are unknown to them."""

    def __init__(self, session: HomeSession) -> None:
        self._session = session

    async def page(self, page: PageRequest, caller: Caller) -> QueryPage:
        """Return one page of the recorded queries that the caller sees, newest first.

        Raises:
            InvalidRequestError: no such cursor.
        """
        from lodestone.query.history import query_page

        await self._session.settled()
        found = await asyncio.to_thread(
            query_page,
            self._session.runtime.catalog,
            offset=page.offset,
            limit=page.limit,
            cursor=page.cursor,
            visibility=caller.visibility,
        )
        return shown(caller, found, redact_queries)

    async def explain(self, query_id: str, caller: Caller) -> QueryExplanation:
        """Return everything that was recorded of a query.

        Raises:
            NotFoundError: the query is unknown, forgotten or not seen.
        """
        from lodestone.query_log.explain import explain

        await wait_until_recorded(self._session, query_id)
        return shown(caller, await asyncio.to_thread(lambda: explain(self._trace(query_id, caller))), redact_explanation)

    async def replay(self, query_id: str, caller: Caller, *, fresh: bool = False) -> ReplayResult:
        """Return the query's ranking once more, compared with its record.

        Args:
            query_id: A recorded query.
            caller: Whoever asks.
            fresh: Ask the query again of the collection as it is now, instead of computing the ranking from the record.

        Raises:
            NotFoundError: the query is unknown, forgotten or not seen.
            InvalidRequestError: `fresh`, and it is no search in words.
        """
        from lodestone.query.history import ask_again
        from lodestone.query_log.replay import replay

        await wait_until_recorded(self._session, query_id)
        trace = await asyncio.to_thread(self._trace, query_id, caller)
        if fresh:
            engine = await self._session.engine()
            return await ask_again(engine, self._session.runtime.catalog, trace, visibility=caller.visibility)
        return await asyncio.to_thread(replay, trace)

    async def guide_picture(self, query_id: str, guide_id: str, caller: Caller) -> GuidePicture:
        """Return the picture of a query's guide.

        Raises:
            NotFoundError: the query or the guide is unknown or not seen, or the picture is no longer kept.
        """
        from lodestone.query.history import guide_picture

        await wait_until_recorded(self._session, query_id)
        runtime = self._session.runtime
        data, media_type = await asyncio.to_thread(
            guide_picture, runtime.catalog, runtime.hub.cache, query_id, guide_id, visibility=caller.visibility
        )
        return GuidePicture(data, media_type)

    def _trace(self, query_id: str, caller: Caller) -> Trace:
        from lodestone.query_log.trace import load_trace

        return load_trace(self._session.runtime.catalog, query_id, caller.visibility)
