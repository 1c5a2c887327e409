"""Rebuilding of a lost catalog from the Parquet files of a home: pictures with ids, hashes and captions, and their slices.

The new catalog is made in a file of its own and takes its name when it is complete. No picture is read and no model runs. What
the Parquet files do not hold is gone: see `GONE`. What happened to the files since they were indexed is found by the next index
run: pictures that were deleted or moved are listed as they were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import UUID

from lodestone.backup.parquet_corpus import Pages, ParquetCorpus
from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import Corpus
from lodestone.config.unfinished import REBUILD, Stage, UnfinishedWork, refuse_unfinished
from lodestone.durable_files import sync_folder
from lodestone.embeddings.corpus_records import write_corpus_record
from lodestone.errors import CatalogError, ConfigurationError, NotFoundError
from lodestone.indexing.faults import Faults
from lodestone.indexing.progress import Meter, Progress, RunStage, silent

if TYPE_CHECKING:
    from lodestone.config.home import Home
    from lodestone.files.area import FileArea

GONE: Final = (
    "tags",
    "feedback and trust",
    "recorded queries",
    "API keys",
    "runs",
    "which trained models are in force (their files are still in `artifacts`)",
    "model swaps",
    "groups of duplicates",
)
"""What a rebuilt catalog does not have, in words for users."""

_SIDE_FILES: Final = ("", "-wal", "-shm")


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """Result of a rebuild.

    Attributes:
        corpora: Names of the corpora.
        images: Pictures that can be found.
        failures: Files that could not be used when they were indexed.
        captions: Captions of pictures.
        slices: Slices of embeddings that are in use.
        unreadable: Paths of Parquet files that are damaged; the next index run makes them again.
        without_root: Pictures whose folder is not known; they are found again when it is indexed.
        kept: Where the former file of the catalog is now, if there was one.
        gone: What the new catalog does not have.
        resumed: Whether an interrupted rebuild had made the catalog already.
    """

    corpora: tuple[str, ...]
    images: int
    failures: int
    captions: int
    slices: int
    unreadable: tuple[str, ...]
    without_root: int
    kept: Path | None
    gone: tuple[str, ...] = GONE
    resumed: bool = False


def rebuild_catalog(
    home: Home,
    embeddings: FileArea,
    *,
    folders: Sequence[Path] = (),
    then_load: bool = False,
    progress: Progress = silent,
) -> RebuildReport:
    """Make a new catalog for a home whose SQLite file is missing, empty or damaged, or go on with that.

    Args:
        home: The home. No other process may use it.
        embeddings: Area of its Parquet files.
        folders: Folders that were indexed, for files that an older version wrote without a record of them.
        then_load: Whether the caller loads the collections at once, and calls `finish_rebuild` when they are loaded. Until then
            the home is refused to others, who would find nothing in it.
        progress: Called as slices are read.

    Raises:
        NotFoundError: there is no home, or it has no embeddings.
        ConfigurationError: the catalog is there and knows corpora: nothing is lost.
        HomeUnfinishedError: the home is being restored from a backup.
        OutOfSpaceError: the disk is full; nothing was changed.
    """
    if not home.exists():
        raise NotFoundError(f"there is no home in {str(home.path)!r}", hint="set LODESTONE_HOME, or name it with --home")
    home.check()
    corpus_ids = [name for name in embeddings.names("")[0] if _is_uuid(name)]
    if not corpus_ids:
        raise NotFoundError(f"there are no embeddings in {embeddings.location!r}", hint="index your pictures: lodestone index")
    refuse_unfinished(home.path, purpose=REBUILD)
    if UnfinishedWork.of(home.path) is not None and (finished := _finished(home, embeddings)) is not None:
        return finished
    _require_lost(home)
    draft = home.catalog.with_name(f".{home.catalog.name}.rebuilding")
    _remove(draft)
    rebuilds = [ParquetCorpus(embeddings, corpus_id, folders, alone=len(corpus_ids) == 1) for corpus_id in corpus_ids]
    meter = Meter(progress, RunStage.DISCOVER)
    for rebuild in rebuilds:
        rebuild.look(meter)
    try:
        with Catalog.open(draft) as catalog:
            catalog.import_rows(_by_table(rebuilds))
            catalog.reset_tag_outbox()
        # From here on there is a catalog, whose pictures are not found until their vectors are loaded.
        if then_load:
            UnfinishedWork(REBUILD, Stage.VECTORS).record(home.path)
        kept = _put_in_place(home, draft)
        Faults.from_environment().reach("catalog-made")
    except BaseException:
        _remove(draft)
        raise
    for rebuild in rebuilds:
        write_corpus_record(embeddings, rebuild.corpus, rebuild.roots)
    counts = sum((rebuild.counts for rebuild in rebuilds), Counter[str]())
    return RebuildReport(
        corpora=tuple(sorted(rebuild.corpus.name for rebuild in rebuilds)),
        images=counts["images"],
        failures=counts["failures"],
        captions=counts["captions"],
        slices=sum(len(rebuild.slices) for rebuild in rebuilds),
        unreadable=tuple(path for rebuild in rebuilds for path in rebuild.unreadable),
        without_root=counts["without_root"],
        kept=kept,
    )


def finish_rebuild(home: Home) -> None:
    """Note that the collections of a home with a rebuilt catalog are loaded."""
    work = UnfinishedWork.of(home.path)
    if work is not None:
        work.end(home.path)


def _finished(home: Home, embeddings: FileArea) -> RebuildReport | None:
    """Return the report on the catalog that an interrupted rebuild made; None if it made none."""
    try:
        with Catalog.open(home.catalog, before_creating=_refuse_to_create) as catalog:
            corpora: list[Corpus] = []
            while page := catalog.corpora(len(corpora)):
                corpora += page
            if not corpora:
                return None
            for corpus in corpora:
                write_corpus_record(embeddings, corpus, catalog.roots(corpus.corpus_id))
            rows = catalog.count_rows()
            with catalog.exporting() as export:
                images = export.active_images()
    except CatalogError:
        return None
    return RebuildReport(
        corpora=tuple(sorted(corpus.name for corpus in corpora)),
        images=images,
        failures=rows["failures"],
        captions=rows["captions"],
        slices=rows["slices"],
        unreadable=(),
        without_root=0,
        kept=None,
        resumed=True,
    )


def _refuse_to_create() -> None:
    raise CatalogError("there is no catalog yet")


def _by_table(rebuilds: Collection[ParquetCorpus]) -> Pages:
    """Yield all rows, each table after those that it refers to."""
    for table in ("corpora", "roots", "runs", "slices", "images", "slice_members", "receipts", "captions", "failures"):
        for rebuild in rebuilds:
            yield from rebuild.rows(table)


def _require_lost(home: Home) -> None:
    if not home.catalog.exists() or home.catalog.stat().st_size == 0:
        return
    try:
        with Catalog.open(home.catalog) as catalog:
            known = catalog.corpora(limit=1)
    except CatalogError:
        return  # it is damaged
    if known:
        raise ConfigurationError(
            f"the catalog {str(home.catalog)!r} is not lost: it knows the corpus {known[0].name!r}",
            hint="`lodestone doctor` checks it; move the file away first if you want to give it up",
        )


def _put_in_place(home: Home, draft: Path) -> Path | None:
    """Give the new catalog its name; a former file is kept beside it."""
    kept = None
    if any(home.catalog.with_name(home.catalog.name + suffix).exists() for suffix in _SIDE_FILES):
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
        kept = home.catalog.with_name(f"{home.catalog.name}.lost-{stamp}")
        for suffix in _SIDE_FILES:
            with suppress(FileNotFoundError):
                home.catalog.with_name(home.catalog.name + suffix).rename(kept.with_name(kept.name + suffix))
    draft.rename(home.catalog)
    sync_folder(home.path)
    for suffix in (*_SIDE_FILES, ".lock"):
        draft.with_name(draft.name + suffix).unlink(missing_ok=True)
    return kept


def _remove(draft: Path) -> None:
    for suffix in (*_SIDE_FILES, ".lock"):
        draft.with_name(draft.name + suffix).unlink(missing_ok=True)


def _is_uuid(name: str) -> bool:
    try:
        return str(UUID(name)) == name
    except ValueError:
        return False
