"""The contract between the use cases and the process that they run in: one opened home, its engine and its upkeep.

Two processes hold a home: a service, for as long as it runs (`ServingSession`), and a command, for one moment
(`InProcessSession`). The use cases do not know which of them they work in.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Coroutine, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from lodestone.indexing.progress import Progress, silent
from lodestone.query.asking.request_context import NOW, RequestContext
from lodestone_schemas.api import Event, SearchOptions, SearchRequest, SearchResponse

if TYPE_CHECKING:
    from lodestone.directories.queue import RunQueue
    from lodestone.home.runtime import Runtime
    from lodestone.query.engine import QueryEngine


class Answering(Protocol):
    """What answers searches that are told by plain values: an engine, or several in processes of their own."""

    def events(self, request: SearchRequest, *, request_context: RequestContext = NOW) -> AsyncGenerator[Event, None]:
        """Answer a search in words event by event, as `QueryEngine.events` does."""

    async def answer(self, request: SearchRequest, *, request_context: RequestContext = NOW) -> SearchResponse:
        """Return the last answer to a search in words, as `QueryEngine.answer` does."""

    async def similar(self, image_id: str, options: SearchOptions, *, request_context: RequestContext = NOW) -> SearchResponse:
        """Return pictures like an indexed one, as `QueryEngine.similar` does."""


class HomeSession(ABC):
    """One opened home. Its coroutines belong to one event loop; all other methods block and are thread-safe.

    Attributes:
        started_at: When the session was made, aware.
        changing: Held by whatever changes the collections: one at a time.
        synced_at: Seconds since 1970 of the last sync that went well; None: there was none.
    """

    def __init__(self) -> None:
        self.started_at = datetime.now(UTC)
        self.changing = asyncio.Lock()
        self.synced_at: float | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    @abstractmethod
    async def open(self) -> None:
        """Make the home ready for use cases. Called once, before the first of them."""

    @abstractmethod
    async def close(self) -> None:
        """Release what this session opened. Idempotent."""

    @property
    @abstractmethod
    def runtime(self) -> Runtime:
        """The opened home; `ServiceUnavailableError` before `open` and after `close`."""

    @property
    @abstractmethod
    def queue(self) -> RunQueue:
        """Background indexing; `ServiceUnavailableError` where there is none."""

    @property
    @abstractmethod
    def collections(self) -> Mapping[str, str]:
        """Space to the collection in which queries search it."""

    @abstractmethod
    async def engine(self, *, warm: bool = True) -> QueryEngine:
        """Return the engine that answers queries now.

        Args:
            warm: Whether the models that searches in words need must be loaded.
        """

    async def answering(self, *, warm: bool = True) -> Answering:
        """Return what answers searches now: the engine, unless further processes share the work; `warm` as of `engine`."""
        return await self.engine(warm=warm)

    @abstractmethod
    async def settled(self, query_id: str | None = None) -> None:
        """Return when the query, or every answered one, is recorded: its answer did not wait for that."""

    @abstractmethod
    async def tags_changed(self) -> None:
        """Have searches find the tags that have just changed in the catalog. May return a moment before they do."""

    @abstractmethod
    async def load(self, report: Progress = silent, *, build: bool = True) -> None:
        """Bring the collections in line with the catalog, and answer from what is new. The caller holds `changing`.

        Args:
            report: Called with every step, in a thread.
            build: Whether to make graphs as well.
        """

    def withdraw(self, path: str) -> None:
        """Take back background indexing below the folder `path`, and return once nothing works on it. Blocks."""
        self.queue.withdraw(path)

    @abstractmethod
    def busy(self) -> set[str]:
        """Return the names of the corpora that are being indexed."""

    def start_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run `work` to its end, whoever waits for it or leaves; `close` gives it a moment."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
