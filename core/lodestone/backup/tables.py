"""Conversion of the catalog's rows to Parquet files, from which a catalog in any database can be filled."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from blake3 import blake3
from sqlalchemy import JSON, BigInteger, Boolean, Column, Float, Integer, LargeBinary, Table

from lodestone.backup.snapshots import TableFile, read_checked
from lodestone.catalog.export import TABLES, Export
from lodestone.catalog.tables import UtcDateTime
from lodestone.errors import ConfigurationError
from lodestone.files.area import FileArea

_ROWS_A_FILE: Final = 50_000
_BYTES_A_FILE: Final = 64 << 20
# More than this no file of a backup has. A forged one of a few kilobytes could unfold to more than the memory.
_MOST_ROWS: Final = 1_000_000
_MOST_BYTES: Final = 1 << 30


def write_tables(export: Export, area: FileArea, folder: str) -> Iterator[TableFile]:
    """Write all tables below `folder`, holding some thousand rows in memory at a time; an empty table has no file."""
    for table in TABLES:
        chunks: list[pa.Table] = []
        number = 0
        for rows in export.rows(table):
            chunks.append(_to_arrow(table, rows))
            if sum(len(chunk) for chunk in chunks) >= _ROWS_A_FILE or sum(chunk.nbytes for chunk in chunks) >= _BYTES_A_FILE:
                yield _write(area, f"{folder}/{table.name}-{number:05}.parquet", table, chunks)
                chunks, number = [], number + 1
        if chunks:
            yield _write(area, f"{folder}/{table.name}-{number:05}.parquet", table, chunks)


def read_tables(
    area: FileArea, files: Sequence[TableFile], *, only: Sequence[str] = ()
) -> Iterator[tuple[Table, list[dict[str, Any]]]]:
    """Yield the rows of the files as the catalog takes them, each table after those that it refers to.

    Args:
        area: The backup.
        files: Files of the snapshot.
        only: Names of the tables to read; empty for all.

    Raises:
        EmbeddingsDamagedError: A file is missing or damaged.
        ConfigurationError: A table or column is unknown to this version, or a file holds what no backup does.
    """
    by_name = {table.name: table for table in TABLES}
    unknown = {file.table for file in files} - by_name.keys()
    if unknown:
        raise ConfigurationError(f"the backup has unknown tables: {sorted(unknown)}", hint="upgrade Lodestone")
    for name, table in by_name.items():
        if only and name not in only:
            continue
        for file in sorted((file for file in files if file.table == name), key=lambda file: file.path):
            content = read_checked(area, file.path, size=file.size, checksum=file.checksum)
            try:
                yield table, _from_arrow(table, _unfolded(file, content))
            except (pa.ArrowException, ValueError, RecursionError, OverflowError) as error:
                raise _forged(file, error) from error


def _write(area: FileArea, path: str, table: Table, chunks: Sequence[pa.Table]) -> TableFile:
    joined = pa.concat_tables(chunks)
    sink = pa.BufferOutputStream()
    pq.write_table(joined, sink, compression="zstd", write_page_checksum=True)
    content = sink.getvalue()
    area.write(path, content)
    return TableFile(table.name, path, joined.num_rows, content.size, str(blake3(content).hexdigest()))


def _to_arrow(table: Table, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    columns = {}
    for column in table.columns:
        values = [row[column.name] for row in rows]
        if isinstance(column.type, JSON):
            values = [json.dumps(value, ensure_ascii=False) for value in values]
        columns[column.name] = pa.array(values, _arrow_type(column))
    return pa.table(columns)


def _unfolded(file: TableFile, content: pa.Buffer) -> pa.Table:
    """Return the table of a file, its texts as dictionaries: what a text takes that stands in every row is known before.

    Raises:
        ValueError: It has other rows than the manifest says, or would fill the memory.
        ArrowException: It is no Parquet file.
    """
    metadata = pq.read_metadata(pa.BufferReader(content))
    if metadata.num_rows != file.rows or metadata.num_rows > _MOST_ROWS:
        raise ValueError(f"it has {metadata.num_rows:,} rows, and the manifest says {file.rows:,}")
    size = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
    texts = [field.name for field in metadata.schema.to_arrow_schema() if pa.types.is_string(field.type)]
    if size <= _MOST_BYTES:
        table = pq.read_table(pa.BufferReader(content), use_threads=False, read_dictionary=texts)
        size = sum(_text_bytes(chunk) for name in texts for chunk in table.column(name).chunks)
    if size > _MOST_BYTES:
        raise ValueError(f"it would take {size:,} bytes of memory")
    return table


def _text_bytes(chunk: pa.DictionaryArray) -> int:
    lengths = pc.binary_length(chunk.dictionary)
    return pc.sum(pc.take(lengths, chunk.indices).cast(pa.int64())).as_py() or 0


def _from_arrow(table: Table, arrow_table: pa.Table) -> list[dict[str, Any]]:
    unknown = set(arrow_table.column_names) - {column.name for column in table.columns}
    if unknown:
        raise ConfigurationError(
            f"the backup's table {table.name!r} has unknown columns: {sorted(unknown)}", hint="upgrade Lodestone"
        )
    columns = {}
    for column in table.columns:
        if column.name not in arrow_table.column_names:  # an earlier version had none
            if not column.nullable and column.default is None and column.server_default is None:
                raise ValueError(f"the column {column.name!r} is missing")
            continue
        values = arrow_table.column(column.name)
        if not column.nullable and values.null_count:
            raise ValueError(f"the column {column.name!r} has empty values")
        columns[column.name] = values.cast(_arrow_type(column))
    rows: list[dict[str, Any]] = pa.table(columns).to_pylist()
    for name in (column.name for column in table.columns if isinstance(column.type, JSON) and column.name in columns):
        for row in rows:
            row[name] = json.loads(row[name])
    return rows


def _forged(file: TableFile, why: object) -> ConfigurationError:
    return ConfigurationError(
        f"the file {file.path!r} of the backup cannot be used: {why}",
        hint="it is damaged or forged: restore another snapshot; nothing was restored",
    )


def _arrow_type(column: Column[Any]) -> pa.DataType:
    kind = column.type
    if isinstance(kind, UtcDateTime):
        return pa.timestamp("us", "UTC")
    if isinstance(kind, Boolean):
        return pa.bool_()
    if isinstance(kind, Integer | BigInteger):
        return pa.int64()
    if isinstance(kind, Float):
        return pa.float64()
    return pa.large_binary() if isinstance(kind, LargeBinary) else pa.string()
