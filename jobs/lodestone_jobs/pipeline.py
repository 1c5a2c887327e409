"""Which Ray Data pipeline embeds slices? One row is one slice; an actor holds all models and writes the slice's files itself.

Two shapes. `fat`: one pool of actors that read, decode and embed; only tasks and receipts travel. Chained actor pools were
measured at 2.5 to 3.5 times its cost, for pixels are rewritten to the object store at each hop. `split`, where the GPUs' own
machines have too few cores to decode: a pool of decoders on CPUs, and one of actors with models, of other resources, so that
Ray Data never fuses the two.
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

_ROUNDING: Final = 1e-9  # three tenths hold three of a tenth
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


@dataclass(frozen=True, slots=True)
class Room:
    """What one node has for actors."""

    cpus: float
    gpus: float = 0.0

    def actors(self, cpus: float, gpus: float) -> int:
        """How many that ask for so much fit it. A share of a GPU is of one GPU."""
        fitting = int(self.cpus / cpus + _ROUNDING)
        if gpus:
            fitting = min(fitting, int(self.gpus) * int(1 / gpus + _ROUNDING) if gpus < 1 else int(self.gpus / gpus))
        return fitting


def pools_for(cluster: ClusterSettings, nodes: Sequence[Room]) -> Pools:
    """What fits a cluster, where the settings do not say: the GPUs first, then the CPUs that are left, but for one.

    Args:
        cluster: What is asked for.
        nodes: That there are.

    Raises:
        ConfigurationError: not one actor fits; it would wait for ever for its place.
    """
    cpus, gpus = sum(node.cpus for node in nodes), sum(node.gpus for node in nodes)
    one, gpu = cluster.cpus_per_actor, cluster.gpus_per_actor
    decoder = cluster.cpus_per_decoder if cluster.shape == "split" else 0.0
    room = sum(node.actors(one, gpu) for node in nodes)
    if not room or one + decoder > cpus or all(node.cpus < decoder for node in nodes):
        largest = max(nodes, key=lambda node: (node.gpus, node.cpus), default=Room(0.0))
        raise ConfigurationError(
            f"no actor fits the cluster: it has {cpus:g} CPUs and {gpus:g} GPUs, its largest node {largest.cpus:g} and "
            f"{largest.gpus:g}; one asks for {one:g} CPUs and {gpu:g} GPUs"
            + (f", a decoder for {decoder:g} CPUs" if decoder else ""),
            hint="lower cluster.gpus_per_actor or cluster.cpus_per_actor, or give the cluster more or larger nodes",
        )
    free = max(cpus - _SPARE_CPUS, one + decoder)
    fitting = (free - decoder) / one
    if decoder and not gpu:
        fitting = free / (one + decoder)  # both kinds want the same CPUs
    actors = cluster.actors or max(min(int(fitting), room), 1)
    if not decoder:
        return Pools(actors, one, gpu)
    decoders = cluster.decoders or max(int((free - actors * one) / decoder), 1)
    return Pools(actors, one, gpu, decoders, decoder)


def receipts(messages: list[bytes], settings: EmbedSettings, pools: Pools, attempts: Attempts) -> Iterator[bytes]:
    """Pickled tasks -> their pickled receipts, as they come.

    Raises:
        RayError: the cluster failed in a way that Ray does not mend.
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
    """The pipeline inside an actor, for drivers outside the cluster (`ray://`), where Ray Data does not run.

    Args:
        settings: What workers need to know.
    """

    def __init__(self, settings: EmbedSettings) -> None:
        self._settings = settings
        self._attempts = ActorAttempts.start()
        self._answers: queue.SimpleQueue[bytes | BaseException | None] = queue.SimpleQueue()

    def begin(self, messages: list[bytes], pools: Pools) -> None:
        """Start on some tasks; the ones before are finished."""
        threading.Thread(target=self._work, args=(messages, pools), daemon=True).start()

    def take(self, seconds: float) -> tuple[list[bytes], bool]:
        """The receipts that there are by now, after `seconds` at most, and whether they were the last.

        Raises:
            RayError: as `receipts`.
        """
        found: list[bytes] = []
        wait = seconds
        while True:
            try:
                answer = self._answers.get(timeout=wait)
            except queue.Empty:
                return found, False
            if isinstance(answer, BaseException):
                raise answer
            if answer is None:
                return found, True
            found.append(answer)
            wait = 0.0

    def _work(self, messages: list[bytes], pools: Pools) -> None:
        try:
            for receipt in receipts(messages, self._settings, pools, self._attempts):
                self._answers.put(receipt)
        except BaseException as error:  # noqa: BLE001 - raised again where it can be handled, by `take`
            self._answers.put(error)
            return
        self._answers.put(None)
