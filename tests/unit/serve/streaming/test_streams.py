"""Streams are resumed, given up and kept within bounds, and no work is left running for nobody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from tests.support.asgi_caller import Call
from tests.support.fake_services import FakeServices

from lodestone.config.serve import LoadSettings, StreamSettings
from lodestone.config.settings import ServeSettings
from lodestone.errors import NotFoundError, OverloadedError
from lodestone.query.asking.request_context import NOW, RequestContext
from lodestone_schemas.api import DoneEvent, Event, PlanEvent, SearchRequest, SearchResponse
from lodestone_serve.http.application import create_app
from lodestone_serve.policy import AdmissionRule, policy_for
from lodestone_serve.streaming.streams import Streams
from lodestone_serve.telemetry.metrics import Metrics
from lodestone_serve.traffic.admission import Admission
from lodestone_serve.traffic.admission_middleware import priority_of

QUERY = {"query": "a boat"}


class Recording(FakeServices):
    """Remembers how it was asked."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.contexts: list[RequestContext] = []

    async def events(self, request: SearchRequest, *, request_context: RequestContext = NOW) -> AsyncIterator[Event]:
        self.contexts.append(request_context)
        async for event in super().events(request, request_context=request_context):
            yield event

    async def answer(self, request: SearchRequest, *, request_context: RequestContext = NOW) -> SearchResponse:
        self.contexts.append(request_context)
        return await super().answer(request, request_context=request_context)


@pytest.fixture
def services(tmp_path: Path) -> Recording:
    return Recording(tmp_path)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def app_of(
    services: FakeServices, metrics: Metrics, *, ongoing: int = 2, load: LoadSettings | None = None, **streams
) -> FastAPI:
    settings = ServeSettings(max_ongoing=ongoing, max_queued=2, streams=StreamSettings(**streams), load=load or LoadSettings())
    return create_app(services, settings=settings, token="t", metrics=metrics)


def value(metrics: Metrics, name: str) -> float:
    return metrics.registry.get_sample_value(f"lodestone_{name}") or 0.0


async def until(condition) -> None:
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.002)


async def test_a_broken_stream_goes_on_behind_its_last_event(services: Recording, metrics: Metrics) -> None:
    services.pause = asyncio.Event()
    app = app_of(services, metrics, grace_s=30)
    first = Call(app, "POST", "/v1/search/stream", body=QUERY)
    await first.until_event("results")
    last = first.events()[-1]["id"]
    assert last == "q1.2"
    await first.leave()
    assert services.running == 1, "the query goes on while its reader may come back"
    second = Call(app, "GET", "/v1/search/stream/q1", headers={"last-event-id": last})
    await until(lambda: value(metrics, "streams_open") == 1)
    services.pause.set()
    await second.done()
    assert [(event["event"], event["id"]) for event in second.events()] == [("guide", "q1.3"), ("done", "q1.4")]
    assert value(metrics, "streams_resumed_total") == 1
    assert value(metrics, "streams_cancelled_total") == 0
    assert value(metrics, "streams_open") == 0
    assert len(services.contexts) == 1, "nothing was asked twice"


async def test_a_finished_stream_is_kept_and_its_end_is_told(services: Recording, metrics: Metrics) -> None:
    app = app_of(services, metrics)
    whole = await Call(app, "POST", "/v1/search/stream", body=QUERY).done()
    again = await Call(app, "GET", "/v1/search/stream/q1").done()
    assert again.body == whole.body
    by_post = await Call(app, "POST", "/v1/search/stream", body=QUERY, headers={"last-event-id": "q1.3"}).done()
    assert [event["id"] for event in by_post.events()] == ["q1.4"]
    assert value(metrics, "queries_in_flight") == 0
    at_end = await Call(app, "GET", "/v1/search/stream/q1", headers={"last-event-id": "q1.4"}).done()
    assert (at_end.status, at_end.body) == (204, b"")
    assert len(services.contexts) == 1


async def test_a_reader_that_stays_away_frees_the_querys_slot(services: Recording, metrics: Metrics) -> None:
    services.pause = asyncio.Event()
    app = app_of(services, metrics, ongoing=1, grace_s=0.05)
    call = Call(app, "POST", "/v1/search/stream", body=QUERY)
    await call.until_event("results")
    assert value(metrics, "queries_in_flight") == 1
    await call.leave()
    await asyncio.wait_for(services.cancelled.wait(), 10)
    await until(lambda: value(metrics, "queries_in_flight") == 0)
    assert services.running == 0
    assert value(metrics, "streams_cancelled_total") == 1
    gone = await Call(app, "GET", "/v1/search/stream/q1", headers={"last-event-id": "q1.2"}).done()
    assert (gone.status, gone.json()["code"]) == (404, "not_found")
    assert "ask the query again" in gone.json()["hint"]


