"""Connections and transactions of the catalog, with retries when processes write at once or the server restarts.

SQLite: write-ahead log, waits of up to 30 s, foreign keys on; a writing transaction takes the write lock at its start (BEGIN
IMMEDIATE), so that it waits for the lock at the start instead of failing half way. Its commit waits for the disk, except where
what it writes can be made again (`awaits_disk`).

PostgreSQL: a writing transaction is serialisable, so that the same code loses no update there either; a transaction that
conflicts with another is run again. If the server restarts or a connection is lost, retries go on for a minute: a statement
that reads is repeated, a transaction that writes is run again unless its commit succeeded (see exactly_once.py).

Driver errors are converted to `LodestoneError`s.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from sqlalchemy import URL, Column, Connection, Engine, Row, Select, create_engine, event, make_url, text, tuple_
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, NoSuchModuleError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt, stop_after_delay, wait_random_exponential

from lodestone.catalog.database.exactly_once import Once
from lodestone.catalog.database.reader import RetryingReader, is_lost, patience, patiently
from lodestone.catalog.database.sql import PAGE, placed
from lodestone.catalog.database.unchanged import UnchangedFacts
from lodestone.errors import CatalogError, ConfigurationError, InvalidRequestError, LodestoneError, OutOfSpaceError

_T = TypeVar("_T")
_BUSY_SECONDS = 30
_SERVER_SECONDS = 60
_ATTEMPTS = 5
MOST_CONNECTIONS, _KEPT_CONNECTIONS = 15, 5
_FILE_CONNECTIONS = 18  # all are kept: to open one takes longer than most reads
# 40001: two transactions could not be serialised; 40P01: deadlock. 23505: a key exists, perhaps inserted by a transaction that
# overlapped with this one, which then sees the key when it is run again.
_CONFLICTS, _KEY_EXISTS = frozenset({"40001", "40P01"}), "23505"
_KEY_ATTEMPTS = 12  # as many writers may choose the same name, and each time only one of them gets it
_REFUSED = ("22", "54")  # classes of SQLSTATE: a value that its column cannot hold; a row that is too long for an index
_NO_TEXT = "cannot contain NUL"  # the driver's own words: it sends nothing, so the server has no code for it
# Options of libpq: a server that vanishes without closing its connections (its machine lost power) is noticed within a minute.
_POSTGRES = {
    "connect_timeout": 5,
    "keepalives_idle": 20,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 50_000,
}
_WRITES = "lodestone_writes"
_FULL, _NORMAL = "FULL", "NORMAL"  # whether SQLite waits for the disk at every commit, or at checkpoints only


def make_engine(location: str | Path, *, connections: int = MOST_CONNECTIONS) -> Engine:
    """Return a connection pool for a URL, or for an SQLite file given as a path.

    Args:
        location: The URL, or the path.
        connections: Connections to a server at most; a few of them are kept open.

    Raises:
        ConfigurationError: The URL cannot be read, its driver is missing, or it names an SQLite database in memory.
    """
    try:
        url = URL.create("sqlite", database=str(location)) if isinstance(location, Path) else make_url(location)
        if url.get_backend_name() != "sqlite":
            options = _POSTGRES if url.get_driver_name() in {"psycopg", "psycopg2"} else {}
            connect_args = {name: value for name, value in options.items() if name not in url.query}
            kept = min(_KEPT_CONNECTIONS, connections)
            return create_engine(
                url, pool_pre_ping=True, connect_args=connect_args, pool_size=kept, max_overflow=connections - kept
            )
        if not url.database or url.database == ":memory:":
            raise ConfigurationError(
                f"the catalog {str(location)!r} is not a file", hint="use sqlite:////absolute/path or leave it to the home"
            )
        engine = create_engine(url, connect_args={"timeout": _BUSY_SECONDS}, pool_size=_FILE_CONNECTIONS, max_overflow=0)
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError, ValueError) as error:  # ValueError: the port is no number
        raise ConfigurationError(
            f"the catalog's address cannot be used: {error}",
            hint="expected sqlite:////absolute/path, or postgresql+psycopg://… with the `postgres` extra installed",
        ) from error
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def make_reading_engine(path: Path) -> Engine | None:
    """Return a connection pool that reads an SQLite file without writing anything beside it; None where that is unsafe.

    Readers of a write-ahead log need its index, a file that they create. Where there is no room or no right to do so, the file
    can be read as it is, as long as its log is empty: then the last process closed it properly, and no process uses it.
    """
    log = path.with_name(f"{path.name}-wal")
    if not path.is_file() or (log.exists() and log.stat().st_size > 0):
        return None
    address = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        creator=lambda: sqlite3.connect(address, uri=True, check_same_thread=False),
        pool_size=8,
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def use_write_ahead_log(engine: Engine) -> None:
    """Switch an SQLite file to its write-ahead log, permanently. Must run alone (under the opening lock)."""
    if engine.dialect.name == "sqlite":
        with translated_errors(), engine.connect() as connection:
            raw: Any = connection.connection.dbapi_connection
            connection.rollback()  # the journal cannot change inside a transaction
            raw.execute("PRAGMA journal_mode=WAL")


def _prepare_sqlite(raw: Any, _record: Any) -> None:  # noqa: ANN401 (a DBAPI connection)
    raw.isolation_level = None  # sqlite3 would begin transactions on its own, and late; `_begin_sqlite` does
    raw.execute("PRAGMA foreign_keys=ON")
    raw.execute("PRAGMA secure_delete=ON")  # what is deleted or moved leaves no bytes behind in the file
    raw.execute(f"PRAGMA busy_timeout={_BUSY_SECONDS * 1000}")


def _begin_sqlite(connection: Connection) -> None:
    synchronous = connection.get_execution_options().get(_WRITES)
    if synchronous is None:
        connection.exec_driver_sql("BEGIN")
        return
    connection.exec_driver_sql(
        f"PRAGMA synchronous={synchronous}"
    )  # of this connection, until its next transaction that writes
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _is_locked(error: BaseException) -> bool:
    return isinstance(error, DBAPIError) and "locked" in str(error.orig)


def _is_conflict(error: BaseException) -> bool:
    return isinstance(error, DBAPIError) and getattr(error.orig, "sqlstate", None) in _CONFLICTS


def _is_existing_key(error: BaseException) -> bool:
    return isinstance(error, DBAPIError) and getattr(error.orig, "sqlstate", None) == _KEY_EXISTS


_NOT_WRITABLE = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN})


@contextmanager
def translated_errors() -> Iterator[None]:
    """Convert driver errors inside the block to `OutOfSpaceError`, `InvalidRequestError` or `CatalogError`.

    `InvalidRequestError` says that a value is at fault, and that the same without it would have been written or found.
    """
    try:
        yield
    except (OverflowError, UnicodeEncodeError) as error:  # the drivers' own: they send nothing
        raise _refused(error) from error
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
        if _NO_TEXT in reason:  # SQLite keeps such text
            raise InvalidRequestError(
                "PostgreSQL keeps no text that holds the character NUL", hint="leave the character out"
            ) from error
        if isinstance(error, DataError) or str(getattr(cause, "sqlstate", None) or "").startswith(_REFUSED):
            raise _refused(cause) from error
        if _is_locked(error):
            raise CatalogError(
                f"another process kept the catalog locked for over {_BUSY_SECONDS} s",
                hint="wait for the other lodestone command to finish, or stop it, and try again",
            ) from error
        if isinstance(error, DBAPIError) and is_lost(error):
            raise CatalogError(
                f"the catalog's server does not answer: {reason.strip()}",
                hint="see that it runs and can be reached, then run the same command again; what was finished is kept",
            ) from error
        if getattr(cause, "sqlite_errorcode", 0) & 0xFF in _NOT_WRITABLE:
            raise CatalogError(
                f"the catalog cannot be written: {reason.strip()}",
                hint="see that the home's folder is there and not on a read-only disk, and that you may write catalog.sqlite",
            ) from error
        raise CatalogError(
            f"the catalog failed: {reason.strip()}",
            hint="look into the server's log, and at `catalog_url`"
            if hasattr(cause, "sqlstate")
            else "`lodestone doctor` checks the file; if it is damaged, restore a backup (`lodestone backup restore`) or, "
            "without one, run `lodestone catalog rebuild`",
        ) from error


def _refused(cause: BaseException | None) -> InvalidRequestError:
    return InvalidRequestError(
        f"the catalog cannot hold a value: {(str(cause).strip().splitlines() or ['it is refused'])[0]}",
        hint="whole numbers of 64 bits, and text of Unicode characters of at most some thousands, can be kept",
    )


def _stop(state: RetryCallState) -> bool:
    error = state.outcome.exception() if state.outcome else None
    if error is not None and (is_lost(error) or _is_conflict(error)):
        return bool(stop_after_delay(patience(_SERVER_SECONDS))(state))
    return bool(stop_after_attempt(_KEY_ATTEMPTS if error is not None and _is_existing_key(error) else _ATTEMPTS)(state))


_TRANSIENT = (_is_locked, _is_conflict, _is_existing_key, is_lost)


class CatalogBase:
    """Short transactions over one engine, on which the parts of the catalog (images, slices, …) build. Thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._refusal: LodestoneError | None = None  # of changes, where the database can only be read
        self._facts: UnchangedFacts | None = None

    def _unchanged(self, name: str, read: Callable[[], _T]) -> _T:
        """Return what `read` returns; from an SQLite file it is read again only after a change of the file."""
        return read() if self._facts is None else self._facts.get(name, read)

    @contextmanager
    def _reading(self) -> Iterator[RetryingReader]:
        with translated_errors(), RetryingReader(self._engine, patience=_SERVER_SECONDS) as reader:
            yield reader

    def _streamed(
        self, query: Select[Any], key: Sequence[Column[Any]], *, after: Sequence[Any] = (), at_once: int = 0
    ) -> Iterator[Row[*tuple[Any, ...]]]:
        """Yield the rows of a query by a unique key, read a page at a time. No transaction stays open between pages.

        Args:
            query: Selects the key's columns, among others; neither sorted nor limited.
            key: Columns to sort by.
            after: Values of the key; the first row is the one after them.
            at_once: Rows a page; 0 for PAGE.
        """
        size = at_once or PAGE
        query = query.order_by(*key).limit(size)
        while True:
            beyond = [tuple_(*key) > placed(key, after)] if after else []
            with self._reading() as connection:
                page = connection.execute(query.where(*beyond)).all()
            yield from page
            if len(page) < size:
                return
            after = [getattr(page[-1], column.key) for column in key]

    def _at_one_moment(self, read: Callable[[Connection], _T]) -> _T:
        """Return the result of `read`, whose statements all see the same snapshot; run it again if the server went away."""

        def read_snapshot() -> _T:
            with self._engine.connect() as connection:
                if connection.dialect.name == "postgresql":
                    connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
                with connection.begin():
                    return read(connection)

        with translated_errors():
            return patiently(read_snapshot, seconds=_SERVER_SECONDS)

    def _write(
        self,
        change: Callable[[Connection], _T],
        *,
        attempt: Callable[[Callable[[Connection], _T]], _T] | None = None,
        awaits_disk: bool = True,
    ) -> _T:
        """Run `change` in one transaction, and again from its start after a conflict with another writer or a lost server.

        Args:
            change: Makes the change.
            attempt: Runs it in a transaction; None for the database's way.
            awaits_disk: False for what can be made again: an SQLite file then does not wait for the disk. Such a transaction
                survives kill -9. A power cut may take it back with all that followed it, up to the next one that waits, never
                in part and never out of order. A server always waits, because it may crash alone.
        """
        if attempt is None:
            once = self._engine.dialect.name == "postgresql"
            attempt = Once(self._engine).attempt if once else partial(self._attempt, awaits_disk=awaits_disk)
        retrying = Retrying(
            retry=retry_if_exception(lambda error: any(test(error) for test in _TRANSIENT)),
            stop=_stop,
            wait=wait_random_exponential(multiplier=0.1, max=1),
            reraise=True,
        )
        with translated_errors():
            result: _T = retrying(attempt, change)
            return result

    def _attempt(self, change: Callable[[Connection], _T], *, awaits_disk: bool = True) -> _T:
        if self._refusal is not None:
            raise self._refusal
        options = {_WRITES: _FULL if awaits_disk else _NORMAL}
        with self._engine.connect().execution_options(**options) as connection, connection.begin():
            return change(connection)

    def ping(self) -> None:
        """Return if the database answers; raise `CatalogError` at once if it does not."""
        with translated_errors(), RetryingReader(self._engine, patience=0) as reader:
            reader.execute(text("SELECT 1"))

    @contextmanager
    def held(self, what: str, *, worker: str) -> Iterator[str | None]:
        """Hold the lock `what` against clients on other machines.

        Yields None if the lock is held, and otherwise its holder (`host:pid`, or empty if unknown). An SQLite file has no
        clients on other machines, so no lock is taken for it.
        """
        if self._engine.dialect.name != "postgresql":
            yield None
            return

        from lodestone.catalog.database.server_lock import ServerLock

        lock = ServerLock(self._engine, what, worker=worker)
        try:
            with translated_errors():
                holder = None if lock.acquire() else lock.holder()
            yield holder
        finally:
            lock.release()

    def close(self) -> None:
        """Release all connections. Idempotent."""
        if self._facts is not None:
            self._facts.close()
        self._engine.dispose()
