"""Parquet files of an export: one row a picture, with its facts, and its vectors as fixed-size lists."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lodestone.export.columns import VECTOR_PREFIX, facts_of, facts_schema
from lodestone.export.content import SliceVectors
from lodestone.export.tasks import FORMAT, ExportTask
from lodestone.export.writer import FileContent, FileWriter

METADATA: Final = b"lodestone"
_GROUP_ROWS: Final = 10_000  # of a row group; readers fetch whole ones


class ParquetWriter(FileWriter):
    """Writes a task as one Parquet file."""

    def write(self, task: ExportTask, file: BinaryIO) -> FileContent:
        """Write the pictures of a task, some thousands at a time.

        Raises:
            EmbeddingsDamagedError: a file of the embeddings is missing or damaged.
            OSError: the file cannot be written.
        """
        schema = self._schema()
        tables: list[pa.Table] = []
        without = dict.fromkeys(self.layout.content.projections, 0)
        options: dict[str, Any] = {"compression": "zstd", "write_page_checksum": True, "use_dictionary": self._texts()}
        with pq.ParquetWriter(file, schema, **options) as parquet:
            for one in task.slices:
                vectors = self.layout.content.vectors(one)
                facts = facts_of(task, one, self.layout.columns, self.layout.content.fields(one))
                tables.append(_table(schema, facts, vectors))
                for space, found in vectors.items():
                    without[space] += int(np.count_nonzero(~found.present))
                if sum(map(len, tables)) >= _GROUP_ROWS:
                    parquet.write_table(pa.concat_tables(tables).combine_chunks(), row_group_size=_GROUP_ROWS)
                    tables = []
            if tables:
                parquet.write_table(pa.concat_tables(tables).combine_chunks(), row_group_size=_GROUP_ROWS)
        return FileContent(task.pictures, {space: count for space, count in without.items() if count})

    def _schema(self) -> pa.Schema:
        number = pa.float16() if self.layout.content.dtype == "float16" else pa.float32()
        facts = facts_schema(self.layout.columns, self.layout.fields)
        vectors = [
            pa.field(VECTOR_PREFIX + name, pa.list_(pa.field("element", number, nullable=False), projection.dim))
            for name, projection in self.layout.content.projections.items()
        ]
        said = json.dumps({"format": FORMAT, "spaces": self.layout.spaces, "dtype": self.layout.content.dtype}, sort_keys=True)
        return pa.schema([*facts, *vectors], {METADATA: said.encode()})

    def _texts(self) -> list[str]:
        """Return the columns that repeat their values; a dictionary of anything else costs time and brings nothing."""
        repeated = {"corpus", "root", "format", "taken_precision", "taken_source", "taken_zone", "camera_make", "camera_model"}
        return [name for name in self.layout.columns if name in repeated]


def _table(schema: pa.Schema, facts: Mapping[str, list[Any]], vectors: Mapping[str, SliceVectors]) -> pa.Table:
    columns = [
        _vector_column(vectors[column.name.removeprefix(VECTOR_PREFIX)], column.type)
        if column.name.startswith(VECTOR_PREFIX)
        else pa.array(facts[column.name], column.type)
        for column in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _vector_column(found: SliceVectors, kind: pa.DataType) -> pa.Array:
    flat = pa.array(np.ascontiguousarray(found.rows).reshape(-1), kind.value_type)
    if found.present.all():
        return pa.FixedSizeListArray.from_arrays(flat, type=kind)
    return pa.FixedSizeListArray.from_arrays(flat, type=kind, mask=pa.array(~found.present))
