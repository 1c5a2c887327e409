"""Verification of a snapshot, which compares every file with its checksum, and removal of old snapshots."""

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
    """Result of a verification; `problems` describes the first hundred of the `damaged` files."""

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
        name: Name of the snapshot; None for the last one.
        quick: Compare only the sizes of embeddings, not their checksums.
        progress: Called as files are checked.

    Raises:
        NotFoundError: There is no such snapshot.
        SourceError: The bucket cannot be read.
    """
    manifest = snapshot(area, name)
    problems: list[str] = []
    files, size = 0, 0
    intact = []
    for file in manifest.tables:
        try:
            rows = sum(len(page) for _, page in read_tables(area, [file]))
            if rows != file.rows:
                problems.append(f"{file.path} has {rows} rows instead of {file.rows}")
            else:
                intact.append(file)
        except EmbeddingsDamagedError as error:
            problems.append(error.message)
        files, size = files + 1, size + file.size
    expected = total(manifest.tables, "receipts") + len(manifest.others)
    done = 0
    for batch in _batches(_named(area, manifest, intact)):
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="verify") as pool:
            problems += [problem for problem in pool.map(lambda entry: _problem(area, *entry, quick=quick), batch) if problem]
        done, size = done + len(batch), size + sum(length for _, length in batch)
        progress(ProgressEvent(RunStage.VERIFY, done=done, total=expected, failures=len(problems)))
    return BackupVerification(manifest, files + done, size, len(problems), tuple(problems[:_SHOWN]))


def prune_backup(area: FileArea, *, keep: int) -> tuple[int, int]:
    """Delete all snapshots but the last `keep`, and every file that no snapshot needs.

    Unfinished snapshots and files are deleted as well. The function must not run while a backup is being made.

    Returns:
        The numbers of deleted snapshots and of deleted files.
    """
    finished = snapshots(area)
    kept = finished[-keep:] if keep > 0 else []
    names = {manifest.name for manifest in kept}
    removed = [name for name in area.names(SNAPSHOTS)[0] if name not in names]
    for name in removed:
        area.delete_folder(f"{SNAPSHOTS}/{name}")
    needed = {checksum for manifest in kept for checksum, _ in _named(area, manifest, manifest.tables)}
    unneeded = [stored.path for stored in area.files(FILES) if stored.path.rpartition("/")[2] not in needed]
    for path in unneeded:
        area.delete(path)
    for folder in (FILES, THUMBNAILS):
        area.sweep(folder)
    return len(removed), len(unneeded)


def _named(area: FileArea, manifest: Manifest, tables: Any) -> Iterator[tuple[str, int]]:  # noqa: ANN401
    """Yield (checksum, size) of every file in the pool that a snapshot needs."""
    lacking = {(part.slice_id, part.part) for part in manifest.lacking}
    for _, page in read_tables(area, tables, only=("receipts",)):
        rows: list[Mapping[str, Any]] = list(page)
        yield from ((row["checksum"], row["size"]) for row in rows if (row["slice_id"], row["part"]) not in lacking)
    yield from ((other.checksum, other.size) for other in manifest.others)


def _problem(area: FileArea, checksum: str, size: int, *, quick: bool) -> str | None:
    try:
        path = pooled(checksum)
    except ValueError as error:
        return str(error)
    if quick:
        actual = area.size(path)
        return None if actual == size else f"{path} has {actual or 0} bytes instead of {size}"
    try:
        read_checked(area, path, size=size, checksum=checksum)
    except EmbeddingsDamagedError as error:
        return error.message
    return None


def _batches(items: Iterator[tuple[str, int]]) -> Iterator[list[tuple[str, int]]]:
    while batch := list(islice(items, _AT_ONCE)):
        yield batch
