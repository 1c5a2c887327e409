"""Reading statements that survive a restart of the server, because they are repeated on another connection.

On PostgreSQL each statement of a reading connection sees the newest data (read committed), and all its rows have arrived when
it returns. So repeating a statement is the same as running it a little later. SQLite has no connection that could be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self, TypeVar, TypeVarTuple, overload

from sqlalchemy import Connection, CursorResult, Engine, Executable
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.selectable import TypedReturnsRows
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")
# Classes and codes of errors of a lost connection or of a server that stops or starts: connection exceptions, shutdown by the
# administrator, shutdown after a crash, starting up.
_LOST_CLASS, _LOST_CODES = "08", frozenset({"57P01", "57P02", "57P03"})


def is_lost(error: BaseException) -> bool:
    """Return True if a server could not be reached, or its connection was lost: the same call may succeed on a new one."""
    if not isinstance(error, DBAPIError):
        return False
    if error.connection_invalidated:
        return True
    code = getattr(error.orig, "sqlstate", None)
    if code is not None:
        return code.startswith(_LOST_CLASS) or code in _LOST_CODES
    # psycopg gives no code if no server answered, if it refused the connection, or if the connection broke during a statement
    if not type(error.orig).__module__.startswith("psycopg") or type(error.orig).__name__ not in _UNANSWERED:
        return False
    return not any(reason in str(error.orig) for reason in _REFUSED)


_UNANSWERED = frozenset({"OperationalError", "ConnectionTimeout"})
# Waiting does not help with these errors. (In another language, they are retried in vain, and then reported.)
_REFUSED = (
    "authentication failed",
    "does not exist",
    "no pg_hba.conf entry",
    "no password supplied",
    "Name or service not known",
)


_patience: ContextVar[float] = ContextVar("patience with the catalog's server", default=float("inf"))


@contextmanager
def waiting_at_most(seconds: float) -> Iterator[None]:
    """Let calls of the catalog inside the block wait this long for a server that does not answer: somebody waits for an answer.

    Other calls wait for a minute, so that long work survives a restart of the server.
    """
    token = _patience.set(seconds)
    try:
        yield
    finally:
        _patience.reset(token)


def patience(usual: float) -> float:
    """Return the seconds that a call waits for a server that does not answer: the usual ones, or fewer."""
    return min(usual, _patience.get())


def patiently(act: Callable[[], _T], *, seconds: float) -> _T:
    """Return the result of `act`, which is tried again for up to `seconds` while its server cannot be reached."""
    retrying = Retrying(
        retry=retry_if_exception(is_lost),
        stop=stop_after_delay(patience(seconds)),
        wait=wait_random_exponential(multiplier=0.1, max=1),
        reraise=True,
    )
    result: _T = retrying(act)
    return result


class RetryingReader:
    """Reading connection, used as a context manager. Errors are the driver's.

    Args:
        engine: Connection pool of the database.
        patience: Seconds to wait for a server that does not answer.
    """

    def __init__(self, engine: Engine, *, patience: float) -> None:
        self._engine = engine
        self._patience = min(patience, _patience.get())
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        self._retrying(self._connected)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._drop()

    @overload
    def execute(self, statement: TypedReturnsRows[*_Ts], parameters: Mapping[str, Any] | None = None) -> CursorResult[*_Ts]: ...
    @overload
    def execute(self, statement: Executable, parameters: Mapping[str, Any] | None = None) -> CursorResult[*tuple[Any, ...]]: ...
    def execute(self, statement: Executable, parameters: Mapping[str, Any] | None = None) -> CursorResult[*tuple[Any, ...]]:
        """Run one statement that reads, and return its rows."""
        return self._retrying(lambda: self._connected().execute(statement, parameters))

    def _retrying(self, act: Callable[[], _T]) -> _T:
        try:
            return act()  # nearly always: preparing to retry takes longer than many a statement
        except DBAPIError as error:
            if not is_lost(error) or not self._patience:
                raise
            self._drop()
        retrying = Retrying(
            retry=retry_if_exception(is_lost),
            stop=stop_after_delay(self._patience),
            wait=wait_random_exponential(multiplier=0.1, max=1),
            before_sleep=lambda _: self._drop(),
            reraise=True,
        )
        result: _T = retrying(act)
        return result

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = self._engine.connect()
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(DBAPIError):  # (it is lost, or its rows were all read)
                connection.close()
