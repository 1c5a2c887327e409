"""Run of slices by Ray Data, on this machine or on a cluster: Ray, the dataset and its actors, held as long as the run lasts.

What is done with a slice is a subclass's matter. See docs/adr/0024-ray-data.md.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, Generic

from lodestone.config.cluster import ClusterSettings
from lodestone.errors import LodestoneError, RunFailedError
from lodestone.indexing.tasks import Advance, SliceProgressCallback, ignore_progress
from lodestone_jobs.cluster import JoinedRay, LocalRay, RayHost
from lodestone_jobs.nodes import working_nodes
from lodestone_jobs.quiet import stderr_of_libraries
from lodestone_jobs.rooms import Bounds, Room, Share
from lodestone_jobs.slice_calls import ReceiptT, TaskT
from lodestone_jobs.slice_stream import RunWords, SliceStream

_LOCAL_CPUS: Final = 0.5  # of an actor on this machine, whose CPUs Ray only counts
_LOCAL_WAIT_S: Final = 240.0  # Ray starts a process in one second, or in minutes where every processor is busy
_STEP_SECONDS: Final = 0.5
_HUNGRY_SECONDS: Final = 0.02  # longest wait while there is room for tasks that the driver is still making


class RaySlices(ABC, Generic[TaskT, ReceiptT]):
    """Has tasks done by a dataset whose actors hold what they loaded for the whole run.

    Args:
        workers: Number of workers at once, on this machine only.
        words: How messages call the run.
        cluster: Settings of the cluster to use instead, where they have an address.
        joined: The connection to that cluster, if it is joined already; this run does not close it.
    """

    def __init__(
        self,
        workers: int,
        *,
        words: RunWords,
        cluster: ClusterSettings | None = None,
        joined: JoinedRay | None = None,
    ) -> None:
        self._cluster = cluster if cluster is not None and cluster.address else None
        self._workers = workers
        self._words = words
        self._ray: RayHost = LocalRay(workers=workers)
        if self._cluster is not None and self._cluster.address:
            self._ray = joined or JoinedRay(self._cluster.address)
        self._is_ours = joined is None
        self._pool: SliceStream[TaskT, ReceiptT] | None = None
        self._host: threading.Thread | None = None
        self._ready, self._done = threading.Event(), threading.Event()
        self._failure: BaseException | None = None

    @abstractmethod
    def new_stream(self, share: Share, bounds: Bounds, *, patience: float) -> SliceStream[TaskT, ReceiptT]:
        """Return a stream over a new dataset, not started.

        Args:
            share: Resources that an actor asks for, as the settings have it.
            bounds: Of the number of actors.
            patience: Seconds to wait for room for them.
        """

    def start(self) -> None:
        """Start Ray and the actors in a thread: that takes seconds, in which the driver can continue to scan for files."""
        if self._host is None:
            self._host = threading.Thread(target=self._hold_ray, name="ray-host", daemon=True)
            self._host.start()

    def _hold_ray(self) -> None:
        """Start Ray and the actors, and wait until they are to stop.

        Ray's processes end with the thread that started them (PR_SET_PDEATHSIG).
        """
        try:
            if self._is_ours:
                self._ray.start()
            self._pool = self._new_pool()
            self._pool.start()
        except BaseException as error:  # noqa: BLE001 - raised again where it can be handled, by `run`
            self._failure = error
        self._ready.set()
        self._done.wait()
        if self._is_ours:
            self._ray.stop()

    def run(self, tasks: Iterable[TaskT], report_progress: SliceProgressCallback = ignore_progress) -> Iterator[ReceiptT]:
        """Do the tasks, and yield a receipt for each, in any order. Actors stay for the next call.

        Raises:
            RunFailedError: Ray cannot be started, or its workers failed.
            ServiceUnavailableError: the cluster had no room for a worker for too long.
            ClusterLostError: the cluster is gone.
        """
        self.start()
        self._ready.wait()
        if isinstance(self._failure, LodestoneError):
            raise self._failure
        if self._failure is not None:
            raise RunFailedError(
                f"Ray cannot be started: {self._failure}", hint="work in this process instead: --executor inline"
            ) from self._failure
        if self._pool is None:
            self._pool = self._new_pool()
            self._pool.start()
        feeding = _Feeding(self._pool, iter(tasks))
        feeding.feed()
        try:
            with stderr_of_libraries(self._ray.log):
                for event in self._heard(feeding):
                    feeding.feed()  # before a receipt is yielded, because recording it takes a while
                    if isinstance(event, Advance):
                        report_progress(event.slice_id, event.pictures)
                    elif event is not None:
                        yield event
        finally:
            if not feeding.is_done:
                feeding.is_stopped, self._pool = True, None

    def close(self) -> None:
        """Stop the actors, and Ray if it was started here."""
        if self._pool is not None:
            pool, self._pool = self._pool, None
            with suppress(Exception):  # Ray may be gone, and the actors with it
                pool.close()
        if self._host is not None:
            self._done.set()
            self._host.join()
            self._host = None

    def _new_pool(self) -> SliceStream[TaskT, ReceiptT]:
        cluster = self._cluster
        if cluster is None:
            share, bounds = (
                local_share([Room.of(node) for node in working_nodes()], self._workers),
                Bounds(self._workers, self._workers),
            )
            return self.new_stream(share, bounds, patience=_LOCAL_WAIT_S)
        share = Share(cluster.cpus_per_actor, cluster.gpus_per_actor)
        return self.new_stream(share, Bounds.of(cluster), patience=cluster.wait_s)

    def _heard(self, feeding: _Feeding[TaskT, ReceiptT]) -> Iterator[Advance | ReceiptT | None]:
        from ray.exceptions import RayError

        try:
            yield from self._ray.heard(feeding.events())
        except (RayError, ConnectionError) as error:
            again = "run the same command again, with --executor inline if it fails again"
            raise RunFailedError(
                f"{self._words.worker}s failed: {_last_line(error)}",
                hint=f"what is finished is kept; {again if self._cluster is None else self._words.resume}",
            ) from error


class _Feeding(Generic[TaskT, ReceiptT]):
    """Tasks on their way to the pool: they are made in the driver's thread, and the pool lives in another.

    Args:
        pool: Takes the tasks.
        tasks: The tasks.
    """

    def __init__(self, pool: SliceStream[TaskT, ReceiptT], tasks: Iterator[TaskT]) -> None:
        self._pool = pool
        self._tasks = tasks
        self.is_over = False  # no task will come any more
        self.is_done = False  # every event was yielded
        self.is_stopped = False  # nobody waits for events any more

    def feed(self) -> None:
        """Give the pool as many tasks as it has room for. Belongs to the driver's thread."""
        while not self.is_over and self._pool.wanted() > 0:
            task = next(self._tasks, None)
            if task is None:
                self.is_over = True
                return
            self._pool.add(task)

    def events(self) -> Iterator[Advance | ReceiptT | None]:
        """Yield what the pool's slices tell, and None when there is room for tasks, until all are done.

        When the driver has stopped, the actors are stopped too: what they work on is not wanted any more.
        """
        try:
            while not self.is_stopped and not (self.is_over and self._pool.is_idle):
                hungry = not self.is_over and self._pool.wanted() > 0
                if hungry:
                    yield None
                yield from self._pool.step(_HUNGRY_SECONDS if hungry else _STEP_SECONDS)
            self.is_done = not self.is_stopped
        finally:
            if not self.is_done:
                self._pool.close()


def local_share(rooms: Sequence[Room], workers: int) -> Share:
    """Return what each of some actors of this machine asks for: a GPU of its own, or an equal share of one."""
    cards = int(sum(room.gpus for room in rooms))
    return Share(_LOCAL_CPUS, 1 / math.ceil(workers / cards) if cards else 0.0)


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
