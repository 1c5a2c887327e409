"""Choice of the Ray for an index run: the cluster in the settings, joined and checked first, or a local Ray."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lodestone.indexing.embed.executors import EmbedExecutor
from lodestone.indexing.tasks import EmbedSettings

if TYPE_CHECKING:
    from lodestone.home.runtime import Runtime
    from lodestone.indexing.embed.executors import ExecutorFactory


@contextmanager
def ray_pool(runtime: Runtime, paths: Sequence[str] = ()) -> Iterator[ExecutorFactory]:
    """Return a context whose value makes the run's executor.

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
        yield local_executor
        return
    from lodestone_jobs.cluster import JoinedRay
    from lodestone_jobs.nodes import check_nodes, is_there

    joined = JoinedRay(cluster.address)

    def executor(settings: EmbedSettings, workers: int) -> EmbedExecutor:
        from lodestone_jobs.embedding import RayDataExecutor

        return RayDataExecutor(settings, workers, cluster=cluster, joined=joined)

    joined.start()
    try:
        local_paths = [path for path in paths if is_there(path)]
        joined.answered(lambda: check_nodes(runtime.settings, runtime.embeddings, local_paths))
        yield executor
    finally:
        joined.stop()


def local_executor(settings: EmbedSettings, workers: int) -> EmbedExecutor:
    """Return a `RayDataExecutor` with its own local Ray; Ray is imported when it starts."""
    from lodestone_jobs.embedding import RayDataExecutor

    return RayDataExecutor(settings, workers)
