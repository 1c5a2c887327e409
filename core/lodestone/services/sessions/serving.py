"""The home of a service: opened once, its engine kept warm and renewed, its tags delivered and its directories watched.

Everything that blocks runs in threads. The engine that queries use is replaced, whole, only once it is warm, so that no query
meets a half-changed one.

Delivery of tags: the collection that searches read catches up with the catalog, behind the answers. What people said is in the
catalog before they are answered. Only its delivery to the collection is behind: the catalog's outbox holds it, whatever
happens to this process, and is taken up again at the next start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

import structlog

from lodestone.config.settings import Settings
from lodestone.errors import LodestoneError, ServiceUnavailableError
from lodestone.indexing.progress import Progress, silent
from lodestone.indexing.sync.repair import make_missing_collections
from lodestone.services.sessions.live_engine import LiveEngine, WarmEngine
from lodestone.services.sessions.session import HomeSession
from lodestone.services.sessions.upkeep import Upkeep

if TYPE_CHECKING:
    from lodestone.directories.queue import RunQueue
    from lodestone.directories.watch import WatchDelays
    from lodestone.generators.engine_call import HubObserver
    from lodestone.home.runtime import Runtime
    from lodestone.query.contracts import RemoteStages
    from lodestone.query.engine import QueryEngine
    from lodestone.query_log.recorder import RecordObserver

THREADS: Final = 32  # mostly waiting: for the store, the catalog, or the encoder's next pass; it also bounds a text batch
_CLOSE_WAITS_S: Final = 10.0
_T = TypeVar("_T")
_log = structlog.get_logger("lodestone.serve")


class ServingSession(HomeSession):
    """Implements `HomeSession` for the home of `settings`, from `open` to `close`.

    Args:
        settings: Settings of the home to open.
        observe_engines: Notified of what happens to guide engines.
        observe_records: Notified of how queries are recorded.
        stages: Makes the stages that answer queries, e.g. models that queries share, or those of other processes; None: the
            models of this process, for each query by itself.
        delays: Times of the watcher of directories.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        observe_engines: HubObserver | None = None,
        observe_records: RecordObserver | None = None,
        stages: Callable[[Runtime], RemoteStages] | None = None,
        delays: WatchDelays | None = None,
    ) -> None:
        super().__init__()
        self._settings = settings
        self._delays = delays
        self._observe_engines = observe_engines
        self._observe_records = observe_records
        self._stages = stages
        self._delivery: TagDelivery | None = None
        self._live: LiveEngine | None = None
        self._upkeep: Upkeep | None = None
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
        self._live = LiveEngine(runtime, answering)
        self._delivery = TagDelivery(runtime.deliver_tags)
        self._delivery.start()
        self._upkeep = Upkeep(runtime, self._synchronise, delays=self._delays)
        self._upkeep.start()
        if self._settings.store.kind != "edge":  # others than this service may promote collections
            self._follower = asyncio.create_task(self._live.follow(self.changing))

    async def close(self) -> None:
        """Let a running sync finish for a moment, then release the store."""
        follower, self._follower = self._follower, None
        await stop(follower)
        upkeep, self._upkeep = self._upkeep, None
        if upkeep is not None:
            await upkeep.close()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSE_WAITS_S)  # what is cut off here is taken up by the next sync
        delivery, self._delivery = self._delivery, None
        if delivery is not None:
            await delivery.close()
        live, self._live = self._live, None
        if live is not None:
            if live.runtime.recorder is not None:
                await asyncio.to_thread(live.runtime.recorder.close)
            await live.runtime.close_hub()
            await asyncio.to_thread(live.runtime.close)

    @property
    def live(self) -> LiveEngine:
        """The engine and what it was made of; `ServiceUnavailableError` before `open` and after `close`."""
        return _present(self._live)

    @property
    def upkeep(self) -> Upkeep:
        """The work beside the queries; `ServiceUnavailableError` before `open` and after `close`."""
        return _present(self._upkeep)

    @property
    def runtime(self) -> Runtime:
        """Return the opened home, as `HomeSession.runtime` says."""
        return self.live.runtime

    @property
    def queue(self) -> RunQueue:
        """Return the background indexing, as `HomeSession.queue` says."""
        return self.upkeep.queue

    @property
    def collections(self) -> Mapping[str, str]:
        """Return space to collection, as `HomeSession.collections` says."""
        return self.live.answering.collections

    async def engine(self, *, warm: bool = True) -> QueryEngine:  # noqa: ARG002 - it always is
        """Return the engine that answers queries now; it is warm."""
        return self.live.answering.engine

    async def settled(self, query_id: str | None = None) -> None:
        """Wait for records, as `HomeSession.settled` says."""
        await self.live.answering.engine.settled(query_id)

    async def tags_changed(self) -> None:
        """Have tags delivered behind the answers; return when they are, or after a quarter of a second."""
        await _present(self._delivery).changed()

    async def load(self, report: Progress = silent, *, build: bool = True) -> None:
        """Bring the collections in line, as `HomeSession.load` says; queries go on meanwhile."""
        await self.live.load(report, build=build)
        self.synced_at = self.live.synced_at

    def busy(self) -> set[str]:
        """Return the corpora with background work that goes on or waits."""
        return self.queue.busy()

    async def _synchronise(self, report: Progress, build: bool) -> None:
        """Run one sync of the background work."""
        async with self.changing:
            await self.load(report, build=build)

    def _open_runtime(self) -> Runtime:
        from lodestone.home.resources import SERVICE_PURPOSE
        from lodestone.home.runtime import Runtime
        from lodestone.query_log.recorder import Recorder

        runtime = Runtime.open(self._settings, purpose=SERVICE_PURPOSE)
        runtime.may_only_read = False
        runtime.observer = self._observe_engines
        runtime.recorder = Recorder(observer=self._observe_records)
        if self._stages is not None:
            runtime.remote_stages = self._stages(runtime)
        return runtime


