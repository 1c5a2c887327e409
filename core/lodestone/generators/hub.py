"""Hub of guide engines: it draws a query's guides from several engines in parallel and tolerates failures of any of them.

Engines of the lowest priority number are asked together; each gives as many guides as its own setting allows, else an equal
share of what the query wants. The next number is asked for what is then still missing: because an engine failed, is out of use,
over the budget, or had fewer. Cached guides are not asked for. A picture is edited by engines that can. With a `batch`, guides
come in rounds of that many, so that the caller can stop between two of them; guide i of an engine is the same in either case.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from lodestone.catalog.records import EngineState
from lodestone.clock import remaining, within
from lodestone.errors import LodestoneError
from lodestone.generators.base import Guide, GuideRequest
from lodestone.generators.cache import GuideCache
from lodestone.generators.cache_keys import GuideKey, key_of
from lodestone.generators.engine_call import CANCEL_GRACE_S, Draw, Engine, EngineCaller, HubObserver, Silent, stop, version_of
from lodestone.generators.turns import calls_of, next_round, turns_of
from lodestone.query_notes import QueryNotes
from lodestone.remote.budget import Budget
from lodestone_schemas.api import EngineInfo, EngineList

T = TypeVar("T")
_log = logging.getLogger(__name__)

# Share of the time left when engines are asked that is kept for searching with their guides.
_KEPT_FOR_SEARCH: Final = 0.2
_REFRESH_S: Final = 1.0
_UNCACHED: Final = frozenset({"exemplar", "prior"})  # made from the collection or from fitted weights, which takes no time


class Hub:
    """All engines of a home. It implements `query.stages.GuideSource` and belongs to one event loop at a time.

    Args:
        engines: Name -> engine; the order decides which engines of equal priority get the remainder of a share.
        cache: Cache of guides drawn before; None for none.
        observer: Receives the events of the engines.
        states: Name -> changes to the engine made in use.
        source: Reads `states` again.
    """

    def __init__(
        self,
        engines: Mapping[str, Engine],
        *,
        cache: GuideCache | None = None,
        observer: HubObserver | None = None,
        states: Mapping[str, EngineState] | None = None,
        source: Callable[[], Mapping[str, EngineState]] | None = None,
    ) -> None:
        self._source = source
        self._read_at = time.monotonic()
        self._observer = observer or Silent()
        self._callers = {name: EngineCaller(engine, self._observer) for name, engine in engines.items()}
        self._cache = cache
        self._states = dict(states or {})

    @property
    def names(self) -> tuple[str, ...]:
        """Return all engines, disabled ones too, in the order in which they are asked."""
        return tuple(sorted(self._callers, key=self.priority))  # the sort is stable: engines of equal priority keep their order

    @property
    def engines(self) -> Mapping[str, Engine]:
        """Return the engines by name."""
        return {name: caller.engine for name, caller in self._callers.items()}

    @property
    def cache(self) -> GuideCache | None:
        """Return the guide cache, None if there is none."""
        return self._cache

    def refresh(self) -> None:
        """Read the engines' changed states again, at most once a second. Blocks."""
        if self._source is not None and time.monotonic() - self._read_at > _REFRESH_S:
            self._read_at = time.monotonic()
            try:
                self.apply(self._source())
            except LodestoneError as error:  # the states read a second ago stay valid
                _log.warning("what was changed about the generators cannot be read: %s", error.message)

    def apply(self, states: Mapping[str, EngineState]) -> None:
        """Replace the engines' changed states; the next query uses them."""
        self._states = dict(states)

    def enabled(self, name: str) -> bool:
        """Return whether the engine may be asked at all."""
        state = self._states.get(name)
        configured = self._callers[name].engine.settings.enabled
        return configured if state is None or state.enabled is None else state.enabled

    def edits(self, name: str) -> bool:
        """Return whether the engine edits pictures."""
        return self._callers[name].engine.generator.edits

    def priority(self, name: str) -> int:
        """Return the engine's priority; the lowest number is asked first."""
        state = self._states.get(name)
        configured = self._callers[name].engine.settings.priority
        return configured if state is None or state.priority is None else state.priority

    async def warm_up(self) -> None:
        """Load what the engines need. An engine that cannot run is logged, and queries will report it too."""
        callers = [caller for name, caller in self._callers.items() if self.enabled(name)]
        results = await asyncio.gather(
            *(engine_caller.engine.generator.warm_up() for engine_caller in callers), return_exceptions=True
        )
        for caller, result in zip(callers, results, strict=True):
            if isinstance(result, LodestoneError):
                _log.warning("generator %s cannot run: %s (%s)", caller.name, result.message, result.hint)
                caller.failed(result.message)
            elif isinstance(result, Exception):
                _log.error("generator %s cannot run", caller.name, exc_info=result)
                caller.failed(f"{type(result).__name__}: {result}")
            elif result is not None:
                raise result

    async def close(self) -> None:
        """Release the engines' connections. Idempotent."""
        for caller in self._callers.values():
            await caller.engine.generator.close()

    async def draw(
        self,
        request: GuideRequest,
        *,
        engines: Sequence[str] | None = None,
        batch: int | None = None,
        deadline: float,
        budget: float | None = None,
        log: QueryNotes,
        fresh: bool = False,
    ) -> AsyncGenerator[list[Guide], None]:
        """Yield guides as they come, at most `request.n`; closing the iterator cancels the calls in progress.

        An engine's failure is never raised: it is recorded in `log.warnings`, and what there was no time or budget for in
        `log.dropped`. A fifth of the time left is kept for what the caller does with the guides.

        Args:
            request: What to draw; `first` is where every engine begins.
            engines: Names; None for all that are enabled.
            batch: Guides per round; None for all at once.
            deadline: The query's deadline, absolute, seconds on `time.monotonic()`'s clock.
            budget: Most that the guides of this query may cost; None for no limit.
            log: Receives failures and omissions.
            fresh: Bypass the cache, which only stores small pictures.
        """
        draw = Draw(deadline - _KEPT_FOR_SEARCH * remaining(deadline), Budget(budget), log, fresh=fresh)
        try:
            async with aclosing(self._tier_by_tier(request, draw, engines=engines, batch=batch)) as arriving:
                async for guides in arriving:
                    yield guides
        finally:
            log.cost += draw.budget.spent  # includes calls that gave no guide

    async def _tier_by_tier(
        self, request: GuideRequest, draw: Draw, *, engines: Sequence[str] | None, batch: int | None
    ) -> AsyncGenerator[list[Guide], None]:
        log, missing = draw.log, request.n
        for tier in self._tiers(engines, log, editing=request.edit is not None):
            limits = {name: self._callers[name].engine.settings.guides for name in tier}
            turns = turns_of(limits, missing, first=request.first)
            while turns and missing > 0 and remaining(draw.until) > 0:
                numbers = next_round(turns, draw.done, size=min(missing, batch or missing))
                async with aclosing(self._round(numbers, request, draw)) as arriving:
                    async for guides in arriving:
                        missing -= len(guides)
                        yield guides
            if missing < 1:
                return
        if remaining(draw.until) <= 0:
            log.left_out("guides: out of time")

    def keep_vectors(self, guide: Guide, vectors: Mapping[str, NDArray[np.float32]]) -> None:
        """Cache vectors of the guide's pixels: collection -> (dim,) float32. Blocks."""
        if self._cache is not None:
            self._cache.add_vectors(guide, vectors)

    def status(self) -> EngineList:
        """Return all engines in the order in which they are asked, with their state and counts, and the cache's figures."""
        return EngineList(
            engines=[self._info(name) for name in self.names], cache={} if self._cache is None else self._cache.stats()
        )

    # -- steps ---------------------------------------------------------------------------------------------------------------

    def _tiers(self, engines: Sequence[str] | None, log: QueryNotes, *, editing: bool) -> Iterator[list[str]]:
        wanted = self.names if engines is None else dict.fromkeys(engines)
        tiers: dict[int, list[str]] = {}
        for name in sorted(
            wanted, key=lambda engine_name: list(self._callers).index(engine_name) if engine_name in self._callers else -1
        ):
            if name not in self._callers:
                log.failed(f"there is no generator {name!r}; known: {', '.join(self.names) or 'none'}")
            elif editing and not self.edits(name):
                continue
            elif self.enabled(name):
                tiers.setdefault(self.priority(name), []).append(name)
            elif engines is not None:
                log.left_out(f"generator {name!r}: disabled")
        for priority in sorted(tiers):
            yield tiers[priority]

    async def _round(
        self, numbers: Mapping[str, list[int]], request: GuideRequest, draw: Draw
    ) -> AsyncGenerator[list[Guide], None]:
        cached = await asyncio.gather(*(self._cached(name, wanted, request, draw) for name, wanted in numbers.items()))
        for guides in cached:
            if guides:
                yield list(guides.values())
        arrived: asyncio.Queue[list[Guide] | asyncio.Task[None]] = asyncio.Queue()
        tasks: set[asyncio.Task[None]] = set()
        for (name, wanted), guides in zip(numbers.items(), cached, strict=True):
            caller = self._callers[name]
            for first, n in calls_of(
                [number for number in wanted if number not in guides], caller.engine.generator.guides_a_call
            ):
                work = self._drawn(caller, replace(request, first=first, n=n), draw, arrived)
                task = asyncio.create_task(work, name=f"ask {name}")
                task.add_done_callback(arrived.put_nowait)
                tasks.add(task)
        working = len(tasks)
        try:
            while working:
                try:
                    parts = await within(_all_of(arrived), max(draw.until, time.monotonic()) + 2 * CANCEL_GRACE_S)
                except TimeoutError:
                    draw.log.left_out("guides: out of time")
                    return
                for ended in (part for part in parts if isinstance(part, asyncio.Task)):
                    working -= 1
                    ended.result()  # raises its error: failures of engines are none
                if drawn := [guide for part in parts if isinstance(part, list) for guide in part]:
                    yield drawn
        finally:
            await stop(tasks)

    async def _cached(self, name: str, numbers: Sequence[int], request: GuideRequest, draw: Draw) -> dict[int, Guide]:
        engine = self._callers[name].engine
        if self._cache is None or draw.fresh or not _is_kept(engine):
            return {}

        def find(cache: GuideCache, key: GuideKey) -> dict[int, Guide]:
            return cache.find(key, numbers, text_vectors=request.text_vectors)

        none_found: dict[int, Guide] = {}
        guides = await self._with_cache(engine, request, draw, find, otherwise=none_found)
        for number in numbers:
            hit = guides[number].cached if number in guides else None
            self._observer.cache(hit or "miss")
        return guides

    async def _drawn(
        self, caller: EngineCaller, request: GuideRequest, draw: Draw, arrived: asyncio.Queue[list[Guide] | asyncio.Task[None]]
    ) -> None:
        """Put the guides of one call into `arrived` as they come."""
        async with aclosing(caller.call(request, draw)) as batches:
            async for guides in batches:
                kept = not draw.fresh and _is_kept(caller.engine)
                arrived.put_nowait(await self._kept(caller.engine, guides, request, draw) if kept else guides)

    async def _kept(self, engine: Engine, guides: list[Guide], request: GuideRequest, draw: Draw) -> list[Guide]:
        def keep(cache: GuideCache, key: GuideKey) -> list[Guide]:
            return cache.keep(key, guides, text_vectors=request.text_vectors)

        return await self._with_cache(engine, request, draw, keep, otherwise=guides)

    async def _with_cache(
        self, engine: Engine, request: GuideRequest, draw: Draw, work: Callable[[GuideCache, GuideKey], T], *, otherwise: T
    ) -> T:
        """Return the result of `work` on the cache, run in a thread: an engine may read its model's files to find its version.

        On a time-out or error the result is `otherwise`, and the log says so.
        """
        cache = self._cache
        if cache is None:
            return otherwise
        try:
            return await within(asyncio.to_thread(lambda: work(cache, key_of(engine, request))), draw.until)
        except TimeoutError:  # with a slow disk the guides are used without the cache
            draw.log.left_out(f"the guide cache for {engine.name!r}: out of time")
            return otherwise
        except Exception as error:  # noqa: BLE001  (third-party engines: an error must not cost the answer; it is logged and reported)
            _log.exception("guides of %s cannot be kept", engine.name)
            draw.log.failed(f"guides of {engine.name!r} cannot be kept: {type(error).__name__}: {error}")
            return otherwise

    def _info(self, name: str) -> EngineInfo:
        caller = self._callers[name]
        settings = caller.engine.settings
        return EngineInfo(
            name=name,
            kind=settings.kind,
            version=version_of(caller.engine),
            enabled=self.enabled(name),
            priority=self.priority(name),
            cost=settings.cost,
            timeout_s=settings.timeout_s,
            breaker=caller.breaker.state,
            guides=caller.given,
            failures=caller.failures,
            last_error=caller.last_error,
        )


async def _all_of(queue: asyncio.Queue[T]) -> list[T]:
    """Return what is in the queue, at least one item: guides that came while others were used are used together."""
    items = [await queue.get()]
    while not queue.empty():
        items.append(queue.get_nowait())
    return items


def _is_kept(engine: Engine) -> bool:
    return engine.settings.kind not in _UNCACHED and engine.generator.cacheable
