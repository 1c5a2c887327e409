"""How does a backup become a home again? Files first, the catalog last, in one transaction; collections are made from these.

Killed at any point, the same command goes on: until the catalog is filled, the home counts as empty. A catalog of SQLite can be
restored into PostgreSQL and the other way round, embeddings from a folder into a bucket and back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from lodestone.backup.snapshots import THUMBNAILS, Manifest, pooled, read_checked, snapshot, total
from lodestone.backup.tables import read_tables
from lodestone.catalog.database.export import READABLE
from lodestone.catalog.records import RunState
from lodestone.errors import ConfigurationError, EmbeddingsDamagedError
from lodestone.files.area import FileArea
from lodestone.indexing.progress import Progress, ProgressEvent, RunStage, silent
from lodestone.indexing.resources import StoredHome

if TYPE_CHECKING:
    from sqlalchemy import Table

_NOT_RESTORED: Final = frozenset(
    {"loads", "deletions", "aliases", "tag_outbox"}
)  # what they say of collections is true no more
_AT_ONCE: Final = 256
_THREADS: Final = 8
_Pages = Iterator[tuple["Table", Sequence[Mapping[str, Any]]]]


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """What was restored. `lacking` parts are embedded again by the next index run."""

    manifest: Manifest
    images: int
    embedding_files: int
    lacking: int
    home_id: str


def restore_backup(
    resources: StoredHome, area: FileArea, *, name: str | None = None, new_id: bool = False, progress: Progress = silent
) -> RestoreReport:
    """Fill an empty home from a snapshot. The collections are made by the next sync.

    Args:
        resources: The home to fill, with its settings: they say which database and which areas.
        area: The backup.
        name: A snapshot; None for the last.
        new_id: The home is a copy beside the living one, and must not share its collections on a Qdrant server.
        progress: Told of copied files.

    Raises:
        NotFoundError: there is no such snapshot.
        ConfigurationError: the home or its catalog is not empty, or another version of Lodestone made the backup.
        EmbeddingsDamagedError: a file of the catalog, or an artifact, is damaged in the backup. Nothing was restored.
        OutOfSpaceError: no space for the home.
    """
    manifest = snapshot(area, name)
    if manifest.revision not in READABLE:
        raise ConfigurationError(
            f"the snapshot {manifest.name!r} has catalog schema {manifest.revision!r}, none of {', '.join(READABLE)}",
            hint=f"restore it with Lodestone {manifest.lodestone}, then upgrade",
        )
    catalog = resources.catalog  # makes the home
    if any(catalog.count_rows().values()):
        raise ConfigurationError(
            f"the home {str(resources.home.path)!r} is not empty",
            hint="restore into a new home (LODESTONE_HOME) and an empty database; remove the old ones first if they are lost",
        )
    for _ in read_tables(area, manifest.tables):
        pass  # all there and whole, before anything is written
    _restore_others(resources, area, manifest)
    lacking = _restore_embeddings(resources, area, manifest, progress)
    if manifest.thumbnails:
        _restore_thumbnails(resources, area)
    _take_id(resources, resources.home.new_id() if new_id else manifest.home_id)
    done = catalog.import_rows(_changed(read_tables(area, manifest.tables), lacking))
    catalog.reset_tag_outbox()
    return RestoreReport(
        manifest=manifest,
        images=manifest.images,
        embedding_files=done.get("receipts", 0),
        lacking=len(lacking),
        home_id=resources.home.id,
    )


def _take_id(resources: StoredHome, home_id: str) -> None:
    """Killed in between, the folder has no id, and takes the catalog's when it is opened next."""
    resources.home.adopt(None)
    if resources.catalog.path is None:
        resources.catalog.set_home_id(home_id)
    resources.home.adopt(home_id)


def _changed(pages: _Pages, lacking: set[tuple[str, str]]) -> _Pages:
    """The rows as they are true in the restored home."""
    for table, rows in pages:
        if table.name in _NOT_RESTORED:
            continue
        if table.name == "receipts":
            kept = [row for row in rows if (row["slice_id"], row["part"]) not in lacking]
            yield table, kept
        elif table.name == "runs":
            over = {"state": RunState.INTERRUPTED.value, "error": "restored from a backup while it ran"}
            yield table, [{**row, **over} if row["state"] == RunState.RUNNING.value else row for row in rows]
        else:
            yield table, rows


def _restore_others(resources: StoredHome, area: FileArea, manifest: Manifest) -> None:
    home = FileArea.at(resources.home.path)
    for other in manifest.others:
        _require_inside(other.path)
        home.write(other.path, read_checked(area, pooled(other.checksum), size=other.size, checksum=other.checksum))


def _require_inside(path: str) -> None:
    if path.startswith("/") or ".." in path.split("/"):
        raise ConfigurationError(
            f"the backup names a file outside the home: {path!r}", hint="it is damaged or forged: restore another snapshot"
        )


def _restore_embeddings(resources: StoredHome, area: FileArea, manifest: Manifest, progress: Progress) -> set[tuple[str, str]]:
    """Copy what is not there; returns (slice id, part) of what cannot be had."""
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
        while some := list(islice(rows, _AT_ONCE)):
            for row, there in zip(some, pool.map(copy, some), strict=True):
                if not there:
                    lacking.add((row["slice_id"], row["part"]))
            done += len(some)
            progress(ProgressEvent(RunStage.COPY, done=done, total=expected, failures=len(lacking), detail="embeddings"))
    return lacking


def _restore_thumbnails(resources: StoredHome, area: FileArea) -> None:
    target = resources.thumbnails.area
    write: Callable[..., None] = target.write
    for stored in area.files(THUMBNAILS):
        path = stored.path.removeprefix(f"{THUMBNAILS}/")
        if target.size(path) != stored.size:
            write(path, area.read(stored.path), durable=False)
