"""A stand-in for the engine, store and catalog behind the HTTP layer: knows one picture and records what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from lodestone.access.visibility import EVERYTHING, Visibility
from lodestone.errors import ImageError, NotFoundError, UnknownNameError
from lodestone.paging import decode_cursor, encode_cursor
from lodestone.query.request_context import NOW, RequestContext
from lodestone_schemas.api import (
    CorpusInfo,
    CorpusPage,
    DoneEvent,
    Event,
    GuideEvent,
    GuideInfo,
    Hit,
    ImageInfo,
    PlanEvent,
    ResultsEvent,
    SearchOptions,
    SearchRequest,
    SearchResponse,
    SyncProgress,
    SyncRequest,
)
from lodestone_schemas.openai import DrawingRequest, ModelInfo, ModelList
from lodestone_schemas.service import Check, ServiceStatus
from lodestone_serve.use_cases.services import Embedded, GeneratedImages, ServedFile

KNOWN_ID = "5f0f7a52-6f62-5b1f-9d3e-0a4f6d1c2b3a"
UNKNOWN_ID = "00000000-0000-5000-8000-000000000000"
START = datetime(2026, 1, 2, tzinfo=UTC)


class FakeServices:
    """Answers at once, unless `pause` (an event that must be set) holds it; `fail` is raised by every query."""

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

    async def image(self, image_id: str) -> ImageInfo:
        self._known(image_id)
        return ImageInfo(
            image_id=image_id, corpus="c", root="r", uri="a.png", hash="h", size=1, width=2, height=2, format="PNG",
            thumbnail=f"/v1/images/{image_id}/thumbnail",
        )  # fmt: skip

    async def thumbnail(self, image_id: str) -> ServedFile:
        self._known(image_id)
        path = self.folder / "thumbnail.jpg"
        path.write_bytes(b"thumbnail bytes")
        return ServedFile(path, "image/jpeg", "tag1")

    async def content(self, image_id: str) -> ServedFile:
        self._known(image_id)
        path = self.folder / "content.png"
        path.write_bytes(b"content bytes")
        return ServedFile(path, "image/png", "tag2")

    async def models(self) -> ModelList:
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

    async def corpora(self, offset: int, limit: int, *, cursor: str | None = None) -> CorpusPage:
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
