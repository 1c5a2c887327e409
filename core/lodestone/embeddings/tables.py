"""Conversion between arrays and the Arrow tables of a slice, without copying the vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lodestone.catalog.identity import caption_id
from lodestone_schemas.arrow import META_SCHEMA, captions_schema, outputs_schema

Half = NDArray[np.float16]
_KEYS = ("image_id", "hash")


def outputs_table(
    ids: Sequence[str],
    hashes: Sequence[str],
    outputs: Mapping[str, Half],
    *,
    metadata: Mapping[str, str] | None = None,
) -> pa.Table:
    """Return a backbone's outputs for n pictures as a table; nothing is copied.

    Args:
        ids: Image ids (n).
        hashes: BLAKE3 hex of the pictures (n).
        outputs: Output name -> (n, dim) float16.
        metadata: Facts for the file's schema, e.g. the backbone's name and version.

    Raises:
        ValueError: numbers of rows differ, or an output is not a float16 matrix.
    """
    schema = outputs_schema({name: matrix.shape[-1] for name, matrix in outputs.items()})
    columns: list[Any] = [pa.array(ids, pa.string()), pa.array(hashes, pa.string())]
    columns += [_vectors(name, matrix, rows=len(ids), kind=schema.field(name).type) for name, matrix in outputs.items()]
    if len(hashes) != len(ids):
        raise ValueError(f"{len(ids)} ids but {len(hashes)} hashes")
    return pa.Table.from_arrays(columns, schema=schema.with_metadata(dict(metadata or {})))


def outputs_from(table: pa.Table) -> tuple[list[str], list[str], dict[str, Half]]:
    """Return (image ids, hashes, output name -> (n, dim) float16) of an `outputs_table`.

    The matrices are read-only views of the table.
    """
    names = [name for name in table.column_names if name not in _KEYS]
    hashes = table.column("hash").to_pylist() if "hash" in table.column_names else []
    return table.column("image_id").to_pylist(), hashes, {name: matrix_of(table, name) for name in names}


def captions_table(
    rows: Sequence[tuple[str, str, str]],
    vectors: NDArray[np.floating[Any]],
    *,
    metadata: Mapping[str, str] | None = None,
) -> pa.Table:
    """Return captions with their text vectors as a table.

    Args:
        rows: (image id, source, text) of n captions.
        vectors: (n, dim), stored as float16.
        metadata: Facts for the file's schema, e.g. the text encoder's name and version.

    Raises:
        ValueError: numbers of rows differ.
    """
    schema = captions_schema(vectors.shape[-1])
    half = np.ascontiguousarray(vectors, dtype=np.float16)
    columns = [
        pa.array([image_id for image_id, _, _ in rows], pa.string()),
        pa.array([caption_id(*row) for row in rows], pa.string()),
        pa.array([source for _, source, _ in rows], pa.string()),
        pa.array([text for _, _, text in rows], pa.string()),
        _vectors("vector", half, rows=len(rows), kind=schema.field("vector").type),
    ]
    return pa.Table.from_arrays(columns, schema=schema.with_metadata(dict(metadata or {})))


def meta_table(rows: Sequence[Mapping[str, Any]], *, metadata: Mapping[str, str] | None = None) -> pa.Table:
    """Return what is known about the files of a slice as a table.

    Args:
        rows: One mapping per picture, by column name; missing columns are null. `captions` is a list of {"source": …, "text":
            …}.
        metadata: Facts for the file's schema.

    Raises:
        ValueError: a row has a name that `META_SCHEMA` does not have.
    """
    given = set[str]().union(*rows)
    if unknown := given - set(META_SCHEMA.names):
        raise ValueError(f"unknown columns {sorted(unknown)}; expected some of {META_SCHEMA.names}")
    columns = [
        pa.array([row.get(field.name) for row in rows], field.type) if field.name in given else pa.nulls(len(rows), field.type)
        for field in META_SCHEMA
    ]
    return pa.Table.from_arrays(columns, schema=META_SCHEMA.with_metadata(dict(metadata or {})))


def matrix_of(table: pa.Table, name: str) -> Half:
    """Return a vector column as (n, dim) float16.

    The result is a read-only view where the column is one chunk, which it is in tables from `read_part`.

    Raises:
        ValueError: the column holds nulls.
    """
    column = table.column(name)
    dim = column.type.list_size
    if not len(column):
        return np.empty((0, dim), np.float16)
    vectors = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    flat = vectors.flatten()
    if flat.null_count:
        raise ValueError(f"output {name!r} has {flat.null_count} nulls")
    # not `to_numpy`, which imports pandas: 0.3 s and 50 MB for every process that loads or searches
    values = np.frombuffer(flat.buffers()[1], np.float16, count=len(flat), offset=flat.offset * np.float16().itemsize)
    values.setflags(write=False)
    return values.reshape(len(column), dim)


def _vectors(name: str, matrix: Half, *, rows: int, kind: pa.DataType) -> pa.Array:
    if matrix.ndim != 2 or matrix.dtype != np.float16 or len(matrix) != rows:
        raise ValueError(f"output {name!r} is {matrix.dtype} {matrix.shape}; expected float16 ({rows}, dim)")
    flat = pa.array(np.ascontiguousarray(matrix).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, type=kind)
