"""The engine that answers the queries of a served home, and its replacement: whole, and only once the new one is warm."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import structlog

from lodestone.errors import LodestoneError
from lodestone.indexing.progress import Progress

if TYPE_CHECKING:
    from lodestone.home.runtime import Runtime
    from lodestone.query.engine import QueryEngine
    from lodestone.spaces.base import Projection

_FOLLOW_S = 2.0  # between two looks at what other processes promoted
_log = structlog.get_logger("lodestone.serve")


@dataclass(frozen=True, slots=True)
class WarmEngine:
    """The engine that answers queries, and the collection of each space that it knows how to search."""

    engine: QueryEngine
    collections: Mapping[str, str]

    @classmethod
    async def warm(cls, runtime: Runtime, projections: Mapping[str, Projection]) -> Self:
        """Return an engine over these versions of the spaces, its models loaded."""
        engine = await asyncio.to_thread(runtime.engine, projections)
        await engine.warm_up()
        return cls(engine, _collections(projections))


class LiveEngine:
    """The engine of a served home, between its opening and its closing.

    Args:
        runtime: The home.
        answering: What answers queries for now.

    Attributes:
        synced_at: Seconds since 1970 of the last sync that went well; None: there was none.
    """

    def __init__(self, runtime: Runtime, answering: WarmEngine) -> None:
        self.runtime = runtime
        self.answering = answering
        self.synced_at: float | None = None

    async def load(self, report: Progress, *, build: bool = True) -> None:
        """Bring the collections in line, and go over to what is then promoted. One at a time: the caller ensures that."""
        from lodestone.indexing.sync.collections import sync

        # Another version of a space is in force: its engine is warm before the sync promotes that version. Until it takes over,
        # queries go on with the former engine in the former collection, which no sync drops that retires it.
        wanted = await asyncio.to_thread(self.runtime.projections)
        renewed, former = None, None
        if _collections(wanted) != self.answering.collections:
            former = self.runtime.forget_hub()  # a prior belongs to versions of spaces; queries under way keep the former one
            renewed = await WarmEngine.warm(self.runtime, wanted)
        try:
            await asyncio.to_thread(sync, self.runtime, progress=report, build=build)
            self.synced_at = time.time()
        finally:  # a sync that fails may have promoted before, or not
            await self._renew(renewed)
            if former is not None:
                await former.close()

    async def follow(self, changing: asyncio.Lock) -> None:
        """Notice, without end, that another process promoted a version of a space, and go over to it between two syncs."""
        while True:
            await asyncio.sleep(_FOLLOW_S)
            try:
                aliases = await asyncio.to_thread(self.runtime.promoted)
                if any(aliases.get(space, name) != name for space, name in self.answering.collections.items()):
                    async with changing:
                        former = self.runtime.forget_hub()
                        await self._renew(None)
                        if former is not None:
                            await former.close()
            except LodestoneError as error:  # the store restarts, say: the queries will tell whoever asks
                _log.warning("cannot see which collections are promoted", code=error.code, detail=error.message)

    async def _renew(self, renewed: WarmEngine | None) -> None:
        """Let queries use an engine of the promoted versions: the one in use, `renewed`, or else a new one."""
        promoted = await asyncio.to_thread(self.runtime.serving_projections)
        collections = _collections(promoted)
        if collections == self.answering.collections:
            return
        if renewed is None or collections != renewed.collections:  # yet another version came in force during the sync
            renewed = await WarmEngine.warm(self.runtime, promoted)
        self.answering = renewed


def _collections(projections: Mapping[str, Projection]) -> dict[str, str]:
    return {space: projection.collection for space, projection in projections.items()}
