"""SQL helpers shared by the parts of the catalog: chunked lists, places of rows, and statements for many rows at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sqlalchemy import BigInteger, Column, Connection, Float, Integer, Select, Table, Tuple, literal, true, tuple_

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

_T = TypeVar("_T")

IN_LIMIT = 900  # values in one IN list: older SQLite builds take 999 variables
PAGE = 2_000  # rows that a streaming read holds at a time
_MOST_VALUES: Final = 30_000  # in one statement of SQLite, which takes 32,766 variables since it has UPDATE ... FROM
_POSTGRES_TYPES: Final = ((BigInteger, "bigint"), (Integer, "integer"), (Float, "double precision"))


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
    statement = _insert(connection.dialect.name, table).on_conflict_do_nothing().returning(first_key)
    return len(connection.execute(statement, [dict(row) for row in rows]).all())


def placed(columns: Sequence[Column[Any]], place: Sequence[Any]) -> Tuple:
    """Return a row's place as a value to compare `tuple_(*columns)` with, each part of its column's type."""
    return tuple_(*(literal(part, column.type) for column, part in zip(columns, place, strict=True)))


def upsert(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert `rows` (all columns given), replacing those with the same primary key."""
    if rows:
        connection.execute(_upsert(connection.dialect.name, table), [dict(row) for row in rows])


def upsert_selected(connection: Connection, table: Table, rows: Select[Any]) -> None:
    """Insert the rows that a query selects (all columns, in their order), replacing those with the same primary key."""
    names = [column.name for column in table.columns]
    # Without a condition, SQLite would take ON CONFLICT for the condition of a join.
    statement = _upsert(connection.dialect.name, table).from_select(names, rows.where(true()))
    connection.execute(statement)


def insert_rows(
    connection: Connection, columns: Sequence[Column[Any]], rows: Sequence[Sequence[Any]], *, ignoring: bool = False
) -> int:
    """Insert many rows into one table without SQLAlchemy looking at each value, and return how many were new.

    Args:
        connection: Of a transaction that writes.
        columns: Columns of one table: texts, integers and floats. Values are given to the driver as they are.
        rows: The values of `columns` of each row, in this order.
        ignoring: Whether a row whose key exists is skipped; otherwise it is an error.
    """
    names, table = tuple(column.name for column in columns), columns[0].table.name
    into = f"INSERT INTO {table} ({', '.join(names)})"
    conflict = " ON CONFLICT DO NOTHING" if ignoring else ""
    if connection.dialect.name == "postgresql":
        new = 0
        arrays = ", ".join(f"%s::{_postgres_type(column)}[]" for column in columns)
        for chunk in chunks(rows, _MOST_VALUES):
            statement = f"{into} SELECT * FROM unnest({arrays}){conflict}"  # noqa: S608 - names of ours
            new += connection.exec_driver_sql(statement, tuple(map(list, zip(*chunk, strict=True)))).rowcount
        return new
    if not rows:
        return 0
    statement = f"{into} VALUES ({', '.join('?' * len(names))}){conflict}"
    return connection.exec_driver_sql(statement, [tuple(row) for row in rows]).rowcount


def update_rows(
    connection: Connection, key: Column[Any], columns: Sequence[Column[Any]], rows: Sequence[Sequence[Any]]
) -> None:
    """Set some columns of many rows of one table, by one statement for some thousands of them.

    That costs a fraction of a statement for each row: SQLAlchemy looks at no value, and the database runs without Python.

    Args:
        connection: Of a transaction that writes.
        key: The primary key, a text.
        columns: Columns to set: texts, integers and floats. Values are given to the driver as they are.
        rows: The key and the values of `columns` of each row, in this order. Unknown keys are ignored.
    """
    names, width = (key.name, *(column.name for column in columns)), 1 + len(columns)
    if connection.dialect.name == "postgresql":
        kinds = tuple(_postgres_type(column) for column in (key, *columns))
        for chunk in chunks(rows, _MOST_VALUES):
            connection.exec_driver_sql(
                _update_of_arrays(key.table.name, names, kinds), tuple(map(list, zip(*chunk, strict=True)))
            )
        return
    for chunk in chunks(rows, _MOST_VALUES // width):
        statement = _update_of_values(key.table.name, names, len(chunk))
        connection.exec_driver_sql(statement, tuple(chain.from_iterable(chunk)))


def _postgres_type(column: Column[Any]) -> str:
    return next((name for kind, name in _POSTGRES_TYPES if isinstance(column.type, kind)), "text")


@cache
def _update_of_arrays(table: str, names: tuple[str, ...], kinds: tuple[str, ...]) -> str:
    arrays = ", ".join(f"%s::{kind}[]" for kind in kinds)
    changes = ", ".join(f"{name} = new.{name}" for name in names[1:])
    where = f"{table}.{names[0]} = new.{names[0]}"
    return f"UPDATE {table} SET {changes} FROM unnest({arrays}) AS new({', '.join(names)}) WHERE {where}"  # noqa: S608 - names


@lru_cache(maxsize=64)
def _update_of_values(table: str, names: tuple[str, ...], rows: int) -> str:
    values = ", ".join([f"({', '.join('?' * len(names))})"] * rows)
    changes = ", ".join(f"{name} = new.{name}" for name in names[1:])
    update = f"UPDATE {table} SET {changes} FROM new WHERE {table}.{names[0]} = new.{names[0]}"  # noqa: S608 - names of ours
    return f"WITH new({', '.join(names)}) AS (VALUES {values}) {update}"


@cache
def _upsert(dialect: str, table: Table) -> sqlite.Insert | postgresql.Insert:
    keys = [column.name for column in table.primary_key]
    statement = _insert(dialect, table)
    changed = {column.name: statement.excluded[column.name] for column in table.columns if column.name not in keys}
    return statement.on_conflict_do_update(index_elements=keys, set_=changed)


def _insert(dialect: str, table: Table) -> sqlite.Insert | postgresql.Insert:
    # ON CONFLICT has the same syntax in both, but SQLAlchemy has one construct for each dialect; loading either takes 30 ms.
    if dialect == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table)
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table)
