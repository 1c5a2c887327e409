"""A trace holds together: request, query, stages, calls of other processes. Without a collector, tracing costs nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.types import Receive, Scope, Send
from tests.support.fake_services import FakeServices

from lodestone.clock import Stopwatch
from lodestone.config.serve import ServeSettings, TelemetrySettings
from lodestone.errors import ConfigurationError
from lodestone_schemas.api import SearchResponse
from lodestone_serve.http.application import create_app
from lodestone_serve.http.request_context import RequestContextMiddleware
from lodestone_serve.telemetry import tracing as tracing_module
from lodestone_serve.telemetry.metrics import Metrics
from lodestone_serve.telemetry.tracing import Tracing, attached, carrier, trace_id

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
UNSAMPLED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
RESPONSE = SearchResponse(query_id="q1", stage="guides", hits=[], fusion="rrf", space_weights={}, timings_ms={})


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracing(spans: InMemorySpanExporter) -> Iterator[Tracing]:
    made = Tracing(TelemetrySettings(), exporter=spans)
    yield made
    made.close()


def finished(tracing: Tracing, spans: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    tracing.close()
    return {span.name: span for span in spans.get_finished_spans()}


def parent_of(found: dict[str, ReadableSpan], name: str) -> str:
    parent = found[name].parent
    return next(other for other, span in found.items() if parent and span.context.span_id == parent.span_id)


async def a_query(scope: Scope, receive: Receive, send: Send) -> None:
    """An app that asks as the engine does: stages one by one, one inside another, and one that is told afterwards."""
    stopwatch = Stopwatch()
    stopwatch.observed.about("q1")
    with stopwatch.stage("encode"):
        scope["carried"] = await asyncio.to_thread(carrier)
    with stopwatch.stage("guides"), stopwatch.stage("search"):
        pass
    stopwatch.add("generate", 0.5)
    stopwatch.observed.text_answered(0.1)
    stopwatch.observed.finished(RESPONSE, guides=2)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def ask(app: RequestContextMiddleware, **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1") as http:
        return await http.get("/v1/search", headers=headers)


async def test_a_request_holds_its_query_and_that_its_stages(tracing: Tracing, spans: InMemorySpanExporter) -> None:
    await ask(RequestContextMiddleware(a_query, metrics=Metrics(), tracing=tracing), traceparent=PARENT)
    found = finished(tracing, spans)
    request = found["GET unmatched"]
    assert format(request.context.trace_id, "032x") == PARENT.split("-")[1], "the client's trace goes on"
    assert request.attributes["http.response.status_code"] == 200
    assert parent_of(found, "query") == "GET unmatched"
    assert found["query"].attributes["lodestone.query_id"] == "q1"
    assert {name: parent_of(found, name) for name in ("encode", "guides", "search", "generate")} == {
        "encode": "query", "guides": "query", "search": "guides", "generate": "query",
    }  # fmt: skip
    assert found["generate"].end_time - found["generate"].start_time == pytest.approx(5e8, rel=1e-3)


async def test_a_trace_goes_on_in_another_process(tracing: Tracing, spans: InMemorySpanExporter) -> None:
    carried = {}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await a_query(scope, receive, send)
        carried.update(scope["carried"])

    await ask(RequestContextMiddleware(app, metrics=Metrics(), tracing=tracing))
    there = InMemorySpanExporter()
    other = Tracing(TelemetrySettings(), service="encoders", exporter=there)
    with other.received(carried, "Encoders.encode_texts"):
        assert trace_id()
    assert trace_id() == ""
    here, span = finished(tracing, spans), finished(other, there)["Encoders.encode_texts"]
    assert span.parent.span_id == here["encode"].context.span_id
    assert span.context.trace_id == here["encode"].context.trace_id


async def test_who_asked_decides_whether_it_is_traced(spans: InMemorySpanExporter) -> None:
    never = Tracing(TelemetrySettings(sample=0.0), exporter=spans)
    app = RequestContextMiddleware(a_query, metrics=Metrics(), tracing=never)
    await ask(app)
    await ask(app, traceparent=UNSAMPLED)
    await ask(app, traceparent="nonsense")
    await ask(app, traceparent=PARENT)
    never.close()
    assert len({span.context.trace_id for span in spans.get_finished_spans()}) == 1


async def test_a_query_that_fails_ends_its_span(tracing: Tracing, spans: InMemorySpanExporter) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        with Stopwatch().stage("encode"):
            raise RuntimeError("no model")

    assert (await ask(RequestContextMiddleware(app, metrics=Metrics(), tracing=tracing))).status_code == 500
    found = finished(tracing, spans)
    assert set(found) == {"GET unmatched", "query", "encode"}
    assert found["encode"].events[0].attributes["exception.message"] == "no model"


async def test_probes_are_not_traced(tracing: Tracing, spans: InMemorySpanExporter, tmp_path) -> None:
    app = create_app(FakeServices(tmp_path), settings=ServeSettings(), token="t", tracing=tracing)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1") as http:
        for path in ("/healthz", "/readyz", "/metrics", "/v1/status"):
            assert (await http.get(path)).status_code == 200
    assert set(finished(tracing, spans)) == {"GET /v1/status"}


async def test_words_of_queries_are_in_no_span(tracing: Tracing, spans: InMemorySpanExporter, tmp_path) -> None:
    app = create_app(FakeServices(tmp_path), settings=ServeSettings(), token="t", tracing=tracing)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1") as http:
        assert (await http.post("/v1/search", json={"query": "my passport"})).status_code == 200
    told = [span.to_json() for span in finished(tracing, spans).values()]
    assert told
    assert not any("passport" in one for one in told)


async def test_without_a_collector_nothing_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing_module, "_provider", lambda *_, **__: pytest.fail("a provider was made"))
    off = Tracing(TelemetrySettings())
    assert not off.on
    metrics = Metrics()
    assert (await ask(RequestContextMiddleware(a_query, metrics=metrics, tracing=off), traceparent=PARENT)).status_code == 200
    assert metrics.registry.get_sample_value("lodestone_text_pass_seconds_count") == 1, "metrics are there all the same"
    with off.received({"traceparent": PARENT}, "nobody"), off.span("nothing") as span:
        assert span is None
        assert carrier() == {}


def test_an_empty_carrier_changes_nothing() -> None:
    for given in ({}, {"traceparent": "nonsense"}):
        with attached(given):
            assert trace_id() == ""


def test_a_collector_without_its_packages_is_a_configuration_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(ConfigurationError, match=r"http://collector:4318.*not installed") as error:
        Tracing(TelemetrySettings(otlp_endpoint="http://collector:4318"))
    assert "lodestone-search[otel]" in error.value.hint


@pytest.fixture
def collector() -> Iterator[tuple[str, list[ExportTraceServiceRequest]]]:
    got: list[ExportTraceServiceRequest] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.path == "/v1/traces"
            got.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", got
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
async def sent(collector: tuple[str, list[ExportTraceServiceRequest]]) -> list[ExportTraceServiceRequest]:
    endpoint, got = collector
    tracing = Tracing(TelemetrySettings(otlp_endpoint=endpoint), service="ingress")
    await ask(RequestContextMiddleware(a_query, metrics=Metrics(), tracing=tracing))
    await asyncio.to_thread(tracing.close)
    return got


async def test_spans_reach_a_collector_by_otlp(sent: list[ExportTraceServiceRequest]) -> None:
    resources = [one for request in sent for one in request.resource_spans]
    assert {a.value.string_value for one in resources for a in one.resource.attributes if a.key == "service.name"} == {
        "ingress"
    }
    names = {span.name for one in resources for scope in one.scope_spans for span in scope.spans}
    assert names == {"GET unmatched", "query", "encode", "guides", "search", "generate"}


def test_serves_own_tracing_takes_the_same_collector(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    from ray.serve._private.tracing_utils import _load_span_processors

    monkeypatch.setenv("LODESTONE_HOME", str(tmp_path))
    monkeypatch.setenv("LODESTONE_SERVE__TELEMETRY__OTLP_ENDPOINT", "http://127.0.0.1:9")
    made = _load_span_processors("lodestone_serve.telemetry.tracing:span_processors", "unused")
    assert len(made) == 1
    for processor in made:
        processor.shutdown()
