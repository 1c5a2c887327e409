"""Index runs that ended while they still searched for files."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import RunState
from lodestone.indexing.progress import RunStage

KIND: Final = "index"
_IN_A_ROW: Final = 1000  # most consecutive interrupted runs that are considered
BEFORE_PLANNING: Final = frozenset({"", RunStage.DISCOVER.value})


def cut_short_since(catalog: Catalog, run_id: str) -> datetime | None:
    """Return when the first of the interrupted runs started that directly precede this one.

    Interrupted means that the run ended while it searched for files. None means that the previous run had scanned all its
    files.
    """
    since = None
    corpora = [corpus_id] if (corpus_id := catalog.run(run_id).corpus_id) else []
    for _, run in catalog.run_page(limit=_IN_A_ROW, corpus_ids=corpora, kind=KIND):
        if run.run_id == run_id:
            continue
        if run.state is RunState.DONE or run.stage not in BEFORE_PLANNING:
            break
        since = run.started_at
    return since
