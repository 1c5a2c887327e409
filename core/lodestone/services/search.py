"""Searches: in words, by an indexed picture, by any picture and composed of several, within what the caller sees.

The restriction to the caller's corpora is a condition of the store's filter: it is handed to the engine with the request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lodestone.access.caller import Caller
from lodestone.access.visibility import EVERYTHING
from lodestone.errors import DeadlineExceededError, ImageError, ImageTooLargeError, InvalidRequestError
from lodestone.query.asking.parts import EDITED_SIDE
from lodestone.query.asking.request_context import NOW, RequestContext
from lodestone.query.asking.requested_sets import ranking_members, with_sets
from lodestone.query.asking.tree import Query
from lodestone.services.composed_queries import LARGEST_SIDE, ComposedQueries, is_composed
from lodestone.services.limits import shown
from lodestone.services.redaction import redact_event, redact_response
from lodestone_schemas.api import MAX_PARTS, Event, SearchOptions, SearchRequest, SearchResponse

if TYPE_CHECKING:
    from PIL import Image as PillowImage

    from lodestone.imaging.decode import DecodedImage
    from lodestone.services.pictures import PictureUseCases
    from lodestone.services.sessions.session import HomeSession


_PIXEL_BYTES: Final = 4
_MOST_REQUEST_BYTES: Final = 256 << 20  # of decoded pictures that one request holds


class SearchUseCases:
    """Searches one home for its callers.

    Args:
        session: The opened home.
        pictures: Looks up pictures that are searched by.
    """

    def __init__(self, session: HomeSession, pictures: PictureUseCases) -> None:
        self._session = session
        self._pictures = pictures
        self._composed = ComposedQueries(session, pictures)

    async def events(
        self, request: SearchRequest, caller: Caller, *, context: RequestContext = NOW
    ) -> AsyncGenerator[Event, None]:
        """Yield the query's events as they come; closing the iterator stops the query.

        Args:
            request: The query; its parts are checked before the first event.
            caller: Whoever asks.
            context: When and how the request came; its visibility is replaced by the caller's.

        Raises:
            InvalidRequestError, NotFoundError, ImageError: a part of a composed query makes no sense, or is not there.
        """
        query: Query | None = None
        await self._check_seen(request, caller)
        if is_composed(request):
            composed, request = await self._composed.query_of(request, caller)
            query = with_sets(composed, request)
        if query is None:
            answering = (await self._session.answering()).events(request, request_context=_of(context, caller))
        else:
            answering = (await self._session.engine()).ask(query, request, request_context=_of(context, caller))
        async with aclosing(answering) as events:
            async for event in events:
                yield shown(caller, event, lambda whole: redact_event(whole, request))

    async def answer(self, request: SearchRequest, caller: Caller, *, context: RequestContext = NOW) -> SearchResponse:
        """Return the query's final answer; arguments and errors as of `events`."""
        if is_composed(request):
            return await self._answer(request, caller, context)
        await self._check_seen(request, caller)
        answering = await self._session.answering()
        return _shown(caller, await answering.answer(request, request_context=_of(context, caller)), request)

    async def similar(
        self, image_id: str, options: SearchOptions, caller: Caller, *, context: RequestContext = NOW
    ) -> SearchResponse:
        """Return pictures like an indexed one.

        Raises:
            NotFoundError: the picture is unknown or not seen.
        """
        if caller.visibility != EVERYTHING:
            await asyncio.to_thread(self._pictures.image, image_id, caller)
        answering = await self._session.answering(warm=False)
        return _shown(caller, await answering.similar(image_id, options, request_context=_of(context, caller)), options)

    async def by_picture(
        self,
        picture: bytes,
        options: SearchOptions,
        caller: Caller,
        *,
        context: RequestContext = NOW,
        more: Sequence[bytes] = (),
    ) -> SearchResponse:
        """Return pictures like the one in `picture`, a picture file's content.

        Args:
            picture: The file's content.
            options: How to answer; a `SearchRequest` with words or other parts asks for them too.
            caller: Whoever asks.
            context: When and how the request came.
            more: The content of further pictures that results are to be like.

        Raises:
            ImageError: a picture cannot be decoded within the bounds.
            InvalidRequestError: there are too many parts, or as of `events`.
        """
        if len(more) >= MAX_PARTS:
            raise InvalidRequestError(
                f"{len(more) + 1} pictures were sent, at most {MAX_PARTS} parts are answered", hint="send fewer at once"
            )
        beside = isinstance(options, SearchRequest) and (options.query or options.match is not None)
        if more or beside or is_composed(options):
            request = options if isinstance(options, SearchRequest) else SearchRequest(**dict(options))
            return await self._answer(request, caller, context, [picture, *more])
        decode = self._session.runtime.decode_with_facts
        decoded = await asyncio.to_thread(decode, picture, until=self._until(options, context))
        engine = await self._session.engine()
        response = await engine.by_picture(decoded.image, options, request_context=_of(context, caller))
        return _shown(caller, _noted(response, [decoded]), options)

    async def _answer(
        self, request: SearchRequest, caller: Caller, context: RequestContext, pictures: Sequence[bytes] = ()
    ) -> SearchResponse:
        """Return the answer to a composed query with these uploaded pictures."""
        await self._check_seen(request, caller)
        decoded: list[DecodedImage] = []
        until = self._until(request, context)
        for number in range(len(pictures)):
            decoded.append(await self._decoded(number, pictures, request, until))
            _require_bounded([one.image for one in decoded])
        query, request = await self._composed.query_of(request, caller, [one.image for one in decoded])
        engine = await self._session.engine()
        response = await engine.composed(with_sets(query, request), request, request_context=_of(context, caller))
        return _shown(caller, _noted(response, decoded), request)

    async def _check_seen(self, request: SearchRequest, caller: Caller) -> None:
        """Check that the caller sees the pictures that the request's sets rank by.

        Raises:
            NotFoundError: one is unknown or not seen.
        """
        if caller.visibility == EVERYTHING:
            return
        for one in ranking_members(request.match):
            if one.like is not None:
                await asyncio.to_thread(self._pictures.image, one.like, caller)

    def _until(self, options: SearchOptions, context: RequestContext) -> float:
        """Return when decoding has to have begun, on the clock of `time.monotonic()`: the query's own deadline."""
        allowed_ms = options.deadline_ms or self._session.runtime.settings.query.deadline_ms
        return (time.monotonic() if context.arrived is None else context.arrived) + allowed_ms / 1000 - context.way_back

    async def _decoded(self, number: int, pictures: Sequence[bytes], request: SearchRequest, until: float) -> DecodedImage:
        """Return one of several uploaded pictures; where it cannot be decoded, the error says which it was."""
        # Which composition a refinement takes over is not known yet.
        compositions = self._session.runtime.settings.compositions.values()
        side = _side_of(request, editing=any(one.target == "guide" for one in compositions))
        if time.monotonic() >= until:
            raise DeadlineExceededError(
                f"{number} of {len(pictures)} pictures that were sent were decoded in the time allowed",
                hint="send fewer or smaller pictures, or allow more time (deadline_ms)",
            )
        try:
            return await asyncio.to_thread(
                self._session.runtime.decode_with_facts, pictures[number], min_side=side, until=until
            )
        except ImageError as error:
            if len(pictures) == 1:
                raise
            message = f"picture {number + 1} of {len(pictures)} that were sent: {error.message}"
            raise type(error)(message, hint=error.hint, **error.details) from error


