"""History of queries: pages of recorded queries, pictures of their guides, and a recorded query asked again."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING

from lodestone.access.visibility import EVERYTHING, Visibility
from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone.generators.cache import PICTURE_KEY
from lodestone.generators.pictures import PICTURE_MEDIA_TYPE
from lodestone.paging import decode_cursor, encode_cursor
from lodestone.query.asking.request_context import RequestContext
from lodestone.query.asking.requested_sets import ranking_members
from lodestone.query_log.replay import compare
from lodestone.query_log.trace import Trace, load_trace
from lodestone_schemas.api import QueryInfo, QueryPage, ReplayResult, SearchRequest

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog
    from lodestone.catalog.use_records import QueryRecord
    from lodestone.generators.cache import GuideCache
    from lodestone.query.engine import QueryEngine


def query_page(
    catalog: Catalog, *, offset: int, limit: int, cursor: str | None = None, visibility: Visibility = EVERYTHING
) -> QueryPage:
    """Return a page of recorded queries, newest first, from an offset or after a page's `next_cursor`. Blocking.

    Raises:
        InvalidRequestError: no such cursor.
    """
    after = None if cursor is None else decode_cursor("queries", cursor, datetime, str)
    records = catalog.queries(offset, limit + 1, after=after, owner=None if visibility.all_queries else visibility.owner)
    page, more = records[:limit], len(records) > limit
    return QueryPage(
        queries=[_info(record) for record in page],
        next_offset=offset + limit if more and cursor is None else None,
        next_cursor=encode_cursor("queries", page[-1].created_at, page[-1].query_id) if more else None,
    )


def guide_picture(
    catalog: Catalog, cache: GuideCache | None, query_id: str, guide_id: str, *, visibility: Visibility = EVERYTHING
) -> tuple[bytes, str]:
    """Return the kept picture of a query's guide, and its media type. Blocking.

    Raises:
        NotFoundError: no such query or guide, or its picture is no longer kept.
    """
    trace = load_trace(catalog, query_id, visibility)
    guide = next((one for one in trace.guides if one.guide_id == guide_id), None)
    if guide is None:
        raise NotFoundError(
            f"query {query_id!r} has no guide {guide_id!r}", hint="its guides: lodestone explain", guide=guide_id
        )
    key = guide.provenance.get(PICTURE_KEY)
    data = cache.picture(str(key)) if cache is not None and key is not None else None
    if data is None:
        raise NotFoundError(
            f"the picture of guide {guide_id!r} is not kept", hint="the guide cache may be too small: guide_cache.limit_mb"
        )
    return data, PICTURE_MEDIA_TYPE


async def ask_again(
    engine: QueryEngine, catalog: Catalog, trace: Trace, *, visibility: Visibility = EVERYTHING
) -> ReplayResult:
    """Ask a recorded query again, over today's collection, trust and tags, and compare. It is recorded as a new query.

    Raises:
        InvalidRequestError: not a search in words.
        NotFoundError: the new answer was not recorded (query.history is 0).
    """
    if trace.kind != "words":
        raise InvalidRequestError(
            "only searches in words can be asked again", hint="leave out --fresh: the record itself can be replayed"
        )
    request = SearchRequest.model_validate(trace.request)
    is_in_sets = any(ranking_members(request.match))  # the words stand there
    if not trace.plan.get("corrected_query") and not is_in_sets:  # words that were corrected are corrected anew
        request = request.model_copy(update={"query": trace.text})  # a refinement's words are those of the query before
    response = await engine.answer(request, request_context=RequestContext(visibility=visibility))
    await engine.settled(response.query_id)
    later = await asyncio.to_thread(load_trace, catalog, response.query_id)
    return compare(trace, later)


def _info(record: QueryRecord) -> QueryInfo:
    return QueryInfo(
        query_id=record.query_id,
        created_at=record.created_at,
        kind=record.kind,
        text=record.text,
        topic=record.topic,
        summary=record.summary,
    )
