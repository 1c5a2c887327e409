"""How does the catalog reach its database, and what happens when two processes write at once?

SQLite: write-ahead log, 30 s of patience, foreign keys on; a writing transaction takes the write lock at its start (BEGIN
IMMEDIATE), so that it waits for its turn instead of failing half way. Other databases: their own defaults. Driver errors leave
here as `LodestoneError`s.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from lodestone.errors import CatalogError, ConfigurationError, OutOfSpaceError

_T = TypeVar("_T")
_BUSY_SECONDS = 30
_ATTEMPTS = 5
_WRITES = "lodestone_writes"


def make_engine(location: str | Path) -> Engine:
    """A connection pool for a URL, or for an SQLite file given as a path.

    Raises:
        ConfigurationError: the URL cannot be read, its driver is missing, or it names an SQLite database in memory.
    """
    try:
        url = URL.create("sqlite", database=str(location)) if isinstance(location, Path) else make_url(location)
        if url.get_backend_name() != "sqlite":
            return create_engine(url, pool_pre_ping=True)
        if not url.database or url.database == ":memory:":
            raise ConfigurationError(
                f"the catalog {str(location)!r} is not a file", hint="use sqlite:////absolute/path or leave it to the home"
            )
        engine = create_engine(url, connect_args={"timeout": _BUSY_SECONDS}, pool_size=8)
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
        raise ConfigurationError(
            f"the catalog's address cannot be used: {error}",
            hint="expected sqlite:////absolute/path, or postgresql+psycopg://… with the `postgres` extra installed",
        ) from error
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def use_write_ahead_log(engine: Engine) -> None:
    """Switch an SQLite file to its write-ahead log, which it then remembers. Call it alone (under the opening lock)."""
    if engine.dialect.name == "sqlite":
        with translated_errors(), engine.connect() as connection:
            raw: Any = connection.connection.dbapi_connection
            connection.rollback()  # the journal cannot change inside a transaction
            raw.execute("PRAGMA journal_mode=WAL")


def _prepare_sqlite(raw: Any, _record: Any) -> None:  # noqa: ANN401 (a DBAPI connection)
    raw.isolation_level = None  # sqlite3 would begin transactions on its own, and late; `_begin_sqlite` does
    raw.execute("PRAGMA foreign_keys=ON")
    raw.execute(f"PRAGMA busy_timeout={_BUSY_SECONDS * 1000}")


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _is_locked(error: BaseException) -> bool:
    return isinstance(error, DBAPIError) and "locked" in str(error.orig)


@contextmanager
def translated_errors() -> Iterator[None]:
    """Turn driver errors into `OutOfSpaceError` or `CatalogError`."""
    try:
        yield
    except PoolTimeoutError as error:  # all connections wait for the lock that another process keeps
        raise CatalogError(
            "the catalog is busy: no connection was free in time",
            hint="wait for the other lodestone command to finish, or stop it, and try again",
        ) from error
    except (DBAPIError, sqlite3.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        reason = str(cause)
        no_room_to_open = getattr(cause, "sqlite_errorcode", None) == sqlite3.SQLITE_IOERR_SHMSIZE  # its text: disk I/O error
        if "disk is full" in reason or "No space left" in reason or no_room_to_open:
            raise OutOfSpaceError(
                "no space left for the catalog",
                hint="free some space and run the same command again; what was finished is kept",
            ) from error
        if _is_locked(error):
            raise CatalogError(
                f"another process kept the catalog locked for over {_BUSY_SECONDS} s",
                hint="wait for the other lodestone command to finish, or stop it, and try again",
            ) from error
        raise CatalogError(
            f"the catalog failed: {reason}",
            hint="`lodestone doctor` checks the file; if it is damaged, restore catalog.sqlite from a backup",
        ) from error


class CatalogBase:
    """Short transactions over one engine; the catalog's subjects (images, slices, …) build on it. Thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with translated_errors(), self._engine.connect() as connection:
            yield connection

    def _write(self, change: Callable[[Connection], _T]) -> _T:
        """Run `change` in one transaction, again from its start if another writer was in the way."""
        retrying = Retrying(
            retry=retry_if_exception(_is_locked),
            stop=stop_after_attempt(_ATTEMPTS),
            wait=wait_random_exponential(multiplier=0.1, max=2),
            reraise=True,
        )
        with translated_errors():
            done: _T = retrying(self._attempt, change)
            return done

    def _attempt(self, change: Callable[[Connection], _T]) -> _T:
        with self._engine.connect().execution_options(**{_WRITES: True}) as connection, connection.begin():
            return change(connection)

    def _one_at_a_time(self, connection: Connection, what: str) -> None:
        """Let one transaction at a time do `what`, the others waiting for its end; SQLite does so with all writes."""
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(hashtextextended(:what, 0))"), {"what": f"lodestone {what}"})

    def ping(self) -> None:
        """Return when the database answers; raise `CatalogError` when it does not."""
        with self._reading() as connection:
            connection.execute(text("SELECT 1"))

    def close(self) -> None:
        """Release all connections. Idempotent."""
        self._engine.dispose()
