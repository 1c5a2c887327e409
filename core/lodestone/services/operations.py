"""Operation of a home: what answers right now, its facts, syncs, and the comparison of two versions of a space."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

import structlog

from lodestone.access.caller import Caller
from lodestone.errors import LodestoneError
from lodestone.services.limits import need_all_corpora, need_all_queries, need_whole_home, shown
from lodestone.services.redaction import redact_status
from lodestone.services.sessions.home_facts import HomeFacts, home_facts
from lodestone.services.sessions.readiness import Readiness
from lodestone_schemas.api import SyncProgress, SyncRequest
from lodestone_schemas.service import ServiceStatus
from lodestone_schemas.swaps import ShadowRequest, ShadowResult

if TYPE_CHECKING:
    from lodestone.indexing.progress import ProgressEvent
    from lodestone.services.sessions.session import HomeSession

_log = structlog.get_logger("lodestone.serve")


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
        return self._steps(request)

    async def _steps(self, request: SyncRequest) -> AsyncGenerator[SyncProgress, None]:
        steps: asyncio.Queue[SyncProgress | Exception] = asyncio.Queue()
        self._session.start_task(self._synchronise(steps, request))
        while True:
            step = await steps.get()
            if isinstance(step, Exception):
                raise step
            yield step
            if step.type != "progress":
                return

    async def _synchronise(self, steps: asyncio.Queue[SyncProgress | Exception], request: SyncRequest) -> None:
        loop = asyncio.get_running_loop()

        def report(event: ProgressEvent) -> None:
            step = SyncProgress(stage=str(event.stage), collection=event.detail, done=event.done, total=event.total)
            loop.call_soon_threadsafe(steps.put_nowait, step)

        try:
            if self._session.changing.locked():
                steps.put_nowait(SyncProgress(stage="waiting"))
            async with self._session.changing:
                await self._session.load(report, build=request.build)
        except LodestoneError as error:
            _log.warning("sync failed", code=error.code, detail=error.message, run_id=request.run_id)
            steps.put_nowait(error)
        except Exception as error:  # noqa: BLE001 - raised to the reader, and the log has everything
            _log.exception("sync failed unexpectedly", run_id=request.run_id)
            steps.put_nowait(error)
        else:
            # Behind the reports of the sync's thread, which are queued in the loop.
            loop.call_soon(steps.put_nowait, SyncProgress(type="done"))
