"""Is a backup whole? Every file of a snapshot is read and compared with its checksum; nothing is taken on trust."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from lodestone.backup.snapshots import FILES, SNAPSHOTS, THUMBNAILS, Manifest, pooled, read_checked, snapshot, snapshots, total
from lodestone.backup.tables import read_tables
from lodestone.errors import EmbeddingsDamagedError
from lodestone.indexing.progress import Progress, ProgressEvent, RunStage, silent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lodestone.files.area import FileArea

_AT_ONCE: Final = 256
_THREADS: Final = 8
_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class BackupVerification:
    """What was found: `problems` names the first hundred of `damaged` files."""

    manifest: Manifest
    files: int
    bytes: int
    damaged: int
    problems: tuple[str, ...]


def verify_backup(
    area: FileArea, *, name: str | None = None, quick: bool = False, progress: Progress = silent
) -> BackupVerification:
    """Check every file of a snapshot.

    Args:
        area: The backup.
        name: A snapshot; None for the last.
        quick: Compare sizes alone for embeddings.
        progress: Told of checked files.

    Raises:
        NotFoundError: there is no such snapshot.
        SourceError: the bucket cannot be read.
    """
    manifest = snapshot(area, name)
    problems: list[str] = []
    files, size = 0, 0
    good = []
    for file in manifest.tables:
        try:
            rows = sum(len(page) for _, page in read_tables(area, [file]))
            if rows != file.rows:
                problems.append(f"{file.path} has {rows} rows instead of {file.rows}")
            else:
                good.append(file)
        except EmbeddingsDamagedError as error:
            problems.append(error.message)
        files, size = files + 1, size + file.size
    expected = total(manifest.tables, "receipts") + len(manifest.others)
    done = 0
    for some in _batches(_named(area, manifest, good)):
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="verify") as pool:
            problems += [found for found in pool.map(lambda one: _problem(area, *one, quick=quick), some) if found]
        done, size = done + len(some), size + sum(length for _, length in some)
        progress(ProgressEvent(RunStage.VERIFY, done=done, total=expected, failures=len(problems)))
    return BackupVerification(manifest, files + done, size, len(problems), tuple(problems[:_SHOWN]))


def prune_backup(area: FileArea, *, keep: int) -> tuple[int, int]:
    """Delete all snapshots but the last `keep`, and files that no snapshot needs: (snapshots, files) deleted.

    Unfinished snapshots and files go as well. Not while a backup is being made.
    """
    finished = snapshots(area)
    kept = finished[-keep:] if keep > 0 else []
    names = {manifest.name for manifest in kept}
    gone = [name for name in area.names(SNAPSHOTS)[0] if name not in names]
    for name in gone:
        area.delete_folder(f"{SNAPSHOTS}/{name}")
    needed = {checksum for manifest in kept for checksum, _ in _named(area, manifest, manifest.tables)}
    unneeded = [stored.path for stored in area.files(FILES) if stored.path.rpartition("/")[2] not in needed]
    for path in unneeded:
        area.delete(path)
    for folder in (FILES, THUMBNAILS):
        area.sweep(folder)
    return len(gone), len(unneeded)


def _named(area: FileArea, manifest: Manifest, tables: Any) -> Iterator[tuple[str, int]]:  # noqa: ANN401
    """(checksum, size) of every file in the pool that a snapshot needs."""
    lacking = {(part.slice_id, part.part) for part in manifest.lacking}
    for _, page in read_tables(area, tables, only=("receipts",)):
        rows: list[Mapping[str, Any]] = list(page)
        yield from ((row["checksum"], row["size"]) for row in rows if (row["slice_id"], row["part"]) not in lacking)
    yield from ((other.checksum, other.size) for other in manifest.others)


def _problem(area: FileArea, checksum: str, size: int, *, quick: bool) -> str | None:
    path = pooled(checksum)
    if quick:
        found = area.size(path)
        return None if found == size else f"{path} has {found or 0} bytes instead of {size}"
    try:
        read_checked(area, path, size=size, checksum=checksum)
    except EmbeddingsDamagedError as error:
        return error.message
    return None


def _batches(items: Iterator[tuple[str, int]]) -> Iterator[list[tuple[str, int]]]:
    while some := list(islice(items, _AT_ONCE)):
        yield some
