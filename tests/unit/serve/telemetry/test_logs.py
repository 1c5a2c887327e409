"""A line of the log is found by the request, the query and whoever asked, and does not tell what was asked."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
import structlog
from starlette.types import Receive, Scope, Send
from tests.support.fake_services import FakeServices

from lodestone.clock import Stopwatch
from lodestone.config.serve import ServeSettings, TelemetrySettings
from lodestone_serve.auth.principal import Principal
from lodestone_serve.http.application import create_app
from lodestone_serve.http.request_context import RequestContextMiddleware
from lodestone_serve.telemetry.logs import LOG_NAME, log_to
from lodestone_serve.telemetry.metrics import Metrics
from lodestone_serve.telemetry.tracing import Tracing

Lines = Callable[[], list[dict]]


@pytest.fixture
def lines(tmp_path: Path) -> Iterator[Lines]:
    logger = logging.getLogger("lodestone")
    before = (logger.handlers, logger.propagate, logger.level)
    configured = structlog.get_config() if structlog.is_configured() else None
    log_to(tmp_path / "logs", "info")
    path = tmp_path / "logs" / LOG_NAME
    yield lambda: [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    for handler in logger.handlers:
        handler.close()
    logger.handlers, logger.propagate, logger.level = before
    structlog.reset_defaults()
    if configured is not None:
        structlog.configure(**configured)


def client(app: object) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1")


async def a_query(scope: Scope, receive: Receive, send: Send) -> None:
    scope.setdefault("state", {})["principal"] = Principal("key:nobody", frozenset())
    Stopwatch().observed.about("q1")
    logging.getLogger("lodestone.query").warning("guides are slow")
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def test_lines_of_a_request_carry_its_ids(lines: Lines) -> None:
    async with client(RequestContextMiddleware(a_query, metrics=Metrics(), tracing=Tracing(TelemetrySettings()))) as http:
        await http.get("/v1/search", headers={"X-Request-ID": "r1"})
    inner, last = lines()
    assert (inner["event"], inner["request_id"], inner["query_id"]) == ("guides are slow", "r1", "q1")
    assert (last["event"], last["request_id"], last["query_id"]) == ("request", "r1", "q1")
    assert (last["method"], last["status"], last["code"]) == ("GET", 200, "")
    assert last["milliseconds"] >= 0


async def test_whoever_asks_is_told_apart_and_not_named(lines: Lines) -> None:
    async with client(RequestContextMiddleware(a_query, metrics=Metrics(), tracing=Tracing(TelemetrySettings()))) as http:
        await http.get("/v1/search")
        await http.get("/v1/search")
    askers = [line["asker"] for line in lines() if line["event"] == "request"]
    assert len(set(askers)) == 1
    assert len(askers[0]) == 12
    assert "nobody" not in "".join(map(json.dumps, lines()))


async def test_words_are_not_logged_and_probes_neither(lines: Lines, tmp_path: Path) -> None:
    async with client(create_app(FakeServices(tmp_path), settings=ServeSettings(), token="t")) as http:
        for path in ("/healthz", "/readyz", "/metrics"):
            await http.get(path)
        assert (await http.post("/v1/search", json={"query": "my passport"})).status_code == 200
        assert (await http.get("/v1/nothing/here?secret=passport")).status_code == 404
    assert [(line["route"], line["code"]) for line in lines()] == [("/v1/search", ""), ("unmatched", "not_found")]
    assert "passport" not in json.dumps(lines())


async def test_an_embedded_app_prints_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    structlog.reset_defaults()
    async with client(create_app(FakeServices(tmp_path), settings=ServeSettings(), token="t")) as http:
        assert (await http.post("/v1/search", json={"query": "x"})).status_code == 200
    assert capsys.readouterr().out == ""


def test_lines_go_to_standard_error_where_it_is_collected(
    lines: Lines, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log_to(tmp_path / "elsewhere", "warning", on_stderr=True)
    logging.getLogger("lodestone.store").warning("the store is slow: %s", "2 s")
    logging.getLogger("lodestone.store").info("not at this level")
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["event"] == "the store is slow: 2 s"
    assert not (tmp_path / "elsewhere").exists()
