"""Progress of long commands: one bar for each stage, with pictures a second, time left and failures."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
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
_CAPTION_TITLES = {
    "embed": "reading captions",
    "load": "loading captions",
    "build": "building their graph",
    "verify": "checking captions",
}
_LINE_SECONDS = 5.0
_BESIDE_THE_BAR = 96  # columns of the longest title, counts, rate, time left, limit, failures and elapsed
_SHORTEST_BAR, _LONGEST_BAR = 6, 40


@contextmanager
def shown_progress(context: CommandContext) -> Iterator[Progress]:
    """Show bars on a terminal, lines every few seconds elsewhere, and nothing for machine-readable output elsewhere."""
    console = context.messages
    if not console.is_terminal:
        yield _silent if context.output is not Output.HUMAN else _Lines()
        return
    bars = _Bars(console)
    with bars.drawn:
        yield bars


def _silent(_: ProgressEvent) -> None:
    return


class _Bars:
    """Progress bars, one for each stage. A bar stays as it was when its stage ended."""

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
        from rich.text import Text

        class Note(ProgressColumn):
            """Column with the rate, the time left (which counts down between two events) and failures."""

            def render(self, task: Task) -> Text:
                return Text(_note_now(task.fields["event"], task.fields["reported_at"], over=task.stop_time is not None))

        width = console.width - _BESIDE_THE_BAR
        roomy = width >= _SHORTEST_BAR  # else the numbers alone
        columns: list[ProgressColumn] = [TextColumn("{task.description}")]
        columns += [BarColumn(min(width, _LONGEST_BAR))] if roomy else []
        columns += [TextColumn("{task.fields[counted]}"), Note()]
        columns += [TimeElapsedColumn()] if roomy else []
        self.drawn: Bars = Progress(*columns, console=console, transient=True)
        self._tasks: dict[str, TaskID] = {}
        self._stage = ""

    def __call__(self, event: ProgressEvent) -> None:
        stage = event.stage.value
        if stage != self._stage:
            self._end()
            self._stage = stage
            if stage in self._tasks:  # the next collection
                self.drawn.reset(self._tasks[stage])
        if stage == "done":
            return
        fields: dict[str, Any] = {"counted": _counted(event), "event": event, "reported_at": time.monotonic()}
        if stage not in self._tasks:
            self._tasks[stage] = self.drawn.add_task(_title(event), total=None, **fields)
        task = self._tasks[stage]
        self.drawn.update(task, description=_title(event), completed=event.done, total=event.total or None, **fields)

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
        self._next = 0.0

    def __call__(self, event: ProgressEvent) -> None:
        now = time.monotonic()
        stage = event.stage.value
        finished = bool(event.total) and event.done >= event.total
        if stage == self._stage and now < self._next and not finished:
            return
        self._stage, self._next = stage, now + _LINE_SECONDS
        self._say(" ".join(part for part in (_title(event), _counted(event), _note(event)) if part))

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
