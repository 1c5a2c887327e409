"""Tracing of requests across processes with OpenTelemetry: spans for request, query, its stages and calls of deployments.

When it is off (no `serve.telemetry.otlp_endpoint`), it costs one attribute check. A trace crosses a handle as an explicit
argument: `carrier()` on the caller's side, `attached(carrier)` on the other. Words of queries and names of files never get into
a span.
"""

from __future__ import annotations

import functools
import importlib
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from lodestone import __version__
from lodestone.config.serve import TelemetrySettings
from lodestone.errors import ConfigurationError

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span, Tracer

Carrier = dict[str, str]
"""W3C trace context: `traceparent`, perhaps `tracestate`. It is empty where nothing is traced."""

QUERY_ID: Final = "lodestone.query_id"
_NOTHING: Final[AbstractContextManager[None]] = nullcontext()
_TRACES: Final = "/v1/traces"
_FLUSH_MS: Final = 5_000


class Tracing:
    """Makes the spans of one process.

    Args:
        settings: The collector, and the share of requests to trace if the client has not decided it.
        service: `service.name` of the spans.
        exporter: Takes the spans instead of the collector named by the settings.

    Raises:
        ConfigurationError: a collector is named and the packages that send to it are missing.
    """

    def __init__(
        self, settings: TelemetrySettings, *, service: str = "lodestone", exporter: SpanExporter | None = None
    ) -> None:
        self._provider: TracerProvider | None = None
        self._tracer: Tracer
        if exporter is None and settings.otlp_endpoint is not None:
            exporter = _otlp_exporter(settings.otlp_endpoint)
        if exporter is not None:
            self._provider = _provider(exporter, service=service, sample=settings.sample)
            self._tracer = self._provider.get_tracer("lodestone", __version__)

    @property
    def on(self) -> bool:
        """Return whether anything is traced."""
        return self._provider is not None

    def close(self) -> None:
        """Send the remaining spans. Blocks for a few seconds at most; idempotent."""
        provider, self._provider = self._provider, None
        if provider is not None:
            provider.force_flush(_FLUSH_MS)
            provider.shutdown()

    def request(self, name: str, headers: Mapping[str, str]) -> AbstractContextManager[Span | None]:
        """Return a context that surrounds the handling of a request; everything in the block is part of its trace.

        The parent is the current span (Serve's own, where its tracing is on), else the one that the client's `traceparent`
        names.
        """
        if self._provider is None:
            return _NOTHING
        from opentelemetry import trace

        context = None if trace.get_current_span().get_span_context().is_valid else _extracted(headers)
        return self._tracer.start_as_current_span(name, context=context, kind=trace.SpanKind.SERVER)

    def span(self, name: str, **attributes: str | float | bool) -> AbstractContextManager[Span | None]:
        """Return a context that surrounds a piece of work in one task; its span is a child of the current one."""
        if self._provider is None:
            return _NOTHING
        return self._tracer.start_as_current_span(name, attributes=attributes)

    @contextmanager
    def received(self, carrier: Mapping[str, str] | None, name: str) -> Iterator[None]:
        """Surround the work for a call from another process, which passed its `carrier()`."""
        if self._provider is None or not carrier:
            yield
            return
        with attached(carrier), self.span(name):
            yield

    def begin(self, name: str) -> Span | None:
        """Start a child of the current span that does not become the current one: pass it to `under`, and end it.

        Returns None where nothing is recorded: tracing is off, or the request is not sampled.
        """
        if self._provider is None:
            return None
        span = self._tracer.start_span(name)
        return span if span.is_recording() else None

    def under(self, parent: Span, name: str) -> AbstractContextManager[Span | None]:
        """Return a context that surrounds a piece of work that belongs to `parent`."""
        if self._provider is None:
            return _NOTHING
        from opentelemetry.trace import set_span_in_context

        return self._tracer.start_as_current_span(name, context=set_span_in_context(parent))

    def past(self, parent: Span, name: str, seconds: float) -> None:
        """Record a piece of work of `parent` that ends now and took `seconds`."""
        if self._provider is None:
            return
        from opentelemetry.trace import set_span_in_context

        now = time.time_ns()
        span = self._tracer.start_span(name, context=set_span_in_context(parent), start_time=now - int(seconds * 1e9))
        span.end(now)


def carrier() -> Carrier:
    """Return the trace that this task is part of, for another process; empty where nothing is traced."""
    api = _api()
    if api is None or not api.get_current_span().get_span_context().is_valid:
        return {}
    headers: Carrier = {}
    _propagator().inject(headers)
    return headers


@contextmanager
def attached(carrier: Mapping[str, str]) -> Iterator[None]:
    """Make the block part of the trace that `carrier` names; an empty or invalid one changes nothing."""
    if not carrier or _api() is None:
        yield
        return
    from opentelemetry import context

    token = context.attach(_extracted(carrier))
    try:
        yield
    finally:
        context.detach(token)


def trace_id() -> str:
    """Return the id of the trace that this task is part of, 32 hexadecimal digits; empty where nothing is traced."""
    api = _api()
    context = None if api is None else api.get_current_span().get_span_context()
    return format(context.trace_id, "032x") if context is not None and context.is_valid else ""


def span_processors() -> list[SpanProcessor]:
    """Return span processors for Ray Serve's own tracing of proxies and handles, with the same collector.

    Set `RAY_SERVE_TRACING_EXPORTER_IMPORT_PATH=lodestone_serve.telemetry.tracing:span_processors`; Serve passes no arguments,
    so the collector is taken from Lodestone's settings.
    """
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from lodestone.config.settings import Settings

    endpoint = Settings().serve.telemetry.otlp_endpoint
    return [] if endpoint is None else [BatchSpanProcessor(_otlp_exporter(endpoint))]


@functools.cache
def _api() -> Any:  # noqa: ANN401 - opentelemetry is optional
    try:
        return importlib.import_module("opentelemetry.trace")
    except ImportError:
        return None


@functools.cache
def _propagator() -> Any:  # noqa: ANN401 - as above
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator()


def _extracted(headers: Mapping[str, str]) -> Context:
    context: Context = _propagator().extract(headers)
    return context


def _otlp_exporter(endpoint: str) -> SpanExporter:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise ConfigurationError(
            f"traces cannot be sent to {endpoint!r}: {error.name} is not installed",
            hint="pip install 'lodestone-search[otel]', or leave serve.telemetry.otlp_endpoint unset",
            setting="serve.telemetry.otlp_endpoint",
        ) from error
    base = endpoint.rstrip("/")
    return OTLPSpanExporter(endpoint=base if base.endswith(_TRACES) else base + _TRACES)


def _provider(exporter: SpanExporter, *, service: str, sample: float) -> TracerProvider:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio

    # Not the process's global provider: that one may be Serve's.
    provider = TracerProvider(
        resource=Resource.create({"service.name": service, "service.version": __version__}),
        sampler=ParentBasedTraceIdRatio(sample),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider
