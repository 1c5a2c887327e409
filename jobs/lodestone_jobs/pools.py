"""Choice of the Ray for an index run: the cluster in the settings, joined and checked first, or a local Ray."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lodestone.indexing.embed.executors import EmbedExecutor
from lodestone.indexing.tasks import EmbedSettings

if TYPE_CHECKING:
    from lodestone.home.runtime import Runtime
    from lodestone.indexing.embed.executors import ExecutorFactory
    from lodestone.indexing.sync.loaders import LoaderFactory


@dataclass(frozen=True, slots=True)
class RayPool:
    """What a run uses Ray for.

    Attributes:
        executor: Makes the run's executor.
        loaders: Makes its loader of vectors; None where the driver loads them.
    """

    executor: ExecutorFactory
    loaders: LoaderFactory | None = None


@contextmanager
def ray_pool(runtime: Runtime, paths: Sequence[str] = ()) -> Iterator[RayPool]:
    """Return a context whose value makes the run's executor and its loader.

    Args:
        runtime: The opened home.
        paths: Paths that will be read; every node must see those on this machine.

    Raises:
        ServiceUnavailableError: nothing answers at `cluster.address`.
        ClusterLostError: the cluster has stopped answering.
        ConfigurationError: the cluster has several nodes, and this home's catalog, store, embeddings or pictures are for one.
    """
    cluster = runtime.settings.cluster
    if cluster.address is None:
        yield RayPool(local_executor)
        return
    from lodestone_jobs.cluster import JoinedRay
    from lodestone_jobs.loading import task_loaders
    from lodestone_jobs.nodes import check_nodes, is_there

    joined = JoinedRay(cluster.address)

    def executor(settings: EmbedSettings, workers: int) -> EmbedExecutor:
        from lodestone_jobs.embedding import RayExecutor

        return RayExecutor(settings, workers, cluster=cluster, joined=joined)

    joined.start()
    try:
        local_paths = [path for path in paths if is_there(path)]
        joined.answered(lambda: check_nodes(runtime.settings, runtime.embeddings, local_paths))
        yield RayPool(executor, task_loaders(runtime, joined))
    finally:
        joined.stop()


def local_executor(settings: EmbedSettings, workers: int) -> EmbedExecutor:
    """Return a `RayExecutor` with its own local Ray; Ray is imported when it starts."""
    from lodestone_jobs.embedding import RayExecutor

    return RayExecutor(settings, workers)
