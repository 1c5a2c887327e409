"""How does Ray Data embed slices? One row is one slice; an actor holds all models and writes the slice's files itself.

Two shapes. `fat`: one pool of actors that read, decode and embed; only tasks and receipts travel. Chained actor pools were
measured at 2.5 to 3.5 times its cost, for pixels are rewritten to the object store at each hop. `split`, where the GPUs' own
machines have too few cores to decode: a pool of decoders on CPUs, and one of actors with models, of other resources, so that
Ray Data never fuses the two.
"""

from __future__ import annotations

import logging
import pickle
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lodestone.config.cluster import ClusterSettings
from lodestone.errors import ConfigurationError, LodestoneError, RunFailedError
from lodestone.indexing.tasks import EmbedSettings, SliceReceipt, SliceTask
from lodestone_jobs.attempts import ActorAttempts, Attempts, FolderAttempts
from lodestone_jobs.cluster import JoinedRay, LocalRay, RayHost
from lodestone_jobs.quiet import stderr_of_libraries
from lodestone_jobs.split import IN_FLIGHT, DecodeWorker, PixelWorker
from lodestone_jobs.workers import MESSAGE, SliceWorker

if TYPE_CHECKING:
    from ray.data import Dataset

WINDOW: Final = 400  # slices of one dataset: bounds the driver's memory; a dataset costs about two seconds
_SLICES_AN_ACTOR: Final = 16  # of one dataset at least, so that many actors do not wait for its end too often
_ACTOR_CPUS: Final = 0.5  # fractional: actors that hold whole CPUs can starve Ray Data's own tasks for ever
_SPARE_CPUS: Final = 1.0  # of a cluster, for Ray Data's own tasks


@dataclass(frozen=True, slots=True)
class Pools:
    """How many actors of which resources.

    Attributes:
        actors: With models.
        cpus: Of each of them.
        gpus: Of each of them.
        decoders: That decode apart; 0: the actors with models decode.
        decoder_cpus: Of each of them.
    """

    actors: int
    cpus: float
    gpus: float = 0.0
    decoders: int = 0
    decoder_cpus: float = 0.0


def pools_for(cluster: ClusterSettings, *, cpus: float, gpus: float) -> Pools:
    """What fits a cluster, where the settings do not say: the GPUs first, then the CPUs that are left, but for one.

    Args:
        cluster: What is asked for.
        cpus: That the cluster has.
        gpus: That the cluster has.

    Raises:
        ConfigurationError: not one actor fits.
    """
    split = cluster.shape == "split"
    free = max(cpus - _SPARE_CPUS, cluster.cpus_per_actor + (cluster.cpus_per_decoder if split else 0))
    by_cpus = (free - (cluster.cpus_per_decoder if split else 0)) / cluster.cpus_per_actor
    if split and not cluster.gpus_per_actor:
        by_cpus /= 2  # without GPUs both kinds want the same CPUs
    actors = cluster.actors or max(int(min(by_cpus, gpus / cluster.gpus_per_actor if cluster.gpus_per_actor else by_cpus)), 1)
    short = cluster.gpus_per_actor > gpus or cluster.cpus_per_actor + (cluster.cpus_per_decoder if split else 0) > cpus
    if short:
        raise ConfigurationError(
            f"no actor fits the cluster: it has {cpus:g} CPUs and {gpus:g} GPUs; one asks for {cluster.cpus_per_actor:g} CPUs "
            f"and {cluster.gpus_per_actor:g} GPUs" + (f", a decoder for {cluster.cpus_per_decoder:g} CPUs" if split else ""),
            hint="lower cluster.gpus_per_actor or cluster.cpus_per_actor, or give the cluster more nodes",
        )
    if not split:
        return Pools(actors, cluster.cpus_per_actor, cluster.gpus_per_actor)
    left = (free - actors * cluster.cpus_per_actor) / cluster.cpus_per_decoder
    decoders = cluster.decoders or max(int(left), 1)
    return Pools(actors, cluster.cpus_per_actor, cluster.gpus_per_actor, decoders, cluster.cpus_per_decoder)


