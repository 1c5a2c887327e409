"""Choice of the Ray for a run: the cluster in the settings, joined and checked first, or a local Ray."""

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
    from lodestone_jobs.cluster import JoinedRay


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
    with joined_ray(runtime, paths) as joined:
        if joined is None:
            yield RayPool(local_executor)
            return
        from lodestone_jobs.loading import task_loaders

        def executor(settings: EmbedSettings, workers: int) -> EmbedExecutor:
            from lodestone_jobs.embedding import RayExecutor

            return RayExecutor(settings, workers, cluster=runtime.settings.cluster, joined=joined)

        yield RayPool(executor, task_loaders(runtime, joined))


@contextmanager
def joined_ray(runtime: Runtime, paths: Sequence[str] = ()) -> Iterator[JoinedRay | None]:
    """Return a context whose value is the connection to the cluster in the settings, checked; None where they name none.

    Args:
        runtime: The opened home.
        paths: Paths that are read or written; every node must see those on this machine.

    Raises:
        ServiceUnavailableError, ClusterLostError, ConfigurationError: as `ray_pool`.
    """
    cluster = runtime.settings.cluster
    if cluster.address is None:
        yield None
        return
    from lodestone_jobs.cluster import JoinedRay
    from lodestone_jobs.nodes import check_nodes, is_there

    joined = JoinedRay(cluster.address)
    joined.start()
    try:
        local_paths = [path for path in paths if is_there(path)]
        joined.answered(lambda: check_nodes(runtime.settings, runtime.embeddings, local_paths))
        yield joined
    finally:
        joined.stop()


def local_executor(settings: EmbedSettings, workers: int) -> EmbedExecutor:
    """Return a `RayExecutor` with its own local Ray; Ray is imported when it starts."""
    from lodestone_jobs.embedding import RayExecutor

    return RayExecutor(settings, workers)
