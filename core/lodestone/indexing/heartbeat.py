"""How does a run show that it is alive, and how does it learn that somebody wants it to stop?

A thread of its own writes the heartbeat, so that a long step (a graph being built, a slow bucket) is no death. The run looks at
`check` wherever it can stop without losing anything: between files found, slices and groups of points.
"""

from __future__ import annotations

import logging
import threading
from types import TracebackType
from typing import Final, Self

from lodestone.catalog.catalog import Catalog
from lodestone.errors import LodestoneError, RunCancelledError
from lodestone.indexing.progress import Progress, ProgressEvent

BEAT_SECONDS: Final = 5.0
LOST_BEATS: Final = 12  # without a heartbeat for so many, a run's driver counts as lost
_log = logging.getLogger(__name__)


class Heartbeat:
    """The heartbeat of one run; a context manager.

    Args:
        catalog: Where the run's row is.
        run_id: The run.
        seconds: Between two beats.
    """

    def __init__(self, catalog: Catalog, run_id: str, *, seconds: float = BEAT_SECONDS) -> None:
        self._catalog = catalog
        self._run_id = run_id
        self._seconds = seconds
        self._cancelled, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def check(self) -> None:
        """Return while nobody asked for the run to be cancelled.

        Raises:
            RunCancelledError: somebody did.
        """
        if self._cancelled.is_set():
            raise RunCancelledError(
                f"run {self._run_id} was cancelled",
                hint="what it finished is kept; `lodestone index --resume` finishes the rest",
                run_id=self._run_id,
            )

    def abandon(self) -> None:
        """Let every later `check` raise: the run ends, whatever goes on in its threads."""
        self._cancelled.set()

    def wait(self, seconds: float) -> None:
        """Do nothing for a while, but for `check`."""
        if self._cancelled.wait(seconds):
            self.check()

    def watching(self, progress: Progress) -> Progress:
        """`progress`, with a `check` at every event."""

        def report(event: ProgressEvent) -> None:
            self.check()
            progress(event)

        return report

    def _beat(self) -> None:
        while not self._over.wait(self._seconds):
            try:
                if self._catalog.beat(self._run_id):
                    self._cancelled.set()
            except LodestoneError as error:  # the catalog restarts, say: the run itself will notice if it stays away
                _log.warning("no heartbeat of run %s could be written: %s", self._run_id, error)
