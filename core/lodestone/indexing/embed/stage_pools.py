"""Thread pools of the stages that embed slices. Their threads start when a stage has its first work."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum

from lodestone.indexing.embed.pipeline_limits import PipelineLimits


class Pool(StrEnum):
    """Pools of threads: a slow kind of work has one of its own, so that it does not hold up the others."""

    PLAN = "plan"
    REMOTE = "fetch-remote"
    LOCAL = "fetch-local"
    DECODE = "decode"
    MODELS = "models"
    WRITE = "write"
    THUMBNAILS = "thumbnails"


class StagePools:
    """The pools of one worker.

    Args:
        limits: Their sizes.
    """

    def __init__(self, limits: PipelineLimits) -> None:
        self._sizes = {
            Pool.PLAN: max(limits.slices, 1),
            Pool.REMOTE: limits.remote_reads,
            Pool.LOCAL: limits.local_reads,
            Pool.DECODE: limits.decoders,
            Pool.MODELS: 2,  # one puts its batch together while the other one's is in the models
            Pool.WRITE: limits.writers,
            Pool.THUMBNAILS: limits.thumbnail_writers,
        }
        self._pools: dict[Pool, ThreadPoolExecutor] = {}
        self._lock = threading.Lock()

    def submit(self, pool: Pool, work: Callable[[], None]) -> None:
        """Run `work`, which raises nothing, in a thread of a pool."""
        with self._lock:
            if pool not in self._pools:
                self._pools[pool] = ThreadPoolExecutor(self._sizes[pool], thread_name_prefix=pool.value)
            self._pools[pool].submit(work)

    def close(self) -> None:
        """Stop all threads. Reads from object stores that are under way end by themselves. Idempotent."""
        with self._lock:
            pools, self._pools = self._pools, {}
        for name, pool in pools.items():
            pool.shutdown(wait=name is not Pool.REMOTE, cancel_futures=True)
