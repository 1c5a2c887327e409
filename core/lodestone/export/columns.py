"""Columns of exported facts: one table from a column's name to its type and to what it says of a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

import pyarrow as pa

from lodestone.errors import InvalidRequestError, UnknownNameError
from lodestone.export.tasks import ExportedPicture, ExportedSlice, ExportTask
from lodestone_schemas.arrow import META_SCHEMA
from lodestone_schemas.collections import FieldKind

VECTOR_PREFIX: Final = "vector_"
_OF_PARTS: Final[Mapping[FieldKind, pa.DataType]] = {
    FieldKind.KEYWORD: pa.list_(pa.string()),
    FieldKind.INTEGER: pa.int64(),
    FieldKind.FLOAT: pa.float64(),
}
_TAG: Final = pa.struct([pa.field("text", pa.string()), pa.field("source", pa.string()), pa.field("score", pa.float32())])


@dataclass(frozen=True, slots=True)
class Column:
    """A column of facts.

    Attributes:
        type: Its Arrow type.
        values: Returns what it says of each of some pictures.
    """

    type: pa.DataType
    values: Callable[[ExportTask, Sequence[ExportedPicture]], list[Any]]


def _fact(name: str) -> Column:
    """Return a column of the embeddings' `meta` files, with the catalog's present value."""
    fact = attrgetter(name)
    return Column(META_SCHEMA.field(name).type, lambda _, pictures: [fact(picture.image) for picture in pictures])


def _captions(_: ExportTask, pictures: Sequence[ExportedPicture]) -> list[Any]:
    return [[{"source": source, "text": text} for source, text in picture.captions] for picture in pictures]


def _tags(_: ExportTask, pictures: Sequence[ExportedPicture]) -> list[Any]:
    return [[{"text": text, "source": source, "score": score} for text, source, score in picture.tags] for picture in pictures]


COLUMNS: Final[Mapping[str, Column]] = {
    "id": Column(pa.string(), lambda _, pictures: [picture.image.image_id for picture in pictures]),
    "corpus": Column(pa.string(), lambda task, pictures: [task.corpora[picture.image.corpus_id] for picture in pictures]),
    "root": Column(pa.string(), lambda task, pictures: [task.roots[picture.image.root_id].root.name for picture in pictures]),
    **{
        name: _fact(name)
        for name in (
            *("uri", "hash", "size", "width", "height", "format"),
            *("taken_at", "taken_subsec_ms", "utc_offset_minutes", "taken_precision", "taken_source", "taken_zone"),
            *("latitude", "longitude", "camera_make", "camera_model", "decoded_share"),
        )
    },
    "captions": Column(META_SCHEMA.field("captions").type, _captions),
    "tags": Column(pa.list_(_TAG), _tags),
}
"""Column -> what it is, in the order of the files."""


def chosen_columns(wanted: Sequence[str] | None, fields: Mapping[str, FieldKind]) -> tuple[str, ...]:
    """Return the names of the columns that are exported, in the order of the files.

    Args:
        wanted: Their names; None for all.
        fields: Fields of further parts of pictures, which are columns too.

    Raises:
        InvalidRequestError: none is wanted.
        UnknownNameError: there is no such column.
    """
    known = [*COLUMNS, *fields]
    if wanted is None:
        return tuple(known)
    if not wanted:
        raise InvalidRequestError("no column is named", hint=f"known: {', '.join(known)}")
    for name in wanted:
        if name not in known:
            raise UnknownNameError.among("column", name, known)
    return tuple(name for name in known if name in wanted)


def facts_schema(names: Sequence[str], fields: Mapping[str, FieldKind]) -> pa.Schema:
    """Return the schema of the chosen columns."""
    return pa.schema([pa.field(name, COLUMNS[name].type if name in COLUMNS else _OF_PARTS[fields[name]]) for name in names])


def facts_of(
    task: ExportTask, one: ExportedSlice, names: Sequence[str], payloads: Sequence[Mapping[str, Any]]
) -> dict[str, list[Any]]:
    """Return the chosen facts of a slice's pictures: column -> values (n).

    Args:
        task: The file that the slice is in.
        one: The slice.
        names: The columns.
        payloads: Fields of further parts of each picture (n).
    """
    return {
        name: COLUMNS[name].values(task, one.pictures) if name in COLUMNS else [payload.get(name) for payload in payloads]
        for name in names
    }
