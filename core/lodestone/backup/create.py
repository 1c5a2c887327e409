"""Creation of a snapshot while the home is in use: the catalog as of one moment, then every file that it names.

No lock is taken. Embeddings are immutable and named by the catalog; if compaction or repair deletes one meanwhile, the catalog
is read again. The manifest lists damaged files, and a restored home embeds those slices again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

import pyarrow as pa
from blake3 import blake3

from lodestone import __version__
from lodestone.backup.snapshots import (
    MANIFEST,
    THUMBNAILS,
    LackingPart,
    Manifest,
    OtherFile,
    folder_of,
    new_name,
    pooled,
    read_checked,
    total,
)
from lodestone.backup.tables import read_tables, write_tables
from lodestone.catalog.records import Receipt
from lodestone.config.settings import CONFIG_NAME
from lodestone.errors import EmbeddingsDamagedError, InvalidRequestError, NotFoundError, RunFailedError
from lodestone.files.area import FileArea
from lodestone.imaging.thumbnail_packs import FOLDER as PACKS
from lodestone.indexing.progress import Progress, ProgressEvent, RunStage, silent
from lodestone.indexing.resources import StoredHome
from lodestone.indexing.run.remains import note_backup

_ROUNDS: Final = 3  # most readings of the catalog, when files that it named are deleted meanwhile
_AT_ONCE: Final = 256
_THREADS: Final = 8


@dataclass(frozen=True, slots=True)
class BackupReport:
    """Result of one backup: `copied` files (`copied_bytes`) were not in the backup before."""

    manifest: Manifest
    location: str
    copied: int
    copied_bytes: int


class _ChangedMeanwhile(Exception):  # noqa: N818 (a signal, handled here)
    pass


def create_backup(
    resources: StoredHome,
    area: FileArea,
    *,
    thumbnails: bool = False,
    settings: bool = False,
    check: bool = False,
    progress: Progress = silent,
) -> BackupReport:
    """Add a snapshot of a home to a backup.

    Args:
        resources: The opened home; it may be in use.
        area: The backup; created if it is new.
        thumbnails: Copy the thumbnails too; without them, they are made again after a restore.
        settings: Copy `lodestone.toml` too. It may hold secrets.
        check: Read the files of earlier snapshots and copy damaged ones again; otherwise a file of the right size counts as
            intact.
        progress: Called as files are copied.

    Raises:
        NotFoundError: There is no home to back up, or none of its embeddings can be read.
        InvalidRequestError: The backup would lie inside the home, and be lost with it.
        OutOfSpaceError: The backup's disk is full. The next backup reuses what was copied.
        SourceError: The bucket cannot be written or read.
        RunFailedError: Files were deleted again and again while they were copied.
    """
    if not resources.home.exists():
        raise NotFoundError(
            f"there is no home in {str(resources.home.path)!r}", hint="set LODESTONE_HOME, or index something first"
        )
    _require_elsewhere(resources, area)
    for _ in range(_ROUNDS):
        try:
            report = _Backup(resources, area, progress, check=check).make(thumbnails=thumbnails, settings=settings)
            note_backup(resources.home, report.location)
            return report
        except _ChangedMeanwhile:
            continue
    raise RunFailedError(
        "embeddings were replaced again and again while they were backed up",
        hint="back up while no `lodestone embeddings compact` and no index run is going on",
    )


def _require_elsewhere(resources: StoredHome, area: FileArea) -> None:
    home = resources.home.path.resolve()
    if area.folder is None:
        inside = f"{area.location}/".startswith(f"{resources.embeddings.location}/")
    else:
        folder = area.folder.resolve()
        inside = folder == home or home in folder.parents
    if inside:
        raise InvalidRequestError(
            f"the backup {area.location!r} would lie inside the home {str(home)!r}, and be lost with it",
            hint="name a folder or bucket elsewhere, best on another disk",
        )


class _Backup:
    def __init__(self, resources: StoredHome, area: FileArea, progress: Progress, *, check: bool) -> None:
        self._from = resources
        self._area = area
        self._progress = progress
        self._check = check
        self._copied = 0
        self._copied_bytes = 0

    def make(self, *, thumbnails: bool, settings: bool) -> BackupReport:
        name = new_name(self._area)
        folder = folder_of(name)
        with self._from.catalog.exporting() as export:
            tables = tuple(write_tables(export, self._area, f"{folder}/catalog"))
            images = export.active_images()
        count, size, lacking = 0, 0, []
        expected = total(tables, "receipts")
        for receipt, damage in self._pool(_receipts(self._area, tables)):
            if damage is not None:
                lacking.append(LackingPart(receipt.slice_id, receipt.part, damage))
            count, size = count + 1, size + receipt.size
            if count % _AT_ONCE == 0 or count == expected:
                self._progress(
                    ProgressEvent(RunStage.COPY, done=count, total=expected, failures=len(lacking), detail="embeddings")
                )
        if count and len(lacking) == count:
            raise NotFoundError(
                f"none of {count:,} embeddings files can be read in {self._from.embeddings.location!r}: {lacking[0].why}",
                hint="see that the home, or `index.embeddings`, is the one that was indexed into; else run `lodestone index`",
            )
        if thumbnails:
            self._copy_thumbnails()
        manifest = Manifest(
            name=name,
            created_at=datetime.now(UTC),
            lodestone=__version__,
            home_id=self._from.home.id,
            profile=self._from.settings.profile,
            revision=export.revision,
            tables=tables,
            others=tuple(self._others(settings=settings)),
            lacking=tuple(lacking),
            images=images,
            embedding_files=count - len(lacking),
            embedding_bytes=size,
            thumbnails=thumbnails,
        )
        self._area.write(f"{folder}/{MANIFEST}", manifest.to_json())
        return BackupReport(manifest, self._area.location, self._copied, self._copied_bytes)

    def _pool(self, receipts: Iterator[Receipt]) -> Iterator[tuple[Receipt, str | None]]:
        """Copy embeddings files that the backup lacks, and yield each receipt with the damage of its file (None if intact)."""
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="backup") as pool:
            while batch := list(islice(receipts, _AT_ONCE)):
                copies: dict[str, Future[tuple[str | None, int]]] = {}
                for receipt in batch:  # equal contents (captions of slices without any) are one file
                    if receipt.checksum not in copies:
                        copies[receipt.checksum] = pool.submit(self._copy, receipt)
                counted: set[str] = set()
                for receipt in batch:
                    damage, copied = copies[receipt.checksum].result()
                    copied = 0 if receipt.checksum in counted else copied
                    counted.add(receipt.checksum)
                    if damage is not None:
                        current = self._from.catalog.receipts(receipt.slice_id).get(receipt.part)
                        if current is None or current.checksum != receipt.checksum:
                            raise _ChangedMeanwhile
                    self._copied += copied > 0
                    self._copied_bytes += copied
                    yield receipt, damage

    def _copy(self, receipt: Receipt) -> tuple[str | None, int]:
        target = pooled(receipt.checksum)
        if self._is_there(receipt.checksum, receipt.size):
            return None, 0
        try:
            content = self._from.embeddings.read(receipt.path)
        except FileNotFoundError:
            return "is missing", 0
        except (OSError, pa.ArrowException) as error:
            return f"cannot be read ({error})", 0
        if content.size != receipt.size or blake3(content).hexdigest() != receipt.checksum:
            return f"is damaged ({content.size} bytes of {receipt.size})", 0
        self._area.write(target, content)
        return None, int(content.size)

    def _is_there(self, checksum: str, size: int) -> bool:
        if not self._check:
            return self._area.size(pooled(checksum)) == size
        try:
            read_checked(self._area, pooled(checksum), size=size, checksum=checksum)
        except EmbeddingsDamagedError:
            return False
        return True

    def _others(self, *, settings: bool) -> Iterator[OtherFile]:
        home = self._from.home
        paths = sorted(path for path in home.artifacts.rglob("*") if path.is_file() and not path.name.startswith("."))
        if settings and (home.path / CONFIG_NAME).is_file():
            paths.append(home.path / CONFIG_NAME)
        for path in paths:
            content = path.read_bytes()
            checksum = str(blake3(content).hexdigest())
            if not self._is_there(checksum, len(content)):
                self._area.write(pooled(checksum), content)
                self._copied += 1
                self._copied_bytes += len(content)
            yield OtherFile(path.relative_to(home.path).as_posix(), len(content), checksum)

    def _copy_thumbnails(self) -> None:
        store = self._from.thumbnails
        for number, content in enumerate(store.contents(), start=1):
            target = f"{THUMBNAILS}/{store.key(content)}"
            if not self._area.size(target):
                data = store.read(content)
                self._area.write(target, data, durable=False)
                self._copied += 1
                self._copied_bytes += len(data)
            if number % _AT_ONCE == 0:
                self._progress(ProgressEvent(RunStage.COPY, done=number, detail="thumbnails"))
        for number, stored in enumerate(store.area.files(PACKS), start=1):  # a pack that was rewritten since is copied again
            target = f"{THUMBNAILS}/{stored.path}"
            if self._area.size(target) != stored.size:
                try:
                    pack = store.area.read(stored.path)
                except FileNotFoundError:  # compaction deleted it meanwhile
                    continue
                self._area.write(target, pack, durable=False)
                self._copied += 1
                self._copied_bytes += pack.size
            if number % _AT_ONCE == 0:
                self._progress(ProgressEvent(RunStage.COPY, done=number, detail="packs of thumbnails"))


def _receipts(area: FileArea, tables: Iterable[Any]) -> Iterator[Receipt]:
    for _, rows in read_tables(area, list(tables), only=("receipts",)):
        yield from (Receipt(**row) for row in rows)
