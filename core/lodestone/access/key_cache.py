"""The check of API keys: looked up in the catalog, held for two seconds, and never kept in plain.

What a revoked key may still do ends within those seconds, in every replica. A key that is in use is looked up again while what
is held still counts, so that its requests do not wait for the catalog. When a key was last used is written behind the
requests, for all keys at once, some times a minute.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import structlog

from lodestone.access.keys import ApiKey, key_id_of
from lodestone.errors import LodestoneError, OverloadedError, ServiceUnavailableError, UnauthorizedError

HOLDS_S: Final = 2.0
REFRESHES_AFTER: Final = 0.5
"""Share of those seconds after which a key that is used is looked up again."""

FLUSH_S: Final = 20.0
MOST_HELD: Final = 10_000
_PATIENCE_S: Final = 3.0
_THREADS: Final = 2
_MOST_WAITING: Final = 256
_log = structlog.get_logger("lodestone.serve")


class KeyStore(Protocol):
    """Where keys are kept: the catalog. Methods block and are thread-safe."""

    def add_key(self, key: ApiKey) -> None:
        """Keep a key that was just made."""

    def key(self, key_id: str) -> ApiKey | None:
        """Return one key; None for an unknown id."""

    def keys(self, offset: int = 0, limit: int = 100) -> list[ApiKey]:
        """Return a page of keys, newest first."""

    def revoke_key(self, key_id: str) -> ApiKey:
        """End a key now and return it; `NotFoundError` for an unknown one."""

    def rotate_key(self, key_id: str, *, until: datetime) -> tuple[ApiKey, str]:
        """Put a new key in its place; `NotFoundError` for one that is unknown or not valid any more."""

    def corpora(self, offset: int = 0, limit: int = 100) -> Sequence[Any]:
        """Return a page of corpora by name; each has the attribute `name`."""

    def corpus_ids(self, names: Iterable[str]) -> dict[str, str]:
        """Return the ids of the corpora that exist, by name."""

    def keys_used(self, used: Mapping[str, datetime]) -> None:
        """Remember when keys were last used."""


class KeyRing:
    """Checks keys for one event loop.

    Args:
        store: Gives the catalog's keys; called at every lookup, as the home may be opened later.
        holds_s: Seconds for which what was looked up counts.
        flush_s: Seconds between two writings of `last_used_at`.
    """

    def __init__(self, store: Callable[[], KeyStore], *, holds_s: float = HOLDS_S, flush_s: float = FLUSH_S) -> None:
        self._store = store
        self._holds_s = holds_s
        self._flush_s = flush_s
        self._held: OrderedDict[str, tuple[float, ApiKey | None]] = OrderedDict()
        self._asked: dict[str, asyncio.Task[ApiKey | None]] = {}
        self._used: dict[str, datetime] = {}
        self._flusher: asyncio.Task[None] | None = None
        # Threads of its own: those of the queries may all be busy, and whoever has no key must not wait for them.
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="lodestone-keys")

    async def find(self, written: str) -> ApiKey:
        """Return the key that is written so.

        Raises:
            UnauthorizedError: it is no key, unknown, revoked or expired.
            OverloadedError, ServiceUnavailableError, CatalogError: it cannot be looked up now.
        """
        key_id = key_id_of(written)
        key = None if key_id is None else await self._known(key_id)
        if key is None or not key.is_of(written):
            raise UnauthorizedError("the key is not known", hint="see that it is whole: lodestone_<id>_<secret>")
        now = datetime.now(UTC)
        if why := key.invalid(now):
            raise UnauthorizedError(f"the key {key.key_id} is {why}", hint="ask for a new one", reason=why)
        self._used[key.key_id] = now
        if self._flusher is None:
            self._flusher = asyncio.create_task(self._flush_often())
        return key

    async def close(self) -> None:
        """Write what is still to be written. Idempotent."""
        flusher, self._flusher = self._flusher, None
        if flusher is not None:
            flusher.cancel()
            await asyncio.wait([flusher])
            await self._flush()
        self._threads.shutdown(wait=False)

    async def _known(self, key_id: str) -> ApiKey | None:
        held = self._held.get(key_id)
        age = math.inf if held is None else time.monotonic() - held[0]
        task = self._asked.get(key_id)
        if task is None and age >= REFRESHES_AFTER * self._holds_s:
            if len(self._asked) < _MOST_WAITING:
                task = self._asked[key_id] = asyncio.create_task(self._look_up(key_id))
                task.add_done_callback(lambda done: self._looked_up(key_id, done))
            elif age >= self._holds_s:
                raise OverloadedError("too many keys are being looked up", hint="try again in a moment", retry_after=1)
        if held is not None and age < self._holds_s:
            return held[1]
        assert task is not None  # noqa: S101 - nothing that counts is held, so it was asked for above
        try:
            async with asyncio.timeout(_PATIENCE_S):
                return await asyncio.shield(task)  # others may wait for it, too
        except TimeoutError as error:
            raise ServiceUnavailableError("keys cannot be looked up now", hint="try again in a moment") from error

    def _looked_up(self, key_id: str, task: asyncio.Task[ApiKey | None]) -> None:
        self._asked.pop(key_id, None)
        if not task.cancelled():
            task.exception()  # (those who wait for it have it; nobody may wait any more)

    async def _look_up(self, key_id: str) -> ApiKey | None:
        asked = time.monotonic()  # before reading: what is read may change the moment after
        found = await asyncio.get_running_loop().run_in_executor(self._threads, lambda: self._store().key(key_id))
        self._held[key_id] = (asked, found)
        self._held.move_to_end(key_id)
        while len(self._held) > MOST_HELD:
            self._held.popitem(last=False)
        return found

    async def _flush_often(self) -> None:
        while True:
            await asyncio.sleep(self._flush_s)
            await self._flush()

    async def _flush(self) -> None:
        used, self._used = self._used, {}
        if not used:
            return
        try:
            await asyncio.get_running_loop().run_in_executor(self._threads, lambda: self._store().keys_used(used))
        except LodestoneError as error:
            self._used = used | self._used
            _log.warning("when keys were last used cannot be written", code=error.code, detail=error.message)
