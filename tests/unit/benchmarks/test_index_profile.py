"""The profile of an index run tells stages apart, and the functions that it watches exist."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from benchmarks.index_profile import JOB, PEER, Stages, locate


@pytest.mark.parametrize("place", sorted({place for stages in (JOB, PEER) for places in stages.values() for place in places}))
def test_every_watched_function_exists(place: str) -> None:
    owner, name = locate(place)
    assert callable(getattr(owner, name))


def test_a_stage_inside_another_counts_for_itself_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(time, "thread_time", lambda: clock.now)
    stages = Stages()

    def spend(seconds: float) -> None:
        clock.now += seconds

    inner = stages.timed("inner", spend)

    def work() -> None:
        spend(1)
        inner(2)
        inner(3)
        spend(4)

    stages.timed("outer", work)()
    assert dict(stages.seconds) == {"outer": 5.0, "inner": 5.0}


def test_a_stage_that_fails_is_counted_and_the_error_goes_on() -> None:
    stages = Stages()
    with pytest.raises(ZeroDivisionError):
        stages.timed("broken", lambda: 1 / 0)()
    assert "broken" in stages.seconds


def test_methods_of_models_are_told_apart_by_the_models_names() -> None:
    stages = Stages()
    embed = stages.timed("model {}", lambda model: model.name)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(embed, [SimpleNamespace(name="a"), SimpleNamespace(name="b"), SimpleNamespace(name="a")]))
    assert set(stages.seconds) == {"model a", "model b"}
