"""A client of a home in this process, with the methods and answers of `lodestone_client.Lodestone`.

A command holds a `LodestoneApi` and need not know whether the home is here or behind a service.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, Self

from lodestone.paging import PageRequest
from lodestone.services.lazy import lazy_services
from lodestone.services.local_management import LocalManagement
from lodestone.services.sessions.in_process import InProcessSession
from lodestone_client.paging import PagedList

if TYPE_CHECKING:
    from lodestone.directories.queue import RunQueue
    from lodestone.home.runtime import Runtime
    from lodestone.services.api import LodestoneApi
    from lodestone.services.pictures import PictureFile
    from lodestone_client import Lodestone
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
    from lodestone_schemas.openai import DrawingList, DrawingRequest, EmbeddingList, EmbeddingsRequest, ModelInfo, ModelList

    def _same_interface(here: LocalClient, elsewhere: Lodestone) -> tuple[LodestoneApi, LodestoneApi]:
        """Fail the type check when either lacks a method of the interface, or has it otherwise."""
        return here, elsewhere


_PAGE: Final = 200


class LocalClient(LocalManagement):
    """Implements `LodestoneApi` by the use cases of an opened home, for one thread. Close it, or use it as a context manager.

    Keys of idempotent writes are ignored: nothing is sent twice in one process. Searches load the models that they need once.
    """

    @classmethod
    def over(cls, runtime: Runtime, *, queue: RunQueue | None = None) -> Self:
        """Return a client of the home of `runtime`, for this machine's user.

        Args:
            runtime: The opened home. Closing the client does not close it.
            queue: What indexes directories; None: `index_directory` and `add_directory` with `index` raise
                ServiceUnavailableError.
        """
        return cls(lazy_services(InProcessSession(runtime, queue=queue)))

    def search(self, request: SearchRequest | str) -> SearchResponse:
        """Return the final answer to a query in words, or to one composed of words and indexed pictures."""
        return self._run(self._services.search.answer(_request_of(request), self._caller))

    def stream(self, request: SearchRequest | str) -> Iterator[Event]:
        """Yield the events of a query in words; closing the iterator stops the query."""
        events = self._services.search.events(_request_of(request), self._caller)
        return self._each(events)

    def similar(self, image_id: str, options: SearchOptions | None = None) -> SearchResponse:
        """Return pictures like an indexed one."""
        return self._run(self._services.search.similar(image_id, _options_of(options), self._caller))

    def by_picture(self, picture: bytes, options: SearchOptions | None = None, *, more: Sequence[bytes] = ()) -> SearchResponse:
        """Return pictures like the one in `picture`, a picture file's content, and like those in `more`."""
        return self._run(self._services.search.by_picture(picture, _options_of(options), self._caller, more=more))

    def tag_picture(self, picture: bytes) -> PictureTags:
        """Return the labels, quality and safety score of `picture`, a picture file's content."""
        return self._run(self._services.tagging.of_picture(picture, self._caller))

    def tag_image(self, image_id: str) -> PictureTags:
        """Return the labels, quality and safety score of an indexed picture."""
        return self._run(self._services.tagging.of_image(image_id, self._caller))

    def image(self, image_id: str) -> ImageInfo:
        """Return what is known about a picture."""
        return self._services.pictures.image(image_id, self._caller)

    def images(self, corpus: str, limit: int = 50, *, cursor: str | None = None) -> ImagePage:
        """Return one page of a corpus's pictures, by root and path."""
        return self._services.pictures.page(corpus, PageRequest(limit, cursor=cursor), self._caller)

    def browse(self, request: BrowseRequest) -> ImagePage:
        """Return one page of the pictures that pass filters: newest first, those without a date last."""
        return self._services.pictures.browse(request, self._caller)

    def iter_images(self, corpus: str) -> Iterator[ImageInfo]:
        """Yield all pictures of a corpus."""
        return PagedList(lambda _, cursor: self.images(corpus, _PAGE, cursor=cursor), lambda page: page.images).items()

    def thumbnail(self, image_id: str) -> bytes:
        """Return a small version of a picture, a file's content."""
        return _content_of(self._services.pictures.thumbnail(image_id, self._caller))

    def content(self, image_id: str) -> bytes:
        """Return the picture's own file."""
        return _content_of(self._services.pictures.content(image_id, self._caller))

    def corpora(self, offset: int = 0, limit: int = 50, *, cursor: str | None = None) -> CorpusPage:
        """Return one page of the corpora, by name."""
        return self._services.corpora.page(PageRequest(limit, offset, cursor), self._caller)

    def iter_corpora(self) -> Iterator[CorpusInfo]:
        """Yield all corpora, by name."""
        return PagedList(lambda offset, cursor: self.corpora(offset, _PAGE, cursor=cursor), lambda page: page.corpora).items()

    def queries(self, offset: int = 0, limit: int = 50, *, cursor: str | None = None) -> QueryPage:
        """Return one page of recorded queries, newest first."""
        return self._run(self._services.queries.page(PageRequest(limit, offset, cursor), self._caller))

    def iter_queries(self) -> Iterator[QueryInfo]:
        """Yield all recorded queries, newest first."""
        return PagedList(lambda offset, cursor: self.queries(offset, _PAGE, cursor=cursor), lambda page: page.queries).items()

    def explain(self, query_id: str) -> QueryExplanation:
        """Return everything that was recorded of a query."""
        return self._run(self._services.queries.explain(query_id, self._caller))

    def replay(self, query_id: str, *, fresh: bool = False) -> ReplayResult:
        """Return a recorded query's ranking once more; `fresh`: asked again of the collection as it is now."""
        return self._run(self._services.queries.replay(query_id, self._caller, fresh=fresh))

    def guide_picture(self, query_id: str, guide_id: str) -> bytes:
        """Return the picture of a query's guide, while the guide cache keeps it."""
        return self._run(self._services.queries.guide_picture(query_id, guide_id, self._caller)).data

    def feedback(self, request: FeedbackRequest, *, idempotency_key: str | None = None) -> FeedbackResult:  # noqa: ARG002 - nothing is sent twice
        """Learn from which pictures of an answer were right and which were not."""
        return self._run(self._services.learning.feedback(request, self._caller))

    def trust(self) -> TrustPage:
        """Return learnt trust, topic by topic."""
        return self._services.learning.trust(self._caller)

    def trust_events(self, offset: int = 0, limit: int = 50, *, topic: str | None = None) -> TrustEventPage:
        """Return one page of what changed trust, newest first."""
        return self._services.learning.trust_events(topic, PageRequest(limit, offset), self._caller)

    def generators(self) -> EngineList:
        """Return the guide engines, their breakers, and the state of the guide cache."""
        return self._services.learning.generators(self._caller)

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
        from lodestone.services.tags import TagFilters

        filters = TagFilters(corpus, image_id, text, source)
        return self._services.tags.page(filters, PageRequest(limit, offset, cursor), self._caller)

    def tag_texts(self, limit: int = 100, *, source: str | None = None) -> TagTexts:
        """Return the texts of tags with their numbers of pictures, those of most pictures first."""
        return self._services.tags.texts(source, limit, self._caller)

    def iter_tags(
        self, *, corpus: str | None = None, image_id: str | None = None, text: str | None = None, source: str | None = None
    ) -> Iterator[TagInfo]:
        """Yield all tags of a kind, newest first."""

        def fetch(offset: int, cursor: str | None) -> TagPage:
            return self.tags(offset, _PAGE, cursor=cursor, corpus=corpus, image_id=image_id, text=text, source=source)

        return PagedList(fetch, lambda page: page.tags).items()

    def add_tags(self, request: TagRequest, *, idempotency_key: str | None = None) -> TagList:  # noqa: ARG002 - nothing is sent twice
        """Tag pictures by hand; a tag that is there stays as it is."""
        return self._run(self._services.tags.add(request, self._caller))

    def remove_tag(self, tag_id: str, *, idempotency_key: str | None = None) -> None:  # noqa: ARG002 - nothing is sent twice
        """Remove one tag of a picture."""
        self._run(self._services.tags.remove(tag_id, self._caller))

    def models(self) -> ModelList:
        """Return all models: spaces, text encoders, backbones and generators."""
        return self._services.models.all(self._caller)

    def model(self, model_id: str) -> ModelInfo:
        """Return one model by its id."""
        return self._services.models.get(model_id, self._caller)

    def embeddings(self, request: EmbeddingsRequest) -> EmbeddingList:
        """Return vectors of words, or of pictures as `data:` URLs."""
        from lodestone.services.openai_shapes import embedding_list, inputs_of

        inputs = inputs_of(request)
        return embedding_list(request, inputs, self._run(self._services.models.embed(request.model, inputs, self._caller)))

    def generate_images(self, request: DrawingRequest) -> DrawingList:
        """Return pictures that a generator draws; it may cost something."""
        from lodestone.services.openai_shapes import drawing_list

        return drawing_list(request, self._run(self._services.models.draw(request, self._caller)))


def _request_of(request: SearchRequest | str) -> SearchRequest:
    from lodestone_schemas.api import SearchRequest

    return SearchRequest(query=request) if isinstance(request, str) else request


def _options_of(options: SearchOptions | None) -> SearchOptions:
    from lodestone_schemas.api import SearchOptions

    return options or SearchOptions()


def _content_of(file: PictureFile) -> bytes:
    return file.source if isinstance(file.source, bytes) else b"".join(file.source.parts())
