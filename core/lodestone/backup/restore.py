"""Restoring of a backup into an empty home: files first, then the catalog in one transaction; a sync rebuilds the collections.

If the command is killed, running it again continues the restore, of the same snapshot (`lodestone.config.unfinished`). An
SQLite catalog can be restored into PostgreSQL and the other way round, and embeddings from a folder into a bucket and back.

A backup may come from elsewhere. Only files of the kinds that a backup holds are restored, and settings are put beside those in
force unless the user asks for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from lodestone.backup.paths import require_artifact, require_different, require_embeddings
from lodestone.backup.snapshots import Manifest, pooled, read_checked, snapshot, total
from lodestone.backup.tables import read_tables
from lodestone.backup.thumbnails import require_thumbnails, restore_thumbnails
from lodestone.catalog.export import READABLE
from lodestone.catalog.records import ImageState, RunState
from lodestone.config.settings import CONFIG_NAME
from lodestone.config.unfinished import RESTORE, Stage, UnfinishedWork
from lodestone.embeddings.corpus_records import write_corpus_record
from lodestone.errors import ConfigurationError, EmbeddingsDamagedError, HomeUnfinishedError, LodestoneError
from lodestone.files.area import FileArea
from lodestone.files.opening import open_area
from lodestone.indexing.faults import Faults
from lodestone.indexing.progress import Progress, ProgressEvent, RunStage, silent
from lodestone.indexing.resources import StoredHome
from lodestone.sources.locators import FOLDER, OBJECT, TABLE, TAR

if TYPE_CHECKING:
    from sqlalchemy import Table

# These tables describe collections that do not exist any more.
_NOT_RESTORED: Final = frozenset({"loads", "deletions", "aliases", "tag_outbox"})
# Table -> column, and the values that it may have: others end the commands that read them.
_VALUES: Final[Mapping[str, tuple[str, frozenset[str]]]] = {
    "images": ("state", frozenset(ImageState)),
    "runs": ("state", frozenset(RunState)),
    "roots": ("kind", frozenset((FOLDER, OBJECT, TABLE, TAR))),
}
_AT_ONCE: Final = 256
_THREADS: Final = 8
SETTINGS_ASIDE: Final = f"{CONFIG_NAME}.from-backup"
"""Name of the settings of a backup that are not put into force."""
_Pages = Iterator[tuple["Table", Sequence[Mapping[str, Any]]]]


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """Result of a restore.

    Attributes:
        manifest: Manifest of the snapshot.
        images: Pictures that can be found.
        embedding_files: Files of embeddings.
        lacking: Parts that the next index run embeds again.
        home_id: Id of the home.
        resumed: Whether an interrupted restore had filled the catalog already.
        settings_aside: Whether the backup's settings are in `SETTINGS_ASIDE`, and not in force.
    """

    manifest: Manifest
    images: int
    embedding_files: int
    lacking: int
    home_id: str
    resumed: bool = False
    settings_aside: bool = False


def restore_backup(
    resources: StoredHome,
    area: FileArea,
    *,
    name: str | None = None,
    new_id: bool = False,
    settings: bool = False,
    then_load: bool = False,
    progress: Progress = silent,
) -> RestoreReport:
    """Fill an empty home from a snapshot, or go on with that. The next sync builds the collections.

    Args:
        resources: The home to fill; its settings name the database and the areas.
        area: The backup.
        name: Name of the snapshot; None for the last one.
        new_id: Give the home an id of its own, because it is a copy of a home that is still used and must not share its
            collections on a Qdrant server.
        settings: Put the settings of the backup into force, if it has any. They may send what is in the home elsewhere.
        then_load: Whether the caller builds the collections at once, and calls `finish_restore` when they are there. Until then
            the home is refused to others, who would find nothing in it.
        progress: Called as files are copied.

    Raises:
        NotFoundError: There is no such snapshot.
        ConfigurationError: The home or its catalog is not empty, another version of Lodestone made the backup, or it names a
            file that no backup holds.
        HomeUnfinishedError: The home is being restored from another backup or snapshot.
        EmbeddingsDamagedError: A file of the catalog, or an artifact, is damaged in the backup. Nothing was restored.
        OutOfSpaceError: The home's disk is full.
    """
    work = _started(resources, area, name)
    manifest = snapshot(area, work.snapshot if work is not None else name)
    if manifest.revision not in READABLE:
        raise ConfigurationError(
            f"the snapshot {manifest.name!r} has catalog schema {manifest.revision!r}, none of {', '.join(READABLE)}",
            hint=f"restore it with Lodestone {manifest.lodestone}, then upgrade",
        )
    home_id = resources.home.new_id() if new_id else manifest.home_id
    resources.go_on_with_restore()
    work = work or _begin(resources, UnfinishedWork(RESTORE, Stage.CATALOG, area.location, manifest.name, home_id, settings))
    catalog = resources.catalog
    resumed = any(catalog.count_rows().values())  # the catalog is filled in one transaction
    lacking: set[tuple[str, str]] = set()
    if not resumed:
        try:
            _check(area, manifest)  # everything is read and checked before anything is written
        except LodestoneError:
            work.end(resources.home.path)
            raise
        _restore_others(resources, area, manifest, settings=work.settings)
        lacking = _restore_embeddings(resources, area, manifest, progress)
        if manifest.thumbnails:
            restore_thumbnails(resources, area)
        _take_id(resources, work.home_id)
        try:
            catalog.import_rows(_adapted_rows(read_tables(area, manifest.tables), lacking))
        except ConfigurationError:  # going on would not help
            work.end(resources.home.path)
            raise
    Faults.from_environment().reach("catalog-made")
    catalog.reset_tag_outbox()
    _record_corpora(resources)
    if then_load:
        replace(work, stage=Stage.VECTORS).record(resources.home.path)
    else:
        work.end(resources.home.path)
    return RestoreReport(
        manifest=manifest,
        images=manifest.images,
        embedding_files=catalog.count_rows().get("receipts", 0),
        lacking=len(lacking),
        home_id=resources.home.id,
        resumed=resumed,
        settings_aside=(resources.home.path / SETTINGS_ASIDE).exists(),
    )


def finish_restore(resources: StoredHome) -> None:
    """Note that the collections of a restored home are built."""
    work = UnfinishedWork.of(resources.home.path)
    if work is not None:
        work.end(resources.home.path)


def _started(resources: StoredHome, area: FileArea, name: str | None) -> UnfinishedWork | None:
    """Return the restore that was interrupted in this home, or None.

    Raises:
        HomeUnfinishedError: It was one of another backup or snapshot.
    """
    work = UnfinishedWork.of(resources.home.path)
    if work is None or (work.command == RESTORE and work.where == area.location and name in (None, work.snapshot)):
        return work
    raise HomeUnfinishedError(
        f"the home {str(resources.home.path)!r} is being filled by `{work.words}`"
        + (f" from the snapshot {work.snapshot}" if work.snapshot else ""),
        hint=f"run `{work.words}` again to go on with that, or restore this backup into another, new home",
        home=str(resources.home.path),
        command=work.words,
    )


def _begin(resources: StoredHome, work: UnfinishedWork) -> UnfinishedWork:
    """Record the beginning of a restore into an empty home, before anything of it is written.

    Raises:
        ConfigurationError: The home or its catalog is not empty.
    """
    is_new = not resources.home.exists()
    if is_new:
        resources.home.prepare()
        work.record(resources.home.path)
    if any(resources.catalog.count_rows().values()):
        if is_new:
            work.end(resources.home.path)
        raise ConfigurationError(
            f"the home {str(resources.home.path)!r} is not empty",
            hint="restore into a new home (LODESTONE_HOME) and an empty database; remove the old ones first if they are lost",
        )
    if not is_new:
        work.record(resources.home.path)
    return work


def _check(area: FileArea, manifest: Manifest) -> None:
    """Read every table and artifact, and require that no file is named that a backup does not hold."""
    checksums: dict[str, str] = {}  # of each path
    for table, rows in read_tables(area, manifest.tables):
        if table.name in _VALUES:
            _require_values(table.name, rows)
        elif table.name == "receipts":
            for row in rows:
                require_embeddings(row["path"])
                _require_checksum(row["checksum"])
                if checksums.setdefault(row["path"], row["checksum"]) != row["checksum"]:
                    raise _forged(f"names two contents of {row['path']!r}")
        elif table.name == "artifacts":
            for row in rows:
                require_artifact(f"artifacts/{row['path']}")
    require_different(other.path for other in manifest.others)
    for other in manifest.others:
        if other.path != CONFIG_NAME:
            require_artifact(other.path)
        read_checked(area, pooled(other.checksum), size=other.size, checksum=other.checksum)
    require_thumbnails(area)


def _require_checksum(checksum: str) -> None:
    try:
        pooled(checksum)
    except ValueError as error:
        raise _forged(f"names a file by what is {error}") from error


def _require_values(table: str, rows: Iterable[Mapping[str, Any]]) -> None:
    column, known = _VALUES[table]
    if strange := {row[column] for row in rows} - known:
        raise _forged(f"has {table} of a {column} that there is not: {min(strange)[:80]!r}")


def _forged(how: str) -> ConfigurationError:
    return ConfigurationError(
        f"the backup {how}", hint="it is damaged or forged: restore another snapshot; nothing was restored"
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


def _restore_others(resources: StoredHome, area: FileArea, manifest: Manifest, *, settings: bool) -> None:
    home = open_area(resources.home.path)
    for other in manifest.others:
        path = SETTINGS_ASIDE if other.path == CONFIG_NAME and not settings else other.path
        home.write(path, read_checked(area, pooled(other.checksum), size=other.size, checksum=other.checksum))


def _restore_embeddings(resources: StoredHome, area: FileArea, manifest: Manifest, progress: Progress) -> set[tuple[str, str]]:
    """Copy the embeddings files that the home lacks, and return (slice id, part) of those that are damaged in the backup."""
    lacking: set[tuple[str, str]] = set()
    target, done, expected = resources.embeddings, 0, total(manifest.tables, "receipts")
    faults = Faults.from_environment()

    def copy(row: Mapping[str, Any]) -> bool:
        if _has(target, row):
            return True
        try:
            content = read_checked(area, pooled(row["checksum"]), size=row["size"], checksum=row["checksum"])
        except EmbeddingsDamagedError:
            return False
        target.write(row["path"], content)
        faults.reach("restoring")
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


def _has(target: FileArea, row: Mapping[str, Any]) -> bool:
    """Return whether an interrupted restore wrote this file already; one from elsewhere may have the same name and size."""
    if target.size(row["path"]) != row["size"]:
        return False
    try:
        read_checked(target, row["path"], size=row["size"], checksum=row["checksum"])
    except EmbeddingsDamagedError:
        return False
    return True
