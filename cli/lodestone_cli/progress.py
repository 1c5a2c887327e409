"""How does a person see a long job move? One bar a stage, with pictures a second, time left and failures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lodestone_cli.options import Output

if TYPE_CHECKING:
    from rich.progress import TaskID

    from lodestone.indexing.progress import Progress, ProgressEvent
    from lodestone_cli.session import Session

_TITLES = {
    "discover": "finding pictures",
    "start": "starting workers",
    "embed": "looking at pictures",
    "load": "loading vectors",
    "build": "building the graph",
    "verify": "checking",
    "promote": "switching over",
    "done": "done",
    "ask": "asking queries",
}
_LINE_SECONDS = 5.0


@contextmanager
def shown_progress(session: Session) -> Iterator[Progress]:
    """Bars on a terminal; a line every few seconds elsewhere; nothing for machine-readable output without a terminal."""
    console = session.messages
    if not console.is_terminal:
        yield _silent if session.output is not Output.HUMAN else _Lines(console.print)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    bars = Progress(
        TextColumn("{task.description:<20}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    tasks: dict[str, TaskID] = {}

    def show(event: ProgressEvent) -> None:
        stage = event.stage.value
        if stage == "done":
            return
        if stage not in tasks:
            tasks[stage] = bars.add_task(_TITLES.get(stage, stage), total=None, note="")
        bars.update(tasks[stage], completed=event.done, total=event.total or None, note=_note(event))

    with bars:
        yield show


def _silent(_: ProgressEvent) -> None:
    return


class _Lines:
    """Progress for logs and pipes: when a stage begins or ends, and every few seconds between."""

    def __init__(self, write: object) -> None:
        self._write = write
        self._stage = ""
        self._next = 0.0

    def __call__(self, event: ProgressEvent) -> None:
        import time

        now = time.monotonic()
        stage = event.stage.value
        finished = bool(event.total) and event.done >= event.total
        if stage == self._stage and now < self._next and not finished:
            return
        self._stage, self._next = stage, now + _LINE_SECONDS
        counted = f" {event.done:,}" + (f"/{event.total:,}" if event.total else "") if event.done or event.total else ""
        if callable(self._write):
            self._write(f"{_TITLES.get(stage, stage)}{counted} {_note(event)}".rstrip())


def _note(event: ProgressEvent) -> str:
    parts = []
    if event.rate:
        parts.append(f"{event.rate:,.0f}/s")
    if event.eta is not None and event.eta >= 1:
        minutes, seconds = divmod(int(event.eta), 60)
        parts.append(f"{minutes}:{seconds:02d} left")
    if event.failures:
        parts.append(f"{event.failures:,} failed")
    return ", ".join(parts)