class RayDataExecutor:
    """Embeds slices in parallel processes. See `EmbedExecutor`.

    Args:
        settings: What workers need to know.
        workers: How many work at once, on this machine alone.
        cluster: Where its address is set: the cluster to use instead, and how.
    """

    def __init__(self, settings: EmbedSettings, workers: int, *, cluster: ClusterSettings | None = None) -> None:
        self._settings = settings
        self._workers = workers
        self._cluster = cluster if cluster is not None and cluster.address else None
        self._ray: RayHost = LocalRay(workers=workers)
        if self._cluster is not None and self._cluster.address:
            self._ray = JoinedRay(self._cluster.address)
        self._attempts: Attempts | None = None
        self._host: threading.Thread | None = None
        self._ready, self._done = threading.Event(), threading.Event()
        self._failure: BaseException | None = None

    def start(self) -> None:
        """Start Ray in a thread: it takes seconds, in which the driver can go on looking for files."""
        if self._host is None:
            self._host = threading.Thread(target=self._hold_ray, name="ray-host", daemon=True)
            self._host.start()

    def _hold_ray(self) -> None:
        """Start Ray, and stay until it is stopped: its processes die with the thread that started them (PR_SET_PDEATHSIG)."""
        try:
            self._ray.start()
            import ray.data  # noqa: F401 - half a second that is better spent here
        except BaseException as error:  # noqa: BLE001 - raised again where it can be handled, by `run`
            self._failure = error
        self._ready.set()
        self._done.wait()
        self._attempts = None
        self._ray.stop()

    def run(self, tasks: Iterable[SliceTask]) -> Iterator[SliceReceipt]:
        """See `EmbedExecutor.run`."""
        self.start()
        self._ready.wait()
        if isinstance(self._failure, LodestoneError):
            raise self._failure
        if self._failure is not None:
            raise RunFailedError(
                f"Ray cannot be started: {self._failure}", hint="index in this process instead: --executor inline"
            ) from self._failure
        messages = (pickle.dumps(task) for task in tasks)
        with stderr_of_libraries(self._ray.log):
            while True:
                pools = self._pools()  # nodes come and go: asked again for each dataset
                window = list(islice(messages, max(WINDOW, _SLICES_AN_ACTOR * pools.actors)))
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
        import ray

        has = ray.cluster_resources()  # type: ignore[no-untyped-call]
        return pools_for(self._cluster, cpus=has.get("CPU", 0.0), gpus=has.get("GPU", 0.0))

    def _run(self, messages: list[bytes], pools: Pools) -> Iterator[SliceReceipt]:
        import ray
        from ray.data import DataContext
        from ray.exceptions import RayError

        context = DataContext.get_current()
        context.enable_progress_bars = False
        context.print_on_execution_start = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        try:
            tasks = ray.data.from_items([{MESSAGE: message} for message in messages], override_num_blocks=len(messages))
            receipts = self._pipeline(tasks, pools, slices=len(messages))
            for batch in receipts.iter_batches(batch_size=1, batch_format="numpy", prefetch_batches=0):
                for message in batch[MESSAGE]:
                    receipt: SliceReceipt = pickle.loads(message)  # noqa: S301 - our worker's own
                    yield receipt
        except (RayError, ConnectionError) as error:
            said = [line for line in str(error).splitlines() if line.strip()]
            raise RunFailedError(
                f"embedding workers failed: {said[-1].strip() if said else type(error).__name__}",
                hint="what is finished is kept; run the same command again, with --executor inline if it fails again",
            ) from error

    def _pipeline(self, tasks: Dataset, pools: Pools, *, slices: int) -> Dataset:
        from ray.data import ActorPoolStrategy

        settings = self._node_settings(pools)
        common: dict[str, Any] = {"batch_size": 1, "batch_format": "numpy"}
        actors = min(pools.actors, slices)
        models: dict[str, Any] = {"num_cpus": pools.cpus, **({"num_gpus": pools.gpus} if pools.gpus else {})}
        if not pools.decoders:
            return tasks.map_batches(
                SliceWorker,
                fn_constructor_args=(settings, self._counter()),
                compute=ActorPoolStrategy(size=actors, max_tasks_in_flight_per_actor=1),
                **models,
                **common,
            )
        decoding = replace(settings, decode_threads=max(int(pools.decoder_cpus), 1))
        decoded = tasks.map_batches(
            DecodeWorker,
            fn_constructor_args=(decoding, self._counter()),
            compute=ActorPoolStrategy(size=min(pools.decoders, slices), max_tasks_in_flight_per_actor=1),
            num_cpus=pools.decoder_cpus,
            **common,
        )
        return decoded.map_batches(
            PixelWorker,
            fn_constructor_args=(settings, self._counter()),
            compute=ActorPoolStrategy(size=actors, max_tasks_in_flight_per_actor=IN_FLIGHT),
            **models,
            **common,
        )

    def _node_settings(self, pools: Pools) -> EmbedSettings:
        """What workers need to know, with the threads and the model cache that they have where they are."""
        if self._cluster is None:
            return self._settings
        threads = max(int(pools.cpus), 1)
        models = Path(self._cluster.model_cache) if self._cluster.model_cache else self._settings.models
        return replace(self._settings, models=models, model_threads=threads, decode_threads=threads)

    def _counter(self) -> Attempts:
        if self._attempts is None:
            self._attempts = FolderAttempts(self._ray.folder) if self._cluster is None else ActorAttempts.start()
        return self._attempts
