"""A service in one process says why it does not start and why it ended, keeps deadlines, and leaves when it is told to."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
import uvicorn
from tests.support.home import settings_for

from lodestone.config.settings import Settings
from lodestone.errors import ConfigurationError, LodestoneError, ServiceUnavailableError
from lodestone.services.corpora import CorpusUseCases
from lodestone.services.search import SearchUseCases
from lodestone.services.sessions.serving import ServingSession
from lodestone_serve.hosting import one_process as one_process_module
from lodestone_serve.hosting.answering.messages import Observed
from lodestone_serve.hosting.listening import reserve, url_of
from lodestone_serve.hosting.one_process import one_process
from lodestone_serve.telemetry.metrics import Metrics
from lodestone_serve.telemetry.sampling import Sampler

TOKEN = "a-token-of-tests"


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    before, logger = structlog.get_config(), logging.getLogger("lodestone")
    handlers, propagate, level = logger.handlers, logger.propagate, logger.level
    server = logging.getLogger("uvicorn.error")
    of_server = server.handlers, server.propagate, server.level
    yield
    structlog.configure(**before)
    server.handlers, server.propagate = of_server[:2]
    server.setLevel(of_server[2])
    logger.handlers, logger.propagate = handlers, propagate
    logger.setLevel(level)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with closing(reserve("127.0.0.1", 0)) as bound:
        yield bound


def failing(error: Exception) -> Callable[[ServingSession], Any]:
    async def opened(_session: ServingSession) -> None:
        raise error

    return opened


def test_the_reason_for_which_a_home_cannot_be_opened_is_raised(
    tmp_path: Path, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = ConfigurationError("a model is missing", hint="fetch it")
    monkeypatch.setattr(ServingSession, "open", failing(reason))
    with pytest.raises(ConfigurationError, match="a model is missing"), serving(settings_for(tmp_path), listener):
        raise AssertionError("it is open")
    assert listener.fileno() == -1, "nothing listens any more"


def test_what_nobody_expected_is_told_with_the_log_that_has_it(
    tmp_path: Path, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ServingSession, "open", failing(RuntimeError("odd")))
    settings = settings_for(tmp_path)
    with pytest.raises(LodestoneError, match="RuntimeError: odd") as caught, serving(settings, listener):
        raise AssertionError("it is open")
    assert "service.log" in caught.value.hint
    assert "RuntimeError: odd" in (settings.home / "logs" / "service.log").read_text()


def test_a_server_that_ends_by_itself_is_an_error(
    tmp_path: Path, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uvicorn.Server, "on_tick", tick := Ticks())
    ended = threading.Event()
    running = one_process(settings_for(tmp_path), listener, token=TOKEN, ended=ended.set)
    running.__enter__()
    assert not ended.is_set()
    tick.error = OSError("out of files")
    assert ended.wait(60)
    with pytest.raises(ServiceUnavailableError, match="ended by itself: out of files"):
        running.__exit__(None, None, None)


def test_whatever_else_fails_at_the_start_is_in_the_log(
    tmp_path: Path, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_sampler: Sampler) -> None:
        raise RuntimeError("no clock")

    monkeypatch.setattr(Sampler, "start", fail)
    settings = settings_for(tmp_path)
    with pytest.raises(ServiceUnavailableError, match="did not come up"), serving(settings, listener):
        raise AssertionError("it is open")
    assert "RuntimeError: no clock" in (settings.home / "logs" / "service.log").read_text()


class Ticks:
    """What uvicorn asks ten times a second: whether to end."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    async def __call__(self, _counter: int) -> bool:
        if self.error is not None:
            raise self.error
        return False


def serving(settings: Settings, listener: socket.socket) -> Any:
    return one_process(settings, listener, token=TOKEN, ended=lambda: None)


