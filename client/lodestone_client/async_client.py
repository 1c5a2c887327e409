"""Client for asynchronous code: `AsyncLodestone` has one method for each route, and raises problems as typed errors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

import httpx

from lodestone_client import batches, read_calls, write_calls
from lodestone_client.async_managing import AsyncManaging
from lodestone_client.connection import Connection
from lodestone_client.paging import AsyncPagedList
from lodestone_client.reading import Reading
from lodestone_client.retrying import RetryPolicy
from lodestone_schemas.api import (
    BrowseRequest,
    CorpusInfo,
    CorpusPage,
    EngineList,
    Event,
    FeedbackRequest,
    FeedbackResult,
    ImageInfo,
    ImagePage,
    PictureTags,
    QueryExplanation,
    QueryInfo,
    QueryPage,
    ReplayResult,
    SearchOptions,
    SearchRequest,
    SearchResponse,
    TagInfo,
    TagList,
    TagPage,
    TagRequest,
    TagTexts,
    TrustEventPage,
    TrustPage,
)
from lodestone_schemas.batch import BatchAnswer
from lodestone_schemas.openai import DrawingList, DrawingRequest, EmbeddingList, EmbeddingsRequest, ModelInfo, ModelList


class AsyncLodestone(AsyncManaging):
    """Client of one service, for use within one event loop. Close it, or use it as an asynchronous context manager.

    Args:
        url: Of the service; default: LODESTONE_URL.
        api_key: Its key or token; default: LODESTONE_API_KEY, for the URL of the environment alone.
        timeout_s: Seconds for a whole answer, further attempts included; a query with a longer deadline is waited for.
        policy: How often, and after which pauses, a call is sent again.
        headers: Further headers of every request.
        transport: httpx's own, e.g. with certificates of one's own.

    Every method raises what the service's problem says as the same `LodestoneError` it was there, and
    `ServiceUnavailableError` when nobody answers, or somebody else than Lodestone.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        timeout_s: float = 60.0,
        policy: RetryPolicy | None = None,
        headers: Mapping[str, str] | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        connection = Connection.to(url, api_key=api_key, timeout_s=timeout_s, policy=policy, headers=headers)
        super().__init__(connection, transport=transport)

    async def search(self, request: SearchRequest | str) -> SearchResponse:
        """Return the final answer to a query in words, or to one composed of words and indexed pictures."""
        return await self._run(read_calls.search(request))

    def stream(self, request: SearchRequest | str) -> AsyncIterator[Event]:
        """Yield the events of a query in words; an `error` event is raised as its error. Closing the iterator stops the query.

        Where a connection breaks, the stream is taken up after the last event. Where the service no longer has it, the
        query is asked anew for the rest of its deadline: its events begin again with a plan.
        """
        return self._events(Reading(read_calls.request_of(request)))

    def resume(self, query_id: str, last_event_id: str = "") -> AsyncIterator[Event]:
        """Yield the events of a query that was sent before, for example by a process that has ended.

        Raises:
            NotFoundError: the service has forgotten it (`serve.streams.keep_s`), or another replica has it.
        """
        return self._events(Reading(None, query_id=query_id, last_id=last_event_id))

    async def search_many(self, requests: Iterable[SearchRequest | str]) -> AsyncIterator[BatchAnswer]:
        """Yield the answers to many queries, in the order in which they are ready; `line` counts the requests from 1.

        A query that fails is an answer with a `problem`. Requests are read as answers are: it may be an endless iterator.
        """
        for window in batches.windows(requests):
            while window.open:
                before = len(window.open)
                async for line in self._lines(window.call()):
                    answer = window.take(line)
                    if answer is not None:
                        yield self._display.attached(answer)
                window.check(before, self.url)

    async def similar(self, image_id: str, options: SearchOptions | None = None) -> SearchResponse:
        """Return the pictures most like an indexed one."""
        return await self._run(read_calls.similar(image_id, options))

    async def by_picture(
        self, picture: bytes, options: SearchOptions | None = None, *, more: Sequence[bytes] = ()
    ) -> SearchResponse:
        """Return the pictures most like the one in `picture`, the content of a picture file, and like those in `more`.

        Options that are a `SearchRequest` may ask for words and other parts as well.
        """
        return await self._run(read_calls.by_picture(picture, options, more))

    async def by_url(self, url: str, options: SearchOptions | None = None) -> SearchResponse:
        """Return the pictures most like the one at a public address, where the service allows that (`serve.fetch_urls`)."""
        return await self._run(read_calls.by_url(url, options))

    async def tag_picture(self, picture: bytes) -> PictureTags:
        """Return the labels, quality and safety score of `picture`, the content of a picture file. Nothing is kept."""
        return await self._run(read_calls.tag_picture(picture))

    async def tag_image(self, image_id: str) -> PictureTags:
        """Return the labels, quality and safety score of an indexed picture."""
        return await self._run(read_calls.tag_image(image_id))

    async def image(self, image_id: str) -> ImageInfo:
        """Return what is known about one picture."""
        return await self._run(read_calls.image(image_id))

    async def images(self, corpus: str, limit: int = 50, *, cursor: str | None = None) -> ImagePage:
        """Return one page of a corpus's pictures, ordered by root and path."""
        return await self._run(read_calls.images(corpus, limit, cursor))

    async def browse(self, request: BrowseRequest) -> ImagePage:
        """Return one page of the pictures that pass filters: newest first, those without a date last."""
        return await self._run(read_calls.browse(request))

    def iter_images(self, corpus: str) -> AsyncIterator[ImageInfo]:
        """Yield all pictures of a corpus."""
        return AsyncPagedList(lambda _, cursor: self.images(corpus, 200, cursor=cursor), lambda page: page.images).items()

    async def thumbnail(self, image_id: str) -> bytes:
        """Return a small version of a picture, as the content of a file."""
        return await self._run(read_calls.thumbnail(image_id))

    async def content(self, image_id: str) -> bytes:
        """Return the content of the picture's own file."""
        return await self._run(read_calls.content(image_id))

    async def corpora(self, offset: int = 0, limit: int = 50, *, cursor: str | None = None) -> CorpusPage:
        """Return one page of the corpora."""
        return await self._run(read_calls.corpora(offset, limit, cursor))

    def iter_corpora(self) -> AsyncIterator[CorpusInfo]:
        """Yield all corpora, page by page."""
        return AsyncPagedList(
            lambda offset, cursor: self.corpora(offset, 200, cursor=cursor), lambda page: page.corpora
        ).items()

    async def queries(self, offset: int = 0, limit: int = 50, *, cursor: str | None = None) -> QueryPage:
        """Return one page of recorded queries, newest first."""
        return await self._run(read_calls.queries(offset, limit, cursor))

    def iter_queries(self) -> AsyncIterator[QueryInfo]:
        """Yield all recorded queries, newest first."""
        return AsyncPagedList(
            lambda offset, cursor: self.queries(offset, 200, cursor=cursor), lambda page: page.queries
        ).items()

    async def explain(self, query_id: str) -> QueryExplanation:
        """Return everything that was recorded of a query."""
        return await self._run(read_calls.explain(query_id))

    async def replay(self, query_id: str, *, fresh: bool = False) -> ReplayResult:
        """Rank a recorded query again; with `fresh`, against the collection as it is now."""
        return await self._run(read_calls.replay(query_id, fresh=fresh))

    async def guide_picture(self, query_id: str, guide_id: str) -> bytes:
        """Return the picture of a query's guide, while the guide cache keeps it."""
        return await self._run(read_calls.guide_picture(query_id, guide_id))

    async def feedback(self, request: FeedbackRequest, *, idempotency_key: str | None = None) -> FeedbackResult:
        """Report which pictures of an answer were relevant and which were not."""
        return await self._run(write_calls.feedback(request, idempotency_key))

    async def trust(self) -> TrustPage:
        """Return the learnt trust of each topic."""
        return await self._run(read_calls.trust())

    async def trust_events(self, offset: int = 0, limit: int = 50, *, topic: str | None = None) -> TrustEventPage:
        """Return one page of what changed trust, newest first."""
        return await self._run(read_calls.trust_events(offset, limit, topic))

    async def generators(self) -> EngineList:
        """Return the state of the service's guide engines, their breakers and the guide cache."""
        return await self._run(read_calls.generators())

    async def tags(
        self,
        offset: int = 0,
        limit: int = 50,
        *,
        cursor: str | None = None,
        corpus: str | None = None,
        image_id: str | None = None,
        text: str | None = None,
        source: str | None = None,
    ) -> TagPage:
        """Return one page of tags, newest first."""
        return await self._run(
            read_calls.tags(offset, limit, cursor, corpus=corpus, image_id=image_id, text=text, source=source)
        )

    async def tag_texts(self, limit: int = 100, *, source: str | None = None) -> TagTexts:
        """Return the texts of tags with their numbers of pictures, those of most pictures first."""
        return await self._run(read_calls.tag_texts(source, limit))

    def iter_tags(
        self,
        *,
        corpus: str | None = None,
        image_id: str | None = None,
        text: str | None = None,
        source: str | None = None,
    ) -> AsyncIterator[TagInfo]:
        """Yield all tags that match, newest first."""

        async def fetch(offset: int, cursor: str | None) -> TagPage:
            return await self.tags(offset, 200, cursor=cursor, corpus=corpus, image_id=image_id, text=text, source=source)

        return AsyncPagedList(fetch, lambda page: page.tags).items()

    async def add_tags(self, request: TagRequest, *, idempotency_key: str | None = None) -> TagList:
        """Tag pictures by hand; a tag that exists stays as it is."""
        return await self._run(write_calls.add_tags(request, idempotency_key))

    async def remove_tag(self, tag_id: str, *, idempotency_key: str | None = None) -> None:
        """Remove one tag by its id."""
        await self._run(write_calls.remove_tag(tag_id, idempotency_key))

    async def models(self) -> ModelList:
        """Return all spaces, text encoders, backbones and generators."""
        return await self._run(read_calls.models())

    async def model(self, model_id: str) -> ModelInfo:
        """Return one model by its name."""
        return await self._run(read_calls.model(model_id))

    async def embeddings(self, request: EmbeddingsRequest) -> EmbeddingList:
        """Return vectors of words, or of pictures given as `data:` URLs."""
        return await self._run(read_calls.embeddings(request))

    async def generate_images(self, request: DrawingRequest) -> DrawingList:
        """Have a generator draw pictures; this may cost money, so the client never sends it twice."""
        return await self._run(read_calls.generate_images(request))
