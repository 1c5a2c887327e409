"""The Ray Data dataset of a bulk run: one for the whole run, whose rows are slices, over a feed that the driver supplies.

Only public settings of Ray Data are used, and its own defaults for restarts and repeats (endless), which the ledger bounds. See
docs/adr/0024-ray-data.md.
"""

from __future__ import annotations

import logging
import pickle
import queue
import threading
import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic

from lodestone_jobs.desk import Desk, DeskNews
from lodestone_jobs.feed import TICKET
from lodestone_jobs.nodes import working_nodes
from lodestone_jobs.rooms import Bounds, Room, Share, room_of
from lodestone_jobs.slice_calls import RECEIPT, ReceiptT, SliceCalls, TaskT

if TYPE_CHECKING:
    from ray.data import DataContext, Dataset

_LANES: Final = 8
_END_SECONDS: Final = 15.0
_OVER: Final = None


class SliceDataset(Generic[TaskT, ReceiptT]):
    """Has slices worked on by Ray Data, as a `SliceHost`. `start`, `give` and `stop` may be called from different threads.

    Args:
        calls: What an actor does with slices.
        arguments: Those of its constructor in front of the desk.
        share: Resources of an actor.
        bounds: Of the number of actors.
        slices: Slices that an actor has in flight.
    """

    def __init__(
        self,
        calls: type[SliceCalls[TaskT, ReceiptT]],
        arguments: Sequence[Any],
        *,
        share: Share,
        bounds: Bounds,
        slices: int,
    ) -> None:
        self._calls = calls
        self._arguments = tuple(arguments)
        self._share = share
        self._bounds = bounds
        self._slices = slices
        self._desk: Any = None  # a handle of Ray
        # A ticket, and what became of its slice; None where the driver had its receipt before.
        self._rows: queue.SimpleQueue[tuple[int, ReceiptT | None] | BaseException | None] = queue.SimpleQueue()
        self._pump: threading.Thread | None = None

    def start(self) -> None:
        """Start the desk and the dataset, whose actors load what they need meanwhile, and return at once."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        node = ray.get_runtime_context().get_node_id()
        here = NodeAffinitySchedulingStrategy(node, soft=False)
        actors = self._bounds.started(self._room())
        lanes = min(actors, _LANES)
        desk: Any = ray.remote(Desk)
        self._desk = desk.options(num_cpus=0, max_restarts=0, scheduling_strategy=here).remote(lanes)
        dataset = self._dataset(node, lanes, actors)
        self._pump = threading.Thread(target=self._read, args=(dataset,), name="dataset", daemon=True)
        self._pump.start()

    def give(self, tasks: Sequence[TaskT]) -> None:
        """Hand tasks out; their tickets are consecutive numbers from 0."""
        self._desk.give.remote([pickle.dumps(task) for task in tasks])

    def receive(self, seconds: float) -> list[tuple[int, ReceiptT | None]]:
        """Return the receipts that have come, after at most so many seconds.

        Raises:
            Exception: the dataset failed.
        """
        receipts: list[tuple[int, ReceiptT | None]] = []
        wait = seconds
        while True:
            try:
                row = self._rows.get(timeout=wait) if wait else self._rows.get_nowait()
            except queue.Empty:
                return receipts
            if isinstance(row, BaseException):
                raise row
            if row is not _OVER:
                receipts.append(row)
            wait = 0.0

    def news(self, received: Sequence[int]) -> DeskNews:
        """Return what the workers have told.

        Args:
            received: Tickets whose receipts the driver has.
        """
        import ray

        found: DeskNews = ray.get(self._desk.news.remote(received))
        return found

    def summary(self) -> tuple[int, str]:
        """Return how many actors the nodes have room for, and what they have, for messages."""
        rooms = [Room.of(node) for node in working_nodes()]
        cpus, gpus = sum(room.cpus for room in rooms), sum(room.gpus for room in rooms)
        has = f"one asks for {self._share}; the cluster's {len(rooms)} nodes have {cpus:g} CPUs and {gpus:g} GPUs"
        return room_of(rooms, self._share), has

    def stop(self, *, at_once: bool) -> None:
        """End the dataset and its actors.

        Args:
            at_once: Whether slices are in flight, which nobody waits for any more.
        """
        import ray

        if self._desk is None or self._pump is None:
            return
        if not at_once:
            self._desk.close.remote()
            self._pump.join(_END_SECONDS)
        if self._pump.is_alive():  # its read tasks fail without the desk, so the dataset does, and ends its actors
            ray.kill(self._desk)
            self._pump.join(_END_SECONDS)
        self._desk = self._pump = None

    def _room(self) -> int:
        return room_of([Room.of(node) for node in working_nodes()], self._share)

    def _dataset(self, node: str, lanes: int, actors: int) -> Dataset:
        import ray.data
        from ray.data import ActorPoolStrategy, DataContext

        from lodestone_jobs.feed_source import FeedSource

        pool = ActorPoolStrategy(
            min_size=self._bounds.least,
            max_size=self._bounds.most or None,
            initial_size=actors,
            max_concurrent_calls_per_actor=self._slices,
            max_tasks_in_flight_per_actor=2 * self._slices,
        )
        with DataContext.current(_context()):
            feed = ray.data.read_datasource(
                FeedSource(self._desk, lanes), override_num_blocks=lanes, num_cpus=0, label_selector={"ray.io/node-id": node}
            )
            worked: Dataset = feed.map_batches(
                self._calls,
                batch_size=1,
                batch_format="pyarrow",
                compute=pool,
                fn_constructor_args=(*self._arguments, self._desk),
                num_cpus=self._share.cpus,
                num_gpus=self._share.gpus or None,
            )
        return worked

    def _read(self, dataset: Dataset) -> None:
        """Execute the dataset, and pass its rows on. Belongs to a thread, because the next row may take for ever."""
        try:
            # A batch that was fetched ahead would wait for the next one.
            tables: Iterable[Any] = dataset.iter_batches(batch_size=None, prefetch_batches=0, batch_format="pyarrow")
            for table in tables:
                for row in table.to_pylist():
                    self._rows.put((row[TICKET], pickle.loads(row[RECEIPT])))  # noqa: S301 - our actor's own
            self._rows.put(_OVER)
        except BaseException as error:  # noqa: BLE001 - raised again where it can be handled
            self._rows.put(error)


def _context() -> DataContext:
    """Return the settings of a run's dataset; what Ray Data tells is left to its log file."""
    from ray.data import DataContext

    for handler in logging.getLogger("ray.data").handlers:
        is_rays = type(handler).__module__.partition(".")[0] == "ray"  # others may have handlers there, which stay as they are
        if is_rays and isinstance(handler, logging.StreamHandler):
            handler.setLevel(logging.CRITICAL + 1)
    warnings.filterwarnings("ignore", module=r"ray\.data\.")
    context = DataContext.get_current().copy()
    context.target_max_block_size = 1  # so that each slice is a block of its own at once
    context.max_errored_blocks = 0
    context.execution_no_progress_timeout_s = -1  # a run may wait for nodes, or for its driver
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.issue_detectors_config.detectors = []
    return context
