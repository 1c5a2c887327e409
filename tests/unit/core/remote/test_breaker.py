"""The circuit breaker by itself: when it opens, who may try, and what closes it."""

import pytest
from tests.support.engines import Clock

from lodestone.remote.breaker import LONGEST_REST_S, Breaker


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


def test_a_service_that_asks_for_rest_gets_it_at_once_within_reason(breaker, clock):
    breaker.failed(breaker.admit(), rest=30.0)
    clock.now += 29
    assert breaker.state == "open"
    clock.now += 1
    assert breaker.state == "half_open"
    breaker.failed(breaker.admit(), rest=1e9)
    clock.now += LONGEST_REST_S
    assert breaker.state == "half_open"
