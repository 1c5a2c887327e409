"""Work that index runs left: what became of a corpus's last run, how far it came, and whether there is something to resume."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from lodestone.catalog.records import Corpus, ImageState, Run, RunState
from lodestone.facts.facts import VERSION as FACTS_VERSION
from lodestone.indexing.heartbeat import BEAT_SECONDS, LOST_BEATS
from lodestone.indexing.parts.registry import SliceParts
from lodestone.indexing.run.history import RunRequestRecord
from lodestone.indexing.run.report import IndexReport
from lodestone.indexing.scan.interrupted_runs import BEFORE_PLANNING, KIND
from lodestone.indexing.sync.collections import SyncResources, make_targets
from lodestone.indexing.tasks import this_worker
from lodestone.processes import is_running

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog

_LOST_AFTER: Final = timedelta(seconds=BEAT_SECONDS * LOST_BEATS)


@dataclass(frozen=True, slots=True)
class UnfinishedRun:
    """The last run of a corpus, which ended before everything was done.

    Attributes:
        run_id: Id of the run.
        corpus: Name of the corpus.
        state: State of the run: interrupted, cancelled or failed.
        looking: Whether it ended while it looked for pictures, of which it then knows only a part.
        kept: Pictures of the corpus whose vectors are stored, by this run or before.
        waiting: Pictures that were found and are not embedded.
    """

    run_id: str
    corpus: str
    state: RunState
    looking: bool
    kept: int
    waiting: int

    @property
    def progress(self) -> str:
        """Return how far the run came, as a clause: `192 of 403 pictures are kept`."""
        if self.looking:
            found = f"; {self.waiting:,} that were found wait to be embedded" if self.waiting else ""
            return f"the run was still looking for pictures{found}"
        if self.waiting:
            return f"{self.kept:,} of {self.kept + self.waiting:,} pictures are kept"
        return f"all {self.kept:,} pictures are kept, but not all can be found yet"


def unfinished_run(catalog: Catalog, corpus: Corpus, *, ours_ended: bool = False) -> UnfinishedRun | None:
    """Return the last run of a corpus if it ended early; None if it finished or goes on, or if there is none.

    Args:
        catalog: The home's.
        corpus: The corpus.
        ours_ended: Whether a run of this process has ended, even if its end could not be recorded.
    """
    run = catalog.last_run(KIND, corpus.corpus_id)
    if run is None or run.state is RunState.DONE:
        return None
    if run.state is RunState.RUNNING and not _is_lost(run) and not (ours_ended and run.worker == this_worker()):
        return None
    return UnfinishedRun(
        run_id=run.run_id,
        corpus=corpus.name,
        state=RunState.INTERRUPTED if run.state is RunState.RUNNING else run.state,
        looking=run.stage in BEFORE_PLANNING,
        kept=catalog.count_images(corpus.corpus_id, ImageState.ACTIVE),
        waiting=catalog.count_images(corpus.corpus_id, ImageState.PENDING),
    )


def nothing_left(resources: SyncResources, run: RunRequestRecord, *, served: bool) -> bool:
    """Return whether a run that is to be resumed left nothing to do: everything found is embedded and can be searched.

    Args:
        resources: The opened home.
        run: What is known of the run.
        served: Whether a service of this home loads vectors, instead of this process.

    Raises:
        StoreError: the store cannot be read.
    """
    catalog, corpus = resources.catalog, run.corpus
    if run.discover or corpus is None:
        return False
    last = catalog.last_run(KIND, corpus.corpus_id)
    if last is None or last.state is not RunState.DONE or catalog.count_images(corpus.corpus_id, ImageState.PENDING):
        return False
    parts = SliceParts.of(resources.backbones(), resources.text_encoder)
    if catalog.count_unfinished(parts.names(), corpus.corpus_id)[0]:
        return False
    return is_loaded(resources, served=served)


def idle_report(catalog: Catalog, corpus: Corpus, run_id: str) -> IndexReport:
    """Return the report on a run that was to be resumed and had left nothing."""
    images = catalog.count_images(corpus.corpus_id, ImageState.ACTIVE)
    return IndexReport(run_id=run_id, corpus=corpus.name, counts={}, images=images, seconds=0.0, nothing_left=True)


def is_loaded(resources: SyncResources, *, served: bool) -> bool:
    """Return whether every collection exists, holds all slices with today's facts, and is the one that searches use.

    The store of a service that owns its files is not opened: what the catalog says about it has to do.
    """
    catalog = resources.catalog
    if catalog.lacks_facts(FACTS_VERSION):
        return False
    if served and resources.settings.store.kind == "edge":
        aliases = catalog.alias_table().all()
        wanted = {name: projection.collection for name, projection in resources.projections().items()}
        current = all(aliases.get(name) == collection for name, collection in wanted.items())
        return current and not any(catalog.count_unloaded(collection)[0] for collection in wanted.values())
    aliases, existing = resources.store.aliases(), set(resources.store.collections())
    return all(
        target.collection in existing
        and (not target.promoted or aliases.get(target.alias) == target.collection)
        and not catalog.count_unloaded(target.collection, parts=target.required)[0]
        for target in make_targets(resources)
    )


def _is_lost(run: Run) -> bool:
    """Return whether the process of a run that counts as running has ended, or was not heard of for a minute."""
    host, _, pid = run.worker.rpartition(":")
    if host == socket.gethostname() and pid.isdecimal() and not is_running(int(pid)):
        return True
    return run.heartbeat_at is not None and datetime.now(UTC) - run.heartbeat_at > _LOST_AFTER
