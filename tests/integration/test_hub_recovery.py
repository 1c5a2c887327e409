"""Two picture services behind the hub: in parallel, one slow, hanging, broken, healed; all of it seen by the observer."""

import asyncio
import time

import pytest
from tests.support.engines import Recorder, breaker_clock, drawn, hub_of, ids, remote
from tests.support.image_servers import ImageServer

from lodestone.generators.base import GuideRequest
from lodestone.query_notes import QueryNotes


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """A cancelled call has stopped when its query ends: a busy machine may need longer for that than it gets."""
    monkeypatch.setattr("lodestone.generators.engine_call.CANCEL_GRACE_S", 120.0)


@pytest.fixture
def steady():
    with ImageServer(mode="slow", delay=0.0) as server:
        yield server


@pytest.fixture
def moody():
    with ImageServer() as server:
        yield server


async def test_two_services_work_at_the_same_time(steady, moody):
    hub = hub_of(remote("steady", steady.url, timeout_s=200), remote("moody", moody.url, kind="openai", timeout_s=200))
    steady.mode = moody.mode = "slow"
    steady.delay = moody.delay = 3600.0  # neither answers before both are asked
    query = asyncio.create_task(drawn(hub, n=4, seconds=250))
    while not (steady.running and moody.running):
        assert not query.done(), "one waited for the other's answer"
        await asyncio.sleep(0.01)
    steady.delay = moody.delay = 0.0
    assert len(await query) == 4
    await hub.close()


async def test_a_service_is_given_up_rested_tried_again_and_taken_back(steady, moody):
    observer, both = Recorder(), {"pictures_a_call": 2}  # one call a query
    hub = hub_of(
        remote("steady", steady.url),
        remote("moody", moody.url, timeout_s=5, breaker_failures=2, breaker_seconds=60, options=both),
        remote("spare", steady.url, priority=1),
        observer=observer,
    )
    clock = breaker_clock(hub, "moody")

    async def ask() -> tuple[list[str], QueryNotes]:
        log = QueryNotes()
        return ids(await drawn(hub, n=4, log=log)), log

    def breaker() -> str:
        return next(one.breaker for one in hub.status().engines if one.name == "moody")

    guides, log = await ask()
    assert guides == ["moody/0", "moody/1", "steady/0", "steady/1"] and log.warnings == []

    moody.mode, moody.delay = "slow", 3600.0  # slow: over its time-out, and the spare fills in
    guides, log = await ask()
    assert guides == ["spare/0", "spare/1", "steady/0", "steady/1"]
    assert "no answer within 5 s" in log.warnings[0] and breaker() == "closed"

    moody.mode = "error"  # broken: the second failure in a row opens the breaker
    guides, log = await ask()
    assert guides == ["spare/0", "spare/1", "steady/0", "steady/1"] and breaker() == "open"

    calls = len(moody.drawn)
    for _ in range(3):
        guides, log = await ask()
        assert guides == ["spare/0", "spare/1", "steady/0", "steady/1"] and "out of use" in log.warnings[0]
    assert len(moody.drawn) == calls  # not one call while it rested

    clock.now += 60
    assert breaker() == "half_open"
    await ask()  # still broken: exactly one probe
    assert len(moody.drawn) == calls + 1 and breaker() == "open"

    moody.mode, moody.delay = "slow", 1.0  # healed, and well within its time
    clock.now += 60
    answers = await asyncio.gather(ask(), ask(), ask())
    assert len(moody.drawn) == calls + 2  # one query tried it, the others were not let through meanwhile
    assert sorted("moody/0" in guides for guides, _ in answers) == [False, False, True]
    assert all(len(guides) == 4 for guides, _ in answers)
    assert breaker() == "closed"
    assert (await ask())[0] == ["moody/0", "moody/1", "steady/0", "steady/1"]

    assert [state for name, state in observer.breakers if name == "moody"] == [
        "open", "half_open", "open", "half_open", "closed",
    ]  # fmt: skip
    outcomes = observer.outcomes("moody")
    assert outcomes == ["ok", "timeout", "error", *["refused"] * 3, "error", *["refused"] * 2, "ok", "ok"]
    moody_info = next(one for one in hub.status().engines if one.name == "moody")
    assert moody_info.failures == 3 and "answers 500" in moody_info.last_error
    await hub.close()


async def test_a_hung_service_learns_that_the_query_is_over(steady, moody):
    moody.mode = "hang"
    hub = hub_of(remote("steady", steady.url), remote("moody", moody.url))
    draw = hub.draw(GuideRequest("a cat", "a cat", 2), deadline=time.monotonic() + 30, log=QueryNotes())
    assert (await anext(draw))[0].engine == "steady"
    while not moody.running:
        await asyncio.sleep(0.01)
    await draw.aclose()
    assert {task for task in asyncio.all_tasks() if "generate" in task.get_name()} == set()
    async with asyncio.timeout(120):
        while moody.running:
            await asyncio.sleep(0.02)
    assert moody.drawn[-1].abandoned
    await hub.close()


async def test_with_every_service_down_there_are_no_guides_and_the_reasons(steady, moody):
    log = QueryNotes()
    steady.mode, moody.mode = "error_page", "empty"
    hub = hub_of(remote("steady", steady.url), remote("moody", moody.url), remote("gone", "http://127.0.0.1:9", priority=1))
    assert await drawn(hub, log=log) == []
    assert len(log.warnings) == 3
    assert "answers 502" in log.warnings[0] or "answers 502" in log.warnings[1]
    assert "cannot be reached" in log.warnings[2]
    await hub.close()


async def test_calls_at_once_are_limited_at_the_server(moody):
    moody.mode, moody.delay = "slow", 0.1
    hub = hub_of(remote("moody", moody.url, concurrency=2))
    assert len(await drawn(hub, n=6)) == 6
    assert moody.most_running == 2
    await hub.close()
