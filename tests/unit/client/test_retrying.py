"""A client asks again exactly where that is safe, within its time, and says what is wrong where others answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.driven import Driven
from tests.support.scripted_server import answer, events, head, problem, scripted

from lodestone.errors import (
    ConfigurationError,
    DeadlineExceededError,
    ForbiddenError,
    IdempotencyConflictError,
    InvalidRequestError,
    LodestoneError,
    ModelUnavailableError,
    NotFoundError,
    NotLodestoneError,
    OverloadedError,
    RateLimitedError,
    ServiceUnavailableError,
    StoreError,
    UnauthorizedError,
)
from lodestone_client import Lodestone, RetryPolicy
from lodestone_schemas.api import FeedbackRequest, SearchOptions, SearchRequest, TagRequest
from lodestone_schemas.openai import DrawingRequest

SOON = RetryPolicy(first_s=0.01, longest_s=0.02)
IMAGE = "5f0f7a52-6f62-5b1f-9d3e-0a4f6d1c2b3a"
RESPONSE: dict[str, object] = {"query_id": "q1", "stage": "text", "hits": [], "fusion": "rrf", "space_weights": {}}
PLAN = {"type": "plan", "query_id": "q1", "spaces": {}, "space_weights": {}, "generators": [], "guides": 0, "fusion": "rrf"}
RESULTS = {"type": "results", "response": RESPONSE}
DONE = {"type": "done", "response": RESPONSE}
JSON = b'{"query_id":"q1","stage":"text","hits":[],"fusion":"rrf","space_weights":{}}'
FEEDBACK = b'{"query_id":"q1","topic":"t","applied":true,"before":{},"after":{}}'
STREAM = head(kind="text/event-stream")
JUDGED = FeedbackRequest(query_id="q1", relevant=[IMAGE])


Maker = Callable[..., Any]


@pytest.fixture(params=[Lodestone, Driven], ids=["sync", "async"])
def client(request: pytest.FixtureRequest) -> Maker:
    """Makes a client of a server; both kinds of client must behave alike."""
    return lambda server, **options: request.param(server.url, **{"policy": SOON, "timeout_s": 60.0, **options})


def search(asker: Lodestone) -> object:
    return asker.search("a boat")


def judge(asker: Lodestone) -> object:
    return asker.feedback(JUDGED)


def forget(asker: Lodestone) -> object:
    return asker.remove_corpus("a")


def draw(asker: Lodestone) -> object:
    return asker.generate_images(DrawingRequest(prompt="a boat"))


CUT = head(**{"Content-Length": "500"}) + JSON[:20]
TRANSIENT = {
    "overloaded": problem(429, "overloaded", retry_after=0),
    "unavailable": problem(503, "store_failed", retry_after=0),
    "a gateway's page": answer(502, b"<html>bad gateway</html>", kind="text/html"),
    "a replica that died": answer(500, b"Internal Server Error", kind="text/plain"),
    "closed": b"",
    "cut": CUT,
}


@pytest.mark.parametrize("trouble", TRANSIENT.values(), ids=list(TRANSIENT))
@pytest.mark.parametrize(("ask", "good"), [(search, JSON), (judge, FEEDBACK)])
def test_searches_and_keyed_writes_are_sent_again(
    client: Maker, ask: Callable[[Lodestone], object], good: bytes, trouble: bytes
) -> None:
    with scripted(trouble, trouble, answer(200, good)) as server, client(server) as asker:
        assert ask(asker) is not None
    assert len(server.asked) == 3
    assert server.asked[0].body == server.asked[2].body


def test_all_sendings_of_a_write_have_one_key_and_two_writes_have_two(client: Maker) -> None:
    with scripted(b"", answer(200, FEEDBACK)) as server, client(server) as asker:
        asker.feedback(JUDGED)
        asker.feedback(JUDGED)
        asker.feedback(JUDGED, idempotency_key="mine")
    keys = [asked.headers["idempotency-key"] for asked in server.asked]
    assert keys[0] == keys[1] != keys[2]
    assert len(keys[0]) >= 16
    assert keys[3] == "mine"


@pytest.mark.parametrize("trouble", [TRANSIENT["closed"], TRANSIENT["cut"], TRANSIENT["unavailable"]])
@pytest.mark.parametrize("ask", [forget, draw])
def test_what_could_be_done_twice_is_not_sent_again(client: Maker, ask: Callable[[Lodestone], object], trouble: bytes) -> None:
    with scripted(trouble) as server, client(server) as asker, pytest.raises(LodestoneError):
        ask(asker)
    assert len(server.asked) == 1


def test_even_that_is_sent_again_after_a_refusal(client: Maker) -> None:
    with scripted(TRANSIENT["overloaded"], answer(204, b"")) as server, client(server) as asker:
        forget(asker)
    assert len(server.asked) == 2


FATAL: list[tuple[bytes, type[LodestoneError], str]] = [
    (problem(404, "not_found", "no such picture"), NotFoundError, "no such picture"),
    (problem(401, "unauthorized", "who are you"), UnauthorizedError, "who are you"),
    (problem(403, "forbidden"), ForbiddenError, "scripted"),
    (problem(422, "invalid_request"), InvalidRequestError, "scripted"),
    (problem(409, "idempotency_conflict", "another body"), IdempotencyConflictError, "another body"),
    (problem(503, "model_unavailable", "no weights", retry_after=0), ModelUnavailableError, "no weights"),
    (problem(418, "a_code_of_tomorrow", "new"), InvalidRequestError, "new"),
    (answer(401, b"login first", kind="text/plain"), UnauthorizedError, "HTTP 401"),
    (answer(408, b"timed out", kind="text/plain"), DeadlineExceededError, "HTTP 408"),
    (problem(500, "internal_error", "a defect"), LodestoneError, "a defect"),
    (answer(307, b"", Location="https://elsewhere.example/"), ServiceUnavailableError, "redirects"),
    (answer(200, b"<html>welcome to the hotel's wireless</html>", kind="text/html"), NotLodestoneError, "text/html"),
    (answer(200, b'{"query_id": 3}'), NotLodestoneError, "application/json"),
    (answer(200, b"\xff\xfe"), NotLodestoneError, "application/json"),
    (answer(501, b"<html>Unsupported method</html>", kind="text/html"), NotLodestoneError, "HTTP 501 and text/html"),
    (answer(405, b"", kind="text/html"), NotLodestoneError, "is not a Lodestone service"),
    (answer(404, b'{"detail": "Not Found"}'), NotLodestoneError, "answered POST /v1/search with HTTP 404"),
    (answer(400, b'{"code": 17, "message": "no"}'), NotLodestoneError, "HTTP 400"),
    (answer(400, b'{"code": "wrong", "message": "no"}'), NotLodestoneError, "HTTP 400"),
    (answer(403, b"<html>firewall</html>", kind="text/html"), ForbiddenError, "HTTP 403"),
]


@pytest.mark.parametrize(("trouble", "kind", "said"), FATAL)
def test_what_would_only_fail_again_is_raised_at_once(
    client: Maker, trouble: bytes, kind: type[LodestoneError], said: str
) -> None:
    with scripted(trouble) as server, client(server) as asker, pytest.raises(kind, match=said):
        search(asker)
    assert len(server.asked) == 1


def test_a_service_that_is_starting_is_asked_again(client: Maker) -> None:
    routeless = answer(
        404, b"Path '/v1/search' not found. Please ping http://.../-/routes for available routes.", kind="text/plain"
    )
    with scripted(routeless, routeless) as server, client(server, policy=RetryPolicy(attempts=2)) as asker:
        with pytest.raises(ServiceUnavailableError, match="is starting") as caught:
            search(asker)
        assert caught.value.code == "service_unavailable"
    assert len(server.asked) == 2


def test_a_foreign_server_is_named_with_the_place_to_correct(client: Maker) -> None:
    with scripted(answer(501, b"no")) as server, client(server) as asker, pytest.raises(NotLodestoneError) as caught:
        search(asker)
    assert caught.value.code == "not_lodestone"
    assert "--url, LODESTONE_URL" in caught.value.hint


def test_a_dead_replica_is_told_as_a_service_that_is_not_there(client: Maker) -> None:
    told = TRANSIENT["a replica that died"]
    with (
        scripted(told) as server,
        client(server, policy=RetryPolicy(attempts=1)) as asker,
        pytest.raises(ServiceUnavailableError, match="HTTP 500 from /v1/search"),
    ):
        search(asker)


def test_a_problem_keeps_its_hint_and_facts(client: Maker) -> None:
    told = problem(429, "rate_limited", "too fast", hint="wait", retry_after=7, limit="5/minute")
    with (
        scripted(told) as server,
        client(server, policy=RetryPolicy(attempts=1)) as asker,
        pytest.raises(RateLimitedError) as caught,
    ):
        search(asker)
    assert (caught.value.hint, caught.value.details) == ("wait", {"limit": "5/minute", "retry_after": 7.0})


def test_the_service_says_how_long_to_wait(client: Maker) -> None:
    with scripted(problem(429, "overloaded", retry_after=1), answer(200, JSON)) as server, client(server) as asker:
        started = time.monotonic()
        search(asker)
        assert time.monotonic() - started >= 1.0


def test_nobody_waits_past_the_deadline(client: Maker) -> None:
    busy = problem(429, "overloaded", retry_after=600)
    with scripted(busy) as server, client(server) as asker:
        for request in (SearchRequest(query="a"), SearchRequest(query="a", deadline_ms=400)):
            with pytest.raises(OverloadedError):
                asker.search(request)
        with pytest.raises(OverloadedError):
            asker.similar(IMAGE, SearchOptions(deadline_ms=400))
    assert len(server.asked) == 3


def test_a_further_sending_asks_for_what_is_left_of_the_deadline(client: Maker) -> None:
    with scripted([0.3, b""], answer(200, JSON)) as server, client(server) as asker:
        asker.search(SearchRequest(query="a", deadline_ms=30_000))
    first, second = (asked.json["deadline_ms"] for asked in server.asked)
    assert first <= 30_000
    assert second <= first - 290  # the first waited for 300 ms
    # Serve's proxy, which holds requests while no replica is up, is told the same, and a little more.
    told = [float(asked.headers["x-request-timeout-seconds"]) for asked in server.asked]
    assert [seconds > asked / 1000 for seconds, asked in zip(told, (first, second), strict=True)] == [True, True]
    assert told[1] < told[0]


def test_attempts_are_bounded(client: Maker) -> None:
    with (
        scripted(b"") as server,
        client(server, policy=RetryPolicy(attempts=3, first_s=0.01)) as asker,
        pytest.raises(ServiceUnavailableError, match="does not answer"),
    ):
        search(asker)
    assert len(server.asked) == 3


def test_its_own_write_that_is_still_worked_on_is_waited_for(client: Maker) -> None:
    conflict = problem(409, "idempotency_conflict", "still being worked on")
    with scripted(b"", conflict, conflict, answer(200, FEEDBACK)) as server, client(server) as asker:
        assert asker.feedback(JUDGED).applied
    assert len(server.asked) == 4


def test_a_silent_service_and_one_that_trickles_are_given_up(client: Maker) -> None:
    trickle = [head(**{"Content-Length": "1000"}), *([0.1, b" "] * 900)]
    for scene in ([600.0], trickle):
        with scripted(scene) as server, client(server, timeout_s=2.0) as asker:
            started = time.monotonic()
            with pytest.raises(ServiceUnavailableError):
                search(asker)
            assert time.monotonic() - started < 60
            while not server.asked:  # which may be slower than its client's patience
                time.sleep(0.01)
        assert len(server.asked) == 1


def test_nobody_there_is_said_after_a_few_attempts() -> None:
    with Lodestone("http://127.0.0.1:9", policy=SOON) as asker, pytest.raises(ServiceUnavailableError, match=r"127\.0\.0\.1:9"):
        search(asker)


def test_what_a_newer_service_adds_is_left_out(client: Maker) -> None:
    newer = answer(200, JSON[:-1] + b',"mood":"sunny","hits_total":{"n":3}}')
    with scripted(newer) as server, client(server) as asker:
        assert asker.search("a").query_id == "q1"
    told = [("q1.1", {**PLAN, "mood": 1}), ("q1.2", {"type": "mood"}), ("q1.3", DONE)]
    with scripted(STREAM + events(*told)) as server, client(server) as asker:
        assert kinds(asker.stream("a")) == ["plan", "done"]


def kinds(stream: Iterator[Any]) -> list[str]:
    return [event.type for event in stream]


def test_a_broken_stream_goes_on_after_its_last_event(client: Maker) -> None:
    first = STREAM + events(("q1.1", PLAN), ("q1.2", RESULTS)) + b": ping\n\ndata: {half"
    second = STREAM + events(("q1.2", RESULTS), ("q1.3", RESULTS), ("q1.4", DONE))
    with scripted(first, b"", second) as server, client(server) as asker:
        assert kinds(asker.stream("a")) == ["plan", "results", "results", "done"]
    assert [(asked.method, asked.path) for asked in server.asked] == [
        ("POST", "/v1/search/stream"),
        ("GET", "/v1/search/stream/q1"),
        ("GET", "/v1/search/stream/q1"),
    ]
    assert [asked.headers.get("last-event-id") for asked in server.asked] == [None, "q1.2", "q1.2"]


def test_a_stream_that_is_forgotten_is_asked_anew_for_the_rest_of_its_deadline(client: Maker) -> None:
    first = [STREAM + events(("q1.1", PLAN)), 0.2]
    again = STREAM + events(("q2.1", {**PLAN, "query_id": "q2"}), ("q2.2", DONE))
    with scripted(first, problem(404, "not_found"), again) as server, client(server) as asker:
        told = list(asker.stream(SearchRequest(query="a", deadline_ms=3_000)))
    assert [event.type for event in told] == ["plan", "plan", "done"]
    assert [asked.method for asked in server.asked] == ["POST", "GET", "POST"]
    assert server.asked[2].json["deadline_ms"] <= 2_800


def test_a_stream_of_before_is_taken_up(client: Maker) -> None:
    with scripted(STREAM + events(("q1.4", DONE))) as server, client(server) as asker:
        assert kinds(asker.resume("q1", "q1.3")) == ["done"]
    assert server.asked[0].headers["last-event-id"] == "q1.3"
    with scripted(problem(404, "not_found")) as server, client(server) as asker, pytest.raises(NotFoundError):
        list(asker.resume("q1", "q1.3"))


def test_a_stream_refused_before_it_begins_is_asked_again(client: Maker) -> None:
    with scripted(TRANSIENT["overloaded"], STREAM + events(("1", DONE))) as server, client(server) as asker:
        assert kinds(asker.stream("a")) == ["done"]


def test_an_error_event_is_raised_and_ends_the_stream(client: Maker) -> None:
    failed = {"type": "error", "problem": {"title": "T", "status": 503, "code": "store_failed", "detail": "broke"}}
    with (
        scripted(STREAM + events(("q1.1", PLAN), ("q1.2", failed))) as server,
        client(server) as asker,
        pytest.raises(StoreError, match="broke"),
    ):
        kinds(asker.stream("a"))
    assert len(server.asked) == 1


def test_a_stream_that_breaks_for_ever_is_given_up(client: Maker) -> None:
    with (
        scripted(STREAM + events(("q1.1", PLAN)), b"") as server,
        client(server) as asker,
        pytest.raises(ServiceUnavailableError),
    ):
        kinds(asker.stream("a"))
    assert len(server.asked) == 4


@pytest.mark.parametrize("content", [b"data: {}\n\n", b"data: nothing\n\n", b'data: {"type": "plan"}\n\n'])
def test_events_that_are_none_are_named(client: Maker, content: bytes) -> None:
    with (
        scripted(STREAM + content) as server,
        client(server) as asker,
        pytest.raises(ServiceUnavailableError, match="an event that is none"),
    ):
        kinds(asker.stream("a"))


def test_a_page_where_events_should_be_is_named(client: Maker) -> None:
    with (
        scripted(answer(200, b"<html>", kind="text/html")) as server,
        client(server) as asker,
        pytest.raises(ServiceUnavailableError, match="text/html"),
    ):
        kinds(asker.stream("a"))


def test_leaving_a_stream_closes_its_connection(client: Maker) -> None:
    with scripted([STREAM + events(("q1.1", PLAN)), 20.0]) as server, client(server) as asker:
        stream = asker.stream("a")
        next(stream)
        stream.close()
        assert server.left.wait(180)


def test_lines_end_at_line_feeds_alone_and_a_cut_one_is_noticed(client: Maker) -> None:
    steps = '{"type":"progress","stage":"a\u2028b\x85"}\n\n{"type":"done"}\n'.encode()
    with scripted(answer(200, steps, kind="application/x-ndjson")) as server, client(server) as asker:
        assert [step.stage for step in asker.sync()] == ["a\u2028b\x85", ""]
    for cut in (steps[:-3], steps[:47]):
        with (
            scripted(answer(200, cut, kind="application/x-ndjson")) as server,
            client(server) as asker,
            pytest.raises(ServiceUnavailableError, match="went away"),
        ):
            list(asker.sync())


BAD_URLS = [
    "",
    "pictures.example",
    "ftp://pictures.example",
    "http://",
    "http://u:p@pictures.example",
    "http://h/?a=1",
    "http://[::1",
]


@pytest.mark.parametrize("url", BAD_URLS)
def test_addresses_that_cannot_be_asked_are_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LODESTONE_URL", raising=False)
    with pytest.raises(ConfigurationError) as caught:
        Lodestone(url)
    assert ":p@" not in caught.value.message


def test_keys_are_sent_and_never_shown(client: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted(answer(200, JSON)) as server:
        with client(server, api_key="lodestone_k_secret") as asker:
            search(asker)
            assert "secret" not in repr(asker)
        assert server.asked[0].headers["authorization"] == "Bearer lodestone_k_secret"
        for key in ("a b", "a\nX-Evil: 1", "schlüssel"):
            with pytest.raises(InvalidRequestError) as caught:
                client(server, api_key=key)
            assert key not in str(caught.value)
        monkeypatch.setenv("LODESTONE_URL", server.url)
        monkeypatch.setenv("LODESTONE_API_KEY", "from-the-environment")
        with Lodestone() as asker:
            search(asker)
        assert server.asked[1].headers["authorization"] == "Bearer from-the-environment"


def test_the_environments_key_goes_to_its_own_service_alone(client: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LODESTONE_URL", "https://pictures.example")
    monkeypatch.setenv("LODESTONE_API_KEY", "from-the-environment")
    with scripted(answer(200, JSON)) as server, client(server) as asker:
        search(asker)
    assert "authorization" not in server.asked[0].headers


def test_lists_are_read_to_their_end_by_cursor_or_offset(client: Maker) -> None:
    def page(name: str, **place: object) -> bytes:
        import json

        info = {"name": name, "corpus_id": name, "images": 1, "failures": 0, "roots": [], "created_at": "2026-01-02T00:00:00Z"}
        return answer(200, json.dumps({"corpora": [info], **place}).encode())

    for first, second in (({"next_cursor": "Zm9v", "next_offset": 1}, "cursor=Zm9v"), ({"next_offset": 1}, "offset=1")):
        with scripted(page("a", **first), page("b")) as server, client(server) as asker:
            assert [corpus.name for corpus in asker.iter_corpora()] == ["a", "b"]
        assert second in server.asked[1].path
    with scripted(page("a", next_offset=0)) as server, client(server) as asker:  # a service that would go round in circles
        assert len(list(asker.iter_corpora())) == 1


def test_names_cannot_leave_their_place_in_the_path(client: Maker) -> None:
    with scripted(answer(204, b"")) as server, client(server) as asker:
        asker.remove_corpus("../admin?x=1#y/z")
        asker.remove_tag("a/../b")
    assert [asked.path for asked in server.asked] == ["/v1/corpora/..%2Fadmin%3Fx%3D1%23y%2Fz", "/v1/tags/a%2F..%2Fb"]


def test_tags_and_pages_are_asked_as_they_are_meant(client: Maker) -> None:
    with scripted(answer(200, b'{"tags":[]}')) as server, client(server) as asker:
        asker.add_tags(TagRequest(image_ids=[IMAGE], text="ours"))
        asker.tags(20, 10, corpus="family & friends")
    assert server.asked[0].json == {"image_ids": [IMAGE], "text": "ours"}
    assert server.asked[1].path == "/v1/tags?offset=20&limit=10&corpus=family+%26+friends"
