"""Loader of groups of slices by Ray tasks: a task reads a group's Parquet files on its node and upserts to the vector store.

The driver plans the groups, keeps several in flight and records what the tasks report (lodestone.indexing.sync.loading).
Tasks ask for no CPUs, so that actors which hold every CPU of the cluster do not keep them waiting; the driver bounds their
number. Ray runs a task again when its worker or its node dies. Where Ray cannot, the driver loads the group itself: upserts
replace whole points, so half a group in the store does no harm. A run that loads already continues when the cluster is lost.
"""

from __future__ import annotations

import logging
import threading
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from lodestone.errors import ClusterLostError, LodestoneError, RunFailedError
from lodestone.files.area import FileArea
from lodestone.indexing.sync.load_groups import LoadGroup, PointMaker
from lodestone.indexing.sync.loaders import LoaderFactory, StoreLoader
from lodestone.store.base import VectorStore
from lodestone.store.factory import StoreServer

if TYPE_CHECKING:
    from lodestone.home.runtime import Runtime
    from lodestone_jobs.cluster import RayHost

_log = logging.getLogger(__name__)
_RETRIES: Final = 3  # times that Ray runs a group again whose worker or node died


def task_loaders(runtime: Runtime, ray_host: RayHost) -> LoaderFactory | None:
    """Return a function that makes the loader of a run on a cluster; None where the driver has to load.

    Args:
        runtime: The opened home.
        ray_host: The connection to the cluster.
    """
    if runtime.settings.store.kind != "server" or not runtime.settings.cluster.load:
        return None
    return lambda store, embeddings: TaskLoader(runtime.store_server, store, embeddings, ray_host)


class TaskLoader:
    """Loads groups by tasks on the nodes of a cluster, as a `GroupLoader`.

    Args:
        server: Address of the vector store, as the nodes see it.
        store: The same store, opened by this process.
        embeddings: Area of the Parquet files, as the nodes see it.
        ray_host: The connection to the cluster.
    """

    def __init__(self, server: StoreServer, store: VectorStore, embeddings: FileArea, ray_host: RayHost) -> None:
        self._server = server
        self._store = store
        self._embeddings = embeddings
        self._ray_host = ray_host
        self._here = StoreLoader(store, embeddings)
        self._task: Any = None  # `load_group` as Ray runs it
        self._makers: dict[str, Any] = {}  # collection -> reference to its maker in Ray's object store
        self._lock = threading.Lock()
        self._lost = False

    def load(self, maker: PointMaker, group: LoadGroup) -> int:
        """Load the group on some node, or in this process if the cluster fails to."""
        if not self._lost:
            from ray.exceptions import RayError

            try:
                # Deletes that the server has lost are repeated by this process, which must not repeat one of these points.
                with self._store.written_elsewhere(group.collection, group.point_ids):
                    outcome = self._ray_host.answered(lambda: self._on_a_node(maker, group))
            except (RayError, ConnectionError, ClusterLostError, RunFailedError) as error:
                self._lost = isinstance(error, ClusterLostError)
                reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
                _log.warning("a group of %s is loaded by the driver, because the cluster failed: %s", group.collection, reason)
            else:
                if isinstance(outcome, LodestoneError):
                    raise outcome
                return outcome
        return self._here.load(maker, group)

    def _on_a_node(self, maker: PointMaker, group: LoadGroup) -> int | LodestoneError:
        import ray

        with self._lock:  # sent once, not with each group
            if self._task is None:
                self._task = ray.remote(num_cpus=0, max_retries=_RETRIES, scheduling_strategy="SPREAD")(load_group)
            if group.collection not in self._makers:
                self._makers[group.collection] = ray.put(maker)
        reference = self._task.remote(self._server, self._embeddings, self._makers[group.collection], group)
        outcome: int | LodestoneError = ray.get(reference)
        return outcome


def load_group(server: StoreServer, embeddings: FileArea, maker: PointMaker, group: LoadGroup) -> int | LodestoneError:
    """Load a group in this process; return the number of its points, or the error that ended it.

    The error is returned because Ray would wrap a raised one in another.
    """
    try:
        store = _opened(server)
        with store.patient():
            return StoreLoader(store, embeddings).load(maker, group)
    except LodestoneError as error:
        return error


@cache
def _opened(server: StoreServer) -> VectorStore:
    """Return the store, which is opened once in a worker process and used by all its tasks."""
    return server.open()
