"""How does a write happen exactly once on a server that may die before it says whether it did?

When a connection dies at a commit, nobody knows what became of it. So every write begins by inserting a token of its own, which
commits or vanishes with it. Run again, the write inserts the same token: if that is there, the first time went through. (While
the dead connection's commit is still under way, the insertion waits for its end.) A transaction's number would not do: a server
that crashed gives a number again whose transaction it had not yet written down.
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
_KEPT = timedelta(hours=1)  # far longer than any write is tried again
_PRUNES = "00"  # how the token of a write begins that prunes: one in 256


class Once:
    """One write, however often it is tried."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._token = str(uuid4())
        self._unanswered: list[Any] = []  # what the write gave when its commit got no answer

    def attempt(self, change: Callable[[Connection], _T]) -> _T:
        """Try it in a serialisable transaction, unless an earlier try went through; errors are the driver's."""
        with self._engine.connect().execution_options(isolation_level="SERIALIZABLE") as connection:
            transaction = connection.begin()
            try:
                self._begin(connection)
            except IntegrityError:
                transaction.rollback()
                done: _T = self._unanswered[-1]
                return done
            done = change(connection)
            try:
                transaction.commit()
            except DBAPIError as error:
                if is_lost(error):
                    self._unanswered.append(done)
                raise
            return done

    def _begin(self, connection: Connection) -> None:
        table, now = tables.write_tokens, datetime.now(UTC)
        connection.execute(insert(table), {"token": self._token, "written_at": now})
        if self._token.startswith(_PRUNES):
            connection.execute(delete(table).where(table.c.written_at < now - _KEPT))
