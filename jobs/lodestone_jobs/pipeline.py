"""Ray Data pipeline that embeds slices: one row is one slice, and an actor with all models writes the slice's files itself.

There are two shapes. `fat` has one pool of actors that read, decode and embed; only tasks and receipts are transferred. Chained
actor pools were measured at 2.5 to 3.5 times its cost, because pixels are rewritten to the object store at each hop. `split` is
for GPU machines with too few cores to decode: it has a pool of decoders on CPUs, and one of actors with models, with different
resources, so that Ray Data never fuses the two.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from lodestone.config.cluster import ClusterSettings
from lodestone.errors import ConfigurationError
from lodestone.indexing.tasks import EmbedSettings
from lodestone_jobs.attempts import ActorAttempts, Attempts
from lodestone_jobs.split import IN_FLIGHT, DecodeWorker, PixelWorker
from lodestone_jobs.workers import MESSAGE, SliceWorker

if TYPE_CHECKING:
    from ray.data import Dataset

_ROUNDING: Final = 1e-9  # so that 0.3 CPUs have room for three actors of 0.1, despite floating point
_SPARE_CPUS: Final = 1.0  # CPUs of a cluster that are kept free for Ray Data's own tasks


@dataclass(frozen=True, slots=True)
class Pools:
    """Describes the pools of actors and their resources.

    Attributes:
        actors: Number of actors with models.
        cpus: CPUs of each of them.
        gpus: GPUs of each of them.
        decoders: Number of separate decoders; 0 when the actors with models decode.
        decoder_cpus: CPUs of each decoder.
    """

    actors: int
    cpus: float
    gpus: float = 0.0
    decoders: int = 0
    decoder_cpus: float = 0.0


@dataclass(frozen=True, slots=True)
class Room:
    """Describes the resources of one node for actors."""

    cpus: float
    gpus: float = 0.0

    def actors(self, cpus: float, gpus: float) -> int:
        """Return how many actors with these resources fit; a share of a GPU must lie on one GPU."""
        fitting = int(self.cpus / cpus + _ROUNDING)
        if gpus:
            fitting = min(fitting, int(self.gpus) * int(1 / gpus + _ROUNDING) if gpus < 1 else int(self.gpus / gpus))
        return fitting


def pools_for(cluster: ClusterSettings, nodes: Sequence[Room]) -> Pools:
    """Return the pools that fit a cluster, where the settings do not fix them.

    Actors with models come first; decoders get the CPUs that are left, except for one.

    Args:
        cluster: Settings of the cluster.
        nodes: Resources of each node.

    Raises:
        ConfigurationError: no actor fits, so it would wait without end.
    """
    cpus, gpus = sum(node.cpus for node in nodes), sum(node.gpus for node in nodes)
    cpus_per_actor, gpus_per_actor = cluster.cpus_per_actor, cluster.gpus_per_actor
    decoder = cluster.cpus_per_decoder if cluster.shape == "split" else 0.0
    room = sum(node.actors(cpus_per_actor, gpus_per_actor) for node in nodes)
    if not room or cpus_per_actor + decoder > cpus or all(node.cpus < decoder for node in nodes):
        largest = max(nodes, key=lambda node: (node.gpus, node.cpus), default=Room(0.0))
        raise ConfigurationError(
            f"no actor fits the cluster: it has {cpus:g} CPUs and {gpus:g} GPUs, its largest node {largest.cpus:g} and "
            f"{largest.gpus:g}; one asks for {cpus_per_actor:g} CPUs and {gpus_per_actor:g} GPUs"
            + (f", a decoder for {decoder:g} CPUs" if decoder else ""),
            hint="lower cluster.gpus_per_actor or cluster.cpus_per_actor, or give the cluster more or larger nodes",
        )
    available_cpus = max(cpus - _SPARE_CPUS, cpus_per_actor + decoder)
    fitting = (available_cpus - decoder) / cpus_per_actor
    if decoder and not gpus_per_actor:
        fitting = available_cpus / (cpus_per_actor + decoder)  # actors and decoders share the same CPUs
    actors = cluster.actors or max(min(int(fitting), room), 1)
    if not decoder:
        return Pools(actors, cpus_per_actor, gpus_per_actor)
    decoders = cluster.decoders or max(int((available_cpus - actors * cpus_per_actor) / decoder), 1)
    return Pools(actors, cpus_per_actor, gpus_per_actor, decoders, decoder)


def receipts(messages: list[bytes], settings: EmbedSettings, pools: Pools, attempts: Attempts) -> Iterator[bytes]:
    """Embed pickled tasks, and yield their pickled receipts as they are ready.

    Raises:
        RayError: the cluster failed in a way that Ray does not recover from.
    """
    import ray
    from ray.data import DataContext

    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    tasks = ray.data.from_items([{MESSAGE: message} for message in messages], override_num_blocks=len(messages))
    done = _embedded(tasks, settings, pools, attempts, slices=len(messages))
    for batch in done.iter_batches(batch_size=1, batch_format="numpy", prefetch_batches=0):
        yield from batch[MESSAGE]


def _embedded(tasks: Dataset, settings: EmbedSettings, pools: Pools, attempts: Attempts, *, slices: int) -> Dataset:
    from ray.data import ActorPoolStrategy

    common: dict[str, Any] = {"batch_size": 1, "batch_format": "numpy"}
    models: dict[str, Any] = {"num_cpus": pools.cpus, **({"num_gpus": pools.gpus} if pools.gpus else {})}
    actors = min(pools.actors, slices)
    if not pools.decoders:
        return tasks.map_batches(
            SliceWorker,
            fn_constructor_args=(settings, attempts),
            compute=ActorPoolStrategy(size=actors, max_tasks_in_flight_per_actor=1),
            **models,
            **common,
        )
    decoding = replace(settings, decode_threads=max(int(pools.decoder_cpus), 1))
    decoded = tasks.map_batches(
        DecodeWorker,
        fn_constructor_args=(decoding, attempts),
        compute=ActorPoolStrategy(size=min(pools.decoders, slices), max_tasks_in_flight_per_actor=1),
        num_cpus=pools.decoder_cpus,
        **common,
    )
    return decoded.map_batches(
        PixelWorker,
        fn_constructor_args=(settings, attempts),
        compute=ActorPoolStrategy(size=actors, max_tasks_in_flight_per_actor=IN_FLIGHT),
        **models,
        **common,
    )


class PipelineHost:
    """Runs the pipeline inside an actor, for drivers outside the cluster (`ray://`), where Ray Data does not run.

    Args:
        settings: Settings of the workers.
    """

    def __init__(self, settings: EmbedSettings) -> None:
        self._settings = settings
        self._attempts = ActorAttempts.start()
        self._answers: queue.SimpleQueue[bytes | BaseException | None] = queue.SimpleQueue()

    def begin(self, messages: list[bytes], pools: Pools) -> None:
        """Start on some tasks; the ones before must be finished."""
        threading.Thread(target=self._work, args=(messages, pools), daemon=True).start()

    def take(self, seconds: float) -> tuple[list[bytes], bool]:
        """Return the receipts that are ready after at most `seconds`, and whether they were the last.

        Raises:
            RayError: the pipeline failed, as `receipts` does.
        """
        ready: list[bytes] = []
        wait = seconds
        while True:
            try:
                answer = self._answers.get(timeout=wait)
            except queue.Empty:
                return ready, False
            if isinstance(answer, BaseException):
                raise answer
            if answer is None:
                return ready, True
            ready.append(answer)
            wait = 0.0

    def _work(self, messages: list[bytes], pools: Pools) -> None:
        try:
            for receipt in receipts(messages, self._settings, pools, self._attempts):
                self._answers.put(receipt)
        except BaseException as error:  # noqa: BLE001 - raised again where it can be handled, by `take`
            self._answers.put(error)
            return
        self._answers.put(None)
