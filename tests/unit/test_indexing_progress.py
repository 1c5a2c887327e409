"""Rates and estimates of a stage."""

import pytest

from lodestone.indexing.progress import Meter, ProgressEvent, Stage


def test_a_meter_reports_rate_rest_and_failures() -> None:
    now = [0.0]
    events: list[ProgressEvent] = []
    meter = Meter(events.append, Stage.EMBED, total=100, clock=lambda: now[0])
    now[0] = 2.0
    meter.add(20, failures=1)
    assert events[-1].rate == pytest.approx(10.0)
    assert events[-1].eta == pytest.approx(8.0)
    assert events[-1].failures == 1
    assert (events[-1].done, events[-1].total) == (20, 100)


def test_the_rate_follows_the_last_steps_alone() -> None:
    now = [0.0]
    events: list[ProgressEvent] = []
    meter = Meter(events.append, Stage.EMBED, total=1000, window=3, clock=lambda: now[0])
    for step in (100.0, 1.0, 1.0, 1.0):
        now[0] += step
        meter.add(10)
    assert events[-1].rate == pytest.approx(10.0)


def test_an_unknown_total_gives_no_estimate() -> None:
    events: list[ProgressEvent] = []
    now = [0.0]
    meter = Meter(events.append, Stage.DISCOVER, clock=lambda: now[0])
    now[0] = 1.0
    meter.add(5)
    assert events[-1].eta is None
