# Made of async_client.py by `python -m scripts.sync_client`: change that one.
"""Client for ordinary code: `Lodestone` has one method for each route, and raises problems as typed errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import httpx

from lodestone_client import batches, read_calls, write_calls
from lodestone_client.connection import Connection
from lodestone_client.paging import PagedList
from lodestone_client.reading import Reading
from lodestone_client.retrying import RetryPolicy
from lodestone_client.sync_managing import Managing
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


class Lodestone(Managing):
    """Client of one service, safe to use from several threads. Close it, or use it as a context manager.

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
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        connection = Connection.to(url, api_key=api_key, timeout_s=timeout_s, policy=policy, headers=headers)
        super().__init__(connection, transport=transport)

    def search(self, request: SearchRequest | str) -> SearchResponse:
        """Return the final answer to a query in words, or to one composed of words and indexed pictures."""
        return self._run(read_calls.search(request))

    def stream(self, request: SearchRequest | str) -> Iterator[Event]:
        """Yield the events of a query in words; an `error` event is raised as its error. Closing the iterator stops the query.

        Where a connection breaks, the stream is taken up after the last event. Where the service no longer has it, the
        query is asked anew for the rest of its deadline: its events begin again with a plan.
        """
        return self._events(Reading(read_calls.request_of(request)))

    def resume(self, query_id: str, last_event_id: str = "") -> Iterator[Event]:
        """Yield the events of a query that was sent before, for example by a process that has ended.

        Raises:
            NotFoundError: the service has forgotten it (`serve.streams.keep_s`), or another replica has it.
        """
        return self._events(Reading(None, query_id=query_id, last_id=last_event_id))

    def search_many(self, requests: Iterable[SearchRequest | str]) -> Iterator[BatchAnswer]:
        """Yield the answers to many queries, in the order in which they are ready; `line` counts the requests from 1.

        A query that fails is an answer with a `problem`. Requests are read as answers are: it may be an endless iterator.
        """
        for window in batches.windows(requests):
            while window.open:
                before = len(window.open)
                for line in self._lines(window.call()):
                    answer = window.take(line)
                    if answer is not None:
                        yield self._display.attached(answer)
                window.check(before, self.url)

    def similar(self, image_id: str, options: SearchOptions | None = None) -> SearchResponse:
        """Return the pictures most like an indexed one."""
        return self._run(read_calls.similar(image_id, options))

    def by_picture(self, picture: bytes, options: SearchOptions | None = None, *, more: Sequence[bytes] = ()) -> SearchResponse:
        """Return the pictures most like the one in `picture`, the content of a picture file, and like those in `more`.

        Options that are a `SearchRequest` may ask for words and other parts as well.
        """
        return self._run(read_calls.by_picture(picture, options, more))

    def by_url(self, url: str, options: SearchOptions | None = None) -> SearchResponse:
        """Return the pictures most like the one at a public address, where the service allows that (`serve.fetch_urls`)."""
        return self._run(read_calls.by_url(url, options))

    def tag_picture(self, picture: bytes) -> PictureTags:
        """Return the labels, quality and safety score of `picture`, the content of a picture file. Nothing is kept."""
        return self._run(read_calls.tag_picture(picture))

    def tag_image(self, image_id: str) -> PictureTags:
        """Return the labels, quality and safety score of an indexed picture."""
        return self._run(read_calls.tag_image(image_id))

    def image(self, image_id: str) -> ImageInfo:
        """Return what is known about one picture."""
        return self._run(read_calls.image(image_id))

    def images(self, corpus: str, limit: int = 50, *, cursor: str | None = None) -> ImagePage:
        """Return one page of a corpus's pictures, ordered by root and path."""
        return self._run(read_calls.images(corpus, limit, cursor))

    def browse(self, request: BrowseRequest) -> ImagePage:
        """Return one page of the pictures that pass filters: newest first, those without a date last."""
        return self._run(read_calls.browse(request))

    def iter_images(self, corpus: str) -> Iterator[ImageInfo]:
        """Yield all pictures of a corpus."""
        return PagedList(lambda _, cursor: self.images(corpus, 200, cursor=cursor), lambda page: page.images).items()

    def thumbnail(self, image_id: str) -> bytes:
        """Return a small version of a picture, as the content of a file."""
        return self._run(read_calls.thumbnail(image_id))

    def content(self, image_id: str) -> bytes:
        """Return the content of the picture's own file."""
        return self._run(read_calls.content(image_id))

    def corpora(self, offset: int = 0, limit: int = 50, *, cursor: str | None = None) -> CorpusPage:
        """Return one page of the corpora."""
        return self._run(read_calls.corpora(offset, limit, cursor))

    def iter_corpora(self) -> Iterator[CorpusInfo]:
        """Yield all corpora, page by page."""
        return PagedList(lambda offset, cursor: self.corpora(offset, 200, cursor=cursor), lambda page: page.corpora).items()

    def queries(self, offset: int = 0, limit: int = 50, *, cursor: str | None = None) -> QueryPage:
        """Return one page of recorded queries, newest first."""
        return self._run(read_calls.queries(offset, limit, cursor))

    def iter_queries(self) -> Iterator[QueryInfo]:
        """Yield all recorded queries, newest first."""
        return PagedList(lambda offset, cursor: self.queries(offset, 200, cursor=cursor), lambda page: page.queries).items()

    def explain(self, query_id: str) -> QueryExplanation:
        """Return everything that was recorded of a query."""
        return self._run(read_calls.explain(query_id))

    def replay(self, query_id: str, *, fresh: bool = False) -> ReplayResult:
        """Rank a recorded query again; with `fresh`, against the collection as it is now."""
        return self._run(read_calls.replay(query_id, fresh=fresh))

    def guide_picture(self, query_id: str, guide_id: str) -> bytes:
        """Return the picture of a query's guide, while the guide cache keeps it."""
        return self._run(read_calls.guide_picture(query_id, guide_id))

    def feedback(self, request: FeedbackRequest, *, idempotency_key: str | None = None) -> FeedbackResult:
        """Report which pictures of an answer were relevant and which were not."""
        return self._run(write_calls.feedback(request, idempotency_key))

    def trust(self) -> TrustPage:
        """Return the learnt trust of each topic."""
        return self._run(read_calls.trust())

    def trust_events(self, offset: int = 0, limit: int = 50, *, topic: str | None = None) -> TrustEventPage:
        """Return one page of what changed trust, newest first."""
        return self._run(read_calls.trust_events(offset, limit, topic))

    def generators(self) -> EngineList:
        """Return the state of the service's guide engines, their breakers and the guide cache."""
        return self._run(read_calls.generators())

    def tags(
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
        return self._run(read_calls.tags(offset, limit, cursor, corpus=corpus, image_id=image_id, text=text, source=source))

    def tag_texts(self, limit: int = 100, *, source: str | None = None) -> TagTexts:
        """Return the texts of tags with their numbers of pictures, those of most pictures first."""
        return self._run(read_calls.tag_texts(source, limit))

    def iter_tags(
        self,
        *,
        corpus: str | None = None,
        image_id: str | None = None,
        text: str | None = None,
        source: str | None = None,
    ) -> Iterator[TagInfo]:
        """Yield all tags that match, newest first."""

        def fetch(offset: int, cursor: str | None) -> TagPage:
            return self.tags(offset, 200, cursor=cursor, corpus=corpus, image_id=image_id, text=text, source=source)

        return PagedList(fetch, lambda page: page.tags).items()

    def add_tags(self, request: TagRequest, *, idempotency_key: str | None = None) -> TagList:
        """Tag pictures by hand; a tag that exists stays as it is."""
        return self._run(write_calls.add_tags(request, idempotency_key))

    def remove_tag(self, tag_id: str, *, idempotency_key: str | None = None) -> None:
        """Remove one tag by its id."""
        self._run(write_calls.remove_tag(tag_id, idempotency_key))

    def models(self) -> ModelList:
        """Return all spaces, text encoders, backbones and generators."""
        return self._run(read_calls.models())

    def model(self, model_id: str) -> ModelInfo:
        """Return one model by its name."""
        return self._run(read_calls.model(model_id))

    def embeddings(self, request: EmbeddingsRequest) -> EmbeddingList:
        """Return vectors of words, or of pictures given as `data:` URLs."""
        return self._run(read_calls.embeddings(request))

    def generate_images(self, request: DrawingRequest) -> DrawingList:
        """Have a generator draw pictures; this may cost money, so the client never sends it twice."""
        return self._run(read_calls.generate_images(request))
