"""The circuit breaker of an engine: when it opens, who may try, and what closes it."""

import asyncio

import pytest
from tests.support.engines import Clock, Drawer, Recorder, breaker_clock, drawn, engine, hub_of

from lodestone.errors import ServiceUnavailableError
from lodestone.generators.breaker import LONGEST_REST_S, Breaker
from lodestone.generators.query_notes import QueryNotes


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """A cancelled call has stopped when its query ends: a busy machine may need longer for that than it gets."""
    monkeypatch.setattr("lodestone.generators.engine_call.CANCEL_GRACE_S", 120.0)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def changes():
    return []


@pytest.fixture
def breaker(clock, changes):
    return Breaker(failures=3, seconds=10.0, clock=clock, on_change=changes.append)


def trip(breaker):
    for _ in range(3):
        breaker.failed(breaker.admit())


def test_it_opens_after_failures_in_a_row_only(breaker, changes):
    for _ in range(5):
        breaker.failed(breaker.admit())
        breaker.failed(breaker.admit())
        breaker.succeeded(breaker.admit())
    assert breaker.state == "closed" and changes == []
    trip(breaker)
    assert breaker.state == "open" and changes == ["open"] and breaker.admit() is None


def test_after_its_rest_one_call_tries_and_success_closes_it(breaker, clock, changes):
    trip(breaker)
    clock.now += 9.9
    assert breaker.admit() is None
    clock.now += 0.2
    assert breaker.state == "half_open"
    probe = breaker.admit()
    assert probe is not None and breaker.admit() is None and breaker.state == "half_open"
    breaker.succeeded(probe)
    assert breaker.state == "closed" and breaker.admit() is not None
    assert changes == ["open", "half_open", "closed"]
    breaker.failed(breaker.admit())
    breaker.failed(breaker.admit())
    assert breaker.state == "closed"  # counted from nothing


def test_a_failed_probe_opens_it_for_another_rest(breaker, clock, changes):
    trip(breaker)
    clock.now += 10
    breaker.failed(breaker.admit())
    assert breaker.state == "open"
    clock.now += 9.9
    assert breaker.admit() is None
    assert changes == ["open", "half_open", "open"]


def test_a_probe_that_was_given_up_says_nothing_and_another_may_try(breaker, clock):
    trip(breaker)
    clock.now += 10
    breaker.withdrawn(breaker.admit())
    assert breaker.state == "half_open"
    breaker.succeeded(breaker.admit())
    assert breaker.state == "closed"


def test_what_calls_from_before_bring_in_later_changes_nothing(breaker, clock):
    early, late = breaker.admit(), breaker.admit()
    trip(breaker)
    breaker.succeeded(early)
    assert breaker.state == "open"
    clock.now += 10
    probe = breaker.admit()
    breaker.failed(late)
    assert breaker.state == "half_open"
    breaker.succeeded(probe)
    assert breaker.state == "closed"


def test_an_engine_that_asks_for_rest_gets_it_at_once_within_reason(breaker, clock):
    breaker.failed(breaker.admit(), rest=30.0)
    clock.now += 29
    assert breaker.state == "open"
    clock.now += 1
    assert breaker.state == "half_open"
    breaker.failed(breaker.admit(), rest=1e9)
    clock.now += LONGEST_REST_S
    assert breaker.state == "half_open"


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