def _noted(response: SearchResponse, sent: Sequence[DecodedImage]) -> SearchResponse:
    """Return the answer to pictures that were sent, with a warning for each whose file ends early."""
    notes = [
        f"{'the picture' if len(sent) == 1 else f'picture {number} of {len(sent)}'} that was sent ends early: "
        f"{picture.decoded_share:.0%} of it could be decoded, and the answer is for that part; "
        "copy the file again from its source"
        for number, picture in enumerate(sent, 1)
        if picture.decoded_share is not None
    ]
    return response.model_copy(update={"warnings": [*response.warnings, *notes]}) if notes else response


def _require_bounded(images: Sequence[PillowImage.Image]) -> None:
    """Refuse pictures of one request that take too much memory together, reduced as they are.

    Raises:
        ImageTooLargeError: they do.
    """
    taken = sum(image.width * image.height * _PIXEL_BYTES for image in images)
    if taken > _MOST_REQUEST_BYTES:
        raise ImageTooLargeError(
            f"{len(images)} pictures that were sent take {taken >> 20} MB decoded; one request may take "
            f"{_MOST_REQUEST_BYTES >> 20} MB",
            hint="send fewer pictures, or smaller copies",
            needed_bytes=taken,
            allowed_bytes=_MOST_REQUEST_BYTES,
        )


def _side_of(request: SearchRequest, *, editing: bool) -> int:
    """Return the pixels that the shorter side of an uploaded picture is kept at, if not those of the models.

    Args:
        request: The request: more are kept where only a region counts.
        editing: Whether the picture may be edited.
    """
    if request.region is not None:
        return LARGEST_SIDE
    return EDITED_SIDE if editing else 0


def _of(context: RequestContext, caller: Caller) -> RequestContext:
    return context if context.visibility == caller.visibility else replace(context, visibility=caller.visibility)


def _shown(caller: Caller, response: SearchResponse, request: SearchOptions) -> SearchResponse:
    return shown(caller, response, lambda whole: redact_response(whole, request))
