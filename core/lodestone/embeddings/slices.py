"""Parquet files of a slice's parts: their names, and how they are written, read and checked.

Each part of a slice is one immutable Parquet file, `<corpus_id>/<fp[:2]>/<fp>.<part>.parquet` in the embeddings' area, where fp
is the slice's fingerprint. A file appears under its final name only when it is complete.
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
    """Describes a part on disk.

    Attributes:
        path: Path inside the embeddings' area.
        rows: Number of rows.
        size: Size in bytes.
        checksum: BLAKE3 of the file, in hex.
    """

    path: str
    rows: int
    size: int
    checksum: str


def fingerprint(rows: Sequence[tuple[str, str]], decoder_version: str) -> str:
    """Return the name of the slice that holds these rows: BLAKE3, 32 hex characters.

    Args:
        rows: (image id, hash) of each picture; their order does not matter.
        decoder_version: Version of the decoder that made the pixels.
    """
    digest = blake3()
    for text in (decoder_version, *(part for row in sorted(rows) for part in row)):
        encoded = text.encode()
        digest.update(len(encoded).to_bytes(4, "little") + encoded)
    return str(digest.hexdigest(length=16))


def part_path(corpus_id: str, fp: str, part: str) -> str:
    """Return the path of a part's file inside the embeddings' area, with forward slashes.

    Raises:
        ValueError: a name holds characters that do not belong in a file name.
    """
    for name in (corpus_id, fp, part):
        if not _SAFE.fullmatch(name):
            raise ValueError(f"{name!r} cannot be part of a file name; expected letters, digits and . _ @ + -")
    return f"{corpus_id}/{fp[:2]}/{fp}.{part}.parquet"


def write_part(area: FileArea, corpus_id: str, fp: str, part: str, table: pa.Table) -> WrittenPart:
    """Write one part durably: after this call, neither kill -9 nor a power cut loses it.

    Args:
        area: The area that holds the embeddings files.
        corpus_id: The corpus of the slice.
        fp: The slice's fingerprint.
        part: `meta`, `captions-<encoder>-<version>`, `<backbone>-<version>` or `<part>-<version>`.
        table: Columns as in `lodestone_schemas.arrow`.

    Raises:
        OutOfSpaceError: the disk is full; no partial file is left.
    """
    path = part_path(corpus_id, fp, part)
    content = _parquet_bytes(
        table.replace_schema_metadata({b"schema": SCHEMA_VERSION.encode(), **(table.schema.metadata or {})})
    )
    checksum = str(blake3(content).hexdigest())
    area.write(path, content)
    return WrittenPart(path, table.num_rows, content.size, checksum)


def read_part(area: FileArea, receipt: Receipt, *, columns: Sequence[str] | None = None, verify: bool = False) -> pa.Table:
    """Read the table of a finished part; each column is one chunk.

    Args:
        area: The area that holds the embeddings files.
        receipt: The catalog's receipt of the part.
        columns: Names of the columns to read; None for all.
        verify: Whether to compare the file's checksum with the receipt's. Size, page checksums and number of rows are always
            compared.

    Raises:
        EmbeddingsDamagedError: the file is missing, truncated or altered.
    """
    try:
        content = area.read(receipt.path)
        if content.size != receipt.size:
            raise _damaged(area, f"has {content.size} bytes instead of {receipt.size}", receipt)
        if verify and (checksum := blake3(content).hexdigest()) != receipt.checksum:
            raise _damaged(area, f"has checksum {checksum} instead of {receipt.checksum}", receipt)
        table = _parquet_table(content, columns)
    except FileNotFoundError as error:
        raise _damaged(area, "is missing", receipt) from error
    except (pa.ArrowException, OSError) as error:
        raise _damaged(area, f"cannot be read ({error})", receipt) from error
    if table.num_rows != receipt.rows:
        raise _damaged(area, f"has {table.num_rows} rows instead of {receipt.rows}", receipt)
    return table


def find_part(area: FileArea, corpus_id: str, fp: str, part: str, *, slice_id: str) -> Receipt | None:
    """Return a receipt for a part that is complete and sound on disk, or None when there is none.

    A writer that was killed after it wrote the file and before it recorded the receipt leaves such a part. The whole file is
    read. The receipt's `seconds` is 0.
    """
    path = part_path(corpus_id, fp, part)
    try:
        content = area.read(path)
        rows = _parquet_table(content).num_rows
    except FileNotFoundError:
        return None
    except (pa.ArrowException, OSError):
        return None  # a damaged file is made again and replaced
    checksum = str(blake3(content).hexdigest())
    return Receipt(slice_id, part, path, rows, content.size, checksum, 0.0)


def remove_corpus_files(area: FileArea, corpus_id: str) -> None:
    """Delete all parts of a corpus; a corpus without parts is no error."""
    area.delete_folder(_corpus_folder(corpus_id))


def remove_leftovers(area: FileArea, corpus_id: str) -> int:
    """Delete temporary files of writers that were killed, and return how many.

    Call it only while nothing writes this corpus.
    """
    return area.sweep(_corpus_folder(corpus_id))


def _corpus_folder(corpus_id: str) -> str:
    part_path(corpus_id, "00", "meta")  # raises for names that would point outside the area
    return corpus_id


def _parquet_bytes(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    # A dictionary or statistics of vectors cost time and bring nothing. zstd level 1 makes real features a fifth smaller, in a
    # few milliseconds per slice; higher levels save no more.
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
