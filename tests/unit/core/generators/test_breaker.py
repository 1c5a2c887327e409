"""The circuit breaker of an engine in a hub: calls are kept away, one probes, and a query that ends locks nothing out."""

import asyncio

import pytest
from tests.support.engines import Drawer, Recorder, breaker_clock, drawn, engine, hub_of

from lodestone.errors import ServiceUnavailableError
from lodestone.query_notes import QueryNotes


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """A cancelled call has stopped when its query ends: a busy machine may need longer for that than it gets."""
    monkeypatch.setattr("lodestone.generators.engine_call.CANCEL_GRACE_S", 120.0)


async def test_an_open_breaker_keeps_calls_away_and_the_query_says_so():
    observer, log = Recorder(), QueryNotes()
    ill = Drawer(error=ServiceUnavailableError("down"))
    hub = hub_of(
        engine("ill", ill, breaker_failures=2, breaker_seconds=60), engine("spare", Drawer(), priority=1), observer=observer
    )
    for _ in range(5):
        assert len(await drawn(hub, n=2, log=log)) == 2
    assert len(ill.asked) == 2
    assert observer.outcomes("ill") == ["error", "error", "refused", "refused", "refused"]
    assert any("out of use" in one and "down" in one for one in log.warnings)


async def test_half_open_lets_one_of_many_queries_through():
    observer, ill = Recorder(), Drawer(error=ServiceUnavailableError("down"))
    hub = hub_of(engine("ill", ill, breaker_failures=1, breaker_seconds=10), observer=observer)
    clock = breaker_clock(hub, "ill")
    await drawn(hub, n=1)
    clock.now += 10
    ill.error, ill.delay, ill.asked = None, 1.0, []
    answers = await asyncio.gather(*(drawn(hub, n=1) for _ in range(5)))
    assert len(ill.asked) == 1 and sum(len(one) for one in answers) == 1
    assert observer.breakers == [("ill", "open"), ("ill", "half_open"), ("ill", "closed")]
    assert len(await drawn(hub, n=1)) == 1


async def test_a_query_that_ends_during_the_probe_does_not_lock_the_engine_out():
    ill = Drawer(error=ServiceUnavailableError("down"))
    hub = hub_of(engine("ill", ill, breaker_failures=1, breaker_seconds=10))
    clock = breaker_clock(hub, "ill")
    await drawn(hub, n=1)
    clock.now += 10
    ill.error, ill.delay = None, 60
    assert await drawn(hub, n=1, seconds=0.2) == []
    ill.delay = 0
    assert len(await drawn(hub, n=1)) == 1
    assert hub.status().engines[0].breaker == "closed"


async def test_a_client_that_goes_away_during_the_probe_does_not_lock_the_engine_out():
    ill = Drawer(error=ServiceUnavailableError("down"))
    hub = hub_of(engine("ill", ill, breaker_failures=1, breaker_seconds=10))
    clock = breaker_clock(hub, "ill")
    await drawn(hub, n=1)
    clock.now += 10
    ill.error, ill.delay = None, 60
    query = asyncio.create_task(drawn(hub, n=1))
    while not ill.running:
        await asyncio.sleep(0.01)
    query.cancel()
    await asyncio.wait({query})
    ill.delay = 0
    assert len(await drawn(hub, n=1)) == 1


async def test_words_that_are_declined_do_not_count_against_the_engine():
    picky = Drawer(error=ServiceUnavailableError("not these words", declined=True))
    hub = hub_of(engine("picky", picky, breaker_failures=1))
    await drawn(hub)
    assert hub.status().engines[0].breaker == "closed" and hub.status().engines[0].last_error == "not these words"


async def test_an_engine_that_names_a_time_is_left_alone_until_then():
    busy = Drawer(error=ServiceUnavailableError("429", retry_after=60.0))
    hub = hub_of(engine("busy", busy, breaker_failures=100, breaker_seconds=10))
    clock = breaker_clock(hub, "busy")
    await drawn(hub)
    clock.now += 15
    await drawn(hub)
    assert len(busy.asked) == 1