async def test_a_client_that_leaves_before_its_answer_stops_the_work(services: Recording, metrics: Metrics) -> None:
    services.pause = asyncio.Event()
    app = app_of(services, metrics)
    call = Call(app, "POST", "/v1/search", body=QUERY)
    await until(lambda: services.running == 1)
    await call.leave()
    assert services.running == 0
    assert value(metrics, "queries_in_flight") == 0
    assert call.status == 0


async def test_who_leaves_the_queue_leaves_no_place_behind(services: Recording, metrics: Metrics) -> None:
    services.pause = asyncio.Event()
    app = app_of(services, metrics, ongoing=1)
    first = Call(app, "POST", "/v1/search", body=QUERY)
    await until(lambda: services.running == 1)
    waiting = Call(app, "POST", "/v1/search/stream", body=QUERY)
    await until(lambda: value(metrics, "queries_waiting") == 1)
    await waiting.leave()
    assert value(metrics, "queries_waiting") == 0
    services.pause.set()
    assert (await first.done()).status == 200
    assert len(services.contexts) == 1, "who left was never asked for"


async def test_a_query_that_expires_in_the_queue_is_answered_504_without_work(services: Recording, metrics: Metrics) -> None:
    services.pause = asyncio.Event()
    app = app_of(services, metrics, ongoing=1)
    first = Call(app, "POST", "/v1/search", body=QUERY)
    await until(lambda: services.running == 1)
    late = await Call(app, "POST", "/v1/search", body={**QUERY, "deadline_ms": 30}).done()
    assert (late.status, late.json()["code"]) == (504, "deadline_exceeded")
    assert len(services.contexts) == 1
    services.pause.set()
    await first.done()


async def test_under_pressure_queries_are_asked_without_guides_and_with_their_arrival(
    services: Recording, metrics: Metrics
) -> None:
    services.pause = asyncio.Event()
    app = app_of(services, metrics, ongoing=1, load=LoadSettings(text_only_from=0.5))
    first = Call(app, "POST", "/v1/search", body=QUERY)
    await until(lambda: services.running == 1)
    second = Call(app, "POST", "/v1/search", body=QUERY)
    await until(lambda: value(metrics, "queries_waiting") == 1)
    services.pause.set()
    await first.done()
    await second.done()
    assert [asked.text_only for asked in services.contexts] == ["", "the service is busy"]
    arrivals = [asked.arrived for asked in services.contexts]
    assert None not in arrivals
    assert arrivals == sorted(arrivals)


async def test_a_stage_that_is_overloaded_is_a_429_before_the_first_event_and_an_event_after_it(
    services: Recording, metrics: Metrics
) -> None:
    app = app_of(services, metrics)
    services.fail = OverloadedError("the encoders are busy", hint="wait", retry_after=7)
    refused = await Call(app, "POST", "/v1/search/stream", body=QUERY).done()
    assert (refused.status, refused.json()["code"], refused.headers["retry-after"]) == (429, "overloaded", "7")
    services.fail, services.fail_late = None, services.fail
    late = await Call(app, "POST", "/v1/search/stream", body=QUERY).done()
    assert late.status == 200
    assert late.events()[-1]["event"] == "error"
    assert '"overloaded"' in late.events()[-1]["data"]
    assert value(metrics, "queries_in_flight") == 0


async def test_a_quiet_stream_is_kept_open_by_heartbeats(services: Recording, metrics: Metrics) -> None:
    services.pause = asyncio.Event()
    call = Call(app_of(services, metrics, heartbeat_s=0.02), "POST", "/v1/search/stream", body=QUERY)
    await until(lambda: call.body.count(b": still at work") >= 2)
    services.pause.set()
    await call.done()
    assert [event["id"] for event in call.events()] == ["q1.1", "q1.2", "q1.3", "q1.4"]


@pytest.mark.parametrize("header", ["nonsense", "q1", "q1.x", "q1.-1", "other.1", "q1.1\u00e9"])
async def test_an_id_that_is_not_the_streams_is_refused(services: Recording, metrics: Metrics, header: str) -> None:
    app = app_of(services, metrics)
    await Call(app, "POST", "/v1/search/stream", body=QUERY).done()
    answer = await Call(app, "GET", "/v1/search/stream/q1", headers={"last-event-id": header}).done()
    assert (answer.status, answer.json()["code"]) == (422, "invalid_request")
    unknown = await Call(app, "POST", "/v1/search/stream", body=QUERY, headers={"last-event-id": "zz.1"}).done()
    assert unknown.status == 404


# -- the book of streams itself ----------------------------------------------------------------------------------------------


