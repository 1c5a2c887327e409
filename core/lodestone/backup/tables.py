"""How do the catalog's rows become Parquet files that any database's catalog can be filled from?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3
from sqlalchemy import JSON, BigInteger, Boolean, Column, Float, Integer, LargeBinary, Table

from lodestone.backup.snapshots import TableFile, read_checked
from lodestone.catalog.database.export import TABLES, Export
from lodestone.catalog.tables import UtcDateTime
from lodestone.errors import ConfigurationError
from lodestone.files.area import FileArea

_ROWS_A_FILE: Final = 50_000
_BYTES_A_FILE: Final = 64 << 20


def write_tables(export: Export, area: FileArea, folder: str) -> Iterator[TableFile]:
    """Write all tables below `folder`, holding some thousand rows at a time; an empty table has no file."""
    for table in TABLES:
        waiting: list[pa.Table] = []
        number = 0
        for rows in export.rows(table):
            waiting.append(_to_arrow(table, rows))
            if sum(len(one) for one in waiting) >= _ROWS_A_FILE or sum(one.nbytes for one in waiting) >= _BYTES_A_FILE:
                yield _write(area, f"{folder}/{table.name}-{number:05}.parquet", table, waiting)
                waiting, number = [], number + 1
        if waiting:
            yield _write(area, f"{folder}/{table.name}-{number:05}.parquet", table, waiting)


def read_tables(
    area: FileArea, files: Sequence[TableFile], *, only: Sequence[str] = ()
) -> Iterator[tuple[Table, list[dict[str, Any]]]]:
    """The rows of the files (of some tables only), as the catalog takes them, a table after those that it refers to.

    Raises:
        EmbeddingsDamagedError: a file is missing or damaged.
        ConfigurationError: a table or column is unknown here.
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


def _write(area: FileArea, path: str, table: Table, waiting: Sequence[pa.Table]) -> TableFile:
    joined = pa.concat_tables(waiting)
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


def _from_arrow(table: Table, found: pa.Table) -> list[dict[str, Any]]:
    unknown = set(found.column_names) - {column.name for column in table.columns}
    if unknown:
        raise ConfigurationError(
            f"the backup's table {table.name!r} has unknown columns: {sorted(unknown)}", hint="upgrade Lodestone"
        )
    rows: list[dict[str, Any]] = found.to_pylist()
    for name in (
        column.name for column in table.columns if isinstance(column.type, JSON) and column.name in found.column_names
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
