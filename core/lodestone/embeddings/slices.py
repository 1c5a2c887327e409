"""Where do a slice's embeddings lie on disk, and how do they get there whole or not at all?

Each part of a slice is one immutable Parquet file, `<corpus_id>/<fp[:2]>/<fp>.<part>.parquet` in the embeddings' area, with fp
the slice's fingerprint. It appears there whole or not at all: a file with its final name is complete.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3

from lodestone.catalog.records import Receipt
from lodestone.errors import EmbeddingsDamagedError
from lodestone.files.area import FileArea
from lodestone_schemas.arrow import SCHEMA_VERSION

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]*")


class WrittenPart(NamedTuple):
    """A part on disk: `path` inside the embeddings' area, `size` in bytes, `checksum` BLAKE3 hex of the file."""

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
    """Path of a part's file inside the embeddings' area, with forward slashes.

    Raises:
        ValueError: a name holds characters that do not belong in a file name.
    """
    for name in (corpus_id, fp, part):
        if not _SAFE.fullmatch(name):
            raise ValueError(f"{name!r} cannot be part of a file name; expected letters, digits and . _ @ + -")
    return f"{corpus_id}/{fp[:2]}/{fp}.{part}.parquet"


def write_part(area: FileArea, corpus_id: str, fp: str, part: str, table: pa.Table) -> WrittenPart:
    """Write one part durably: when this returns, neither kill -9 nor a power cut loses it.

    Args:
        area: Where the embeddings are.
        corpus_id: Corpus of the slice.
        fp: Its fingerprint.
        part: `meta`, `captions-<encoder>-<version>` or `<backbone>-<version>`.
        table: Columns as in `lodestone_schemas.arrow`.

    Raises:
        OutOfSpaceError: the disk is full; nothing was left behind.
    """
    path = part_path(corpus_id, fp, part)
    content = _parquet_bytes(
        table.replace_schema_metadata({b"schema": SCHEMA_VERSION.encode(), **(table.schema.metadata or {})})
    )
    checksum = str(blake3(content).hexdigest())
    area.write(path, content)
    return WrittenPart(path, table.num_rows, content.size, checksum)


def read_part(area: FileArea, receipt: Receipt, *, columns: Sequence[str] | None = None, verify: bool = False) -> pa.Table:
    """The table of a finished part; each column is one chunk.

    Args:
        area: Where the embeddings are.
        receipt: What the catalog has about the part.
        columns: Only these columns; None for all.
        verify: Compare the file's checksum with the receipt's. Size, page checksums and number of rows are always compared.

    Raises:
        EmbeddingsDamagedError: the file is missing, truncated or altered.
    """
    try:
        content = area.read(receipt.path)
        if content.size != receipt.size:
            raise _damaged(area, f"has {content.size} bytes instead of {receipt.size}", receipt)
        if verify and (found := blake3(content).hexdigest()) != receipt.checksum:
            raise _damaged(area, f"has checksum {found} instead of {receipt.checksum}", receipt)
        table = _parquet_table(content, columns)
    except FileNotFoundError as error:
        raise _damaged(area, "is missing", receipt) from error
    except (pa.ArrowException, OSError) as error:
        raise _damaged(area, f"cannot be read ({error})", receipt) from error
    if table.num_rows != receipt.rows:
        raise _damaged(area, f"has {table.num_rows} rows instead of {receipt.rows}", receipt)
    return table


def find_part(area: FileArea, corpus_id: str, fp: str, part: str, *, slice_id: str) -> Receipt | None:
    """A receipt for a part that is there, complete and sound, though the catalog may not know; None when it is not.

    (A writer was killed between the file and its receipt. The whole file is read, `seconds` is 0.)
    """
    path = part_path(corpus_id, fp, part)
    try:
        content = area.read(path)
        rows = _parquet_table(content).num_rows
    except FileNotFoundError:
        return None
    except (pa.ArrowException, OSError):
        return None  # damaged: it is made again, and replaced
    checksum = str(blake3(content).hexdigest())
    return Receipt(slice_id, part, path, rows, content.size, checksum, 0.0)


def remove_corpus_files(area: FileArea, corpus_id: str) -> None:
    """Delete all parts of a corpus; none is fine."""
    area.delete_folder(_corpus_folder(corpus_id))


def remove_leftovers(area: FileArea, corpus_id: str) -> int:
    """Delete temporary files of writers that were killed; returns how many. Only while nothing writes this corpus."""
    return area.sweep(_corpus_folder(corpus_id))


def _corpus_folder(corpus_id: str) -> str:
    part_path(corpus_id, "00", "meta")  # refuses names that would leave the area
    return corpus_id


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


def _parquet_table(content: pa.Buffer, columns: Sequence[str] | None = None) -> pa.Table:
    file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
    return file.read(columns=None if columns is None else list(columns), use_threads=False).combine_chunks()


def _damaged(area: FileArea, what: str, receipt: Receipt) -> EmbeddingsDamagedError:
    return EmbeddingsDamagedError(
        f"the embeddings file {f'{area.location}/{receipt.path}'!r} {what}",
        hint="run `lodestone index` on the corpus again: damaged slices are embedded anew, others are kept",
        slice_id=receipt.slice_id,
        part=receipt.part,
    )
