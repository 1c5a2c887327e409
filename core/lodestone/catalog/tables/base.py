"""What have all tables in common? Their metadata, the kinds of their columns, and how they refer to each other."""

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
    """An aware datetime in UTC; SQLite keeps no time zone, so it is put back on the way out."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 (SQLAlchemy's signature)
        """Convert to UTC; a naive time is a bug of the caller and raises `ValueError`."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"naive datetime {value!r}: the catalog takes aware ones")
        return value.astimezone(UTC)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> datetime | None:  # noqa: ANN401, ARG002 (SQLAlchemy's signature)
        """Give the time zone back."""
        if value is None:
            return None
        found: datetime = value
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


ID = String(36)
# Byte order everywhere: PostgreSQL would otherwise sort (and page) by its locale. SQLite's default is byte order already.
NAME = Text().with_variant(Text(collation="C"), "postgresql")


def parent(column: str, *, on_delete: str = "CASCADE") -> ForeignKey:
    """A reference to a row that a row belongs to: by default it goes with it."""
    return ForeignKey(column, ondelete=on_delete)


def next_seq(table: str) -> Column[int]:
    """`seq`: one more than the highest so far; who inserts several rows at once says it, or they would share one."""
    one_more = text(f"(SELECT coalesce(max(seq), 0) + 1 FROM {table})")  # noqa: S608 (a table's own name)
    return Column("seq", BigInteger, nullable=False, default=one_more, server_default="0")