async def events_of(query_id: str, *, size: int = 10) -> AsyncIterator[Event]:
    yield PlanEvent(query_id=query_id, spaces={}, space_weights={}, generators=[], guides=0, fusion="rrf" * size)
    yield DoneEvent(
        response=SearchResponse(query_id=query_id, stage="text", hits=[], fusion="rrf", space_weights={}, timings_ms={})
    )


async def finished(streams: Streams, query_id: str, *, owner: str = "", size: int = 10) -> None:
    ticket = Admission(limits=ServeSettings(), metrics=Metrics()).enter()
    stream = await streams.begin(events_of(query_id, size=size), ticket=ticket, owner=owner, request_id="")
    await stream.ended()
    await asyncio.sleep(0)


async def test_a_stream_is_its_owners_alone(metrics: Metrics) -> None:
    streams = Streams(StreamSettings(), metrics)
    await finished(streams, "mine", owner="key:a")
    assert streams.find("mine", "key:a").finished
    with pytest.raises(NotFoundError):
        streams.find("mine", "key:b")
    await streams.close()
    with pytest.raises(NotFoundError):
        streams.find("mine", "key:a")


async def test_kept_streams_are_bounded_in_number_and_size(metrics: Metrics) -> None:
    few = Streams(StreamSettings(), metrics, most_streams=3)
    for number in range(10):
        await finished(few, f"q{number}")
    assert sorted(few._known) == ["q7", "q8", "q9"]
    small = Streams(StreamSettings(), metrics, most_bytes=40_000)
    for number in range(10):
        await finished(small, f"q{number}", size=5_000)
    assert sorted(small._known) == ["q8", "q9"]
    await few.close()
    await small.close()


async def test_a_kept_stream_is_forgotten_after_its_time(metrics: Metrics) -> None:
    streams = Streams(StreamSettings(keep_s=0.02), metrics)
    await finished(streams, "q")
    await until(lambda: not streams._known)
    at_once = Streams(StreamSettings(keep_s=0), metrics)
    await finished(at_once, "q")
    assert not at_once._known


async def test_closing_stops_what_runs(services: Recording, metrics: Metrics) -> None:
    services.pause = asyncio.Event()
    admission = Admission(limits=ServeSettings(), metrics=metrics)
    ticket = admission.enter()
    await ticket.start(admission.clock() + 60)
    streams = Streams(StreamSettings(), metrics)
    await streams.begin(services.events(SearchRequest(query="a")), ticket=ticket, owner="", request_id="")
    await streams.close()
    assert (services.running, admission.running) == (0, 0)


async def test_a_query_that_fails_here_is_ended_before_its_slot_is_free(metrics: Metrics) -> None:
    class Unwritable(DoneEvent):
        def model_dump_json(self, **_: Any) -> str:
            raise ValueError("it cannot be written")

    admission = Admission(limits=ServeSettings(), metrics=metrics)
    held_at_end: list[int] = []

    async def events() -> AsyncIterator[Event]:
        try:
            async for event in events_of("q"):
                yield Unwritable(response=event.response) if isinstance(event, DoneEvent) else event
        finally:
            for _ in range(5):  # as stages that have something to stop
                await asyncio.sleep(0)
            held_at_end.append(admission.running)

    ticket = admission.enter()
    await ticket.start(admission.clock() + 60)
    streams = Streams(StreamSettings(), metrics)
    stream = await streams.begin(events(), ticket=ticket, owner="", request_id="r")
    await stream.ended()
    assert held_at_end == [1]
    await until(lambda: admission.running == 0)
    await streams.close()


# -- which requests are queries ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "asks"),
    [
        ("POST", "/v1/search", True),
        ("POST", "/v1/search/stream", True),
        ("POST", "/v1/search/image", True),
        ("POST", "/v1/search/batch", False),
        ("GET", "/v1/search/stream/q", False),
        ("GET", "/v1/images/x/similar", True),
        ("GET", "/v1/images/x", False),
        ("POST", "/v1/embeddings", True),
        ("POST", "/v1/feedback", False),
        ("GET", "/v1/queries", False),
    ],
)
def test_queries_are_known_by_their_routes(method: str, path: str, *, asks: bool) -> None:
    assert (policy_for(method, path).admission is AdmissionRule.QUERY) is asks


@pytest.mark.parametrize(
    ("header", "priority"),
    [("u=5", "batch"), ("i, u=7", "batch"), ("u=1", "interactive"), ("u=9", "interactive"), ("", "interactive")],
)
def test_clients_say_what_can_wait(header: str, priority: str) -> None:
    from starlette.datastructures import Headers

    assert priority_of(Headers({"priority": header})) == priority
