"""Which writes were asked for already, and what was answered? One row for each key that a client gave.

A row is there before the work begins, without an answer, and gets it at the end. So of two requests with one key, on whatever
replica, one does the work. A row without an answer is taken over once it is old: whoever worked on it has died.
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
_PRUNES: Final = "0"  # how the fingerprint of a write begins that prunes: one in 16


class IdempotencyRows(CatalogBase):
    """Writes with keys."""

    def claim_write(self, write: WriteKey, *, now: datetime | None = None) -> WriteRecord | None:
        """Claim a key for a write: None, and the work may begin; else what was asked for with this key before.

        Args:
            write: Who asks for what, by which key.
            now: The time; for tests.
        """
        table, at = tables.idempotency, now or datetime.now(UTC)
        mine = WriteRecord(write.owner, write.key, write.fingerprint, None, None, at)
        same = (table.c.owner == write.owner) & (table.c.key == write.key)

        def change(connection: Connection) -> WriteRecord | None:
            if write.fingerprint.startswith(_PRUNES):
                connection.execute(delete(table).where(table.c.created_at < at - KEPT))
            if insert_ignoring(connection, table, [asdict(mine)]):
                return None
            found = WriteRecord(**connection.execute(select(table).where(same)).one()._asdict())
            if found.created_at < at - (DIED_AFTER if found.status is None else KEPT):
                connection.execute(delete(table).where(same))
                connection.execute(insert(table), asdict(mine))
                return None
            return found

        return self._write(change)

    def answer_write(self, write: WriteKey, *, status: int, body: bytes) -> None:
        """Keep the answer to a claimed write."""
        done = update(tables.idempotency).where(_unanswered(write)).values(status=status, body=body)
        self._write(lambda connection: connection.execute(done).rowcount)

    def forget_write(self, write: WriteKey) -> None:
        """Give a claimed key back: nothing was done, and the same may be asked for again."""
        given_back = delete(tables.idempotency).where(_unanswered(write))
        self._write(lambda connection: connection.execute(given_back).rowcount)

    def writes(self) -> int:
        """How many keys are kept."""
        with self._reading() as connection:
            return len(connection.execute(select(tables.idempotency.c.key)).all())


def _unanswered(write: WriteKey) -> ColumnElement[bool]:
    table = tables.idempotency
    mine = (table.c.owner == write.owner) & (table.c.key == write.key) & (table.c.fingerprint == write.fingerprint)
    return mine & table.c.status.is_(None)
