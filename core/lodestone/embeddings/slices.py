"""Where do a slice's embeddings lie on disk, and how do they get there whole or not at all?

Each part of a slice is one immutable Parquet file, `<corpus_id>/<fp[:2]>/<fp>.<part>.parquet` under the home's embeddings
folder, with fp the slice's fingerprint. It is written under a temporary name, synced and renamed: a file with its final name is
complete.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3

from lodestone.catalog.records import Receipt
from lodestone.errors import EmbeddingsDamagedError, OutOfSpaceError

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]*")
_TEMPORARY = ".part"  # suffix of unfinished files


class WrittenPart(NamedTuple):
    """A part on disk: `path` relative to the embeddings folder, `size` in bytes, `checksum` BLAKE3 hex of the file."""

    path: str
    rows: int
    size: int
    checksum: str


def fingerprint(rows: Sequence[tuple[str, str]], decoder_version: str) -> str:
    """Name of the slice of these (image id, hash) rows, whatever their order: BLAKE3, 32 hex characters."""
    digest = blake3()
    for text in (decoder_version, *(part for row in sorted(rows) for part in row)):
        encoded = text.encode()
        digest.update(len(encoded).to_bytes(4, "little") + encoded)
    return str(digest.hexdigest(length=16))


def part_path(corpus_id: str, fp: str, part: str) -> str:
    """Path of a part's file relative to the embeddings folder, with forward slashes.

    Raises:
        ValueError: a name holds characters that do not belong in a file name.
    """
    for name in (corpus_id, fp, part):
        if not _SAFE.fullmatch(name):
            raise ValueError(f"{name!r} cannot be part of a file name; expected letters, digits and . _ @ + -")
    return f"{corpus_id}/{fp[:2]}/{fp}.{part}.parquet"


def write_part(root: Path, corpus_id: str, fp: str, part: str, table: pa.Table) -> WrittenPart:
    """Write one part durably: when this returns, neither kill -9 nor a power cut loses it.

    Args:
        root: The home's embeddings folder.
        corpus_id: Corpus of the slice.
        fp: Its fingerprint.
        part: `meta`, `captions-<encoder>-<version>` or `<backbone>-<version>`.
        table: Columns as in `lodestone_schemas.arrow`.

    Raises:
        OutOfSpaceError: the disk is full; nothing was left behind.
    """
    relative = part_path(corpus_id, fp, part)
    content = _parquet_bytes(table)
    checksum = str(blake3(content).hexdigest())
    final = root / relative
    with _space_for(final):
        _make_folder(final.parent, below=root)
        temporary = final.with_name(f".{final.name}.{uuid4().hex[:12]}{_TEMPORARY}")
        try:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(final)
        except BaseException:
            with suppress(FileNotFoundError):
                temporary.unlink()
            raise
        _sync_folder(final.parent)
    return WrittenPart(relative, table.num_rows, content.size, checksum)


def read_part(root: Path, receipt: Receipt, *, columns: Sequence[str] | None = None, verify: bool = False) -> pa.Table:
    """The table of a finished part; each column is one chunk.

    Args:
        root: The home's embeddings folder.
        receipt: What the catalog has about the part.
        columns: Only these columns; None for all.
        verify: Compare the file's checksum with the receipt's. Size, page checksums and number of rows are always compared.

    Raises:
        EmbeddingsDamagedError: the file is missing, truncated or altered.
    """
    path = root / receipt.path
    try:
        with pa.memory_map(str(path)) as source:
            if source.size() != receipt.size:
                raise _damaged(path, f"has {source.size()} bytes instead of {receipt.size}", receipt)
            if verify and (found := blake3(source.read_buffer()).hexdigest()) != receipt.checksum:
                raise _damaged(path, f"has checksum {found} instead of {receipt.checksum}", receipt)
            source.seek(0)
            table = _parquet_table(source, columns)
    except FileNotFoundError as error:
        raise _damaged(path, "is missing", receipt) from error
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path, f"cannot be read ({error})", receipt) from error
    if table.num_rows != receipt.rows:
        raise _damaged(path, f"has {table.num_rows} rows instead of {receipt.rows}", receipt)
    return table


def find_part(root: Path, corpus_id: str, fp: str, part: str, *, slice_id: str) -> Receipt | None:
    """A receipt for a part that lies on disk, complete and sound, though the catalog may not know; None when it does not.

    (A writer was killed between the rename and its receipt. The whole file is read, `seconds` is 0.)
    """
    relative = part_path(corpus_id, fp, part)
    try:
        content = (root / relative).read_bytes()
        rows = _parquet_table(pa.BufferReader(content)).num_rows
    except FileNotFoundError:
        return None
    except (pa.ArrowException, OSError):
        return None  # damaged: it is made again, and replaced
    checksum = str(blake3(content).hexdigest())
    return Receipt(slice_id, part, relative, rows, len(content), checksum, 0.0)


def remove_corpus_files(root: Path, corpus_id: str) -> None:
    """Delete all parts of a corpus; a missing folder is fine."""
    part_path(corpus_id, "00", "meta")  # refuses names that would leave the folder
    with suppress(FileNotFoundError):
        shutil.rmtree(root / corpus_id)


def remove_leftovers(root: Path, corpus_id: str) -> int:
    """Delete temporary files of writers that were killed; returns how many. Only while nothing writes this corpus."""
    leftovers = list((root / corpus_id).glob(f"*/.*{_TEMPORARY}"))
    for path in leftovers:
        path.unlink(missing_ok=True)
    return len(leftovers)


def _parquet_bytes(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    # Plain pages: a dictionary or statistics of vectors only cost. zstd 1 takes a fifth off real features in a few milliseconds
    # a slice; higher levels take no more.
    pq.write_table(
        table,
        sink,
        row_group_size=max(1, table.num_rows),
        compression="zstd",
        compression_level=1,
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=True,
    )
    return sink.getvalue()


def _parquet_table(source: pa.NativeFile, columns: Sequence[str] | None = None) -> pa.Table:
    file = pq.ParquetFile(source, page_checksum_verification=True)
    return file.read(columns=None if columns is None else list(columns), use_threads=False).combine_chunks()


def _damaged(path: Path, what: str, receipt: Receipt) -> EmbeddingsDamagedError:
    return EmbeddingsDamagedError(
        f"the embeddings file {str(path)!r} {what}",
        hint="run `lodestone index` on the corpus again: damaged slices are embedded anew, others are kept",
        slice_id=receipt.slice_id,
        part=receipt.part,
    )


@contextmanager
def _space_for(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise OutOfSpaceError(
            f"no space left for embeddings in {str(path.parent)!r}",
            hint="free some space and run the same command again; finished slices are kept",
        ) from error


def _make_folder(folder: Path, *, below: Path) -> None:
    """Make `folder` and its parents up to `below`, so that they survive a power cut too."""
    if folder.is_dir():
        return
    folder.mkdir(parents=True, exist_ok=True)
    while folder != below:
        folder = folder.parent
        _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    if not hasattr(os, "O_DIRECTORY"):
        return  # Windows has no such thing
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
