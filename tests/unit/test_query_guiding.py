"""Guides in a query: what fits into the time left, how they are asked, what they weigh."""

import asyncio
import time

import numpy as np
import pytest

from lodestone.errors import ModelUnavailableError
from lodestone.generators.base import Generator, Guide, GuideRequest
from lodestone.query.clock import Stopwatch, remaining, within
from lodestone.query.guiding import FusionSettings, GuideLog, ask, fit, searches_of


@pytest.mark.parametrize(
    ("left", "expected"),
    [(10.0, (9, 6)), (0.30, (5, 6)), (0.06, (1, 6)), (0.05, (1, 5)), (0.01, (1, 1)), (0.005, (0, 0)), (0.0, (0, 0))],
)
def test_fewer_guides_go_first_then_fewer_spaces_then_all(left, expected):
    assert fit(9, 6, seconds_a_list=0.01, left=left + 1e-9) == expected


def test_nothing_to_search_fits_nothing():
    assert fit(0, 6, seconds_a_list=0.01, left=1.0) == (0, 0)
    assert fit(3, 0, seconds_a_list=0.01, left=1.0) == (0, 0)
    assert fit(3, 2, seconds_a_list=0.0, left=1.0) == (3, 2)


class Engine(Generator):
    version = "1"

    def __init__(self, name, *, delay=0.0, error=None):
        self.name, self.delay, self.error, self.asked = name, delay, error, []

    async def warm_up(self):
        pass

    async def generate(self, request):
        self.asked.append(request)
        await asyncio.sleep(self.delay)
        if self.error:
            raise self.error
        return [Guide(f"{self.name}/{row}", self.name, 1.0, {}) for row in range(request.n)]


async def asked(engines, *, n, deadline=None, log=None):
    deadline = time.monotonic() + 30 if deadline is None else deadline
    named = {engine.name: engine for engine in engines}
    return [batch async for batch in ask(named, GuideRequest("q", "q", n), deadline=deadline, log=log or GuideLog())]


async def test_engines_share_the_guides_and_the_first_take_the_remainder():
    engines = [Engine("a"), Engine("b"), Engine("c")]
    batches = await asked(engines, n=5)
    assert sorted(guide.guide_id for batch in batches for guide in batch) == ["a/0", "a/1", "b/0", "b/1", "c/0"]
    few = [Engine("a"), Engine("b")]
    await asked(few, n=1)
    assert few[1].asked == []


async def test_guides_arrive_as_they_are_made():
    batches = await asked([Engine("slow", delay=0.3), Engine("fast")], n=2)
    assert [batch[0].engine for batch in batches] == ["fast", "slow"]


async def test_failures_are_told_and_the_others_go_on():
    log = GuideLog()
    engines = [
        Engine("a", error=ModelUnavailableError("no weights", hint="install them")),
        Engine("b", error=KeyError("x")),
        Engine("c"),
    ]
    batches = await asked(engines, n=3, log=log)
    assert [batch[0].engine for batch in batches] == ["c"]
    assert any("'a'" in one and "no weights" in one and "install them" in one for one in log.warnings)
    assert any("'b'" in one and "KeyError" in one for one in log.warnings)


async def test_late_engines_are_dropped_and_time_is_kept_for_the_search():
    log, late = GuideLog(), Engine("late", delay=60)
    started = time.monotonic()
    assert await asked([late], n=2, deadline=started + 0.5, log=log) == []
    assert log.dropped == ["generator 'late': out of time"]
    assert late.asked[0].deadline < started + 0.5


async def test_an_engine_that_does_not_listen_to_cancelling_is_left_behind():
    class Deaf(Engine):
        async def generate(self, request):
            for _ in range(20):
                try:
                    await asyncio.sleep(0.2)
                except asyncio.CancelledError:
                    continue
            return []

    started = time.monotonic()
    assert await asked([Deaf("deaf")], n=1, deadline=started + 0.2) == []
    assert time.monotonic() - started < 3


class Pictures:
    """An encoder that tells how it was called."""

    collections = {"a": "a-1", "b": "b-1"}  # noqa: RUF012

    def __init__(self):
        self.calls = []

    async def embed_pictures(self, pictures):
        self.calls.append(len(pictures))
        return {name: np.stack([np.full(2, row, np.float32) for row in range(len(pictures))]) for name in ("a-1", "b-1")}


def searches(guides, encoder=None, *, weight=0.5, spaces=None):
    return asyncio.run(
        searches_of(
            guides,
            encoder=encoder or Pictures(),
            spaces=spaces or {"a": "a-1", "b": "b-1"},
            space_weights={"a": 0.75, "b": 0.25},
            settings=FusionSettings(guide_weight=weight),
        )
    )


def guide(name, *, weight=1.0, pixels=None, **vectors):
    return Guide(name, "engine", weight, {}, pixels=pixels, vectors={f"{key}-1": value for key, value in vectors.items()})


def test_all_guides_together_never_outweigh_their_budget():
    vector = np.ones(2, np.float32)
    for guides in (
        [guide(f"g{row}", a=vector, b=vector, weight=0.8) for row in range(7)],
        [guide("g", a=vector, b=vector, weight=0.3)],
    ):
        total = sum(one.weight for one in searches(guides))
        assert total <= 0.5 + 1e-9
    assert total == pytest.approx(0.15)  # one doubtful guide counts as little as it trusts itself


def test_pixels_of_all_guides_are_embedded_in_one_call_and_vectors_are_not_embedded_again():
    encoder, pixels = Pictures(), np.zeros((4, 4, 3), np.uint8)
    given = np.full(2, 9, np.float32)
    found = searches([guide("p", pixels=pixels), guide("v", a=given, b=given), guide("m", pixels=pixels, a=given)], encoder)
    assert encoder.calls == [2]
    by = {(one.guide, one.space): one.vector[0] for one in found}
    assert by == {("p", "a"): 0, ("p", "b"): 0, ("v", "a"): 9, ("v", "b"): 9, ("m", "a"): 9, ("m", "b"): 1}


def test_a_guide_without_a_vector_in_a_space_is_not_searched_there():
    found = searches([guide("v", a=np.ones(2, np.float32))])
    assert [(one.guide, one.space, one.collection) for one in found] == [("v", "a", "a-1")]


async def test_work_ends_at_the_deadline():
    with pytest.raises(TimeoutError):
        await within(asyncio.sleep(60), time.monotonic() + 0.05)
    assert await within(asyncio.sleep(0, "done"), time.monotonic() + 5) == "done"
    assert remaining(time.monotonic() - 1) == 0
    assert remaining(None) == float("inf")


def test_a_stage_that_runs_twice_adds_up():
    watch = Stopwatch()
    watch.add("search", 0.5)
    watch.add("search", 0.25)
    with watch.stage("fuse"):
        pass
    assert watch.timings_ms()["search"] == 750
    assert watch.seconds("search") == 0.75
    assert list(watch.timings_ms()) == ["search", "fuse", "total"]
