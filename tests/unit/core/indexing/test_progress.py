"""Rates and estimates of a stage."""

import io
import os
import time
from contextlib import suppress

import pytest
from rich.console import Console

from lodestone.indexing.progress import CAPTIONS_ALONE, Meter, ProgressEvent, RunStage
from lodestone_cli.progress import _Bars, _Lines, _note, _note_now


def test_a_meter_reports_rate_rest_and_failures() -> None:
    now = [0.0]
    events: list[ProgressEvent] = []
    meter = Meter(events.append, RunStage.EMBED, total=100, clock=lambda: now[0])
    now[0] = 2.0
    meter.add(20, failures=1)
    assert events[-1].rate == pytest.approx(10.0)
    assert events[-1].eta == pytest.approx(8.0)
    assert events[-1].failures == 1
    assert (events[-1].done, events[-1].total) == (20, 100)


def test_the_rate_follows_the_last_steps_alone() -> None:
    now = [0.0]
    events: list[ProgressEvent] = []
    meter = Meter(events.append, RunStage.EMBED, total=1000, window=3, clock=lambda: now[0])
    for step in (100.0, 1.0, 1.0, 1.0):
        now[0] += step
        meter.add(10)
    assert events[-1].rate == pytest.approx(10.0)


def test_an_unknown_total_gives_no_estimate() -> None:
    events: list[ProgressEvent] = []
    now = [0.0]
    meter = Meter(events.append, RunStage.DISCOVER, clock=lambda: now[0])
    now[0] = 1.0
    meter.add(5)
    assert events[-1].eta is None


def _screen(width: int, events: list[ProgressEvent]) -> list[str]:
    """What the bars show on a terminal `width` columns wide after these events."""
    console = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None)
    bars = _Bars(console)
    for event in events:
        bars(event)
    shown = Console(file=io.StringIO(), width=width, color_system=None)
    shown.print(bars.drawn.get_renderable())
    assert isinstance(shown.file, io.StringIO)
    return [line.rstrip() for line in shown.file.getvalue().splitlines() if line.strip()]


_LATE = [
    ProgressEvent(RunStage.DISCOVER, done=2000, rate=2644.0),
    ProgressEvent(RunStage.START),
    ProgressEvent(RunStage.EMBED, done=1000, total=2000, failures=3, rate=12.0, eta=83.0),
]


def test_bars_of_stages_that_are_over_stand_still() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    bars = _Bars(console)
    for event in _LATE:
        bars(event)
    found, started, embedded = bars.drawn.tasks
    assert found.stop_time is not None
    assert found.finished
    assert started.stop_time is not None
    assert embedded.stop_time is None


@pytest.mark.parametrize("width", [60, 100])
def test_each_stage_has_one_line_however_narrow_the_terminal(width: int) -> None:
    lines = _screen(width, _LATE)
    assert len(lines) == 3
    assert max(map(len, lines)) <= width
    assert "1,000/2,000" in lines[2]
    assert "0/?" not in "".join(lines)


def test_the_time_left_runs_down_between_two_events() -> None:
    event = ProgressEvent(RunStage.EMBED, done=10, total=100, rate=1.0, eta=90.0)
    assert "1:2" in _note_now(event, time.monotonic() - 5.0, over=False)
    assert "0:01 left" in _note_now(event, time.monotonic() - 500.0, over=False)  # it does not vanish before the end
    assert _note_now(event, time.monotonic(), over=True) == "1/s"


def test_captions_are_not_called_pictures() -> None:
    captions = [
        ProgressEvent(RunStage.EMBED, done=5, total=10, detail=CAPTIONS_ALONE),
        ProgressEvent(RunStage.LOAD, done=5, total=10, detail="captions-minilm"),
        ProgressEvent(RunStage.LOAD, done=5, total=10, detail="bridge-1"),
    ]
    lines = [_screen(100, [event])[0] for event in captions]
    assert [line.split()[:2] for line in lines] == [["reading", "captions"], ["loading", "captions"], ["loading", "vectors"]]


def test_stages_of_the_whole_collection_are_not_taken_for_those_of_one_corpus() -> None:
    assert _screen(100, [ProgressEvent(RunStage.VERIFY, done=5, total=10)])[0].startswith("checking all corpora ")


def test_long_times_are_told_in_hours_and_slow_rates_by_the_minute() -> None:
    event = ProgressEvent(RunStage.EMBED, done=10, total=10_000, rate=0.5, eta=19_980.0)
    assert _note(event) == "30/min, 5:33:00 left"


def test_the_work_goes_on_when_nobody_reads_its_progress_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as gone:
        monkeypatch.setattr("sys.stderr", gone)
        lines = _Lines()
        for event in _LATE:
            lines(event)
        monkeypatch.undo()
        with suppress(BrokenPipeError):
            gone.close()
