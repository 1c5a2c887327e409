"""Memory of answered queries: their records, and the tags that confident answers leave on pictures."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from lodestone.catalog.use_records import QueryRecord
from lodestone.config.settings import TagSettings
from lodestone.query_log.trace import Trace
from lodestone.query_notes import describe_failure

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog
    from lodestone.store.base import VectorStore


_log = logging.getLogger(__name__)

AT_ONCE: Final = 8  # while somebody keeps the catalog locked, so many threads wait for it: queries need the others
_DELIVERED: Final = 1_000  # pictures whose words are delivered after a query; an index run delivers all
_TURN_S: Final = 1.0


class Memory:
    """Implements `stages.QueryMemory` over the catalog.

    Args:
        catalog: Takes records and tags.
        store: Takes the tags' points, by this process: the owner of an embedded store.
        history: Queries kept at most; 0 keeps none.
        tags: Whether and when answers leave tags.
    """

    def __init__(self, catalog: Catalog, store: VectorStore, *, history: int, tags: TagSettings) -> None:
        self._catalog = catalog
        self._store = store
        self._history = history
        self._tags = tags
        self._turns = threading.BoundedSemaphore(AT_ONCE)
        self._forgotten = history > 0  # with none to keep, those of before must go, once

    def keep(self, trace: Trace) -> list[str]:
        """Record a query and let it leave its tags; return what went wrong. Blocking; raises nothing."""
        if not self._turns.acquire(timeout=_TURN_S):
            _log.warning("query %s was not recorded: the catalog does not keep up", trace.query_id)
            return ["this query was not recorded: the catalog does not keep up"]
        try:
            return self._kept(trace)
        finally:
            self._turns.release()

    def keep_all(self, traces: list[Trace]) -> list[str]:
        """Record queries in one transaction, and let each leave its tags; return what went wrong. Blocking; raises nothing."""
        if not traces:
            return []
        warnings, ids = [], ", ".join(trace.query_id for trace in traces)
        try:
            self._record(traces)
        except Exception as error:  # noqa: BLE001  (the answers stand)
            warnings.append(f"not recorded: {ids}: {describe_failure(error)}")
        try:
            self._tag(traces)
        except Exception as error:  # noqa: BLE001  (as above)
            warnings.append(f"no tags were left by {ids}: {describe_failure(error)}")
        return warnings

    def _kept(self, trace: Trace) -> list[str]:
        warnings = []
        try:
            self._record([trace])
        except Exception as error:  # noqa: BLE001  (the answer stands)
            warnings.append(f"this query was not recorded: {describe_failure(error)}")
        try:
            self._tag([trace])
        except Exception as error:  # noqa: BLE001  (as above)
            warnings.append(f"this query left no tags: {describe_failure(error)}")
        return warnings

    def _record(self, traces: Sequence[Trace]) -> None:
        if self._history:
            self._catalog.add_queries([_row(trace) for trace in traces], self._history)
        elif not self._forgotten:
            self._catalog.forget_queries()
            self._forgotten = True

    def _tag(self, traces: Sequence[Trace]) -> None:
        if not self._tags.implicit:
            return
        from lodestone.tags.delivery import deliver
        from lodestone.tags.implicit import implicit_tags

        tags = []
        for trace in traces:
            if trace.kind == "words" and trace.stage == "guides":
                tags += implicit_tags(trace, self._tags, images=self._catalog.images(trace.hits))
        if tags:
            self._catalog.add_tags(tags)
            deliver(self._catalog, self._store, most=_DELIVERED)


def _row(trace: Trace) -> QueryRecord:
    summary = {
        "stage": trace.stage,
        "hits": len(trace.hits),
        "guides": len(trace.guides),
        "gate": None if trace.gate is None else trace.gate.verdict,
    }
    return QueryRecord(
        query_id=trace.query_id,
        created_at=trace.created_at,
        kind=trace.kind,
        text=trace.text,
        topic=trace.topic,
        summary=summary,
        trace=trace.to_bytes(),
        owner=trace.owner,
    )
