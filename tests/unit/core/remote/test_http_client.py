"""The client of a remote service by itself: what is sent, which answers are refused, and which words messages use."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest
from tests.support.scripted_server import Scripted, answer, scripted

from lodestone.errors import DeadlineExceededError, ModelUnavailableError, ServiceUnavailableError
from lodestone.remote.credentials import Credential
from lodestone.remote.http_client import Access, HttpClient
from lodestone.remote.http_guard import Wording

KEY = "sk-very-secret-0123456789"
WORDING = Wording("chat model", "transcript", too_slow="wait longer", too_large="ask for less", host_refused="allow it")
NEVER = float("inf")


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAT_KEY", KEY)


def credential() -> Credential:
    return Credential("the chat model", setting="language", key_env="CHAT_KEY")


def client(server: Scripted, **rest: Any) -> HttpClient:
    verdict = {"verdict": rest.pop("verdict")} if "verdict" in rest else {}
    return HttpClient(Access(httpx.URL(server.url), credential(), **{"wording": WORDING, **rest}), **verdict)


async def post(server: Scripted, deadline: float = NEVER, **rest: Any) -> Any:
    service = client(server, **rest)
    try:
        return await service.post(httpx.URL(f"{server.url}/chat"), {"text": "hello"}, deadline=deadline)
    finally:
        await service.close()


async def test_a_request_carries_the_key_and_further_headers_and_its_answer_comes_back() -> None:
    with scripted(answer(200, b'{"text": "hi"}')) as server:
        assert await post(server, header="X-Key", scheme="Key ", headers={"X-Team": credential()}) == {"text": "hi"}
        (asked,) = server.asked
    assert (asked.method, asked.path, asked.json) == ("POST", "/chat", {"text": "hello"})
    assert asked.headers["x-key"] == f"Key {KEY}"
    assert asked.headers["x-team"] == KEY
    assert asked.headers["accept-encoding"] == "identity"
    assert "authorization" not in asked.headers


async def test_a_form_carries_texts_and_files() -> None:
    with scripted(answer()) as server:
        files = {"sound": ("hello.wav", b"RIFF", "audio/wav")}
        form = {"text": "hello", "n": 2}
        await client(server).post_form(httpx.URL(server.url), form, files=files, deadline=NEVER)
        (asked,) = server.asked
    assert asked.headers["content-type"].startswith("multipart/form-data")
    assert b'name="sound"; filename="hello.wav"\r\nContent-Type: audio/wav\r\n\r\nRIFF' in asked.body
    assert b'name="text"\r\n\r\nhello' in asked.body
    assert b'name="n"\r\n\r\n2' in asked.body


@pytest.mark.parametrize(
    ("scene", "message", "hint"),
    [
        (answer(200, b" "), "answers with an empty body", "look at the chat model's own log"),
        (answer(200, b"<p>hello"), "an HTML page", "is the url the chat model's API, and not its web page?"),
        (answer(200, b"hello", kind="text/plain"), "no JSON but 'text/plain'", "is the url the chat model's API"),
        (answer(302, Location=f"/?key={KEY}"), "redirects to '/?key=***'", "set the chat model's url to where it is"),
        (answer(200, Content_Encoding="gzip"), "sends compressed data", ""),
        (answer(200, b"x" * (2**20 + 1)), "sends more than 1 MB", "ask for less"),
        (answer(200, b"x", Content_Length="5"), "broke off", "look at the chat model's own log"),
        (answer(500, b'{"error": {"message": "out of order"}}'), "answers 500: out of order", "own log or status page"),
        (answer(404, b'[{"detail": "no such model"}]'), "answers 404: no such model", "own log or status page"),
        (answer(502, b"<p>bad gateway"), "answers 502", "own log or status page"),
    ],
)
async def test_an_answer_that_is_none_is_an_error_in_the_words_of_the_service(scene: bytes, message: str, hint: str) -> None:
    with scripted(scene) as server:
        with pytest.raises(ServiceUnavailableError) as caught:
            await post(server, max_bytes=2**20)
        assert len(server.asked) == 1  # each try may be charged
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")
    assert KEY not in caught.value.message


async def test_only_errors_before_any_work_say_that_nothing_was_charged() -> None:
    with scripted(answer(500)) as server, pytest.raises(ServiceUnavailableError) as refused:
        await post(server)
    with scripted(answer(200, b"{")) as server, pytest.raises(ServiceUnavailableError) as unreadable:
        await post(server)
    with pytest.raises(ServiceUnavailableError, match="cannot be reached") as away:
        await post(server)
    assert refused.value.details["charged"] is False
    assert "charged" not in unreadable.value.details
    assert away.value.details["charged"] is False
    assert away.value.hint == "is it running?"


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_is_told_with_its_place(status: int) -> None:
    scene = answer(status, json.dumps({"error": f"bad key {KEY}"}).encode())
    with scripted(scene) as server, pytest.raises(ModelUnavailableError) as caught:
        await post(server)
    assert caught.value.message.endswith(f"answers {status}: bad key ***")
    assert caught.value.hint == "is the key right? It is read from: environment variable CHAT_KEY"


@pytest.mark.parametrize(("declines", "declined"), [(True, True), (False, None)])
async def test_declined_content_is_told_from_a_failure(declines: bool, declined: bool | None) -> None:
    seen = []

    def verdict(status: int, body: object) -> bool:
        seen.append((status, body))
        return declines

    with scripted(answer(400, b'{"error": "not this"}')) as server, pytest.raises(ServiceUnavailableError) as caught:
        await post(server, verdict=verdict)
    assert seen == [(400, {"error": "not this"})]
    assert caught.value.details.get("declined") is declined


@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_service_is_asked_again_when_it_says_that_it_is_free(status: int) -> None:
    with scripted(answer(status, Retry_After="0"), answer(200, b"1")) as server:
        assert await post(server) == 1
        assert len(server.asked) == 2


async def test_a_service_that_stays_busy_is_asked_three_times() -> None:
    with scripted(answer(429, Retry_After="0")) as server:
        with pytest.raises(ServiceUnavailableError, match="answers 429"):
            await post(server)
        assert len(server.asked) == 3


async def test_a_pause_beyond_the_deadline_is_not_waited_for() -> None:
    until = datetime.now(UTC) + timedelta(seconds=300)
    with scripted(answer(503, Retry_After=format_datetime(until, usegmt=True))) as server:
        with pytest.raises(ServiceUnavailableError) as caught:
            await post(server, time.monotonic() + 60)
        assert len(server.asked) == 1
    assert 200 < caught.value.details["retry_after"] <= 300


async def test_a_retry_header_that_cannot_be_read_is_no_pause() -> None:
    with scripted(answer(503, Retry_After="soon")) as server, pytest.raises(ServiceUnavailableError) as caught:
        await post(server)
    assert "retry_after" not in caught.value.details


async def test_the_deadline_ends_a_request_with_the_hint_of_the_service() -> None:
    with scripted([30.0]) as server, pytest.raises(DeadlineExceededError) as caught:
        await post(server, time.monotonic() + 0.2)
    assert caught.value.hint == "wait longer"


async def test_a_file_at_the_service_itself_is_fetched_with_the_key() -> None:
    with scripted(answer(302, Location="/moved"), answer(200, b"hello", kind="text/plain")) as server:
        assert await client(server).download(f"{server.url}/file", deadline=NEVER) == b"hello"
        assert [(asked.path, asked.headers["authorization"]) for asked in server.asked] == [
            ("/file", f"Bearer {KEY}"),
            ("/moved", f"Bearer {KEY}"),
        ]


async def test_an_allowed_host_is_sent_no_key() -> None:
    with scripted(answer()) as server, scripted(answer(200, b"hello", kind="text/plain")) as other:
        hosts = (other.url.removeprefix("http://"),)
        assert await client(server, allow_hosts=hosts).download(f"{other.url}/file", deadline=NEVER) == b"hello"
        assert "authorization" not in other.asked[0].headers


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (
            "http://127.0.0.1:9/x",
            "the reply names a transcript at http://127.0.0.1:9/x, which is not fetched: its host is in a",
        ),
        ("http://10.0.0.1/x?token=1", "the reply names a transcript at http://10.0.0.1/x, which is not fetched"),
        ("ftp://example.com/x", "it is no plain http(s) address"),
        ("http://user:word@example.com/x", "it is no plain http(s) address"),
    ],
)
async def test_other_files_are_refused_in_the_words_of_the_service(address: str, message: str) -> None:
    with scripted(answer()) as server, pytest.raises(ServiceUnavailableError) as caught:
        await client(server).download(address, deadline=NEVER)
    assert message in caught.value.message
    assert caught.value.hint == "allow it"
    assert server.asked == []


async def test_a_service_over_https_names_no_file_over_http() -> None:
    access = Access(httpx.URL("https://chat.example"), credential(), wording=WORDING)
    with pytest.raises(ServiceUnavailableError, match="the chat model is asked over https and this is not"):
        await HttpClient(access).download("http://files.example/x", deadline=NEVER)


@pytest.mark.parametrize(
    ("scene", "message"),
    [
        (answer(200, b"", kind="text/plain"), r"the transcript at \S+/file is empty"),
        (answer(200, b"{}"), "there is no transcript but application/json"),
        (answer(302, Location="/file"), r"the transcript at \S+/file is redirected more than 3 times"),
    ],
)
async def test_an_address_with_no_file_behind_it_is_told(scene: bytes, message: str) -> None:
    with scripted(scene) as server, pytest.raises(ServiceUnavailableError, match=message):
        await client(server).download(f"{server.url}/file", deadline=NEVER)


def test_a_client_serves_one_event_loop_after_another() -> None:
    with scripted(answer(200, b"1")) as server:
        service = client(server)
        for _ in range(2):
            assert asyncio.run(service.get(httpx.URL(server.url), deadline=NEVER)) == 1
        asyncio.run(service.close())
