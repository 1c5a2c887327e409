"""Searches: in words, by an indexed picture and by any picture, within what the caller sees.

The restriction to the caller's corpora is a condition of the store's filter: it is handed to the engine with the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from lodestone.access.caller import Caller
from lodestone.access.visibility import EVERYTHING
from lodestone.query.request_context import NOW, RequestContext
from lodestone.services.limits import shown
from lodestone.services.redaction import redact_event, redact_response
from lodestone_schemas.api import Event, SearchOptions, SearchRequest, SearchResponse

if TYPE_CHECKING:
    from lodestone.services.pictures import PictureUseCases
    from lodestone.services.sessions.session import HomeSession


class SearchUseCases:
    """Searches one home for its callers.

    Args:
        session: The opened home.
        pictures: Looks up pictures that are searched by.
    """

    def __init__(self, session: HomeSession, pictures: PictureUseCases) -> None:
        self._session = session
        self._pictures = pictures

    async def events(
        self, request: SearchRequest, caller: Caller, *, context: RequestContext = NOW
    ) -> AsyncGenerator[Event, None]:
        """Yield the query's events as they come; closing the iterator stops the query.

        Args:
            request: The query.
            caller: Whoever asks.
            context: When and how the request came; its visibility is replaced by the caller's.
        """
        engine = await self._session.engine()
        async with aclosing(cast("Any", engine.events(request, request_context=_of(context, caller)))) as events:
            async for event in events:
                yield shown(caller, event, lambda whole: redact_event(whole, request))

    async def answer(self, request: SearchRequest, caller: Caller, *, context: RequestContext = NOW) -> SearchResponse:
        """Return the query's final answer; arguments as of `events`."""
        engine = await self._session.engine()
        return _shown(caller, await engine.answer(request, request_context=_of(context, caller)), request)

    async def similar(
        self, image_id: str, options: SearchOptions, caller: Caller, *, context: RequestContext = NOW
    ) -> SearchResponse:
        """Return pictures like an indexed one.

        Raises:
            NotFoundError: the picture is unknown or not seen.
        """
        if caller.visibility != EVERYTHING:
            await asyncio.to_thread(self._pictures.image, image_id, caller)
        engine = await self._session.engine(warm=False)
        return _shown(caller, await engine.similar(image_id, options, request_context=_of(context, caller)), options)

    async def by_picture(
        self, picture: bytes, options: SearchOptions, caller: Caller, *, context: RequestContext = NOW
    ) -> SearchResponse:
        """Return pictures like the one in `picture`, a picture file's content.

        Raises:
            ImageError: it cannot be decoded within the bounds.
        """
        image = await asyncio.to_thread(self._session.runtime.decode, picture)
        engine = await self._session.engine()
        return _shown(caller, await engine.by_picture(image, options, request_context=_of(context, caller)), options)


def _of(context: RequestContext, caller: Caller) -> RequestContext:
    return context if context.visibility == caller.visibility else replace(context, visibility=caller.visibility)


def _shown(caller: Caller, response: SearchResponse, request: SearchOptions) -> SearchResponse:
    return shown(caller, response, lambda whole: redact_response(whole, request))
