"""Restoring of a backup into an empty home: files first, then the catalog in one transaction; a sync rebuilds the collections.

If the command is killed, running it again continues the restore: until the catalog is filled, the home counts as empty. An
SQLite catalog can be restored into PostgreSQL and the other way round, and embeddings from a folder into a bucket and back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from lodestone.backup.snapshots import THUMBNAILS, Manifest, pooled, read_checked, snapshot, total
from lodestone.backup.tables import read_tables
from lodestone.catalog.export import READABLE
from lodestone.catalog.records import RunState
from lodestone.embeddings.corpus_records import write_corpus_record
from lodestone.errors import ConfigurationError, EmbeddingsDamagedError
from lodestone.files.area import FileArea
from lodestone.files.opening import open_area
from lodestone.imaging.thumbnail_packs import FOLDER as PACKS
from lodestone.imaging.thumbnail_packs import decode
from lodestone.indexing.progress import Progress, ProgressEvent, RunStage, silent
from lodestone.indexing.resources import StoredHome

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlalchemy import Table

    from lodestone.imaging.thumbnails import ThumbnailStore

# These tables describe collections that do not exist any more.
_NOT_RESTORED: Final = frozenset({"loads", "deletions", "aliases", "tag_outbox"})
_AT_ONCE: Final = 256
_THREADS: Final = 8
_Pages = Iterator[tuple["Table", Sequence[Mapping[str, Any]]]]


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """Result of a restore; the next index run embeds the `lacking` parts again."""

    manifest: Manifest
    images: int
    embedding_files: int
    lacking: int
    home_id: str


def restore_backup(
    resources: StoredHome, area: FileArea, *, name: str | None = None, new_id: bool = False, progress: Progress = silent
) -> RestoreReport:
    """Fill an empty home from a snapshot. The next sync builds the collections.

    Args:
        resources: The home to fill; its settings name the database and the areas.
        area: The backup.
        name: Name of the snapshot; None for the last one.
        new_id: Give the home an id of its own, because it is a copy of a home that is still used and must not share its
            collections on a Qdrant server.
        progress: Called as files are copied.

    Raises:
        NotFoundError: There is no such snapshot.
        ConfigurationError: The home or its catalog is not empty, or another version of Lodestone made the backup.
        EmbeddingsDamagedError: A file of the catalog, or an artifact, is damaged in the backup. Nothing was restored.
        OutOfSpaceError: The home's disk is full.
    """
    manifest = snapshot(area, name)
    if manifest.revision not in READABLE:
        raise ConfigurationError(
            f"the snapshot {manifest.name!r} has catalog schema {manifest.revision!r}, none of {', '.join(READABLE)}",
            hint=f"restore it with Lodestone {manifest.lodestone}, then upgrade",
        )
    catalog = resources.catalog  # creates the home
    if any(catalog.count_rows().values()):
        raise ConfigurationError(
            f"the home {str(resources.home.path)!r} is not empty",
            hint="restore into a new home (LODESTONE_HOME) and an empty database; remove the old ones first if they are lost",
        )
    for _ in read_tables(area, manifest.tables):
        pass  # every table is read and checked before anything is written
    _restore_others(resources, area, manifest)
    lacking = _restore_embeddings(resources, area, manifest, progress)
    if manifest.thumbnails:
        _restore_thumbnails(resources, area)
    _take_id(resources, resources.home.new_id() if new_id else manifest.home_id)
    imported = catalog.import_rows(_adapted_rows(read_tables(area, manifest.tables), lacking))
    catalog.reset_tag_outbox()
    _record_corpora(resources)
    return RestoreReport(
        manifest=manifest,
        images=manifest.images,
        embedding_files=imported.get("receipts", 0),
        lacking=len(lacking),
        home_id=resources.home.id,
    )


def _record_corpora(resources: StoredHome) -> None:
    offset = 0
    while page := resources.catalog.corpora(offset):
        offset += len(page)
        for corpus in page:
            write_corpus_record(resources.embeddings, corpus, resources.catalog.roots(corpus.corpus_id))


def _take_id(resources: StoredHome, home_id: str) -> None:
    """Give the restored home its id.

    If the process is killed in between, the folder has no id, and takes the catalog's when it is opened next.
    """
    resources.home.adopt(None)
    if resources.catalog.path is None:
        resources.catalog.set_home_id(home_id)
    resources.home.adopt(home_id)


def _adapted_rows(pages: _Pages, lacking: set[tuple[str, str]]) -> _Pages:
    """Yield the rows with the changes that the restored home needs."""
    for table, rows in pages:
        if table.name in _NOT_RESTORED:
            continue
        if table.name == "receipts":
            kept = [row for row in rows if (row["slice_id"], row["part"]) not in lacking]
            yield table, kept
        elif table.name == "runs":
            interrupted = {"state": RunState.INTERRUPTED.value, "error": "restored from a backup while it ran"}
            yield table, [{**row, **interrupted} if row["state"] == RunState.RUNNING.value else row for row in rows]
        else:
            yield table, rows


def _restore_others(resources: StoredHome, area: FileArea, manifest: Manifest) -> None:
    home = open_area(resources.home.path)
    for other in manifest.others:
        _require_inside(other.path)
        home.write(other.path, read_checked(area, pooled(other.checksum), size=other.size, checksum=other.checksum))


def _require_inside(path: str) -> None:
    if path.startswith("/") or ".." in path.split("/"):
        raise ConfigurationError(
            f"the backup names a file outside the home: {path!r}", hint="it is damaged or forged: restore another snapshot"
        )


def _restore_embeddings(resources: StoredHome, area: FileArea, manifest: Manifest, progress: Progress) -> set[tuple[str, str]]:
    """Copy the embeddings files that the home lacks, and return (slice id, part) of those that are damaged in the backup."""
    lacking: set[tuple[str, str]] = set()
    target, done, expected = resources.embeddings, 0, total(manifest.tables, "receipts")

    def copy(row: Mapping[str, Any]) -> bool:
        _require_inside(row["path"])
        if target.size(row["path"]) == row["size"]:
            return True
        try:
            content = read_checked(area, pooled(row["checksum"]), size=row["size"], checksum=row["checksum"])
        except EmbeddingsDamagedError:
            return False
        target.write(row["path"], content)
        return True

    rows = (row for _, page in read_tables(area, manifest.tables, only=("receipts",)) for row in page)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="restore") as pool:
        while batch := list(islice(rows, _AT_ONCE)):
            for row, is_restored in zip(batch, pool.map(copy, batch), strict=True):
                if not is_restored:
                    lacking.add((row["slice_id"], row["part"]))
            done += len(batch)
            progress(ProgressEvent(RunStage.COPY, done=done, total=expected, failures=len(lacking), detail="embeddings"))
    return lacking


def _restore_thumbnails(resources: StoredHome, area: FileArea) -> None:
    target = resources.thumbnails.area
    write: Callable[..., None] = target.write
    for stored in area.files(THUMBNAILS):
        path = stored.path.removeprefix(f"{THUMBNAILS}/")
        if target.folder is not None and path.startswith(f"{PACKS}/"):
            _restore_singly(resources.thumbnails, area.read(stored.path))
        elif target.size(path) != stored.size:
            write(path, area.read(stored.path), durable=False)


def _restore_singly(thumbnails: ThumbnailStore, pack: pa.Buffer) -> None:
    """Write the thumbnails of a pack as single files, as a folder has them; damaged ones are made again on request."""
    for content, data in decode(pack).items():
        if not thumbnails.has(content):
            thumbnails.put(content, data)
