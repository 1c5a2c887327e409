"""Which Ray embeds for an index run? The cluster that the settings name, joined and checked before all else; or its own."""

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
    """What makes the run's executor, as long as the block lasts.

    Args:
        runtime: The opened home.
        paths: What is going to be read; those on this machine must be seen by every node.

    Raises:
        ServiceUnavailableError: nobody answers at `cluster.address`.
        ClusterLostError: nobody does any more.
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
        here = [path for path in paths if is_there(path)]
        joined.answered(lambda: check_nodes(runtime.settings, runtime.embeddings, here))
        yield executor
    finally:
        joined.stop()


def local_executor(settings: EmbedSettings, workers: int) -> EmbedExecutor:
    """A `RayDataExecutor` with a Ray of its own; Ray is imported when it starts."""
    from lodestone_jobs.embedding import RayDataExecutor

    return RayDataExecutor(settings, workers)
