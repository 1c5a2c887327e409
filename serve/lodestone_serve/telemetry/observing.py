"""Observer of the query engine: it turns the engine's events into metrics and spans, and puts the query's id into log lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

import structlog

from lodestone.observe import observed_by
from lodestone_schemas.api import SearchResponse
from lodestone_serve.telemetry.metrics import Metrics
from lodestone_serve.telemetry.tracing import QUERY_ID, Tracing

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_NOTHING: Final[AbstractContextManager[None]] = nullcontext()


class RequestObserver:
    """Implements `lodestone.observe.Observer` for the queries of one request."""

    def __init__(self, metrics: Metrics, tracing: Tracing) -> None:
        self._metrics = metrics
        self._tracing = tracing
        self._queries: list[_QueryObserver] = []

    def query(self) -> _QueryObserver:
        """Return the observer of a query that begins."""
        query_observer = _QueryObserver(self._metrics, self._tracing)
        if self._tracing.on:
            self._queries.append(query_observer)
        return query_observer

    def judged(self, *, relevant: int, irrelevant: int) -> None:
        """Count hits that were called right and wrong."""
        self._metrics.judged.labels("relevant").inc(relevant)
        self._metrics.judged.labels("irrelevant").inc(irrelevant)

    def close(self) -> None:
        """End the spans of queries that did not end themselves, because they failed or were cancelled."""
        for query in self._queries:
            query.end()


class _QueryObserver:
    """Implements `lodestone.observe.QueryObserver` by metrics and spans."""

    def __init__(self, metrics: Metrics, tracing: Tracing) -> None:
        self._metrics = metrics
        self._tracing = tracing
        self._span = tracing.begin("query")
        # The query's own span is never the current one, since a query runs between two `yield`s of its events. So the span that
        # is current at its beginning tells whether a stage is the query's own or lies inside another stage.
        self._outside = _current() if self._span is not None else None

    def about(self, query_id: str) -> None:
        structlog.contextvars.bind_contextvars(query_id=query_id)
        if self._span is not None:
            self._span.set_attribute(QUERY_ID, query_id)

    def stage(self, name: str) -> AbstractContextManager[object]:
        return _NOTHING if self._span is None else self._tracing.under(self._parent(self._span), name)

    def spent(self, name: str, seconds: float) -> None:
        if self._span is not None:
            self._tracing.past(self._parent(self._span), name, seconds)

    def text_answered(self, seconds: float) -> None:
        self._metrics.text_pass_seconds.observe(seconds)

    def finished(self, response: SearchResponse, *, guides: int) -> None:
        if response.stage != "picture":
            self._metrics.observe_saved(response, guides=guides)
        if self._span is not None:
            self._span.set_attribute("lodestone.stage", response.stage)
            self._span.set_attribute("lodestone.hits", len(response.hits))
            self._span.set_attribute("lodestone.guides", len(response.guides))
            self._span.set_attribute("lodestone.cost", response.cost)
            self._span.set_attribute("lodestone.dropped", list(response.dropped))
            self.end()

    def end(self) -> None:
        """End the query's span; further calls do nothing."""
        if self._span is not None and self._span.is_recording():
            self._span.end()

    def _parent(self, own: Span) -> Span:
        current = _current()
        return own if current is self._outside else current


@contextmanager
def observed(metrics: Metrics, tracing: Tracing) -> Iterator[None]:
    """Count and trace the queries of the block."""
    observer = RequestObserver(metrics, tracing)
    try:
        with observed_by(observer):
            yield
    finally:
        observer.close()


def _current() -> Span:
    from opentelemetry.trace import get_current_span

    return get_current_span()
