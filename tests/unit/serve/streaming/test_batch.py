"""A batch is answered line by line, in order of completion, within its bounds, and only as long as somebody reads."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from pydantic import ValidationError
from tests.support.fake_services import FakeServices

from lodestone.config.serve import LoadSettings
from lodestone.config.settings import ServeSettings
from lodestone.errors import OverloadedError, StoreError, UnknownNameError
from lodestone.query.asking.request_context import NOW, RequestContext
from lodestone_schemas.api import Problem, SearchRequest, SearchResponse
from lodestone_schemas.batch import BatchAnswer
from lodestone_serve.http.application import create_app
from lodestone_serve.streaming.batch_search import Batches
from lodestone_serve.telemetry.metrics import Metrics
from lodestone_serve.traffic.admission import Admission

NDJSON = {"Content-Type": "application/x-ndjson"}


class Slow(FakeServices):
    """Answers a question when its words are let through; `stop` raises what it was given."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.through: dict[str, asyncio.Event] = {}
        self.errors: dict[str, Exception] = {}
        self.most = self.ended = 0

    async def answer(self, request: SearchRequest, *, request_context: RequestContext = NOW) -> SearchResponse:
        self.asked.append(request)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if request.query in self.errors:
                raise self.errors[request.query]
            if request.query in self.through:
                await self.through[request.query].wait()
            padding = ["w" * 60_000] if request.query == "long" else []
            return self.response("text").model_copy(update={"query_id": request.query, "warnings": padding})
        finally:
            self.running -= 1
            self.ended += 1


@pytest.fixture
def services(tmp_path: Path) -> Slow:
    return Slow(tmp_path)


def app_of(services: FakeServices, **load: int) -> FastAPI:
    settings = ServeSettings(max_ongoing=4, max_queued=4, load=LoadSettings(**{"batch_ongoing": 2, **load}))  # type: ignore[arg-type]
    return create_app(services, settings=settings, token="a-secret")  # type: ignore[arg-type]


@pytest.fixture
async def http(services: Slow) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=app_of(services, batch_lines=20), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7860") as client:
        yield client


def lines(*questions: dict[str, Any] | str) -> bytes:
    return b"".join((one if isinstance(one, str) else json.dumps(one)).encode() + b"\n" for one in questions)


async def sent(http: httpx.AsyncClient, content: bytes, **params: str) -> list[dict[str, Any]]:
    answer = await http.post("/v1/search/batch", content=content, headers=NDJSON, params=params)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.text.splitlines()]


async def test_every_line_gets_its_answer_under_its_own_id(http: httpx.AsyncClient) -> None:
    found = await sent(http, lines({"id": "x", "query": "boat"}, "", {"query": "dog", "limit": 3}))
    by_line = {one["line"]: one for one in found}
    assert by_line[1]["id"] == "x"
    assert by_line[1]["response"]["query_id"] == "boat"
    assert by_line[3]["id"] is None
    assert by_line[3]["response"]["query_id"] == "dog"
    assert all(one["problem"] is None for one in found)


async def test_the_last_line_needs_no_end_of_line(http: httpx.AsyncClient, services: Slow) -> None:
    assert len(await sent(http, b'{"query": "boat"}\r\n{"query": "dog", "limit": 7}')) == 2
    assert {one.limit for one in services.asked} == {20, 7}  # type: ignore[attr-defined]


async def test_answers_come_in_the_order_in_which_they_are_ready(http: httpx.AsyncClient, services: Slow) -> None:
    services.through["slow"] = asyncio.Event()

    async def let_through() -> None:
        while services.ended < 3:
            await asyncio.sleep(0.005)
        services.through["slow"].set()

    release = asyncio.create_task(let_through())
    found = await sent(http, lines({"query": "slow"}, {"query": "a"}, {"query": "b"}, {"query": "c"}))
    await release
    assert [one["line"] for one in found] == [2, 3, 4, 1]


async def test_what_is_wrong_with_one_line_is_that_lines_answer_alone(http: httpx.AsyncClient, services: Slow) -> None:
    services.errors = {"gone": StoreError("the store broke", hint="wait"), "defect": ValueError("s3cret")}
    found = await sent(
        http,
        lines(
            {"id": "1", "query": "gone"},
            {"id": "2", "query": "defect"},
            {"id": "3", "query": "x", "limit": 0},
            "{not json",
            {"id": "5", "query": "fine"},
            {"id": "6", "query": 6},
            "[]",
        ),
    )
    by_line = {one["line"]: one for one in found}
    assert by_line[1]["problem"]["code"] == "store_failed"
    assert by_line[2]["problem"]["code"] == "internal_error"
    assert "s3cret" not in json.dumps(found)
    assert by_line[3]["problem"]["errors"][0]["field"] == "limit"
    assert by_line[3]["id"] == "3"
    assert by_line[4]["problem"]["code"] == "invalid_request"
    assert by_line[5]["response"]["query_id"] == "fine"
    assert (by_line[6]["id"], by_line[6]["problem"]["errors"][0]["field"]) == ("6", "query")
    assert by_line[7]["problem"]["status"] == 422


def test_nobody_keeps_the_batches_of_all_others_out() -> None:
    admission = Admission(limits=ServeSettings(), metrics=Metrics(), deadline_ms=1_000)
    batches = Batches(ongoing=2, most=4)
    for _ in range(3):
        batches.enter("key:one", admission)
    with pytest.raises(OverloadedError, match="3 of your batches"):
        batches.enter("key:one", admission)
    batches.enter("key:two", admission)
    with pytest.raises(OverloadedError, match="4 batches"):
        batches.enter("key:three", admission)
    batches.leave("key:one")
    batches.enter("key:three", admission)
    unnamed = Batches(ongoing=2, most=4)
    for _ in range(4):
        unnamed.enter("", admission)


