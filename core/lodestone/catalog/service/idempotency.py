"""Answers to writes that carried an idempotency key, one row for each key of a client.

A row is inserted without an answer before the work begins, and gets the answer at the end. So of two requests with one key, on
any replica, only one does the work. A row without an answer is taken over once it is old, because its worker must have crashed.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Final

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.database.sql import insert_ignoring
from lodestone.catalog.records import WriteKey, WriteRecord

KEPT: Final = timedelta(days=1)
DIED_AFTER: Final = timedelta(minutes=2)  # longer than any write waits for its database
_PRUNES: Final = "0"  # a write whose fingerprint begins with this prunes old rows: one in 16


class IdempotencyRows(CatalogBase):
    """Part of the catalog that keeps answers to writes with idempotency keys."""

    def claim_write(self, write: WriteKey, *, now: datetime | None = None) -> WriteRecord | None:
        """Claim a key for a write; return None if the work may begin, and otherwise the earlier write with this key.

        Args:
            write: Owner, key and fingerprint of the request.
            now: Current time; for tests.
        """
        table, claimed_at = tables.idempotency, now or datetime.now(UTC)
        claim = WriteRecord(write.owner, write.key, write.fingerprint, None, None, claimed_at)
        same_key = (table.c.owner == write.owner) & (table.c.key == write.key)

        def change(connection: Connection) -> WriteRecord | None:
            if write.fingerprint.startswith(_PRUNES):
                connection.execute(delete(table).where(table.c.created_at < claimed_at - KEPT))
            if insert_ignoring(connection, table, [asdict(claim)]):
                return None
            earlier = WriteRecord(**connection.execute(select(table).where(same_key)).one()._asdict())
            if earlier.created_at < claimed_at - (DIED_AFTER if earlier.status is None else KEPT):
                connection.execute(delete(table).where(same_key))
                connection.execute(insert(table), asdict(claim))
                return None
            return earlier

        return self._write(change)

    def answer_write(self, write: WriteKey, *, status: int, body: bytes) -> None:
        """Store the answer to a claimed write."""
        statement = update(tables.idempotency).where(_unanswered(write)).values(status=status, body=body)
        self._write(lambda connection: connection.execute(statement).rowcount)

    def forget_write(self, write: WriteKey) -> None:
        """Release a claimed key whose work was not done, so that the same request can be made again."""
        statement = delete(tables.idempotency).where(_unanswered(write))
        self._write(lambda connection: connection.execute(statement).rowcount)

    def writes(self) -> int:
        """Return the number of stored keys."""
        with self._reading() as connection:
            return len(connection.execute(select(tables.idempotency.c.key)).all())


def _unanswered(write: WriteKey) -> ColumnElement[bool]:
    table = tables.idempotency
    is_same_write = (table.c.owner == write.owner) & (table.c.key == write.key) & (table.c.fingerprint == write.fingerprint)
    return is_same_write & table.c.status.is_(None)
