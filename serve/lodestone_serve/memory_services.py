"""How does one opened home look back at its queries and learn from people? The part of `Services` over catalog and hub."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

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
from lodestone_serve.services import GuidePicture, TagFilters

if TYPE_CHECKING:
    from lodestone.query.engine import QueryEngine
    from lodestone.runtime import Runtime


class MemoryServices(ABC):
    """Mixed into `HomeServices`."""

    @abstractmethod
    def opened(self) -> tuple[Runtime, QueryEngine]:
        """The home and the engine that answers now; `ServiceUnavailableError` before and after."""

    async def queries(self, offset: int, limit: int, *, cursor: str | None = None) -> QueryPage:
        """See `Services.queries`."""
        from lodestone.query.history import query_page

        runtime, _ = self.opened()
        return await asyncio.to_thread(query_page, runtime.catalog, offset=offset, limit=limit, cursor=cursor)

    async def explain(self, query_id: str) -> QueryExplanation:
        """See `Services.explain`."""
        from lodestone.query.explain import explain
        from lodestone.query.trace import load_trace

        runtime, _ = self.opened()
        return await asyncio.to_thread(lambda: explain(load_trace(runtime.catalog, query_id)))

    async def replay(self, query_id: str, *, fresh: bool) -> ReplayResult:
        """See `Services.replay`."""
        from lodestone.query.history import ask_again
        from lodestone.query.replay import replay
        from lodestone.query.trace import load_trace

        runtime, engine = self.opened()
        trace = await asyncio.to_thread(load_trace, runtime.catalog, query_id)
        return await ask_again(engine, runtime.catalog, trace) if fresh else await asyncio.to_thread(replay, trace)

    async def guide_picture(self, query_id: str, guide_id: str) -> GuidePicture:
        """See `Services.guide_picture`."""
        from lodestone.query.history import guide_picture

        runtime, _ = self.opened()
        data, media_type = await asyncio.to_thread(guide_picture, runtime.catalog, runtime.hub.cache, query_id, guide_id)
        return GuidePicture(data, media_type)

    async def feedback(self, request: FeedbackRequest) -> FeedbackResult:
        """See `Services.feedback`."""
        runtime, _ = self.opened()

        def learn() -> FeedbackResult:
            result = runtime.learn(request)
            runtime.deliver_tags()
            return result

        return await asyncio.to_thread(learn)

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

    async def tags(self, filters: TagFilters, offset: int, limit: int, *, cursor: str | None = None) -> TagPage:
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
            )

        return await asyncio.to_thread(page)

    async def add_tags(self, request: TagRequest) -> TagList:
        """See `Services.add_tags`."""
        runtime, _ = self.opened()

        def add() -> TagList:
            tags = runtime.tags.add(request.image_ids, request.text)
            runtime.deliver_tags()
            return TagList(tags=tags)

        return await asyncio.to_thread(add)

    async def remove_tag(self, tag_id: str) -> None:
        """See `Services.remove_tag`."""
        runtime, _ = self.opened()

        def remove() -> None:
            if not runtime.tags.remove([tag_id]):
                raise NotFoundError(f"there is no tag {tag_id!r}", hint="lodestone tags list", tag_id=tag_id)
            runtime.deliver_tags()

        await asyncio.to_thread(remove)
