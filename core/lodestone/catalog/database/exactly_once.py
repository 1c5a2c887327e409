"""Writes that happen exactly once on a server that may crash before it confirms the commit.

If a connection is lost at a commit, its outcome is unknown. So every write begins by inserting a token of its own, which is
committed or rolled back with it. When the write is run again, it inserts the same token: if that exists, the first run was
committed. (While the lost connection's commit is still in progress, the insertion waits for its end.) A transaction id would
not suffice: after a crash, the server reuses the id of a transaction that it had not yet written to disk.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import uuid4

from sqlalchemy import Connection, Engine, delete, insert
from sqlalchemy.exc import DBAPIError, IntegrityError

from lodestone.catalog import tables
from lodestone.catalog.database.reader import is_lost

_T = TypeVar("_T")
_KEPT = timedelta(hours=1)  # far longer than any write is retried
_PRUNES = "00"  # a write whose token begins with this prunes old tokens: one in 256


class Once:
    """One write that takes effect once, however often it is tried."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._token = str(uuid4())
        self._unanswered: list[Any] = []  # results of the write whose commits got no answer

    def attempt(self, change: Callable[[Connection], _T]) -> _T:
        """Run the write in a serialisable transaction, unless an earlier run was committed; errors are the driver's."""
        with self._engine.connect().execution_options(isolation_level="SERIALIZABLE") as connection:
            transaction = connection.begin()
            try:
                self._begin(connection)
            except IntegrityError:
                transaction.rollback()
                result: _T = self._unanswered[-1]
                return result
            result = change(connection)
            try:
                transaction.commit()
            except DBAPIError as error:
                if is_lost(error):
                    self._unanswered.append(result)
                raise
            return result

    def _begin(self, connection: Connection) -> None:
        table, now = tables.write_tokens, datetime.now(UTC)
        connection.execute(insert(table), {"token": self._token, "written_at": now})
        if self._token.startswith(_PRUNES):
            connection.execute(delete(table).where(table.c.written_at < now - _KEPT))
