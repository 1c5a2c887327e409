"""Rates and estimates of a stage."""

import io
import os
import time
from contextlib import suppress
from itertools import pairwise

import pytest
from rich.console import Console

from lodestone.indexing.progress import CAPTIONS_ALONE, STOPPING, Meter, ProgressEvent, RunStage
from lodestone_cli.progress import _Bars, _Lines, _note, _note_now


def _metered(steps: list[tuple[float, int]], *, total: int, window: float = 15.0) -> list[ProgressEvent]:
    """The events of a meter that counts units at moments: (seconds, units)."""
    now = [0.0]
    events: list[ProgressEvent] = []
    meter = Meter(events.append, RunStage.EMBED, total=total, window=window, clock=lambda: now[0])
    for now[0], units in steps:
        meter.add(units)
    return events


def test_a_meter_reports_rate_rest_and_failures() -> None:
    now = [0.0]
    events: list[ProgressEvent] = []
    meter = Meter(events.append, RunStage.EMBED, total=100, clock=lambda: now[0])
    for now[0] in (2.0, 4.0, 6.0):
        meter.add(20, failures=1)
    assert events[-1].rate == pytest.approx(10.0)
    assert events[-1].eta == pytest.approx(4.0)
    assert events[-1].failures == 3
    assert (events[-1].done, events[-1].total) == (60, 100)


def test_the_time_before_the_first_units_is_no_part_of_the_rate() -> None:
    """Models were loaded for a minute: 240 pictures at ten a second take 24 seconds, not hours."""
    events = _metered([(60.0 + 0.1 * number, 1) for number in range(1, 100)], total=240)
    told = [event.eta for event in events if event.eta is not None]
    assert told
    assert max(told) < 24
    assert all(event.rate == pytest.approx(10.0) for event in events if event.rate)


def test_no_time_left_is_told_before_an_estimate_is_worth_something() -> None:
    events = _metered([(5.0 + 0.1 * number, 1) for number in range(1, 60)], total=1000)
    first = next(event for event in events if event.eta is not None)
    assert first.done == 31  # three seconds after the first
    assert first.eta == pytest.approx(96.9)


def test_units_that_come_at_one_moment_are_no_rate() -> None:
    """Two workers bring their first slices together."""
    events = _metered([(8.0, 256), (8.01, 256), (18.0, 256), (18.01, 256)], total=5000)
    assert [event.rate for event in events[:3]] == [0.0, 0.0, 0.0]
    assert events[3].rate == pytest.approx(51.2)
    assert events[4].rate < 100


def test_a_stage_that_ends_soon_has_the_rate_of_all_its_time() -> None:
    events = _metered([(2.0, 10), (2.5, 10)], total=20)
    assert events[-1].rate == pytest.approx(8.0)
    assert events[-1].eta is not None or events[-1].done == events[-1].total


def test_the_rate_follows_the_last_seconds_alone() -> None:
    steps = [(100.0 + number, 1) for number in range(20)] + [(120.0 + number, 10) for number in range(20)]
    events = _metered(steps, total=1000, window=5.0)
    assert events[20].rate == pytest.approx(1.0)
    assert events[-1].rate == pytest.approx(10.0)


def test_an_estimate_moves_little_when_units_come_unevenly() -> None:
    """A slice is written every second, and nothing is counted meanwhile."""
    steps = [(10.0 + second + 0.1 * number, 10) for second in range(20) for number in range(5)]
    told = [event.eta for event in _metered(steps, total=2000) if event.eta is not None]
    assert all(abs(earlier - later) < 0.2 * earlier + 1 for earlier, later in pairwise(told))


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


def test_a_run_that_was_asked_to_stop_says_so_once() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None)
    bars = _Bars(console)
    stopping = [ProgressEvent(RunStage.EMBED, done=done, total=96, detail=STOPPING) for done in (80, 90)]
    for event in [ProgressEvent(RunStage.EMBED, done=70, total=403), *stopping]:
        bars(event)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().count("finishing what is under way; Ctrl-C again stops at once") == 1


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
