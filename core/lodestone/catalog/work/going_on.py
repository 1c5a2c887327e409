"""Index runs that go on right now, and how far the one that was heard of last has come, in words."""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from lodestone.catalog.records import Run, RunState
from lodestone.processes import is_running

KIND: Final = "index"
ALIVE: Final = timedelta(seconds=60)
"""Time after its last heartbeat for which a run counts as going on."""

_LOOKS: Final = "discover"  # the stage that looks for pictures


@dataclass(frozen=True, slots=True)
class IndexingNow:
    """An index run that goes on.

    Attributes:
        run_id: Its id.
        corpus_id: The corpus that it indexes; None where it is not known.
        stage: Its stage.
        done: What is done of this stage: pictures, or while loading points.
        total: What there is to do; 0 while that is unknown.
        seconds_left: Seconds that are left of this stage; None while that is unknown.
    """

    run_id: str
    corpus_id: str | None
    stage: str
    done: int = 0
    total: int = 0
    seconds_left: float | None = None

    def __str__(self) -> str:
        """Return how far it is: `indexing, 59 %, about 0:56`, or `indexing, 1,200 pictures found so far`."""
        return indexing_words({"stage": self.stage, "done": self.done, "total": self.total, "seconds_left": self.seconds_left})


def indexing_words(progress: Mapping[str, Any]) -> str:
    """Return how far an index run is, in a few words.

    Args:
        progress: Its `stage`, and as far as they are known `done`, `total` and `seconds_left`, as `RunProgress` names them.
    """
    done, total = int(progress.get("done") or 0), int(progress.get("total") or 0)
    if progress.get("stage") == _LOOKS:
        return f"indexing, {done:,} pictures found so far" if done else "indexing, looking for pictures"
    if not total:
        return "indexing"
    share = f"indexing, {min(100 * done // total, 99 if done < total else 100)} %"
    left = progress.get("seconds_left")
    return share if left is None or done >= total else f"{share}, about {_clock(float(left))}"


def newest_indexing(runs: Iterable[Run], *, corpus_ids: Collection[str] | None = None) -> IndexingNow | None:
    """Return the first index run that goes on; None where none does, or none was heard of for a minute.

    Args:
        runs: Runs, the newest first.
        corpus_ids: Only runs of these corpora; None for all.
    """
    for run in runs:
        if run.kind == KIND and run.state is RunState.RUNNING and (corpus_ids is None or run.corpus_id in corpus_ids):
            if not _is_alive(run):
                continue
            told = run.progress if run.progress.get("stage") == run.stage or run.stage != _LOOKS else {}
            left = told.get("seconds_left")
            return IndexingNow(
                run.run_id,
                run.corpus_id,
                str(told.get("stage", run.stage)),
                int(told.get("done", 0)),
                int(told.get("total", 0)),
                None if left is None else float(left),
            )
    return None


def _is_alive(run: Run) -> bool:
    host, _, pid = run.worker.rpartition(":")
    if host == socket.gethostname() and pid.isdecimal() and not is_running(int(pid)):
        return False
    return datetime.now(UTC) - (run.heartbeat_at or run.started_at) <= ALIVE


def _clock(seconds: float) -> str:
    minutes, rest = divmod(max(round(seconds), 1), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
