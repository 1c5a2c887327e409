"""Conversion of the catalog's rows to Parquet files, from which a catalog in any database can be filled."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
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
        ConfigurationError: A table or column is unknown to this version.
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
            yield table, _from_arrow(table, pq.read_table(pa.BufferReader(content), use_threads=False))


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


def _from_arrow(table: Table, arrow_table: pa.Table) -> list[dict[str, Any]]:
    unknown = set(arrow_table.column_names) - {column.name for column in table.columns}
    if unknown:
        raise ConfigurationError(
            f"the backup's table {table.name!r} has unknown columns: {sorted(unknown)}", hint="upgrade Lodestone"
        )
    rows: list[dict[str, Any]] = arrow_table.to_pylist()
    for name in (
        column.name for column in table.columns if isinstance(column.type, JSON) and column.name in arrow_table.column_names
    ):
        for row in rows:
            row[name] = json.loads(row[name])
    return rows


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
