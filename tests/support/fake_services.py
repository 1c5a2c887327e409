"""A stand-in for the use cases behind the HTTP layer: knows one picture and records what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from lodestone.access.caller import Caller
from lodestone.access.key_cache import KeyStore
from lodestone.access.visibility import EVERYTHING, Visibility
from lodestone.catalog.records import WriteKey, WriteRecord
from lodestone.config.profiles import PROFILES
from lodestone.config.settings import Settings
from lodestone.errors import ImageError, NotFoundError, UnknownNameError
from lodestone.paging import PageRequest, decode_cursor, encode_cursor
from lodestone.query.asking.request_context import NOW, RequestContext
from lodestone.services.keys import KeyUseCases
from lodestone.services.limits import need_all_corpora, need_whole_home, shown
from lodestone.services.models import Embedded, GeneratedImages, ModelUseCases
from lodestone.services.pictures import PictureFile
from lodestone.services.redaction import redact_status
from lodestone_schemas.api import (
    BrowseRequest,
    CorpusInfo,
    CorpusPage,
    CorpusRenamed,
    DoneEvent,
    DuplicatesRequest,
    Event,
    GuideEvent,
    GuideInfo,
    Hit,
    ImageInfo,
    ImagePage,
    PictureLabel,
    PictureQuality,
    PictureTags,
    PlanEvent,
    ResultsEvent,
    SearchOptions,
    SearchRequest,
    SearchResponse,
    SyncProgress,
    SyncRequest,
    VerifyRequest,
)
from lodestone_schemas.openai import DrawingRequest, ModelInfo, ModelList
from lodestone_schemas.service import Check, ServiceStatus
from lodestone_schemas.timeline import EventPage, EventsRequest

KNOWN_ID = "5f0f7a52-6f62-5b1f-9d3e-0a4f6d1c2b3a"
UNKNOWN_ID = "00000000-0000-5000-8000-000000000000"
START = datetime(2026, 1, 2, tzinfo=UTC)


class FakeServices:
    """Stands in for `Services`. Answers at once, unless `pause` (an event to be set) holds it; every query raises `fail`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[object] = []
        self.removed: list[str] = []
        self.open_count = self.close_count = 0
        self.ready = True
        self.fail: Exception | None = None
        self.fail_late: Exception | None = None
        self.pause: asyncio.Event | None = None
        self.running = 0
        self.cancelled = asyncio.Event()
        self.session = self
        self.runtime = SimpleNamespace(
            settings=Settings(home=folder), profile=PROFILES["embedded"], chosen_weights=lambda _: {}
        )
        self.search = _Search(self)
        self.pictures = _Pictures(self)
        self.timeline = _Timeline()
        self.tagging = _Tagging(self)
        self.corpora = _Corpora(self)
        self.models = _Models(self)
        self.keys = _Keys(self)
        self.operations = _Operations(self)
        self.writes = _Writes()
        self.rates = None
        self.queries = self.learning = self.tags = self.directories = self.runs = None

    async def open(self) -> None:
        self.open_count += 1

    async def close(self) -> None:
        self.close_count += 1

    def response(self, stage: str = "text") -> SearchResponse:
        hit = Hit(
            rank=1, image_id=KNOWN_ID, score=0.5, corpus="c", root="r", uri="a.png", width=2, height=2,
            thumbnail=f"/v1/images/{KNOWN_ID}/thumbnail",
        )  # fmt: skip
        return SearchResponse(
            query_id="q1", stage=stage, hits=[hit], fusion="rrf", space_weights={"bridge": 1.0}, timings_ms={"encode": 3.0}
        )

    async def events(self, request: SearchRequest, *, request_context: RequestContext = NOW) -> AsyncIterator[Event]:
        self.asked.append(request)
        if self.fail:
            raise self.fail
        self.running += 1
        try:
            yield PlanEvent(query_id="q1", spaces={}, space_weights={}, generators=["exemplar"], guides=1, fusion="rrf")
            yield ResultsEvent(response=self.response())
            if self.pause:
                await self.pause.wait()
            if self.fail_late:
                raise self.fail_late
            guide = GuideInfo(guide_id="exemplar/0", engine="exemplar", weight=1.0, provenance={})
            yield GuideEvent(query_id="q1", guide=guide)
            yield DoneEvent(response=self.response("guides"))
        except (asyncio.CancelledError, GeneratorExit):
            self.cancelled.set()
            raise
        finally:
            self.running -= 1

    async def answer(self, request: SearchRequest, *, request_context: RequestContext = NOW) -> SearchResponse:
        self.asked.append(request)
        if self.fail:
            raise self.fail
        self.running += 1
        try:
            if self.pause:
                await self.pause.wait()
        finally:
            self.running -= 1
        return self.response("guides")

    async def similar(self, image_id: str, options: SearchOptions, *, request_context: RequestContext = NOW) -> SearchResponse:
        self._known(image_id)
        self.asked.append(options)
        return self.response("picture")

    async def by_picture(
        self, picture: bytes, options: SearchOptions, *, request_context: RequestContext = NOW
    ) -> SearchResponse:
        if not picture.startswith(b"\x89PNG"):
            raise ImageError("not a picture", hint="send a picture", reason="not_an_image")
        self.asked.append(options)
        return self.response("picture")

    def image(self, image_id: str) -> ImageInfo:
        self._known(image_id)
        return ImageInfo(
            image_id=image_id, corpus="c", root="r", uri="a.png", hash="h", size=1, width=2, height=2, format="PNG",
            thumbnail=f"/v1/images/{image_id}/thumbnail",
        )  # fmt: skip

    def thumbnail(self, image_id: str) -> PictureFile:
        self._known(image_id)
        return PictureFile(b"thumbnail bytes", "image/jpeg", "tag1")

    def content(self, image_id: str) -> PictureFile:
        self._known(image_id)
        return PictureFile(b"content bytes", "image/png", "tag2")

    def model_list(self) -> ModelList:
        known = [
            ModelInfo(id="words", name="words", kind="space", created=1, dim=4, takes=["text"], gives=["embedding"]),
            ModelInfo(id="eyes", name="eyes", kind="space", created=1, dim=4, takes=["picture"], gives=["embedding"]),
            ModelInfo(id="generator/words", name="words", kind="generator", created=1, gives=["picture"]),
        ]
        return ModelList(data=known)

    async def embed(self, model: str, inputs: Sequence[str | bytes]) -> Embedded:
        self.asked.append((model, list(inputs)))
        if self.fail:
            raise self.fail
        return Embedded(model, np.eye(4, dtype=np.float32)[: len(inputs)])

    async def draw(self, request: DrawingRequest) -> GeneratedImages:
        self.asked.append(request)
        if self.fail:
            raise self.fail
        pictures = [np.full((32, 48, 3), 40 * place, np.uint8) for place in range(request.n)]
        return GeneratedImages("brush", pictures, cost=0.5, warnings=["slow today"])

    def corpus_page(self, offset: int, limit: int, *, cursor: str | None = None) -> CorpusPage:
        names = ["a", "b", "c"]
        if cursor is not None:
            names = [name for name in names if name > decode_cursor("corpora", cursor, str)[0]]
        page = [
            CorpusInfo(name=name, corpus_id=name, images=1, failures=0, roots=[], created_at=START)
            for name in names[offset : offset + limit]
        ]
        more = offset + limit < len(names)
        return CorpusPage(
            corpora=page,
            next_offset=offset + limit if more and cursor is None else None,
            next_cursor=encode_cursor("corpora", page[-1].name) if more else None,
        )

    async def remove_corpus(self, name: str) -> None:
        if name != "a":
            raise UnknownNameError.among("corpus", name, ["a"])
        self.removed.append(name)

    async def status(self, *, visibility: Visibility = EVERYTHING) -> ServiceStatus:
        store = Check(ok=self.ready, milliseconds=1.0, detail="" if self.ready else "the store is gone")
        checks = {"models": Check(ok=True, milliseconds=1.0), "store": store}
        return ServiceStatus(
            ready=self.ready,
            version="0",
            profile="embedded",
            started_at=START,
            images=1 if visibility.corpora is None else 0,
            checks=checks,
        )

    async def sync(self, request: SyncRequest) -> AsyncIterator[SyncProgress]:
        self.asked.append(request)
        if self.fail:
            raise self.fail
        yield SyncProgress(stage="load", collection="bridge-1", done=1, total=1)
        yield SyncProgress(type="done")

    def _known(self, image_id: str) -> None:
        if image_id != KNOWN_ID:
            raise NotFoundError(f"no picture has the id {image_id!r}", hint="search again")

    def key_store(self) -> KeyStore:
        raise NotImplementedError("this stand-in has no keys")