async def test_no_more_questions_than_allowed_are_worked_on_at_once(http: httpx.AsyncClient, services: Slow) -> None:
    services.through = {str(one): asyncio.Event() for one in range(12)}
    half = [str(one) for one in range(12)]

    async def let_through() -> None:
        for one in half:
            await asyncio.sleep(0.01)
            services.through[one].set()

    release = asyncio.create_task(let_through())
    batches = [sent(http, lines(*({"query": one} for one in part))) for part in (half[:6], half[6:])]
    found = await asyncio.gather(*batches)
    await release
    assert [len(one) for one in found] == [6, 6]
    assert services.most == 2


async def test_fields_are_chosen_of_every_answer_and_problems_are_whole(http: httpx.AsyncClient, services: Slow) -> None:
    services.errors = {"bad": UnknownNameError.among("fusion", "magic", ["rrf"])}
    found = await sent(http, lines({"id": "1", "query": "a"}, {"query": "bad"}), fields="hits.image_id")
    by_line = {one["line"]: one for one in found}
    assert by_line[1] == {
        "line": 1,
        "id": "1",
        "response": {"hits": [{"image_id": by_line[1]["response"]["hits"][0]["image_id"]}]},
    }
    assert by_line[2]["problem"]["known"] == ["rrf"]
    refused = await http.post("/v1/search/batch", content=b"{}", headers=NDJSON, params={"fields": "nothing"})
    assert refused.status_code == 422


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b"", 422, "invalid_request"),
        (b"\n \n", 422, "invalid_request"),
        (b" " * 65_537 + b'{"query": "a"}', 413, "body_too_large"),
        (b'{"query": "a"}\n' * 21, 413, "body_too_large"),
    ],
)
async def test_a_batch_that_cannot_be_begun_is_an_ordinary_problem(
    http: httpx.AsyncClient, services: Slow, content: bytes, status: int, code: str
) -> None:
    services.through["a"] = asyncio.Event()  # nothing is answered before the end of the batch is seen
    answer = await http.post("/v1/search/batch", content=content, headers=NDJSON)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert services.running == 0


async def test_a_batch_of_another_kind_or_size_is_refused_unread(services: Slow) -> None:
    transport = httpx.ASGITransport(app=app_of(services, batch_mb=1))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        json_instead = await http.post("/v1/search/batch", json={"query": "a"})
        assert json_instead.status_code == 415
        large = await http.post("/v1/search/batch", content=b"\n" * (2**20 + 1), headers=NDJSON)
        assert large.status_code == 413


# -- over a real connection ----------------------------------------------------------------------------------------------------


@pytest.fixture
def address(services: Slow) -> Iterator[str]:
    """A server in this loop's thread would wait for its client: it has a thread of its own."""
    import threading

    server = uvicorn.Server(uvicorn.Config(app_of(services), host="127.0.0.1", port=0, log_level="warning", lifespan="on"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.02)
    with closing(socket.socket()):
        yield f"127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(30)


async def test_answers_come_while_questions_are_still_being_sent(address: str) -> None:
    reader, writer = await asyncio.open_connection(*address.split(":"))
    writer.write(_head(address))
    for word in ("first", "second", "third"):
        writer.write(_chunk(lines({"query": word})))
        async with asyncio.timeout(120):
            while True:
                line = await reader.readline()
                assert line, "the connection was closed"
                if line.startswith(b'{"line"'):
                    break
        assert json.loads(line)["response"]["query_id"] == word
    writer.write(b"0\r\n\r\n")
    async with asyncio.timeout(120):
        assert (await reader.read()).endswith(b"0\r\n\r\n")
    writer.close()


async def test_a_batch_ends_with_its_reader(address: str, services: Slow) -> None:
    never = {str(one): asyncio.Event() for one in range(8)}
    services.through = never
    _, writer = await asyncio.open_connection(*address.split(":"))
    writer.write(_head(address) + _chunk(lines(*({"query": one} for one in never))) + b"0\r\n\r\n")
    async with asyncio.timeout(120):
        while services.running < 2:
            await asyncio.sleep(0.01)
    writer.transport.abort()
    async with asyncio.timeout(120):
        while services.running or services.ended < 2:
            await asyncio.sleep(0.01)
    async with httpx.AsyncClient(base_url=f"http://{address}", timeout=20) as http:  # its turns are free again
        services.through = {}
        assert len(await sent(http, lines({"query": "next"}, {"query": "one"}))) == 2
    assert len(services.asked) == 4


async def test_a_client_that_sends_everything_before_it_reads_is_answered(address: str) -> None:
    question = {"query": "long", "filters": {"corpora": ["c" * 60_000]}}
    content = lines(*[question] * 120)  # with its answers, more than what sockets hold in either direction
    async with httpx.AsyncClient(base_url=f"http://{address}", timeout=120) as http:
        assert len(await sent(http, content)) == 120


def _head(address: str) -> bytes:
    head = f"POST /v1/search/batch HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n"
    return (head + "Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n").encode()


def _chunk(content: bytes) -> bytes:
    return f"{len(content):x}\r\n".encode() + content + b"\r\n"


def test_a_line_has_an_answer_or_a_problem_and_never_both_or_neither(services: Slow) -> None:
    response = services.response()
    problem = Problem(title="t", status=404, detail="d", code="not_found")
    assert BatchAnswer(line=1, response=response).problem is None
    assert BatchAnswer(line=1, problem=problem).response is None
    for both_or_neither in ({}, {"response": response, "problem": problem}):
        with pytest.raises(ValidationError, match="a response or a problem"):
            BatchAnswer(line=1, **both_or_neither)
