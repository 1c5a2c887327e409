"""Locks against processes on other machines, as advisory locks of the catalog's PostgreSQL.

The lock belongs to a connection of its own and is released when that is lost: with its process, with its machine (noticed
within a minute), or with the server. A restart of the server does not stop the work: a thread notices it, and takes the lock
again when the server is back. A process that took the lock in between has marked the earlier run as interrupted, which that
run's heartbeat reports.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from contextlib import suppress
from typing import Final

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from lodestone.catalog.database.reader import is_lost

CHECK_SECONDS: Final = 5.0
_NAME = "lodestone "
_WORKER_CHARS = 63 - len(_NAME)  # PostgreSQL cuts a connection's name to 63 characters
_log = logging.getLogger(__name__)

_HOLDER = text(
    "SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid "
    "WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND CAST(l.classid AS bigint) = :high "
    "AND CAST(l.objid AS bigint) = :low AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


class ServerLock:
    """One advisory lock; errors are the driver's.

    Args:
        engine: Connection pool of a PostgreSQL database.
        name: Name of what is locked.
        worker: Holder of the lock (`host:pid`), shown to processes that find it taken.
        seconds: Seconds between two checks of the connection.
    """

    def __init__(self, engine: Engine, name: str, *, worker: str, seconds: float = CHECK_SECONDS) -> None:
        self._engine = engine
        self._name = name
        self._worker = worker
        self._seconds = seconds
        self._key = int.from_bytes(hashlib.sha256(f"lodestone {name}".encode()).digest()[:8], "big", signed=True)
        self._connection: Connection | None = None
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name=f"lock of {name}", daemon=True)

    def acquire(self) -> bool:
        """Take the lock without waiting; return False if another process holds it."""
        if not self._take():
            return False
        self._watcher.start()
        return True

    def release(self) -> None:
        """Release the lock. Idempotent; a no-op if it was never taken."""
        self._over.set()
        if self._watcher.is_alive():
            self._watcher.join()
        if self._connection is not None:
            with suppress(DBAPIError):  # the lock is free at once, because a closed session ends only a moment later
                self._connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": self._key})
        self._drop()

    def holder(self) -> str:
        """Return the holder of the lock (`host:pid`); empty if the lock is free, or its holder is unknown."""
        with self._engine.connect() as connection:
            halves = {"high": (self._key >> 32) & 0xFFFFFFFF, "low": self._key & 0xFFFFFFFF}
            name = connection.execute(_HOLDER, halves).scalar() or ""
        return str(name).removeprefix(_NAME)

    def _take(self) -> bool:
        connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        connection.detach()  # removed from the pool, so that closing it ends the session, and the lock with it
        self._connection = connection
        settings = {"application_name": _NAME + self._worker[-_WORKER_CHARS:]}
        # a holder whose machine lost power must not keep the lock for the two hours that TCP waits by default
        settings |= {"tcp_keepalives_idle": "20", "tcp_keepalives_interval": "10", "tcp_keepalives_count": "3"}
        for setting, value in settings.items():
            connection.execute(text("SELECT set_config(:setting, :value, false)"), {"setting": setting, "value": value})
        taken = bool(connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": self._key}).scalar())
        if not taken:
            self._drop()
        return taken

    def _watch(self) -> None:
        while not self._over.wait(self._seconds):
            try:
                if self._connection is None:
                    if not self._take():
                        _log.warning("the lock of %s is held by %s now", self._name, self.holder() or "another process")
                    else:
                        _log.info("the lock of %s was taken again", self._name)
                else:
                    self._connection.execute(text("SELECT 1"))
            except DBAPIError as error:
                if not is_lost(error):
                    raise
                _log.warning("the connection that holds %s was lost: %s", self._name, error.orig)
                self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(DBAPIError):  # (the server may be gone too)
                connection.close()
