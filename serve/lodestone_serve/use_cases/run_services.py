"""The part of `Services` that reads and cancels the runs of one opened home, with their failures."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from lodestone.catalog.records import RunState
from lodestone.paging import decode_cursor, encode_cursor
from lodestone_schemas.runs import FailureInfo, FailurePage, RunInfo, RunPage
from lodestone_serve.use_cases.services import RunFilters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lodestone.catalog.catalog import Catalog
    from lodestone.catalog.records import Run
    from lodestone.home.runtime import Runtime
    from lodestone.query.engine import QueryEngine


class RunServices(ABC):
    """Mixed into `HomeServices`."""

    @abstractmethod
    def opened(self) -> tuple[Runtime, QueryEngine]:
        """See `MemoryServices.opened`."""

    async def runs(self, filters: RunFilters, offset: int, limit: int, *, cursor: str | None = None) -> RunPage:
        """See `Services.runs`."""
        runtime, _ = self.opened()
        return await asyncio.to_thread(_page, runtime.catalog, filters, offset, limit, cursor)

    async def run(self, run_id: str) -> RunInfo:
        """See `Services.run`."""
        runtime, _ = self.opened()
        return await asyncio.to_thread(lambda: _described(runtime.catalog, runtime.catalog.run(run_id)))

    async def cancel_run(self, run_id: str) -> RunInfo:
        """See `Services.cancel_run`."""
        runtime, _ = self.opened()
        return await asyncio.to_thread(lambda: _described(runtime.catalog, runtime.catalog.request_cancel(run_id)))

    async def run_failures(self, run_id: str, limit: int, *, cursor: str | None = None) -> FailurePage:
        """See `Services.run_failures`."""
        runtime, _ = self.opened()
        return await asyncio.to_thread(_failures, runtime.catalog, run_id, limit, cursor)


def _page(catalog: Catalog, filters: RunFilters, offset: int, limit: int, cursor: str | None) -> RunPage:
    names = _corpus_names(catalog)
    wanted = None
    if filters.corpora is not None:
        wanted = [corpus_id for corpus_id, name in names.items() if name in filters.corpora]
    found = catalog.run_page(
        offset,
        limit + 1,
        corpus_ids=wanted,
        kind=filters.kind,
        state=None if filters.state is None else RunState(filters.state),
        after=None if cursor is None else decode_cursor("runs", cursor, int, str),
    )
    page, more = found[:limit], len(found) > limit
    return RunPage(
        runs=[_info(run, names) for _, run in page],
        next_offset=offset + limit if more and cursor is None else None,
        next_cursor=encode_cursor("runs", page[-1][0], page[-1][1].run_id) if more else None,
    )


def _failures(catalog: Catalog, run_id: str, limit: int, cursor: str | None) -> FailurePage:
    after = None if cursor is None else decode_cursor("failures", cursor, str, str, str)
    catalog.run(run_id)  # an unknown run is no run without failures
    found = catalog.failure_page(run_id, limit + 1, after=after)
    page, more = found[:limit], len(found) > limit
    names, roots = _corpus_names(catalog), {root.root_id: root for root in catalog.roots(None)}
    return FailurePage(
        failures=[
            FailureInfo(
                corpus=names.get(roots[one.root_id].corpus_id) if one.root_id in roots else None,
                root=roots[one.root_id].name if one.root_id in roots else "",
                uri=one.uri,
                code=one.code,
                message=one.message,
                image_id=one.image_id,
            )
            for one in page
        ],
        next_cursor=encode_cursor("failures", page[-1].root_id, page[-1].uri, page[-1].code) if more else None,
    )


def _described(catalog: Catalog, run: Run) -> RunInfo:
    return _info(run, _corpus_names(catalog)).model_copy(update={"failures": catalog.count_failures(run_id=run.run_id)})


def _info(run: Run, names: Mapping[str, str]) -> RunInfo:
    return RunInfo(
        run_id=run.run_id,
        kind=run.kind,
        corpus=None if run.corpus_id is None else names.get(run.corpus_id),
        state=run.state.value,
        stage=run.stage,
        started_at=run.started_at,
        finished_at=run.finished_at,
        heartbeat_at=run.heartbeat_at,
        cancel_requested=run.cancel_requested,
        counts=run.counts,
        error=run.error,
    )


def _corpus_names(catalog: Catalog) -> dict[str, str]:
    from lodestone.directories.naming import corpus_names

    return corpus_names(catalog)
