"""Can queries be answered right now? A text is really encoded, store and catalog are asked; the result holds for a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from datetime import datetime
from typing import TYPE_CHECKING

from lodestone import __version__
from lodestone.access.visibility import EVERYTHING, Visibility
from lodestone.catalog.records import ImageState
from lodestone_schemas.service import Check, ServiceStatus

if TYPE_CHECKING:
    from lodestone.home.runtime import Runtime
    from lodestone.query.stages import Encoder

HOLDS_S = 1.0
PATIENCE_S = 5.0  # a part that takes longer does not answer


class Readiness:
    """Asks models, store and catalog of an opened home, at most once in `HOLDS_S` however often it is called.

    Args:
        runtime: The opened home.
        started_at: Of the service.
        encoder: The models that queries use now, wherever they are.
    """

    def __init__(self, runtime: Runtime, started_at: datetime, *, encoder: Callable[[], Encoder]) -> None:
        self._runtime = runtime
        self._encoder = encoder
        self._started_at = started_at
        self._lock = asyncio.Lock()
        self._last: tuple[float, ServiceStatus] | None = None
        self._images = 0

    async def status(self, visibility: Visibility = EVERYTHING) -> ServiceStatus:
        """What answers; every failure is a check that is not ok. Counts are those of the corpora that `visibility` sees."""
        status = await self._status()
        if visibility.corpora is None:
            return status
        images = (
            await asyncio.to_thread(self._count, visibility.corpora)
            if visibility.corpora and status.checks["catalog"].ok
            else 0
        )
        return status.model_copy(update={"images": images})

    async def _status(self) -> ServiceStatus:
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
            profile=self._runtime.configured.name,
            started_at=self._started_at,
            images=self._images,
            checks=checks,
        )

    def _count(self, corpora: Collection[str]) -> int:
        catalog = self._runtime.catalog
        return sum(catalog.count_images(corpus_id, ImageState.ACTIVE) for corpus_id in catalog.corpus_ids(corpora).values())

    async def _encode(self) -> None:
        await self._encoder().encode_texts(["ready?"], deadline=time.monotonic() + PATIENCE_S)

    def _store(self) -> None:
        self._runtime.store.ping()

    def _catalog(self) -> None:
        self._images = self._runtime.catalog.count_images(None, ImageState.ACTIVE)


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