class _Search:
    def __init__(self, fake: FakeServices) -> None:
        self._fake = fake

    def events(self, request: SearchRequest, caller: Caller, *, context: RequestContext = NOW) -> AsyncIterator[Event]:
        return self._fake.events(request, request_context=replace(context, visibility=caller.visibility))

    async def answer(self, request: SearchRequest, caller: Caller, *, context: RequestContext = NOW) -> SearchResponse:
        return await self._fake.answer(request, request_context=replace(context, visibility=caller.visibility))

    async def similar(
        self, image_id: str, options: SearchOptions, caller: Caller, *, context: RequestContext = NOW
    ) -> SearchResponse:
        return await self._fake.similar(image_id, options, request_context=context)

    async def by_picture(
        self,
        picture: bytes,
        options: SearchOptions,
        caller: Caller,
        *,
        context: RequestContext = NOW,
        more: Sequence[bytes] = (),
    ) -> SearchResponse:
        for further in more:
            await self._fake.by_picture(further, options, request_context=context)
        return await self._fake.by_picture(picture, options, request_context=context)


class _Tagging:
    def __init__(self, fake: FakeServices) -> None:
        self._fake = fake

    async def of_picture(self, picture: bytes, caller: Caller, *, deadline: float | None = None) -> PictureTags:
        await self._fake.by_picture(picture, SearchOptions())
        quality = PictureQuality(sharpness=9.0, brightness=0.5, contrast=0.1, shadows=0.0, highlights=0.0)
        return PictureTags(labels=[PictureLabel(text="tabby", similarity=0.9)], quality=quality, safety=None)

    async def of_image(self, image_id: str, caller: Caller, *, deadline: float | None = None) -> PictureTags:
        self._fake.image(image_id)
        return await self.of_picture(b"\x89PNG", caller)


