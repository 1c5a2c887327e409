"""Clients of one service, made when they are first needed: one for ordinary code, and one for each event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from lodestone_client.async_client import AsyncLodestone
from lodestone_client.connection import Connection
from lodestone_client.documents import tag_texts
from lodestone_client.sync_client import Lodestone
from lodestone_schemas.api import Hit, SearchRequest, SearchResponse

_AT_ONCE: Final = 8  # requests for the tags of pictures
_BY_HAND: Final = "user"  # implicit tags are queries: documents would repeat the question as if it were a fact of the picture


class ServiceClients:
    """Answers searches for a framework's component, which may be called from threads, from several event loops, and copied.

    Args:
        url: Of the service; None: LODESTONE_URL.
        api_key: Its key; None: LODESTONE_API_KEY, for the URL of the environment alone.
        timeout_s: Seconds for a whole answer.

    Raises:
        ConfigurationError: no URL is given, or it is none that can be asked.
        InvalidRequestError: the key can be none, or the timeout is not positive.
    """

    def __init__(self, url: str | None, api_key: str | None, timeout_s: float) -> None:
        self._arguments = (url, api_key, timeout_s)
        self.url = Connection.to(url, api_key=api_key, timeout_s=timeout_s).url
        self._lock = threading.Lock()
        self._blocking: Lodestone | None = None
        self._by_loop: dict[asyncio.AbstractEventLoop, AsyncLodestone] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle the settings alone: connections belong to one process."""
        return type(self), self._arguments

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def blocking(self) -> Lodestone:
        """Return the client for ordinary code."""
        with self._lock:
            if self._blocking is None:
                url, api_key, timeout_s = self._arguments
                self._blocking = Lodestone(url, api_key=api_key, timeout_s=timeout_s)
            return self._blocking

    def awaited(self) -> AsyncLodestone:
        """Return the client of the event loop that runs. Those of loops that have ended are forgotten."""
        running = asyncio.get_running_loop()
        with self._lock:
            for loop in [loop for loop in self._by_loop if loop.is_closed()]:
                del self._by_loop[loop]
            if running not in self._by_loop:
                url, api_key, timeout_s = self._arguments
                self._by_loop[running] = AsyncLodestone(url, api_key=api_key, timeout_s=timeout_s)
            return self._by_loop[running]

    def search(self, request: SearchRequest, *, tags: bool) -> tuple[SearchResponse, list[list[str]]]:
        """Return the answer, and the tags that were given to each hit by hand; none are asked for unless `tags` is set."""
        client = self.blocking()
        answer = client.search(request)
        if not (tags and answer.hits):
            return answer, [[] for _ in answer.hits]
        with ThreadPoolExecutor(min(_AT_ONCE, len(answer.hits))) as threads:
            return answer, list(
                threads.map(lambda hit: tag_texts(client.tags(image_id=hit.image_id, source=_BY_HAND)), answer.hits)
            )

    async def search_async(self, request: SearchRequest, *, tags: bool) -> tuple[SearchResponse, Sequence[list[str]]]:
        """Return what `search` returns."""
        client = self.awaited()
        answer = await client.search(request)
        if not tags:
            return answer, [[] for _ in answer.hits]
        free = asyncio.Semaphore(_AT_ONCE)

        async def of(hit: Hit) -> list[str]:
            async with free:
                return tag_texts(await client.tags(image_id=hit.image_id, source=_BY_HAND))

        return answer, await asyncio.gather(*(of(hit) for hit in answer.hits))

    def close(self) -> None:
        """Close the connections of ordinary code; the next search opens new ones."""
        with self._lock:
            client, self._blocking = self._blocking, None
        if client is not None:
            client.close()

    async def close_async(self) -> None:
        """Close the connections of the event loop that runs, and those of ordinary code."""
        with self._lock:
            client = self._by_loop.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()
        self.close()
