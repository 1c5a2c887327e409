"""Executor that embeds an index run's slices with Ray Data, on this machine or on a cluster.

Slices are sent in windows, each of which is one dataset (see pipeline.py). For a client outside a cluster, where Ray Data does
not run, an actor inside the cluster runs it.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

from lodestone.config.cluster import ClusterSettings
from lodestone.errors import LodestoneError, RunFailedError
from lodestone.indexing.tasks import EmbedSettings, SliceProgressCallback, SliceReceipt, SliceTask, ignore_progress
from lodestone_jobs.attempts import ActorAttempts, Attempts, FolderAttempts
from lodestone_jobs.cluster import JoinedRay, LocalRay, RayHost
from lodestone_jobs.nodes import working_nodes
from lodestone_jobs.pipeline import PipelineHost, Pools, Room, pools_for, receipts
from lodestone_jobs.quiet import stderr_of_libraries

WINDOW: Final = 400  # slices of one dataset: bounds the driver's memory; a dataset costs about two seconds
_SLICES_AN_ACTOR: Final = 16  # lowest number per dataset, so that many actors do not wait for its end too often
_ACTOR_CPUS: Final = 0.5  # a fraction, because actors that hold whole CPUs can starve Ray Data's own tasks
_POLL_SECONDS: Final = 1.0
_HOSTS: Final = 3  # actors that may run the pipeline of one dataset, one after the other


class RayDataExecutor:
    """Embeds slices in parallel processes, as an `EmbedExecutor`.

    Args:
        settings: Settings of the workers.
        workers: Number of workers at once, on this machine only.
        cluster: Settings of the cluster to use instead, where they have an address.
        joined: The connection to that cluster, if it is joined already; this executor does not close it.
    """

    def __init__(
        self,
        settings: EmbedSettings,
        workers: int,
        *,
        cluster: ClusterSettings | None = None,
        joined: JoinedRay | None = None,
    ) -> None:
        self._settings = settings
        self._workers = workers
        self._cluster = cluster if cluster is not None and cluster.address else None
        self._ray: RayHost = LocalRay(workers=workers)
        if self._cluster is not None and self._cluster.address:
            self._ray = joined or JoinedRay(self._cluster.address)
        self._is_ours = joined is None
        self._attempts: Attempts | None = None
        self._inside: Any = None  # the actor of a `PipelineHost`
        self._host: threading.Thread | None = None
        self._ready, self._done = threading.Event(), threading.Event()
        self._failure: BaseException | None = None

    def start(self) -> None:
        """Start Ray in a thread, because it takes seconds in which the driver can continue to scan for files."""
        if self._host is None:
            self._host = threading.Thread(target=self._hold_ray, name="ray-host", daemon=True)
            self._host.start()

    def _hold_ray(self) -> None:
        """Start Ray, and wait until it is to stop: its processes end with the thread that started them (PR_SET_PDEATHSIG)."""
        try:
            if self._is_ours:
                self._ray.start()
            import ray.data  # noqa: F401 - takes half a second, so it is imported in this thread
        except BaseException as error:  # noqa: BLE001 - raised again where it can be handled, by `run`
            self._failure = error
        self._ready.set()
        self._done.wait()
        self._attempts = self._inside = None
        if self._is_ours:
            self._ray.stop()

    def run(
        self,
        tasks: Iterable[SliceTask],
        report_progress: SliceProgressCallback = ignore_progress,  # noqa: ARG002 - receipts alone
    ) -> Iterator[SliceReceipt]:
        """Embed the slices, and yield a receipt for each, as `EmbedExecutor.run` does.

        Raises:
            RunFailedError: Ray cannot be started, or its workers failed.
            ClusterLostError: the cluster is gone.
        """
        self.start()
        self._ready.wait()
        if isinstance(self._failure, LodestoneError):
            raise self._failure
        if self._failure is not None:
            raise RunFailedError(
                f"Ray cannot be started: {self._failure}", hint="index in this process instead: --executor inline"
            ) from self._failure
        messages = ((task.slice_id, pickle.dumps(task)) for task in tasks)
        with stderr_of_libraries(self._ray.log):
            while True:
                pools = self._pools()  # nodes may join and leave, so the cluster is inspected for each dataset
                window = dict(islice(messages, max(WINDOW, _SLICES_AN_ACTOR * pools.actors)))
                if not window:
                    return
                yield from self._run(window, pools)

    def close(self) -> None:
        """Stop Ray, if it was started here."""
        if self._host is not None:
            self._done.set()
            self._host.join()
            self._host = None

    def _pools(self) -> Pools:
        if self._cluster is None:
            return Pools(self._workers, _ACTOR_CPUS)
        resources = [node["Resources"] for node in self._ray.answered(working_nodes)]
        return pools_for(self._cluster, [Room(resource.get("CPU", 0.0), resource.get("GPU", 0.0)) for resource in resources])

    def _run(self, window: dict[str, bytes], pools: Pools) -> Iterator[SliceReceipt]:
        from ray.exceptions import RayError

        outside = isinstance(self._ray, JoinedRay) and self._ray.outside
        source = self._from_inside(window, pools) if outside else self._from_here(window, pools)
        try:
            for message in self._ray.heard(source):
                receipt: SliceReceipt = pickle.loads(message)  # noqa: S301 - our worker's own
                yield receipt
        except (RayError, ConnectionError) as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            again = "run the same command again, with --executor inline if it fails again"
            raise RunFailedError(
                f"embedding workers failed: {lines[-1].strip() if lines else type(error).__name__}",
                hint=f"what is finished is kept; {again if self._cluster is None else '`lodestone index --resume` goes on'}",
            ) from error

    def _from_here(self, window: dict[str, bytes], pools: Pools) -> Iterator[bytes]:
        if self._attempts is None:
            self._attempts = FolderAttempts(self._ray.folder) if self._cluster is None else ActorAttempts.start()
        return receipts(list(window.values()), self._node_settings(pools), pools, self._attempts)

    def _from_inside(self, window: dict[str, bytes], pools: Pools) -> Iterator[bytes]:
        import ray

        remaining = dict(window)
        for attempt in range(_HOSTS):
            try:
                if self._inside is None:
                    self._inside = ray.remote(num_cpus=0)(PipelineHost).remote(self._node_settings(pools))
                ray.get(self._inside.begin.remote(list(remaining.values()), pools))
                last = False
                while not last:
                    messages, last = ray.get(self._inside.take.remote(_POLL_SECONDS))
                    for message in messages:
                        remaining.pop(pickle.loads(message).slice_id, None)  # noqa: S301 - our worker's own
                        yield message
                return
            except ray.exceptions.RayActorError:  # its node may be lost, so another actor takes the remaining slices
                self._inside = None
                if attempt == _HOSTS - 1:
                    raise

    def _node_settings(self, pools: Pools) -> EmbedSettings:
        """Return the workers' settings, with the threads and the model cache of their nodes."""
        if self._cluster is None:
            return self._settings
        threads = max(int(pools.cpus), 1)
        models = Path(self._cluster.model_cache) if self._cluster.model_cache else self._settings.models
        return replace(self._settings, models=models, model_threads=threads, decode_threads=threads)
