"""Thread pools of the stages that embed slices. Their threads start when a stage has its first work."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from enum import StrEnum

from lodestone.indexing.slices.limits import PipelineLimits


class Pool(StrEnum):
    """Pools of threads: a slow kind of work has one of its own, so that it does not hold up the others."""

    PLAN = "plan"
    REMOTE = "fetch-remote"
    LOCAL = "fetch-local"
    DECODE = "decode"
    MODELS = "models"
    WRITE = "write"
    THUMBNAILS = "thumbnails"


class _Threads:
    """Some threads that run what they are given, in its order. A thread is started when all others are busy.

    It does less than the standard library's pool, and costs a third of its time: at thousands of pictures a second that counts.
    """

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self._size = size
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._free = 0  # threads that wait, less the work that waits for them

    def submit(self, work: Callable[[], None]) -> None:
        with self._lock:
            self._free -= 1
            if self._free < 0 and len(self._threads) < self._size:
                thread = threading.Thread(target=self._run, name=f"{self._name}-{len(self._threads)}", daemon=True)
                self._threads.append(thread)
                thread.start()
        self._work.put(work)

    def close(self, *, wait: bool) -> None:
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads if wait else ():
            thread.join()

    def _run(self) -> None:
        while True:
            with self._lock:
                self._free += 1
            work = self._work.get()
            if work is None:
                return
            work()


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
            Pool.THUMBNAILS: 1,  # single ones, on a disk
        }
        self._pools: dict[Pool, _Threads] = {}
        self._lock = threading.Lock()

    def submit(self, pool: Pool, work: Callable[[], None]) -> None:
        """Run `work`, which raises nothing, in a thread of a pool."""
        threads = self._pools.get(pool)
        if threads is None:
            with self._lock:
                threads = self._pools.setdefault(pool, _Threads(pool.value, self._sizes[pool]))
        threads.submit(work)

    def close(self) -> None:
        """Stop all threads. Reads from object stores that are under way end by themselves. Idempotent."""
        with self._lock:
            pools, self._pools = self._pools, {}
        for name, threads in pools.items():
            threads.close(wait=name is not Pool.REMOTE)
