"""SQL helpers shared by the parts of the catalog: chunked lists, places of rows, and inserts that tolerate existing rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Column, Connection, Table, Tuple, literal, tuple_

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

_T = TypeVar("_T")

IN_LIMIT = 900  # values in one IN list: older SQLite builds take 999 variables
PAGE = 2_000  # rows that a streaming read holds at a time


def chunks(items: Iterable[_T], size: int = IN_LIMIT) -> Iterator[list[_T]]:
    """Yield consecutive lists of at most `size` items."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


def insert_ignoring(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> int:
    """Insert `rows` and return how many were new; a row whose key exists is skipped."""
    if not rows:
        return 0
    first_key = next(iter(table.primary_key))
    statement = _insert(connection, table).on_conflict_do_nothing().returning(first_key)
    return len(connection.execute(statement, [dict(row) for row in rows]).all())


def placed(columns: Sequence[Column[Any]], place: Sequence[Any]) -> Tuple:
    """Return a row's place as a value to compare `tuple_(*columns)` with, each part of its column's type."""
    return tuple_(*(literal(part, column.type) for column, part in zip(columns, place, strict=True)))


def upsert(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert `rows` (all columns given), replacing those with the same primary key."""
    if rows:
        keys = [column.name for column in table.primary_key]
        statement = _insert(connection, table)
        changed = {column.name: statement.excluded[column.name] for column in table.columns if column.name not in keys}
        connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changed), [dict(row) for row in rows])


def _insert(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    # ON CONFLICT has the same syntax in both, but SQLAlchemy has one construct for each dialect; loading either takes 30 ms.
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table)
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table)
