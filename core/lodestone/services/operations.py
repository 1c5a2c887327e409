"""Operation of a home: what answers right now, its facts, syncs, and the comparison of two versions of a space."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from lodestone import __version__
from lodestone.access.caller import Caller
from lodestone.catalog.records import ImageState
from lodestone.errors import LodestoneError
from lodestone.indexing.progress import Progress, ProgressEvent, RunStage
from lodestone.services.limits import need_all_corpora, need_all_queries, need_whole_home, shown
from lodestone.services.redaction import redact_status
from lodestone.services.sessions.home_facts import HomeFacts, home_facts
from lodestone_schemas.api import DuplicatesRequest, SyncProgress, SyncRequest, VerifyRequest
from lodestone_schemas.service import Check, ServiceStatus
from lodestone_schemas.swaps import ShadowRequest, ShadowResult

if TYPE_CHECKING:
    import structlog

    from lodestone.services.sessions.session import HomeSession

_CORPORA: Final = 100_000


class OperationUseCases:
    """Tells how one home fares, and brings its collections in line."""

    def __init__(self, session: HomeSession) -> None:
        self._session = session
        self._readiness = Readiness(session)

    async def status(self, caller: Caller) -> ServiceStatus:
        """Return what answers right now; a part that fails is a check that is not ok. Counts are those of seen corpora."""
        status = await self._readiness.status()
        corpora = caller.visibility.corpora
        if corpora is not None:
            images = await asyncio.to_thread(self._readiness.count, corpora) if corpora and status.checks["catalog"].ok else 0
            status = status.model_copy(update={"images": images})
        return shown(caller, status, redact_status)

    async def facts(self, caller: Caller) -> HomeFacts:
        """Return the facts of the home, for monitoring.

        Raises:
            ForbiddenError: the caller does not see the whole home.
            CatalogError, StoreError: they cannot be read.
        """
        need_whole_home(caller, "facts of the home")
        session = self._session
        jobs, collections, synced_at = session.queue.jobs(), session.collections, session.synced_at
        return await asyncio.to_thread(home_facts, session.runtime, collections=collections, jobs=jobs, synced_at=synced_at)

    async def shadow(self, request: ShadowRequest, caller: Caller) -> ShadowResult:
        """Compare both versions of a space that is being swapped, by recorded queries.

        Raises:
            ForbiddenError: the caller does not see everybody's queries.
            NotFoundError: no version of the space stands by.
        """
        from lodestone.swap.shadow import compare_versions

        need_all_queries(caller, "comparing versions by everybody's queries")
        report = await compare_versions(
            self._session.runtime, request.space, queries=request.queries, k=request.k, pictures=request.pictures
        )
        return ShadowResult(report=report)

    def sync(self, request: SyncRequest, caller: Caller) -> AsyncGenerator[SyncProgress, None]:
        """Bring the collections in line with catalog and Parquet; yield every step, the last one `done`.

        One sync runs at a time. It goes on when its reader leaves; whatever it fails with is raised while it is read.

        Raises:
            ForbiddenError: the caller does not see every corpus.
        """
        need_all_corpora(caller, "bringing collections in line")

        async def work(report: Progress) -> None:
            await self._session.load(report, build=request.build)

        return self._steps(work, run_id=request.run_id)

    def find_duplicates(self, request: DuplicatesRequest, caller: Caller) -> AsyncGenerator[SyncProgress, None]:
        """Look for copies of pictures; yield every step, the last one `done` with the counts of each corpus.

        Raises:
            ForbiddenError: the caller does not see every corpus.
        """
        from lodestone.duplicates.find import find_duplicates

        need_all_corpora(caller, "looking for copies")
        runtime = self._session.runtime

        def find(report: Progress) -> list[dict[str, Any]]:
            corpora = [runtime.catalog.corpus(request.corpus)] if request.corpus else runtime.catalog.corpora(0, _CORPORA)
            return [
                asdict(
                    find_duplicates(
                        runtime.catalog,
                        runtime.store,
                        runtime.home,
                        corpus,
                        space=request.space or runtime.profile.spaces[0],
                        thumbnails=runtime.thumbnails,
                        distance=request.distance,
                        restart=request.restart,
                        report_progress=partial(_count, report, corpus.name),
                    )
                )
                for corpus in corpora
            ]

        return self._steps(lambda report: asyncio.to_thread(find, report))

    def verify(self, request: VerifyRequest, caller: Caller) -> AsyncGenerator[SyncProgress, None]:
        """Compare the collections with catalog and Parquet files; yield every step, the last with a fact sheet of each.

        Raises:
            ForbiddenError: the caller does not see every corpus.
        """
        from lodestone.indexing.sync.collections import make_targets
        from lodestone.indexing.sync.verify import examine

        need_all_corpora(caller, "comparing collections")
        runtime = self._session.runtime

        def compare(report: Progress) -> list[dict[str, Any]]:
            with runtime.store.patient():
                found = [
                    examine(runtime.store, target, progress=report, sample=request.sample) for target in make_targets(runtime)
                ]
            return [{"ok": one.ok, **asdict(one), "slices": len(one.slices)} for one in found]

        return self._steps(lambda report: asyncio.to_thread(compare, report))

    async def _steps(
        self, work: Callable[[Progress], Awaitable[list[dict[str, Any]] | None]], *, run_id: str | None = None
    ) -> AsyncGenerator[SyncProgress, None]:
        steps: asyncio.Queue[SyncProgress | Exception] = asyncio.Queue()
        self._session.start_task(self._work(steps, work, run_id))
        while True:
            step = await steps.get()
            if isinstance(step, Exception):
                raise step
            yield step
            if step.type != "progress":
                return

    async def _work(
        self,
        steps: asyncio.Queue[SyncProgress | Exception],
        work: Callable[[Progress], Awaitable[list[dict[str, Any]] | None]],
        run_id: str | None,
    ) -> None:
        loop = asyncio.get_running_loop()

        def report(event: ProgressEvent) -> None:
            step = SyncProgress(stage=str(event.stage), collection=event.detail, done=event.done, total=event.total)
            loop.call_soon_threadsafe(steps.put_nowait, step)

        try:
            if self._session.changing.locked():
                steps.put_nowait(SyncProgress(stage="waiting"))
            async with self._session.changing:
                result = await work(report)
        except LodestoneError as error:
            _log().warning("sync failed", code=error.code, detail=error.message, run_id=run_id)
            steps.put_nowait(error)
        except Exception as error:  # noqa: BLE001 - raised to the reader, and the log has everything
            _log().exception("sync failed unexpectedly", run_id=run_id)
            steps.put_nowait(error)
        else:
            # Behind the reports of the work's thread, which are queued in the loop.
            loop.call_soon(steps.put_nowait, SyncProgress(type="done", result=result))


def _count(report: Progress, corpus: str, done: int, total: int) -> None:
    report(ProgressEvent(RunStage.ASK, detail=corpus, done=done, total=total))


def _log() -> structlog.stdlib.BoundLogger:
    """Return the service's log. It is imported here because structlog is slow to import, and most processes sync nothing."""
    import structlog

    logger: structlog.stdlib.BoundLogger = structlog.get_logger("lodestone.serve")
    return logger


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
