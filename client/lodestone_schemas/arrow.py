"""Arrow schemas of the Parquet files of a slice.

A slice of pictures has one file for each part: facts about the files (`META_SCHEMA`), the vectors of their captions
(`captions_schema`), the outputs of each backbone (`outputs_schema`), and further parts (`part_schema`). Rows are pictures, or
captions, or what a part finds several of in a picture. Vectors are fixed-size
lists of half floats, which plain pyarrow, DuckDB and Polars can read.

Files are never changed, so columns may be missing in older ones: a reader takes a column that is missing for null. Those behind
`error_message` in `META_SCHEMA` were added in that way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

SCHEMA_VERSION = "1"
"""Version of the columns' meaning, in the metadata of each file.

It is raised when a column changes its meaning, its type or its name, or goes: readers of the old version would misread the file
then. An added column raises nothing, because old readers do not ask for it.
"""

_ID = pa.field("image_id", pa.string(), nullable=False)
_HASH = pa.field("hash", pa.string(), nullable=False)  # BLAKE3 hex of the picture's bytes

META_SCHEMA = pa.schema(
    [
        _ID,
        pa.field("uri", pa.string(), nullable=False),  # path inside the root
        _HASH,
        pa.field("size", pa.int64(), nullable=False),  # bytes
        pa.field("mtime_ns", pa.int64(), nullable=False),
        pa.field("width", pa.int32()),  # pixels, upright
        pa.field("height", pa.int32()),
        pa.field("format", pa.string()),
        pa.field("taken_at", pa.int64()),  # seconds since 1970-01-01T00:00:00Z
        pa.field("latitude", pa.float64()),  # degrees
        pa.field("longitude", pa.float64()),
        pa.field("camera", pa.string()),  # maker and model in one
        pa.field("captions", pa.list_(pa.struct([pa.field("source", pa.string()), pa.field("text", pa.string())]))),
        pa.field("error_code", pa.string()),  # null when the picture is fine
        pa.field("error_message", pa.string()),
        pa.field("utc_offset_minutes", pa.int32()),  # local time minus UTC where it was taken
        pa.field("taken_subsec_ms", pa.int32()),  # milliseconds to add to `taken_at`, 0 to 999
        pa.field("camera_make", pa.string()),
        pa.field("camera_model", pa.string()),
        pa.field("metadata_version", pa.int32()),  # of the reader of time, place and camera; null in older rows and failures
        pa.field("taken_precision", pa.string()),  # year, month, day or second; `taken_at` is its beginning
        pa.field("taken_source", pa.string()),  # what the time was read from
        pa.field("taken_zone", pa.string()),  # what says the offset: stated or gps
        pa.field("decoded_share", pa.float64()),  # of a picture whose file ends early, in [0, 1]; null for a complete one
    ]
)


def outputs_schema(dims: Mapping[str, int]) -> pa.Schema:
    """Return a schema with one column for each named output (name -> length) after `image_id` and `hash`."""
    vectors = [pa.field(name, vector_type(dim), nullable=False) for name, dim in dims.items()]
    return pa.schema([_ID, _HASH, *vectors])


def captions_schema(dim: int) -> pa.Schema:
    """Return a schema with one row for each caption; `caption_id` is the uuid5 of its picture and `source/text`."""
    return pa.schema(
        [
            _ID,
            pa.field("caption_id", pa.string(), nullable=False),
            pa.field("source", pa.string(), nullable=False),
            pa.field("text", pa.string(), nullable=False),
            pa.field("vector", vector_type(dim), nullable=False),
        ]
    )


def part_schema(columns: Iterable[pa.Field]) -> pa.Schema:
    """Return the schema of a further part: its own columns, all nullable, after `image_id`, `hash` and why there are none.

    Each picture has at least one row. That of a picture of which nothing was made has nulls, and `error_code` where it was
    dropped.

    Raises:
        ValueError: a column has a name of `META_SCHEMA`, by which compaction knows the rows of `meta`.
    """
    columns = tuple(columns)
    if taken := {column.name for column in columns} & set(META_SCHEMA.names):
        raise ValueError(f"columns of a part are named {sorted(taken)}, as those of `meta` are: give them other names")
    why = (pa.field("error_code", pa.string()), pa.field("error_message", pa.string()))
    return pa.schema([_ID, _HASH, *why, *(column.with_nullable(True) for column in columns)])


def vector_type(dim: int) -> pa.DataType:
    """Return the type of a vector of `dim` half floats."""
    return pa.list_(pa.field("element", pa.float16(), nullable=False), dim)
