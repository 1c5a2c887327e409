"""The home of a command: use cases run in its process, its engine is made and loaded when the first of them needs it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from lodestone.errors import ServiceUnavailableError
from lodestone.indexing.progress import Progress, silent
from lodestone.services.sessions.session import HomeSession

if TYPE_CHECKING:
    from lodestone.directories.queue import RunQueue
    from lodestone.home.runtime import Runtime
    from lodestone.query.engine import QueryEngine

_ALIVE: Final = timedelta(minutes=2)  # a run that gave no sign of life for so long counts as ended


class InProcessSession(HomeSession):
    """Implements `HomeSession` for a command over an opened home.

    Args:
        runtime: The home. It stays open: whoever opened it closes it.
        queue: What indexes directories; None: nothing does.
    """

    def __init__(self, runtime: Runtime, *, queue: RunQueue | None = None) -> None:
        super().__init__()
        self._runtime = runtime
        self._queue = queue
        self._engine: QueryEngine | None = None
        self._warm = False
        self._making = asyncio.Lock()

    async def open(self) -> None:
        """Do nothing: the home is open, and its parts are opened when they are needed."""

    async def close(self) -> None:
        """Release the connections of guide engines, and wait for what still runs."""
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._engine, self._warm = None, False
        await self._runtime.close_hub()

    @property
    def runtime(self) -> Runtime:
        """Return the opened home, as `HomeSession.runtime` says."""
        return self._runtime

    @property
    def queue(self) -> RunQueue:
        """Return what indexes directories; `ServiceUnavailableError` where nothing does."""
        if self._queue is None:
            raise ServiceUnavailableError(
                "nothing is indexed in the background without a service",
                hint="start `lodestone serve`, or run `lodestone index`",
            )
        return self._queue

    @property
    def collections(self) -> Mapping[str, str]:
        """Return space to collection, as `HomeSession.collections` says."""
        return {space: projection.collection for space, projection in self._runtime.serving_projections().items()}

    async def engine(self, *, warm: bool = True) -> QueryEngine:
        """Return the engine, made by the first call; its models are loaded by the first call that asks for that."""
        async with self._making:
            if self._engine is None:
                self._engine = await asyncio.to_thread(self._runtime.engine)
            if warm and not self._warm:
                await self._engine.warm_up()  # loading models is not the query's time
                self._warm = True
            return self._engine

    async def settled(self, query_id: str | None = None) -> None:
        """Wait for records, if this process has answered any query."""
        if self._engine is not None:
            await self._engine.settled(query_id)

    async def tags_changed(self) -> None:
        """Deliver the tags now. Takes the store.

        Raises:
            StoreLockedError: another process owns it.
        """
        await asyncio.to_thread(self._runtime.deliver_tags)

    async def load(self, report: Progress = silent, *, build: bool = True) -> None:
        """Bring the collections in line; the next use case makes an engine of what is then promoted."""
        from lodestone.indexing.sync.collections import sync

        await asyncio.to_thread(sync, self._runtime, progress=report, build=build)
        self.synced_at = time.time()
        self._engine, self._warm = None, False
        former = self._runtime.forget_hub()  # a prior belongs to versions of spaces
        if former is not None:
            await former.close()

    def withdraw(self, path: str) -> None:
        """Take back indexing below `path`, where anything indexes at all."""
        if self._queue is not None:
            self._queue.withdraw(path)

    def busy(self) -> set[str]:
        """Return the corpora with a run that goes on, in any process: one that has shown signs of life of late."""
        from lodestone.catalog.records import RunState
        from lodestone.directories.naming import corpus_names

        catalog = self._runtime.catalog
        names = corpus_names(catalog)
        since = datetime.now(UTC) - _ALIVE
        running = [run for run in catalog.runs(100, state=RunState.RUNNING) if (run.heartbeat_at or run.started_at) > since]
        return {names[run.corpus_id] for run in running if run.corpus_id in names}
