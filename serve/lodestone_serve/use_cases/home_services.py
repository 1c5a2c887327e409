"""How does one opened home answer the HTTP layer? `Services` over a `Runtime`, its engine and its store.

Everything that blocks runs in threads. A sync goes on when its reader leaves; the engine that queries use is replaced, whole,
only once it is warm, so that no query meets a half-changed one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar, cast

import structlog

from lodestone.access.visibility import EVERYTHING, Visibility
from lodestone.config.settings import Settings
from lodestone.errors import LodestoneError, ServiceUnavailableError
from lodestone.indexing.progress import Progress, silent
from lodestone.indexing.sync.repair import make_missing_collections
from lodestone.query.request_context import NOW, RequestContext
from lodestone_schemas.api import (
    CorpusPage,
    Event,
    ImageInfo,
    ImagePage,
    SearchOptions,
    SearchRequest,
    SearchResponse,
    SyncProgress,
    SyncRequest,
)
from lodestone_schemas.service import ServiceStatus
from lodestone_schemas.swaps import ShadowRequest, ShadowResult
from lodestone_serve.auth.api_key_cache import KeyStore
from lodestone_serve.http.problems import problem_of, unexpected
from lodestone_serve.inference.shared_passes import LocalStages
from lodestone_serve.tasks import stop
from lodestone_serve.telemetry.sampling import HomeFacts, look_at
from lodestone_serve.use_cases.background import Background
from lodestone_serve.use_cases.background_tasks import TagDelivery
from lodestone_serve.use_cases.directory_services import DirectoryServices
from lodestone_serve.use_cases.live_engine import LiveEngine, WarmEngine
from lodestone_serve.use_cases.memory_services import MemoryServices
from lodestone_serve.use_cases.model_services import ModelServices
from lodestone_serve.use_cases.run_services import RunServices
from lodestone_serve.use_cases.services import ServedFile

if TYPE_CHECKING:
    from lodestone.directories.watch import WatchDelays
    from lodestone.generators.engine_call import HubObserver
    from lodestone.home.runtime import Runtime
    from lodestone.indexing.progress import ProgressEvent
    from lodestone.query.engine import QueryEngine
    from lodestone.query.stages import RemoteStages
    from lodestone.query_log.recorder import RecordObserver

THREADS = 32  # mostly waiting: for the store, the catalog, or the encoder's next pass; it also bounds a text batch
_CLOSE_WAITS_S = 10.0
_T = TypeVar("_T")
_log = structlog.get_logger("lodestone.serve")


class HomeServices(MemoryServices, DirectoryServices, RunServices, ModelServices):
    """Meets `services.Services` for the home of `settings`; see there.

    Args:
        settings: Of the home to open.
        observe_batch: Told the number of texts of every pass that queries share.
        observe_pictures: The same for pictures.
        observe_engines: Told what happens to guide engines.
        observe_records: Told how queries are recorded.
        remote_stages: Stages that run in other processes.
        patience: Of the watcher of directories.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        observe_batch: Callable[[int], None] = lambda _: None,
        observe_pictures: Callable[[int], None] = lambda _: None,
        observe_engines: HubObserver | None = None,
        observe_records: RecordObserver | None = None,
        remote_stages: RemoteStages | None = None,
        patience: WatchDelays | None = None,
    ) -> None:
        self._settings = settings
        self._patience = patience
        self._observe_engines = observe_engines
        self._remote_stages = remote_stages
        self._observe_batch = observe_batch
        self._observe_pictures = observe_pictures
        self._observe_records = observe_records
        self._delivery: TagDelivery | None = None
        self._started_at = datetime.now(UTC)
        self._opened: LiveEngine | None = None
        self._syncs: set[asyncio.Task[None]] = set()
        self._one_sync = asyncio.Lock()
        self._background: Background | None = None
        self._follower: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Open catalog and store, load the models that words need."""
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS, thread_name_prefix="lodestone"))
        runtime = await asyncio.to_thread(self._open_runtime)
        try:
            lost = await asyncio.to_thread(make_missing_collections, runtime)
            if lost:
                _log.warning("collections were lost and are loaded again from the stored embeddings", collections=lost)
            answering = await WarmEngine.warm(runtime, await asyncio.to_thread(runtime.serving_projections))
        except BaseException:
            await asyncio.to_thread(runtime.close)
            raise
        self._opened = LiveEngine(runtime, answering, started_at=self._started_at)
        self._delivery = TagDelivery(runtime.deliver_tags)
        self._delivery.start()
        self._background = Background(runtime, self._load, patience=self._patience)
        self._background.start()
        if self._settings.store.kind != "edge":  # others than this service may promote collections
            self._follower = asyncio.create_task(self._opened.follow(self._one_sync))

    async def close(self) -> None:
        """Let a running sync finish for a moment, then release the store."""
        follower, self._follower = self._follower, None
        await stop(follower)
        background, self._background = self._background, None
        if background is not None:
            await background.close()
        if self._syncs:
            await asyncio.wait(self._syncs, timeout=_CLOSE_WAITS_S)  # what is cut off here is taken up by the next sync
        delivery, self._delivery = self._delivery, None
        if delivery is not None:
            await delivery.close()
        opened, self._opened = self._opened, None
        if opened is not None:
            if opened.runtime.recorder is not None:
                await asyncio.to_thread(opened.runtime.recorder.close)
            await opened.runtime.close_hub()
            await asyncio.to_thread(opened.runtime.close)

    async def events(self, request: SearchRequest, *, request_context: RequestContext = NOW) -> AsyncIterator[Event]:
        """See `Services.events`."""
        async with aclosing(cast("Any", self._now.answering.engine.events(request, request_context=request_context))) as events:
            async for event in events:
                yield event

    async def answer(self, request: SearchRequest, *, request_context: RequestContext = NOW) -> SearchResponse:
        """See `Services.answer`."""
        return await self._now.answering.engine.answer(request, request_context=request_context)

    async def similar(self, image_id: str, options: SearchOptions, *, request_context: RequestContext = NOW) -> SearchResponse:
        """See `Services.similar`."""
        return await self._now.answering.engine.similar(image_id, options, request_context=request_context)

    async def by_picture(
        self, picture: bytes, options: SearchOptions, *, request_context: RequestContext = NOW
    ) -> SearchResponse:
        """See `Services.by_picture`."""
        image = await asyncio.to_thread(self._now.runtime.decode, picture)
        return await self._now.answering.engine.by_picture(image, options, request_context=request_context)

    async def image(self, image_id: str) -> ImageInfo:
        """See `Services.image`."""
        return await asyncio.to_thread(self._now.pictures.info, image_id)

    async def thumbnail(self, image_id: str) -> ServedFile:
        """See `Services.thumbnail`."""
        return await asyncio.to_thread(self._now.pictures.thumbnail, image_id)

    async def content(self, image_id: str) -> ServedFile:
        """See `Services.content`."""
        return await asyncio.to_thread(self._now.pictures.content, image_id)

    async def images(self, corpus: str, limit: int, *, cursor: str | None = None) -> ImagePage:
        """See `Services.images`."""
        return await asyncio.to_thread(self._now.pictures.page, corpus, limit, cursor=cursor)

    async def corpora(
        self, offset: int, limit: int, *, cursor: str | None = None, visibility: Visibility = EVERYTHING
    ) -> CorpusPage:
        """See `Services.corpora`."""
        return await asyncio.to_thread(self._now.pictures.corpora, offset, limit, cursor=cursor, visibility=visibility)

    async def remove_corpus(self, name: str) -> None:
        """See `Services.remove_corpus`. Waits for a running sync: both change the same collections."""
        from lodestone.indexing.run.remove import remove_corpus

        async with self._one_sync:
            await asyncio.to_thread(remove_corpus, self._now.runtime, name)

    async def forget_directory(self, root_id: str) -> None:
        """See `DirectoryServices.forget_directory`."""
        from lodestone.directories.remove import remove_directory

        async with self._one_sync:
            await asyncio.to_thread(remove_directory, self._now.runtime, root_id)
            await self._now.load(silent)

    def key_store(self) -> KeyStore:
        """See `Services.key_store`."""
        return self._now.runtime.catalog

    async def status(self, *, visibility: Visibility = EVERYTHING) -> ServiceStatus:
        """See `Services.status`."""
        return await self._now.readiness.status(visibility)

    async def measured(self) -> HomeFacts:
        """See `sampling.Measurable`."""
        now, jobs = self._now, self.background().queue.jobs()
        collections, synced_at = now.answering.collections, now.synced_at
        return await asyncio.to_thread(look_at, now.runtime, collections=collections, jobs=jobs, synced_at=synced_at)

    async def shadow(self, request: ShadowRequest) -> ShadowResult:
        """See `Services.shadow`."""
        from lodestone.swap.shadow import compare_versions

        report = await compare_versions(
            self._now.runtime, request.space, queries=request.queries, k=request.k, pictures=request.pictures
        )
        return ShadowResult(report=report)

    async def sync(self, request: SyncRequest) -> AsyncIterator[SyncProgress]:
        """See `Services.sync`."""
        steps: asyncio.Queue[SyncProgress] = asyncio.Queue()
        task = asyncio.create_task(self._sync(steps, request))
        self._syncs.add(task)
        task.add_done_callback(self._syncs.discard)
        while True:
            step = await steps.get()
            yield step
            if step.type != "progress":
                return

    def opened(self) -> tuple[Runtime, QueryEngine]:
        """See `MemoryServices.opened`."""
        return self._now.runtime, self._now.answering.engine

    def delivery(self) -> TagDelivery:
        """See `MemoryServices.delivery`."""
        return _there(self._delivery)

    def background(self) -> Background:
        """See `DirectoryServices.background`."""
        return _there(self._background)

    async def _load(self, report: Progress, build: bool) -> None:
        """One sync of the background work."""
        async with self._one_sync:
            await self._now.load(report, build=build)

    @property
    def _now(self) -> LiveEngine:
        return _there(self._opened)

    def _open_runtime(self) -> Runtime:
        from lodestone.home.runtime import Runtime
        from lodestone.query_log.recorder import Recorder

        runtime = Runtime.open(self._settings, purpose="lodestone serve")
        runtime.observer = self._observe_engines
        runtime.recorder = Recorder(observer=self._observe_records)
        runtime.remote_stages = self._remote_stages or LocalStages(
            runtime, observe=self._observe_batch, observe_pictures=self._observe_pictures
        )
        return runtime

    async def _sync(self, steps: asyncio.Queue[SyncProgress], request: SyncRequest) -> None:
        loop = asyncio.get_running_loop()

        def report(event: ProgressEvent) -> None:
            step = SyncProgress(stage=str(event.stage), collection=event.detail, done=event.done, total=event.total)
            loop.call_soon_threadsafe(steps.put_nowait, step)

        try:
            if self._one_sync.locked():
                steps.put_nowait(SyncProgress(stage="waiting"))
            async with self._one_sync:
                await self._now.load(report, build=request.build)
        except LodestoneError as error:
            _log.warning("sync failed", code=error.code, detail=error.message, run_id=request.run_id)
            steps.put_nowait(SyncProgress(type="error", problem=problem_of(error)))
        except Exception:  # noqa: BLE001 - the reader is told, the log has everything
            _log.exception("sync failed unexpectedly", run_id=request.run_id)
            steps.put_nowait(SyncProgress(type="error", problem=unexpected(request.run_id or "sync")))
        else:
            # Behind the reports of the sync's thread, which are queued in the loop.
            loop.call_soon(steps.put_nowait, SyncProgress(type="done"))


def _there(part: _T | None) -> _T:
    if part is None:
        raise ServiceUnavailableError("the service is starting or stopping", hint="try again in a moment")
    return part