def _present(part: _T | None) -> _T:
    if part is None:
        raise ServiceUnavailableError("the service is starting or stopping", hint="try again in a moment")
    return part


SHOWN_S: Final = 0.25
"""Seconds that a write waits for its delivery: nearly always, what was tagged is found by the next search."""

_LOOK_S: Final = 30.0
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 60.0


class TagDelivery:
    """Brings the tags' collection up to date, again and again until it is. For one event loop.

    Args:
        deliver: Empties the outbox into the collection; blocking.
        first_pause_s: Before a delivery that failed is tried again; doubled each time, up to a minute.
    """

    def __init__(self, deliver: Callable[[], object], *, first_pause_s: float = _FIRST_PAUSE_S) -> None:
        self._deliver = deliver
        self._first_pause_s = first_pause_s
        self._wanted = asyncio.Event()
        self._begun = self._shown = 0  # numbers of the delivery that began last, and of the last that was done
        self._news = asyncio.Event()  # set, and replaced, by every delivery that is done
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, with what was left from before."""
        self._wanted.set()
        self._task = asyncio.create_task(self._run())

    async def changed(self) -> None:
        """Tags have changed in the catalog: have them delivered. Returns when they are, or after a quarter of a second."""
        awaited = self._begun + 1
        self._wanted.set()
        try:
            async with asyncio.timeout(SHOWN_S):
                while self._shown < awaited:
                    await self._news.wait()
        except TimeoutError:
            _log.debug("the tags' collection is behind")

    async def close(self) -> None:
        """Stop; what is not delivered stays in the outbox. Idempotent."""
        task, self._task = self._task, None
        await stop(task)

    async def _run(self) -> None:
        pause = self._first_pause_s
        while True:
            with suppress(TimeoutError):  # other processes may have changed tags, or a writer left before it could say so
                async with asyncio.timeout(_LOOK_S):
                    await self._wanted.wait()
            self._wanted.clear()
            self._begun += 1
            try:
                await asyncio.to_thread(self._deliver)
            except LodestoneError as error:
                _log.warning("tags are not delivered yet", code=error.code, detail=error.message, again_in_s=pause)
            except Exception:  # noqa: BLE001 - it is tried again; the log has everything
                _log.exception("tags are not delivered yet", again_in_s=pause)
            else:
                pause = self._first_pause_s
                self._shown = self._begun
                self._news.set()
                self._news = asyncio.Event()
                continue
            self._wanted.set()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)


async def stop(task: asyncio.Task[Any] | None) -> None:
    """Cancel a task and return when nothing of it runs any more. None stands for no task."""
    if task is not None:
        task.cancel()
        await asyncio.wait([task])
