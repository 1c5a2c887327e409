"""What does Lodestone keep of an answered query? Its record, and the tags that a confident answer leaves on pictures."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from lodestone.catalog.records import QueryRecord
from lodestone.config.settings import TagSettings
from lodestone.errors import LodestoneError
from lodestone.query.trace import Trace

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog
    from lodestone.store.base import VectorStore

_log = logging.getLogger(__name__)


class Memory:
    """Meets `stages.QueryMemory`.

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

    def keep(self, trace: Trace) -> list[str]:
        """See `QueryMemory.keep`."""
        warnings = []
        if self._history:
            try:
                self._catalog.add_query(_row(trace), self._history)
            except LodestoneError as error:
                _log.warning("query %s was not recorded: %s", trace.query_id, error.message)
                warnings.append(f"this query was not recorded: {error.message}")
        if self._tags.implicit and trace.kind == "words" and trace.stage == "guides":
            try:
                self._tag(trace)
            except LodestoneError as error:
                _log.warning("query %s left no tags: %s", trace.query_id, error.message)
                warnings.append(f"this query left no tags: {error.message}")
        return warnings

    def _tag(self, trace: Trace) -> None:
        from lodestone.tags.delivery import deliver
        from lodestone.tags.implicit import implicit_tags

        tags = implicit_tags(trace, self._tags, images=self._catalog.images(trace.hits))
        if tags:
            self._catalog.add_tags(tags)
            deliver(self._catalog, self._store)


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
    )
