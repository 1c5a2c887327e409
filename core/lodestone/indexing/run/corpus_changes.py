"""Changes of a whole corpus: its removal, its renaming, and the compaction of its slices.

A removal takes points, Parquet files and thumbnails, and the catalog's rows last. The rest is found through the catalog, so
the catalog goes last: after a crash at any point, the same command finishes the work. The pictures themselves are never
touched.

A renaming changes the catalog, the keys that name the corpus, and the record beside its Parquet files. Pictures, vectors and
thumbnails are kept under the id of their corpus, so nothing is read or embedded again.
"""

from __future__ import annotations

from dataclasses import dataclass

from lodestone.catalog.database.sql import chunks
from lodestone.catalog.pictures.removal import Mentions
from lodestone.catalog.records import Corpus, ImageState, RunState
from lodestone.embeddings.compaction import KIND, CompactionReport, Compactor
from lodestone.embeddings.corpus_records import write_corpus_record
from lodestone.embeddings.slices import remove_corpus_files
from lodestone.errors import InvalidRequestError
from lodestone.generators.cache_files import remove_edited
from lodestone.indexing.embed.slicing import slice_rows
from lodestone.indexing.heartbeat import Heartbeat
from lodestone.indexing.locking import corpus_lock
from lodestone.indexing.progress import Progress, ProgressEvent, RunStage, silent
from lodestone.indexing.run.removal import remove_gone
from lodestone.indexing.sync.collections import SyncResources
from lodestone.indexing.sync.thumbnail_cleanup import sweep_thumbnails
from lodestone.query_log.redact import without_pictures
from lodestone.store.base import Filter, MatchAny

_BATCH = 100_000  # pictures whose ids and names are in memory at a time


@dataclass(frozen=True, slots=True)
class RemovalReport:
    """Counts of what was removed.

    Attributes:
        corpus: Name of the corpus.
        images: Pictures that the catalog knew, in whatever state.
        thumbnails: Single thumbnails, also those of earlier contents; packs are deleted besides.
    """

    corpus: str
    images: int
    thumbnails: int


def remove_corpus(resources: SyncResources, name: str) -> RemovalReport:
    """Remove the corpus `name` from store, embeddings, thumbnails and catalog. Idempotent until it is gone.

    Raises:
        UnknownNameError: there is no such corpus.
        StoreLockedError: another process owns the store, or an index run of the corpus is going on.
    """
    catalog, home = resources.catalog, resources.home
    corpus = catalog.corpus(name)
    with corpus_lock(home, corpus, catalog=catalog):
        images = catalog.count_images(corpus.corpus_id)
        of_corpus = Filter(must=(MatchAny("corpus", (corpus.corpus_id,)),))
        for collection in resources.store.collections():
            resources.store.delete_matching(collection, of_corpus)
            resources.store.erase(collection, now=False)
        for root in catalog.roots(corpus.corpus_id):
            also = Mentions(frozenset({root.root_id}), frozenset({root.path}))
            for batch in chunks(catalog.images_of_root(root.root_id), _BATCH):
                mentions = Mentions(also.ids | {image.image_id for image in batch}, also.names | {image.uri for image in batch})
                catalog.forget_mentions(mentions, redact=without_pictures)
            catalog.forget_mentions(also, redact=without_pictures)
        # All stored ones are checked, because the catalog forgets which contents its pictures had before they changed.
        removed = sweep_thumbnails(catalog, resources.thumbnails, except_corpus=corpus.corpus_id)
        resources.thumbnails.packs.remove_corpus(corpus.corpus_id)
        remove_edited(home.guides)
        remove_corpus_files(resources.embeddings, corpus.corpus_id)
        catalog.remove_corpus(corpus.corpus_id)
        catalog.erase_free_space()
    return RemovalReport(corpus=name, images=images, thumbnails=removed)


@dataclass(frozen=True, slots=True)
class RenamingReport:
    """What was renamed.

    Attributes:
        corpus: The corpus under its new name.
        keys: Ids of the keys that named it, and have its new name now.
    """

    corpus: Corpus
    keys: tuple[str, ...]


def rename_corpus(resources: SyncResources, name: str, new: str) -> RenamingReport:
    """Call the corpus `name` from now on `new`.

    Raises:
        UnknownNameError: there is no such corpus.
        InvalidRequestError: the new name cannot be used; see `Catalog.rename_corpus`. Or the setting `serve.index_folders`
            names one of the two, and would let other folders be added than before.
        StoreLockedError: an index run of the corpus is going on: it knows the corpus by its old name.
    """
    catalog = resources.catalog
    corpus = catalog.corpus(name)
    folders = resources.settings.serve.index_folders
    if named := [each for each in (name, new) if each in folders and name != new]:
        raise InvalidRequestError(
            f"the setting serve.index_folders names the corpus {named[0]!r}",
            hint="take it out of the settings, rename the corpus, and name it there again",
        )
    with corpus_lock(resources.home, corpus, catalog=catalog):
        renamed, keys = catalog.rename_corpus(corpus.corpus_id, new)
        write_corpus_record(resources.embeddings, renamed, catalog.roots(corpus.corpus_id))
    return RenamingReport(renamed, tuple(keys))


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
