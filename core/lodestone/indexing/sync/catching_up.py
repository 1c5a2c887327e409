"""Loading of vectors in the background: pictures of a run become searchable while the run still embeds others."""

from __future__ import annotations

import logging
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol

from lodestone.errors import LodestoneError, RunCancelledError
from lodestone.indexing.progress import Progress
from lodestone.indexing.sync.collections import SyncReport, SyncResources, sync
from lodestone.indexing.sync.loaders import LoaderFactory

if TYPE_CHECKING:
    from lodestone.indexing.heartbeat import Heartbeat

_log = logging.getLogger(__name__)


class SyncCall(Protocol):
    """Function that synchronises the collections for a run, in this process or in the service."""

    def __call__(self, run_id: str, progress: Progress, /, *, build: bool = True) -> SyncReport | None:
        """Synchronise as `sync` does; return None when another process did the work."""


class CatchingUp:
    """Synchronises the collections for one run, in a background thread while the run embeds.

    Args:
        resources: The opened home.
        run_id: The run.
        through: Called to synchronise; None to do it in this process.
        heartbeat: Checked for cancellation by the background thread.
        loaders: Makes the loader of groups of slices; None to load them in threads of this process.
    """

    def __init__(
        self,
        resources: SyncResources,
        run_id: str,
        through: SyncCall | None,
        heartbeat: Heartbeat,
        loaders: LoaderFactory | None = None,
    ) -> None:
        self._resources = resources
        self._run_id = run_id
        self._through = through
        self._heartbeat = heartbeat
        self._loaders = loaders
        self._pool: ThreadPoolExecutor | None = None
        self._going_on: Future[SyncReport | None] | None = None
        self.rebuilt: list[str] = []  # a sentence for each collection that was damaged and rebuilt

    def begin(self) -> None:
        """Start loading what is embedded so far in the background, without building graphs, because more vectors will follow.

        Does nothing while the previous load is still running, and where loading would switch a space to a new version before
        everything is embedded in that version.

        Raises:
            LodestoneError: the previous load failed.
        """
        if (self._going_on is not None and not self._going_on.done()) or self._would_switch():
            return
        self._wait()
        self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="sync")
        # The run's progress stays that of embedding.
        self._going_on = self._pool.submit(self._sync, lambda _event: self._heartbeat.check(), build=False)

    def finish(self, progress: Progress) -> SyncReport | None:
        """Synchronise everything in this thread; return None when another process did the work."""
        self._wait()
        return self._sync(progress, build=True)

    def close(self) -> None:
        """Stop the background load at its next check, and wait for it. Idempotent."""
        if self._pool is not None:
            self._heartbeat.abandon()
            self._pool.shutdown(wait=True)
            self._pool = None
        try:
            self._wait()
        except RunCancelledError:
            return
        except LodestoneError as error:  # the run ends with an error of its own, which comes first
            _log.warning("loading vectors during run %s failed: %s", self._run_id, error)

    def _sync(self, progress: Progress, *, build: bool) -> SyncReport | None:
        if self._through is not None:
            return self._through(self._run_id, progress, build=build)
        report = sync(self._resources, progress=progress, build=build, loaders=self._loaders)
        self.rebuilt += report.rebuilt
        return report

    def _would_switch(self) -> bool:
        served = self._through is not None and self._resources.settings.store.kind == "edge"  # the service has the store
        aliases = self._resources.catalog.alias_table().all() if served else self._resources.store.aliases()
        wanted = {name: projection.collection for name, projection in self._resources.projections().items()}
        return any(aliases.get(name, collection) != collection for name, collection in wanted.items())

    def _wait(self) -> None:
        if self._going_on is not None:
            going_on, self._going_on = self._going_on, None
            going_on.result()
