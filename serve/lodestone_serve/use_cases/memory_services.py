"""How does one opened home look back at its queries and learn from people? The part of `Services` over catalog and hub."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from lodestone.access.visibility import EVERYTHING, Visibility
from lodestone.errors import NotFoundError
from lodestone_schemas.api import (
    EngineList,
    FeedbackRequest,
    FeedbackResult,
    QueryExplanation,
    QueryPage,
    ReplayResult,
    TagList,
    TagPage,
    TagRequest,
    TrustPage,
)
from lodestone_serve.use_cases.services import GuidePicture, TagFilters

if TYPE_CHECKING:
    from lodestone.catalog.records import WriteKey, WriteRecord
    from lodestone.home.runtime import Runtime
    from lodestone.query.engine import QueryEngine
    from lodestone_serve.use_cases.background_tasks import TagDelivery

_OTHERS_WRITE_S = (0.05, 0.1, 0.2, 0.4)  # between looks for a query that another replica has just answered


class MemoryServices(ABC):
    """Mixed into `HomeServices`."""

    @abstractmethod
    def opened(self) -> tuple[Runtime, QueryEngine]:
        """The home and the engine that answers now; `ServiceUnavailableError` before and after."""

    @abstractmethod
    def delivery(self) -> TagDelivery:
        """What brings tags to searches; `ServiceUnavailableError` before and after."""

    async def queries(
        self, offset: int, limit: int, *, cursor: str | None = None, visibility: Visibility = EVERYTHING
    ) -> QueryPage:
        """See `Services.queries`."""
        from lodestone.query.history import query_page

        runtime, engine = self.opened()
        await engine.settled()
        return await asyncio.to_thread(
            query_page, runtime.catalog, offset=offset, limit=limit, cursor=cursor, visibility=visibility
        )

    async def explain(self, query_id: str, *, visibility: Visibility = EVERYTHING) -> QueryExplanation:
        """See `Services.explain`."""
        from lodestone.query_log.explain import explain
        from lodestone.query_log.trace import load_trace

        runtime = await self._recorded(query_id)
        return await asyncio.to_thread(lambda: explain(load_trace(runtime.catalog, query_id, visibility)))

    async def replay(self, query_id: str, *, fresh: bool, visibility: Visibility = EVERYTHING) -> ReplayResult:
        """See `Services.replay`."""
        from lodestone.query.history import ask_again
        from lodestone.query_log.replay import replay
        from lodestone.query_log.trace import load_trace

        _, engine = self.opened()
        runtime = await self._recorded(query_id)
        trace = await asyncio.to_thread(load_trace, runtime.catalog, query_id, visibility)
        if fresh:
            return await ask_again(engine, runtime.catalog, trace, visibility=visibility)
        return await asyncio.to_thread(replay, trace)

    async def guide_picture(self, query_id: str, guide_id: str, *, visibility: Visibility = EVERYTHING) -> GuidePicture:
        """See `Services.guide_picture`."""
        from lodestone.query.history import guide_picture

        runtime = await self._recorded(query_id)
        data, media_type = await asyncio.to_thread(
            guide_picture, runtime.catalog, runtime.hub.cache, query_id, guide_id, visibility=visibility
        )
        return GuidePicture(data, media_type)

    async def feedback(self, request: FeedbackRequest, *, visibility: Visibility = EVERYTHING) -> FeedbackResult:
        """See `Services.feedback`."""
        from lodestone.query_log.trace import load_trace

        runtime = await self._recorded(request.query_id)
        if visibility != EVERYTHING:
            await asyncio.to_thread(load_trace, runtime.catalog, request.query_id, visibility)  # somebody else's query is none
        result = await asyncio.to_thread(runtime.learn, request)
        await self.delivery().changed()
        return result

    async def trust(self) -> TrustPage:
        """See `Services.trust`."""
        runtime, _ = self.opened()
        return await asyncio.to_thread(runtime.trust.show)

    async def generators(self) -> EngineList:
        """See `Services.generators`."""
        runtime, _ = self.opened()

        def status() -> EngineList:
            runtime.hub.apply(runtime.catalog.engine_states())  # what was switched just now, without waiting for a query
            return runtime.hub.status()

        return await asyncio.to_thread(status)

    async def tags(
        self, filters: TagFilters, offset: int, limit: int, *, cursor: str | None = None, visibility: Visibility = EVERYTHING
    ) -> TagPage:
        """See `Services.tags`."""
        runtime, _ = self.opened()

        def page() -> TagPage:
            return runtime.tags.list(
                corpus=filters.corpus,
                image_id=filters.image_id,
                text=filters.text,
                source=filters.source,
                offset=offset,
                limit=limit,
                cursor=cursor,
                visibility=visibility,
            )

        return await asyncio.to_thread(page)

    async def add_tags(self, request: TagRequest) -> TagList:
        """See `Services.add_tags`."""
        runtime, _ = self.opened()
        tags = await asyncio.to_thread(runtime.tags.add, request.image_ids, request.text)
        await self.delivery().changed()
        return TagList(tags=tags)

    async def remove_tag(self, tag_id: str, *, visibility: Visibility = EVERYTHING) -> None:
        """See `Services.remove_tag`."""
        runtime, _ = self.opened()
        if not await asyncio.to_thread(runtime.tags.remove, [tag_id], visibility=visibility):
            raise NotFoundError(f"there is no tag {tag_id!r}", hint="lodestone tags list", tag_id=tag_id)
        await self.delivery().changed()

    async def claim_write(self, write: WriteKey) -> WriteRecord | None:
        """See `idempotency.WriteLedger`."""
        runtime, _ = self.opened()
        return await asyncio.to_thread(runtime.catalog.claim_write, write)

    async def answer_write(self, write: WriteKey, *, status: int, body: bytes) -> None:
        """See `idempotency.WriteLedger`."""
        runtime, _ = self.opened()
        await asyncio.to_thread(runtime.catalog.answer_write, write, status=status, body=body)

    async def forget_write(self, write: WriteKey) -> None:
        """See `idempotency.WriteLedger`."""
        runtime, _ = self.opened()
        await asyncio.to_thread(runtime.catalog.forget_write, write)

    async def _recorded(self, query_id: str) -> Runtime:
        """The home, once the query is recorded: its answer did not wait for that, and another replica may be writing it."""
        runtime, engine = self.opened()
        await engine.settled(query_id)
        if runtime.catalog.path is None:  # a server's
            for pause in _OTHERS_WRITE_S:
                if await asyncio.to_thread(runtime.catalog.has_query, query_id):
                    break
                await asyncio.sleep(pause)
        return runtime
