"""Runs: what became of each, the files that failed in it, and the request to stop one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lodestone.access.caller import Caller
from lodestone.access.visibility import EVERYTHING
from lodestone.catalog.records import RunState
from lodestone.errors import NotFoundError
from lodestone.paging import PageRequest, decode_cursor, encode_cursor
from lodestone.services.limits import own
from lodestone_schemas.runs import FailureInfo, FailurePage, RunInfo, RunPage, RunProgress, RunStateName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lodestone.catalog.catalog import Catalog
    from lodestone.catalog.records import Run
    from lodestone.services.sessions.session import HomeSession


@dataclass(frozen=True, slots=True)
class RunFilters:
    """The runs to list; None stands for any. `corpora` are names: with some, runs about no corpus are left out."""

    corpora: frozenset[str] | None = None
    kind: str | None = None
    state: RunStateName | None = None


class RunUseCases:
    """Looks at and stops the runs of one home. To a caller of some corpora, runs about others or about none are unknown."""

    def __init__(self, session: HomeSession) -> None:
        self._session = session

    def page(self, filters: RunFilters, page: PageRequest, caller: Caller) -> RunPage:
        """Return one page of runs, newest first.

        Raises:
            InvalidRequestError: no such cursor.
        """
        seen = caller.visibility.corpora
        if seen is not None:
            filters = replace(filters, corpora=seen if filters.corpora is None else seen & filters.corpora)
        return _page(self._session.runtime.catalog, filters, page)

    def get(self, run_id: str, caller: Caller) -> RunInfo:
        """Return one run.

        Raises:
            NotFoundError: the run is unknown or not seen.
        """
        catalog = self._session.runtime.catalog
        missing = NotFoundError(f"there is no run {run_id!r}", hint="see /v1/runs", run_id=run_id)
        return own(caller, lambda: _described(catalog, catalog.run(run_id)), lambda run: run.corpus, missing)

    def cancel(self, run_id: str, caller: Caller) -> RunInfo:
        """Ask a run to stop; one that has ended stays as it is. Raises as `get`."""
        if caller.visibility != EVERYTHING:
            self.get(run_id, caller)
        catalog = self._session.runtime.catalog
        return _described(catalog, catalog.request_cancel(run_id))

    def failures(self, run_id: str, page: PageRequest, caller: Caller) -> FailurePage:
        """Return one page of the files that last failed in a run; the offset of `page` is not used. Raises as `get`.

        Raises:
            InvalidRequestError: no such cursor.
        """
        if caller.visibility != EVERYTHING:
            self.get(run_id, caller)
        return _failures(self._session.runtime.catalog, run_id, page.limit, page.cursor)


def _page(catalog: Catalog, filters: RunFilters, page: PageRequest) -> RunPage:
    names = _corpus_names(catalog)
    wanted = None
    if filters.corpora is not None:
        wanted = [corpus_id for corpus_id, name in names.items() if name in filters.corpora]
    rows = catalog.run_page(
        page.offset,
        page.limit + 1,
        corpus_ids=wanted,
        kind=filters.kind,
        state=None if filters.state is None else RunState(filters.state),
        after=None if page.cursor is None else decode_cursor("runs", page.cursor, int, str),
    )
    listed, more = rows[: page.limit], len(rows) > page.limit
    return RunPage(
        runs=[_info(run, names) for _, run in listed],
        next_offset=page.offset + page.limit if more and page.cursor is None else None,
        next_cursor=encode_cursor("runs", listed[-1][0], listed[-1][1].run_id) if more else None,
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
        progress=RunProgress.model_validate(run.progress) if run.progress else None,
        error=run.error,
    )


def _corpus_names(catalog: Catalog) -> dict[str, str]:
    from lodestone.directories.naming import corpus_names

    return corpus_names(catalog)