class _Pictures:
    def __init__(self, fake: FakeServices) -> None:
        self._fake = fake

    def image(self, image_id: str, caller: Caller) -> ImageInfo:
        return self._fake.image(image_id)

    def thumbnail(self, image_id: str, caller: Caller) -> PictureFile:
        return self._fake.thumbnail(image_id)

    def content(self, image_id: str, caller: Caller) -> PictureFile:
        return self._fake.content(image_id)

    def browse(self, request: BrowseRequest, caller: Caller) -> ImagePage:
        return ImagePage(images=[])

    async def remove(self, image_id: str, caller: Caller) -> None:
        self._fake.image(image_id)
        self._fake.removed.append(image_id)

    page = people = None


class _Timeline:
    def events(self, request: EventsRequest, caller: Caller) -> EventPage:
        return EventPage(events=[])


class _Corpora:
    def __init__(self, fake: FakeServices) -> None:
        self._fake = fake

    def page(self, page: PageRequest, caller: Caller) -> CorpusPage:
        return self._fake.corpus_page(page.offset, page.limit, cursor=page.cursor)

    async def remove(self, name: str, caller: Caller) -> None:
        await self._fake.remove_corpus(name)

    async def rename(self, name: str, new: str, caller: Caller) -> CorpusRenamed:
        if name not in {corpus.name for corpus in self._fake.corpus_page(0, 200).corpora}:
            raise UnknownNameError.among("corpus", name, [])
        corpus = CorpusInfo(name=new, corpus_id="c", images=1, failures=0, roots=[], created_at=START)
        return CorpusRenamed(corpus=corpus, keys=[], notes=[])


class _Models(ModelUseCases):
    def __init__(self, fake: FakeServices) -> None:
        self._fake = fake

    def all(self, caller: Caller) -> ModelList:
        return self._fake.model_list()

    async def embed(self, model: str, inputs: Sequence[str | bytes], caller: Caller) -> Embedded:
        return await self._fake.embed(model, inputs)

    async def draw(self, request: DrawingRequest, caller: Caller) -> GeneratedImages:
        return await self._fake.draw(request)


class _Keys(KeyUseCases):
    def __init__(self, fake: FakeServices) -> None:
        self._fake = fake

    def store(self, caller: Caller) -> KeyStore:
        need_whole_home(caller, "keys")
        return self._fake.key_store()


class _Operations:
    def __init__(self, fake: FakeServices) -> None:
        self._fake = fake

    async def status(self, caller: Caller) -> ServiceStatus:
        return shown(caller, await self._fake.status(visibility=caller.visibility), redact_status)

    def find_duplicates(self, request: DuplicatesRequest, caller: Caller) -> AsyncIterator[SyncProgress]:
        need_all_corpora(caller, "looking for copies")
        return self._fake.sync(SyncRequest())

    def verify(self, request: VerifyRequest, caller: Caller) -> AsyncIterator[SyncProgress]:
        need_all_corpora(caller, "comparing collections")
        return self._fake.sync(SyncRequest())

    def sync(self, request: SyncRequest, caller: Caller) -> AsyncIterator[SyncProgress]:
        need_all_corpora(caller, "bringing collections in line")
        return self._fake.sync(request)


class _Writes:
    """Forgets every write: nothing is answered twice."""

    def claim(self, write: WriteKey, caller: Caller) -> WriteRecord | None:
        return None

    def answer(self, write: WriteKey, caller: Caller, *, status: int, body: bytes) -> None: ...

    def forget(self, write: WriteKey, caller: Caller) -> None: ...
