"""Metadata, column types and foreign keys that all tables share."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, Column, DateTime, ForeignKey, MetaData, String, Text, TypeDecorator, text
from sqlalchemy.engine import Dialect

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class UtcDateTime(TypeDecorator[datetime]):
    """Aware datetime in UTC; SQLite stores no time zone, so it is added when a value is read."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 (SQLAlchemy's signature)
        """Convert to UTC; raise `ValueError` for a naive time, which is a bug of the caller."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"naive datetime {value!r}: the catalog takes aware ones")
        return value.astimezone(UTC)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> datetime | None:  # noqa: ANN401, ARG002 (SQLAlchemy's signature)
        """Return the stored time with the time zone UTC."""
        if value is None:
            return None
        stored: datetime = value
        return stored.replace(tzinfo=UTC) if stored.tzinfo is None else stored.astimezone(UTC)


ID = String(36)
# Byte order everywhere: PostgreSQL would otherwise sort (and page) by its locale. SQLite's default is byte order already.
NAME = Text().with_variant(Text(collation="C"), "postgresql")


def parent(column: str, *, on_delete: str = "CASCADE") -> ForeignKey:
    """Return a foreign key to the row that a row belongs to; by default the row is deleted with it."""
    return ForeignKey(column, ondelete=on_delete)


def next_seq(table: str) -> Column[int]:
    """Return the column `seq`, by default one more than the highest value so far.

    A statement that inserts several rows must set it, or they would share one value.
    """
    one_more = text(f"(SELECT coalesce(max(seq), 0) + 1 FROM {table})")  # noqa: S608 (a table's own name)
    return Column("seq", BigInteger, nullable=False, default=one_more, server_default="0")