def test_an_engine_that_hangs_is_answered_for_and_a_client_that_leaves_is_not_worked_for(
    tmp_path: Path, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled = threading.Semaphore(0)

    async def hang(*_: object, **__: object) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.release()
            raise

    monkeypatch.setattr(SearchUseCases, "answer", hang)
    with serving(settings_for(tmp_path), listener), httpx.Client(base_url=url_of(listener, tls=False), timeout=60) as client:
        started = time.monotonic()
        answer = client.post("/v1/search", json={"query": "a cat", "deadline_ms": 200})
        assert (answer.status_code, answer.json()["code"]) == (504, "deadline_exceeded")
        assert time.monotonic() - started >= 0.2
        assert answer.headers["x-request-id"]
        assert cancelled.acquire(timeout=60)
        with pytest.raises(httpx.ReadTimeout):
            client.post("/v1/search", json={"query": "a cat", "deadline_ms": 60_000}, timeout=0.3)
        assert cancelled.acquire(timeout=30), "the query goes on for a client that has left"
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", httpx.URL(str(client.base_url)).port or 0), timeout=5)


def test_what_names_no_deadline_is_answered_for_within_the_settings(
    tmp_path: Path, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()

    async def hang(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    def hang_in_a_thread(*_: object) -> None:
        over.wait(120)

    monkeypatch.setattr(SearchUseCases, "answer", hang)
    monkeypatch.setattr(CorpusUseCases, "page", hang_in_a_thread)
    settings = settings_for(tmp_path)
    query = settings.query.model_copy(update={"deadline_ms": 200})
    settings = settings.model_copy(update={"query": query, "serve": settings.serve.model_copy(update={"patience_s": 1.5})})
    with serving(settings, listener), httpx.Client(base_url=url_of(listener, tls=False), timeout=60) as client:
        asked = {0.2: partial(client.post, "/v1/search", json={"query": "a cat"}), 1.5: partial(client.get, "/v1/corpora")}
        try:
            for least, ask in asked.items():
                started = time.monotonic()
                assert ask().json()["code"] == "deadline_exceeded"
                assert time.monotonic() - started >= least
        finally:
            over.set()


def test_a_query_that_names_no_deadline_waits_for_its_turn_within_the_settings(
    tmp_path: Path, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_work = threading.Event()

    async def hang(*_: object, **__: object) -> None:
        at_work.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(SearchUseCases, "answer", hang)
    settings = settings_for(tmp_path)
    query = settings.query.model_copy(update={"deadline_ms": 200})
    settings = settings.model_copy(update={"query": query, "serve": settings.serve.model_copy(update={"max_ongoing": 1})})
    with (
        serving(settings, listener),
        httpx.Client(base_url=url_of(listener, tls=False), timeout=60) as client,
        closing(socket.create_connection(listener.getsockname(), timeout=60)) as other,
    ):
        other.sendall(b"GET /v1/search?q=a+cat&deadline_ms=60000 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert at_work.wait(60), "it takes the only slot, and would keep it for a minute"
        problem = client.post("/v1/search", json={"query": "a cat"}).json()
    assert problem["code"] == "deadline_exceeded"
    assert "while the query waited for its turn" in problem["detail"], "not the front answers, but the queue, which is earlier"


def test_what_further_processes_measure_counts_as_if_it_had_been_here(tmp_path: Path) -> None:
    session = one_process_module._Session(settings_for(tmp_path), metrics := Metrics())
    for observed in (
        Observed("texts", "observe", (3,)),
        Observed("pictures", "observe", (2,)),
        Observed("records", "lost", (4,)),
        Observed("engines", "asked", ("exemplar", "drawn", 0.5, 6, 0.25)),
    ):
        session._take(observed)
    told = {
        "lodestone_text_batch_size_sum": {},
        "lodestone_picture_batch_size_sum": {},
        "lodestone_records_lost_total": {},
        "lodestone_generator_guides_total": {"engine": "exemplar"},
    }
    assert [metrics.registry.get_sample_value(name, labels) for name, labels in told.items()] == [3, 2, 4, 6]


@pytest.mark.parametrize(("asked", "here", "further"), [(1, 8, 0), (2, 8, 1), (5, 2, 4), (0, 8, 7), (0, 1, 0), (0, 64, 15)])
def test_processes_are_those_of_the_settings_or_one_a_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: int, here: int, further: int
) -> None:
    monkeypatch.setattr(one_process_module, "cores", lambda: here)
    settings = settings_for(tmp_path)
    serve = settings.serve.model_copy(update={"processes": asked})
    assert one_process_module.further_processes(settings.model_copy(update={"serve": serve})) == further
