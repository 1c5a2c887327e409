"""Learning from use: feedback on answers, the trust that was learnt from it, and how the guide engines fare."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lodestone.access.caller import Caller
from lodestone.access.visibility import EVERYTHING
from lodestone.paging import PageRequest
from lodestone.services.limits import need_all_queries, shown
from lodestone.services.redaction import redact_engines, redact_feedback, redact_trust
from lodestone.services.sessions.recording import wait_until_recorded
from lodestone_schemas.api import EngineList, FeedbackRequest, FeedbackResult, TrustEventInfo, TrustEventPage, TrustPage

if TYPE_CHECKING:
    from lodestone.catalog.use_records import TrustEvent
    from lodestone.services.sessions.session import HomeSession


class LearningUseCases:
    """Teaches one home by feedback, and shows what it has learnt."""

    def __init__(self, session: HomeSession) -> None:
        self._session = session

    async def feedback(self, request: FeedbackRequest, caller: Caller) -> FeedbackResult:
        """Learn trust and tags from what was right in an answer and what was not. Saying it twice changes nothing.

        Raises:
            NotFoundError: the query is unknown or not seen.
            InvalidRequestError: no picture is named, or one is both right and wrong.
        """
        from lodestone.query_log.trace import load_trace

        await wait_until_recorded(self._session, request.query_id)
        runtime = self._session.runtime
        if caller.visibility != EVERYTHING:
            await asyncio.to_thread(load_trace, runtime.catalog, request.query_id, caller.visibility)
        result = await asyncio.to_thread(runtime.learn, request)
        if result.applied:
            await self._session.tags_changed()
        return shown(caller, result, redact_feedback)

    async def withdraw(self, request: FeedbackRequest, caller: Caller) -> FeedbackResult:
        """Take feedback back: its change of trust is undone, and the tags that it left are removed.

        Feedback that does not count, because it was never given or was taken back already, changes nothing; `applied` says so.

        Args:
            request: The feedback as it was given; `eta` makes no difference.
            caller: Whoever asks.

        Raises:
            NotFoundError: the query is unknown or not seen.
        """
        await wait_until_recorded(self._session, request.query_id)
        result = await asyncio.to_thread(self._withdraw, request, caller)
        if result.applied:
            await self._session.tags_changed()
        return shown(caller, result, redact_feedback)

    def trust(self, caller: Caller) -> TrustPage:
        """Return the learnt trust, topic by topic. The weights are everybody's, the words behind them are not shown."""
        return shown(caller, self._session.runtime.trust.show(), redact_trust)

    def trust_events(self, topic: str | None, page: PageRequest, caller: Caller) -> TrustEventPage:
        """Return one page of what changed trust, newest first; the cursor of `page` is not used.

        Args:
            topic: Only changes of this topic; None for all.
            page: Rows a page, and the rows to skip.
            caller: Whoever asks.

        Raises:
            ForbiddenError: the caller does not see everybody's queries, which are the causes of the changes.
        """
        need_all_queries(caller, "the history of trust")
        rows = self._session.runtime.trust.events(topic=topic, offset=page.offset, limit=page.limit + 1)
        return TrustEventPage(
            events=[_event(row) for row in rows[: page.limit]],
            next_offset=page.offset + page.limit if len(rows) > page.limit else None,
        )

    def generators(self, caller: Caller) -> EngineList:
        """Return the guide engines, their breakers, and the state of the guide cache."""
        runtime = self._session.runtime
        if runtime.home.exists():  # a command that only reads does not create one
            runtime.hub.apply(runtime.catalog.engine_states())  # what was switched just now, without waiting for a query
        return shown(caller, runtime.hub.status(), redact_engines)

    def _withdraw(self, request: FeedbackRequest, caller: Caller) -> FeedbackResult:
        from lodestone.query_log.trace import load_trace
        from lodestone.tags.service import FEEDBACK

        runtime, query_id = self._session.runtime, request.query_id
        record = runtime.catalog.find_feedback(query_id, request.relevant, request.irrelevant)
        if record is None or caller.visibility != EVERYTHING:
            load_trace(runtime.catalog, query_id, caller.visibility)
        if record is None or not record.active or record.event_id is None:
            return FeedbackResult(query_id=query_id, topic="", applied=False, before={}, after={})
        tags = [tag for given in runtime.catalog.tags(record.relevant).values() for tag in given]
        # The tags go first: whoever asks again after a crash in between finds feedback that counts, and takes the rest back.
        runtime.tags.remove([tag.tag_id for tag in tags if tag.source == FEEDBACK and tag.query_id == query_id])
        event = runtime.trust.undo(record.event_id)
        return FeedbackResult(
            query_id=query_id,
            topic=event.topic or "",
            applied=True,
            event_id=event.event_id,
            before=event.before,
            after=event.after,
        )


def _event(event: TrustEvent) -> TrustEventInfo:
    return TrustEventInfo(
        event_id=event.event_id,
        created_at=event.created_at,
        kind=event.kind,
        topic=event.topic,
        cause=event.cause,
        before=event.before,
        after=event.after,
    )
