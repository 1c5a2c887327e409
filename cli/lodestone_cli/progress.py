"""Progress of long commands, in one style for all: a bar for each stage, with units a second, time left and failures.

`shown_progress` is for work that reports events, `shown_counts` for work that counts, and `shown_wait` for work that says
nothing. Standard output is never written to, and Ctrl-C leaves the terminal as it was.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

from lodestone_cli.options import Output

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from lodestone.indexing.progress import Progress, ProgressEvent
    from lodestone_cli.command_context import CommandContext

_TITLES = {
    "discover": "finding pictures",
    "start": "starting workers",
    "embed": "looking at pictures",
    "load": "loading vectors",
    "build": "building the graph",
    "verify": "checking all corpora",
    "promote": "switching over",
    "done": "done",
    "train": "training",
    "ask": "asking queries",
    "copy": "copying files",
}
LIMITS = {"fetch": "reading", "decode": "decoding", "embed": "the models", "write": "writing", "load": "the vector store"}
_CAPTIONS = "captions"  # details of events that are about captions begin so
_STOPPING = "stopping"  # detail of events of a run that was asked to stop
_FINISHING = "finishing what is under way; Ctrl-C again stops at once"
_COMPACTING = "compacting "  # details of the compaction of a corpus
_CAPTION_TITLES = {
    "embed": "reading captions",
    "load": "loading captions",
    "build": "building their graph",
    "verify": "checking captions",
}
_LINE_SECONDS = 5.0
_BESIDE_THE_BAR = 96  # columns of the longest title, counts, rate, time left, limit, failures and elapsed
_BESIDE_A_COUNT = 60  # the same, where nothing is limited by a stage and no picture fails
_SHORTEST_BAR, _LONGEST_BAR = 6, 40
_EVENTS_A_SECOND = 20  # of counts; the eye needs no more
_WAIT_SECONDS = 1.0

Counts = Callable[[str, int, int], None]
"""Function that is told what is being done, how many units of it are done, and how many there are; 0 for an unknown number."""


@contextmanager
def shown_progress(context: CommandContext) -> Iterator[Progress]:
    """Show bars on a terminal, lines every few seconds elsewhere, and nothing for machine-readable output elsewhere."""
    with _drawn(context, beside=_BESIDE_THE_BAR) as drawing:
        yield drawing


@contextmanager
def shown_counts(context: CommandContext) -> Iterator[Counts]:
    """Show progress of work that counts its units, as `shown_progress` shows stages: a bar for each thing that is done."""
    from lodestone.indexing.progress import Meter, RunStage

    meters: dict[str, Meter] = {}
    due = 0.0
    with _drawn(context, beside=_BESIDE_A_COUNT) as drawing:

        def count(title: str, done: int, total: int) -> None:
            nonlocal due
            now = time.monotonic()
            if title not in meters:
                meters[title] = Meter(partial(drawing.show, title, title), RunStage.ASK, total=total)
            elif now < due and done != total:
                return
            due = now + 1 / _EVENTS_A_SECOND
            meters[title].total = total
            meters[title].add(done - meters[title].done)

        yield count


@contextmanager
def shown_wait(context: CommandContext, title: str, *, after_s: float = _WAIT_SECONDS) -> Iterator[None]:
    """Show on a terminal that work goes on which does not say how far it is, once it has taken `after_s` seconds."""
    console = context.messages
    if not console.is_terminal:
        yield
        return
    waiting: list[_Bars] = []

    def begin() -> None:
        from lodestone.indexing.progress import ProgressEvent, RunStage

        bars = _Bars(console, beside=_BESIDE_A_COUNT)
        bars.show(title, title, ProgressEvent(RunStage.ASK))
        waiting.append(bars)
        bars.drawn.start()

    timer = threading.Timer(after_s, begin)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        for bars in waiting:
            bars.drawn.stop()


@contextmanager
def shown_conversions(context: CommandContext) -> Iterator[None]:
    """Write a line for logs and pipes once models are converted, which takes long without a sign on the first run."""
    if context.messages.is_terminal or context.output is not Output.HUMAN:
        yield
        return
    log = logging.getLogger("lodestone.models.cache")
    level, told = log.level, False

    def tell(record: logging.LogRecord) -> bool:
        nonlocal told
        if record.levelno > logging.INFO:
            return True
        if not told:
            context.messages.print("converting models, which is done once and can take minutes")
        told = True
        return False

    log.addFilter(tell)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(level)
        log.removeFilter(tell)


@contextmanager
def _drawn(context: CommandContext, *, beside: int) -> Iterator[_Bars | _Lines | _Nothing]:
    console = context.messages
    if not console.is_terminal:
        yield _Nothing() if context.output is not Output.HUMAN else _Lines()
        return
    bars = _Bars(console, beside=beside)
    with bars.drawn:
        yield bars


class _Nothing:
    """Progress that nobody sees."""

    def __call__(self, _: ProgressEvent) -> None:
        return

    def show(self, *_: object) -> None:
        """Show nothing of a stage."""


class _Bars:
    """Progress bars, one for each stage. A bar stays as it was when its stage ended."""

    def __init__(self, console: Console, *, beside: int = _BESIDE_THE_BAR) -> None:
        from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
        from rich.text import Text

        class Note(ProgressColumn):
            """Column with the rate, the time left (which counts down between two events) and failures."""

            def render(self, task: Task) -> Text:
                return Text(_note_now(task.fields["event"], task.fields["reported_at"], over=task.stop_time is not None))

        width = console.width - beside
        roomy = width >= _SHORTEST_BAR  # else the numbers alone
        columns: list[ProgressColumn] = [TextColumn("{task.description}", markup=False)]
        columns += [BarColumn(min(width, _LONGEST_BAR))] if roomy else []
        columns += [TextColumn("{task.fields[counted]}"), Note()]
        columns += [TimeElapsedColumn()] if roomy else []
        self.drawn: Bars = Progress(*columns, console=console, transient=True)
        self._tasks: dict[str, TaskID] = {}
        self._stage = ""
        self._stopping = False

    def __call__(self, event: ProgressEvent) -> None:
        self.show(event.stage.value, _title(event), event)

    def show(self, key: str, title: str, event: ProgressEvent) -> None:
        """Show the state of the stage `key`; the stage before it is over."""
        if event.detail == _STOPPING and not self._stopping:
            self._stopping = True
            self.drawn.console.print(_FINISHING)
        if key != self._stage:
            self._end()
            self._stage = key
            if key in self._tasks:  # the next collection
                self.drawn.reset(self._tasks[key])
        if event.stage.value == "done":
            return
        fields: dict[str, Any] = {"counted": _counted(event), "event": event, "reported_at": time.monotonic()}
        if key not in self._tasks:
            self._tasks[key] = self.drawn.add_task(title, total=None, **fields)
        self.drawn.update(self._tasks[key], description=title, completed=event.done, total=event.total or None, **fields)

    def _end(self) -> None:
        if self._stage in self._tasks:
            task = self._tasks[self._stage]
            self.drawn.stop_task(task)
            done = self.drawn.tasks[task].completed
            if self.drawn.tasks[task].total is None:  # nobody knew how many there would be
                self.drawn.update(task, total=done or 1, completed=done or 1)


class _Lines:
    """Progress lines for logs and pipes: when a stage begins or ends, and every few seconds between.

    When the reader has closed the pipe (`| head`), the work continues without output.
    """

    def __init__(self) -> None:
        self._out: TextIO | None = sys.stderr
        self._stage = ""
        self._stopping = False
        self._next = 0.0

    def __call__(self, event: ProgressEvent) -> None:
        self.show(event.stage.value, _title(event), event)

    def show(self, key: str, title: str, event: ProgressEvent) -> None:
        """Write a line about the stage `key` if one is due."""
        if event.detail == _STOPPING and not self._stopping:
            self._stopping = True
            self._say(_FINISHING)
        now = time.monotonic()
        finished = bool(event.total) and event.done >= event.total
        if key == self._stage and now < self._next and not finished:
            return
        self._stage, self._next = key, now + _LINE_SECONDS
        self._say(" ".join(part for part in (title, _counted(event), _note(event)) if part))

    def _say(self, line: str) -> None:
        if self._out is None:
            return
        try:
            self._out.write(f"{line}\n")
            self._out.flush()
        except BrokenPipeError:
            self._out = None


def _title(event: ProgressEvent) -> str:
    stage = event.stage.value
    if event.detail.startswith(_COMPACTING):
        return event.detail
    titles = _CAPTION_TITLES if event.detail.startswith(_CAPTIONS) and stage in _CAPTION_TITLES else _TITLES
    return titles.get(stage, stage)


def _counted(event: ProgressEvent) -> str:
    if not event.done and not event.total:
        return ""
    return f"{event.done:,}" + (f"/{event.total:,}" if event.total else "")


def _note_now(event: ProgressEvent, reported_at: float, *, over: bool) -> str:
    """Return the note of an event some time later; the event came at `reported_at` (monotonic seconds)."""
    if over or event.eta is None:
        return _note(replace(event, eta=None))
    return _note(replace(event, eta=max(event.eta - (time.monotonic() - reported_at), 0.0)))


def _note(event: ProgressEvent) -> str:
    from lodestone.indexing.run_progress import limited_by

    parts = []
    if event.rate:
        parts.append(f"{event.rate:,.0f}/s" if event.rate >= 1 else f"{event.rate * 60:,.0f}/min")
    if event.eta is not None and event.done < event.total:  # until the next event says otherwise, the end is near
        parts.append(time_left(event.eta))
    limit = limited_by(event) if event.stages else None  # while vectors are loaded, nothing else goes on that could limit
    if limit is not None:
        parts.append(f"limited by {LIMITS[limit]}")
    if event.failures:
        parts.append(f"{event.failures:,} failed")
    return ", ".join(parts)


def time_left(seconds: float) -> str:
    """Return e.g. `1:05 left`, or with hours `2:01:05 left`."""
    minutes, rest = divmod(max(int(seconds), 1), 60)
    hours, minutes = divmod(minutes, 60)
    return (f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}") + " left"


_GB = 10**9


def short_progress(progress: Mapping[str, Any] | None) -> str:
    """Return a run's progress in a few words, e.g. `1,200/5,000, 240/s, 0:15 left, limited by reading`; "" if none is known."""
    if not progress:
        return ""
    total = f"/{progress['total']:,}" if progress["total"] else ""
    parts = [f"{progress['done']:,}{total}"] if progress["done"] or total else []
    if progress["rate"]:
        parts.append(f"{progress['rate']:,.0f}/s")
    if progress["seconds_left"] is not None and progress["done"] < progress["total"]:
        parts.append(time_left(progress["seconds_left"]))
    if progress["limited_by"]:
        parts.append(f"limited by {LIMITS.get(progress['limited_by'], progress['limited_by'])}")
    return ", ".join(parts)


def progress_lines(progress: Mapping[str, Any], *, running: bool) -> Iterator[str]:
    """Yield lines with a run's progress, the work of its stages, and its GPUs.

    Args:
        progress: As `RunProgress` dumps it.
        running: Whether the run goes on.
    """
    if running and (short := short_progress(progress)):
        yield f"{'progress':<13} {short}"
    for stage in progress["stages"]:
        waiting = f", {stage['waiting']:,} waiting" if running and stage["waiting"] else ""
        rate = f"{stage['pictures']:,} pictures, {stage['rate']:,.1f}/s, {stage['busy']:.0%} busy{waiting}"
        yield f"{stage['stage']:<13} {rate}"
    for gpu in progress["gpus"] if running else ():
        memory = f"{gpu['memory_used'] / _GB:.1f} of {gpu['memory_size'] / _GB:.1f} GB"
        yield f"{'GPU ' + str(gpu['gpu']):<13} {gpu['busy']:.0%} busy, {memory}"
