"""Observers of queries and feedback, which hosts use for metrics and traces; by default there is none.

Metrics and traces belong to the host of the library. It wraps a request in `observed_by`, and all code that runs for the
request gets the observer from `observer`: in its task, in tasks created there, and in threads of `asyncio.to_thread`. An
observer must not block and must not raise.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from lodestone_schemas.api import SearchResponse


class QueryObserver(Protocol):
    """Observer that is notified about one query."""

    def about(self, query_id: str) -> None:
        """Record that the query has been planned and has this id."""

    def stage(self, name: str) -> AbstractContextManager[object]:
        """Return a context manager that surrounds the work of a stage, in the task that does it."""

    def spent(self, name: str, seconds: float) -> None:
        """Record that a stage took `seconds`, ending now."""

    def text_answered(self, seconds: float) -> None:
        """Record that the text pass has answered, `seconds` after the query arrived."""

    def finished(self, response: SearchResponse, *, guides: int) -> None:
        """Record that the query has its final answer; up to `guides` guides were allowed."""


class Observer(Protocol):
    """Observer that is notified about what a task does."""

    def query(self) -> QueryObserver:
        """Record that a query begins, and return its observer."""

    def judged(self, *, relevant: int, irrelevant: int) -> None:
        """Record how many hits of an answer users marked as relevant and irrelevant."""


class Nobody:
    """Observer of both kinds that ignores every event."""

    def query(self) -> Nobody:
        """Return this object, which ignores the query's events too."""
        return self

    def about(self, query_id: str) -> None:
        """Ignore the query's id."""

    def stage(self, name: str) -> AbstractContextManager[object]:  # noqa: ARG002
        """Return a context manager that does nothing."""
        return _NOTHING

    def spent(self, name: str, seconds: float) -> None:
        """Ignore the time of a stage."""

    def text_answered(self, seconds: float) -> None:
        """Ignore the time of the text pass."""

    def finished(self, response: SearchResponse, *, guides: int) -> None:
        """Ignore the final answer."""

    def judged(self, *, relevant: int, irrelevant: int) -> None:
        """Ignore the counts of judgements."""


_NOTHING: Final[AbstractContextManager[object]] = nullcontext()
_NOBODY: Final = Nobody()
_observer: ContextVar[Observer] = ContextVar("lodestone_observer", default=_NOBODY)


def observer() -> Observer:
    """Return the observer of the current task."""
    return _observer.get()


@contextmanager
def observed_by(who: Observer) -> Iterator[None]:
    """Notify `who` about everything that the block does."""
    token = _observer.set(who)
    try:
        yield
    finally:
        _observer.reset(token)
