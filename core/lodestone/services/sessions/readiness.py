"""The check whether queries can be answered right now. A text is really encoded, store and catalog are asked, once a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING

from lodestone import __version__
from lodestone.catalog.records import ImageState
from lodestone_schemas.service import Check, ServiceStatus

if TYPE_CHECKING:
    from lodestone.services.sessions.session import HomeSession

HOLDS_S = 1.0
PATIENCE_S = 5.0  # a part that takes longer does not answer


class Readiness:
    """Asks models, store and catalog of an opened home, at most once in `HOLDS_S` however often it is called.

    Args:
        session: The opened home.
    """

    def __init__(self, session: HomeSession) -> None:
        self._session = session
        self._lock = asyncio.Lock()
        self._last: tuple[float, ServiceStatus] | None = None
        self._images = 0
        self._idle: dict[str, str] = {}

    async def status(self) -> ServiceStatus:
        """Return what answers; every failure is a check that is not ok. Pictures of all corpora are counted."""
        async with self._lock:
            if self._last is None or time.monotonic() - self._last[0] > HOLDS_S:
                status = await self._ask()
                self._last = (time.monotonic(), status)
            return self._last[1]

    async def _ask(self) -> ServiceStatus:
        parts: dict[str, Callable[[], Awaitable[object]]] = {
            "models": self._encode,
            "store": lambda: asyncio.to_thread(self._store),
            "catalog": lambda: asyncio.to_thread(self._catalog),
        }
        answers = await asyncio.gather(*(_checked(ask) for ask in parts.values()))
        checks = dict(zip(parts, answers, strict=True))
        return ServiceStatus(
            ready=all(check.ok for check in checks.values()),
            version=__version__,
            profile=self._session.runtime.configured.name,
            started_at=self._session.started_at,
            images=self._images,
            checks=checks,
            idle=self._idle,
        )

    def count(self, corpora: Collection[str]) -> int:
        """Return the number of pictures in the corpora of these names. Blocks."""
        catalog = self._session.runtime.catalog
        return sum(catalog.count_images(corpus_id, ImageState.ACTIVE) for corpus_id in catalog.corpus_ids(corpora).values())

    async def _encode(self) -> None:
        await (await self._session.engine()).encoder.encode_texts(["ready?"], deadline=time.monotonic() + PATIENCE_S)

    def _store(self) -> None:
        self._session.runtime.store.ping()

    def _catalog(self) -> None:
        self._images = self._session.runtime.catalog.count_images(None, ImageState.ACTIVE)
        self._idle = self._session.runtime.idle_parts()


async def _checked(ask: Callable[[], Awaitable[object]]) -> Check:
    started = time.perf_counter()
    detail = ""
    try:
        async with asyncio.timeout(PATIENCE_S):
            await ask()
    except TimeoutError:
        detail = f"no answer in {PATIENCE_S:g} seconds"
    except Exception as error:  # noqa: BLE001 - whatever is wrong with a part, it is not ready, and the answer says why
        detail = str(error) or type(error).__name__
    return Check(ok=not detail, milliseconds=round((time.perf_counter() - started) * 1000, 2), detail=detail)
