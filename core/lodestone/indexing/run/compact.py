"""Compaction of a corpus's slices: it runs under the corpus's lock and is recorded as a run of its own."""

from __future__ import annotations

from lodestone.catalog.records import ImageState, RunState
from lodestone.embeddings.compaction import KIND, CompactionReport, Compactor
from lodestone.indexing.embed.slicing import slice_rows
from lodestone.indexing.heartbeat import Heartbeat
from lodestone.indexing.locking import corpus_lock
from lodestone.indexing.progress import Progress, ProgressEvent, RunStage, silent
from lodestone.indexing.run.removal import remove_gone
from lodestone.indexing.sync.collections import SyncResources


def compact_corpus(
    resources: SyncResources, name: str, *, dry_run: bool = False, progress: Progress = silent
) -> CompactionReport:
    """Compact the slices of the corpus `name` (see `embeddings.compaction`). The store is not opened.

    Raises:
        UnknownNameError: there is no such corpus.
        StoreLockedError: the corpus is being indexed or removed.
        OutOfSpaceError: there is no space for the new files; what is finished is kept.
    """
    catalog = resources.catalog
    corpus = catalog.corpus(name)

    def report_step(done: int, total: int) -> None:
        progress(ProgressEvent(RunStage.DISCOVER, done=done, total=total, detail=f"compacting {name}"))

    size = slice_rows(
        resources.settings.index.slice_size,
        catalog.count_images(corpus.corpus_id, ImageState.ACTIVE),
        in_bucket=resources.embeddings.folder is None,
    )
    compactor = Compactor(
        catalog, resources.embeddings, resources.thumbnails.packs, slice_size=size, report_progress=report_step
    )
    if dry_run:
        return compactor.run(corpus.corpus_id, dry_run=True)
    with corpus_lock(resources.home, corpus, catalog=catalog):
        run = catalog.start_run(KIND, corpus.corpus_id)
        try:
            with Heartbeat(catalog, run.run_id):
                remove_gone(resources, corpus, own_run=run.run_id)
                report = compactor.run(corpus.corpus_id)
        except BaseException as error:
            catalog.finish_run(run.run_id, RunState.FAILED, f"{type(error).__name__}: {error}")
            raise
        catalog.update_run(run.run_id, stage="done", counts={"replaced": report.replaced, "written": report.written})
        catalog.finish_run(run.run_id, RunState.DONE)
        catalog.erase_free_space()
    return report
