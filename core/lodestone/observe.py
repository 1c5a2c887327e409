"""Who is told what happens, while it happens? Whoever observes the task that does it; by default nobody.

Metrics and traces belong to those who host the library: they surround a request with `observed_by`, and everything that the
request leads to, in its task, in tasks made there and in threads of `asyncio.to_thread`, finds them with `observer`. An
observer must not wait and must not raise.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from lodestone_schemas.api import SearchResponse


class QueryObserver(Protocol):
    """Is told about one query."""

    def about(self, query_id: str) -> None:
        """The query has been planned and has its id."""

    def stage(self, name: str) -> AbstractContextManager[object]:
        """Surrounds the work of a stage, in the task that does it."""

    def spent(self, name: str, seconds: float) -> None:
        """A stage took that long, up to now."""

    def text_answered(self, seconds: float) -> None:
        """The text pass has its answer, so long after the query came."""

    def finished(self, response: SearchResponse, *, guides: int) -> None:
        """The query has its last answer; up to `guides` guides were allowed."""


class Observer(Protocol):
    """Is told what a task does."""

    def query(self) -> QueryObserver:
        """A query begins."""

    def judged(self, *, relevant: int, irrelevant: int) -> None:
        """People called so many hits of an answer right and wrong."""


class Nobody:
    """Meets both contracts and does nothing."""

    def query(self) -> Nobody:
        """Nothing."""
        return self

    def about(self, query_id: str) -> None:
        """Nothing."""

    def stage(self, name: str) -> AbstractContextManager[object]:  # noqa: ARG002
        """Nothing."""
        return _NOTHING

    def spent(self, name: str, seconds: float) -> None:
        """Nothing."""

    def text_answered(self, seconds: float) -> None:
        """Nothing."""

    def finished(self, response: SearchResponse, *, guides: int) -> None:
        """Nothing."""

    def judged(self, *, relevant: int, irrelevant: int) -> None:
        """Nothing."""


_NOTHING: Final[AbstractContextManager[object]] = nullcontext()
_NOBODY: Final = Nobody()
_observer: ContextVar[Observer] = ContextVar("lodestone_observer", default=_NOBODY)


def observer() -> Observer:
    """Who observes this task."""
    return _observer.get()


@contextmanager
def observed_by(who: Observer) -> Iterator[None]:
    """Have `who` told what the block does."""
    token = _observer.set(who)
    try:
        yield
    finally:
        _observer.reset(token)
