"""Upkeep of a served home: the check at the start, the watch on directories, and background indexing.

All of it is in the background: queries are answered from the first moment, with what is loaded then.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import structlog

from lodestone.directories.child_queue import ChildQueue
from lodestone.directories.naming import corpus_names
from lodestone.directories.upkeep import FOLDER, repair_orders
from lodestone.directories.watch import DirectoryWatcher, WatchDelays
from lodestone.errors import LodestoneError
from lodestone.indexing.progress import Progress, silent
from lodestone.sources.boundaries import boundaries_of

if TYPE_CHECKING:
    from lodestone.catalog.records import Root
    from lodestone.home.runtime import Runtime

Load = Callable[[Progress, bool], Coroutine[Any, Any, None]]
"""Brings the collections in line and renews what queries use; one at a time. True also makes graphs."""

_CLOSE_S = 10.0
_log = structlog.get_logger("lodestone.serve")


class Upkeep:
    """Keeps one opened home in order, from `start` to `close`.

    Args:
        runtime: The home.
        load: Called for every sync; runs in the service's event loop.
        delays: Times of the watcher.
    """

    def __init__(self, runtime: Runtime, load: Load, *, delays: WatchDelays | None = None) -> None:
        self._runtime = runtime
        self._load = load
        self._loop = asyncio.get_running_loop()
        self._closing = threading.Event()
        self.queue = ChildQueue(runtime.settings, lambda _run_id, progress, build: self._synchronise(progress, build=build))
        self.watcher = DirectoryWatcher(
            self._watched, self.queue.submit, patience=delays, boundaries=boundaries_of(runtime.settings)
        )
        self._check = threading.Thread(target=self._repair, name="lodestone-repair", daemon=True)

    def start(self) -> None:
        """Start the check and the watch, and return at once."""
        if self._runtime.settings.serve.upkeep:
            self._check.start()
            self.watcher.start()

    async def close(self) -> None:
        """Stop the work; what is cut off is taken up at the next start. Idempotent."""
        self._closing.set()
        await asyncio.to_thread(self._close)

    def repaired(self, timeout_s: float) -> bool:
        """Wait for the check at the start, its sync included, and return whether it ended in time."""
        if self._check.ident is not None:
            self._check.join(timeout_s)
        return not self._check.is_alive()

    def _close(self) -> None:
        self.watcher.close()
        self.queue.close()
        self.repaired(_CLOSE_S)

    def _synchronise(self, progress: Progress, *, build: bool = True) -> None:
        asyncio.run_coroutine_threadsafe(self._load(progress, build), self._loop).result()

    def _watched(self) -> list[tuple[Root, str]]:
        catalog = self._runtime.catalog
        roots = [root for root in catalog.roots(None) if root.watched and root.kind == FOLDER]
        names = corpus_names(catalog) if roots else {}
        return [(root, names[root.corpus_id]) for root in roots if root.corpus_id in names]

    def _repair(self) -> None:
        from lodestone.indexing.run.removal import finish_removals
        from lodestone.indexing.sync.repair import examine_home, forget_damaged

        try:
            found = examine_home(self._runtime, stopped=self._closing.is_set)
            if self._closing.is_set():
                return
            for finding in found.findings:
                _log.warning("does not fit", part=finding.part, finding=finding.what, remedy=finding.remedy)
            forget_damaged(self._runtime, found)
            finish_removals(self._runtime)
            if found.needs("sync"):
                self._synchronise(silent)
            for order in repair_orders(self._runtime.catalog, found):
                self.queue.submit(order)
        except LodestoneError as error:
            if not self._closing.is_set():
                _log.warning("the check at the start failed", code=error.code, detail=error.message)
        except Exception:  # noqa: BLE001 - queries are answered whatever this met; the log has everything
            if not self._closing.is_set():
                _log.exception("the check at the start failed unexpectedly")
