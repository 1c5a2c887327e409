"""Host of bulk work that does its tasks by Ray Data, behind the same feed and ledger as embedding.

A task whose worker died is tried again, by itself, three times in all. A task that was lost with its node is begun again by Ray
Data, and is not blamed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from lodestone.errors import WorkerDiedError
from lodestone.indexing.bulk_work import BulkHost, BulkTask, BulkWork, Done, ResultT, TaskT
from lodestone_jobs.bulk_calls import BulkCall, BulkReceipt, DoBulkWork
from lodestone_jobs.dataset import SliceDataset
from lodestone_jobs.ray_slices import RaySlices
from lodestone_jobs.rooms import Bounds, Share
from lodestone_jobs.slice_stream import RunWords, SliceStream

if TYPE_CHECKING:
    from lodestone.config.cluster import ClusterSettings
    from lodestone.home.runtime import Runtime
    from lodestone_jobs.cluster import JoinedRay

_ATTEMPTS: Final = 3
_IN_FLIGHT: Final = 2  # tasks of an actor: one is read while the other is written


class RayBulkWork(RaySlices[BulkCall, BulkReceipt]):
    """Has the tasks of some bulk work done by a dataset.

    Args:
        work: The work.
        workers: Number of actors, on this machine only.
        words: How messages call the run.
        cluster: Settings of the cluster to use instead, where they have an address.
        joined: The connection to that cluster; this run does not close it.
    """

    def __init__(
        self,
        work: BulkWork[Any, Any],
        workers: int,
        *,
        words: RunWords,
        cluster: ClusterSettings | None = None,
        joined: JoinedRay | None = None,
    ) -> None:
        super().__init__(workers, words=words, cluster=cluster, joined=joined)
        self._work = work

    def new_stream(self, share: Share, bounds: Bounds, *, patience: float) -> SliceStream[BulkCall, BulkReceipt]:
        """Return a stream over a dataset whose actors do the work. They ask for no GPU."""
        host = SliceDataset(DoBulkWork, (self._work,), share=Share(share.cpus), bounds=bounds, slices=_IN_FLIGHT)
        return SliceStream(host, slices=_IN_FLIGHT, patience=patience, words=self._words)

    def outcomes(self, tasks: Iterable[TaskT]) -> Iterator[Done[TaskT, Any]]:
        """Yield what became of each task, in any order.

        Raises:
            RunFailedError: Ray cannot be started, or its workers failed.
            ServiceUnavailableError: the cluster had no room for a worker for too long.
            ClusterLostError: the cluster is gone.
        """
        given: dict[str, TaskT] = {}

        def first_calls() -> Iterator[BulkCall]:
            for task in tasks:
                given[task.key] = task
                yield BulkCall(task)

        calls: Iterator[BulkCall] = first_calls()
        for attempt in range(1, _ATTEMPTS + 1):
            died: list[BulkTask] = []
            for receipt in self.run(calls):
                if isinstance(receipt.error, WorkerDiedError) and attempt < _ATTEMPTS:
                    died.append(given[receipt.slice_id])
                else:
                    yield Done(given.pop(receipt.slice_id), receipt.result, receipt.error)
            if not died:
                return
            calls = iter([BulkCall(task, attempt + 1) for task in died])


@contextmanager
def on_ray(runtime: Runtime, *, workers: int, words: RunWords, paths: Sequence[str] = ()) -> Iterator[BulkHost]:
    """Return a context whose value does bulk work by Ray Data: on the cluster in the settings, or by a Ray of this machine.

    Args:
        runtime: The opened home.
        workers: Number of actors, on this machine only.
        words: How messages call the run.
        paths: Local paths that the work reads or writes; every node must see them.

    Raises:
        ServiceUnavailableError: nothing answers at `cluster.address`.
        ClusterLostError: the cluster has stopped answering.
        ConfigurationError: the cluster has several nodes, and this home's catalog, store, embeddings or paths are for one.
    """
    from lodestone_jobs.pools import joined_ray

    with joined_ray(runtime, paths) as joined:

        def do(work: BulkWork[TaskT, ResultT], tasks: Iterable[TaskT], /) -> Generator[Done[TaskT, ResultT]]:
            ray = RayBulkWork(work, workers, words=words, cluster=runtime.settings.cluster, joined=joined)
            try:
                yield from ray.outcomes(tasks)
            finally:
                ray.close()

        yield do
