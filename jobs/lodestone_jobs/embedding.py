"""How does Ray Data embed slices? One row is one slice; an actor holds all models and writes the slice's files itself.

Chained actor pools (read, decode, embed) were measured at 2.5 to 3.5 times the cost of this shape: pixels would be rewritten
to the object store at each hop. Only tasks and receipts travel.
"""

from __future__ import annotations

import logging
import pickle
import threading
import warnings
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np

from lodestone.errors import LodestoneError, RunFailedError
from lodestone.indexing.tasks import EmbedSettings, SliceReceipt, SliceTask
from lodestone_jobs.cluster import LocalRay
from lodestone_jobs.quiet import stderr_of_libraries

WINDOW: Final = 400  # slices of one dataset: bounds the driver's memory; a dataset costs about two seconds
_ACTOR_CPUS: Final = 0.5  # fractional: actors that hold whole CPUs can starve Ray Data's own tasks for ever
_ATTEMPTS: Final = 4  # at one slice: Ray starts dead workers again for ever, and a picture may kill each of them
_COLUMN: Final = "message"


class SliceWorker:
    """An `EmbedSlice` inside a Ray actor.

    Args:
        settings: What it needs to know.
        scratch: Folder that all workers of the run share, to count how often a slice was begun.
    """

    def __init__(self, settings: EmbedSettings, scratch: Path) -> None:
        from lodestone.indexing.embed import EmbedSlice

        warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")  # of blemishes in metadata
        self._scratch = scratch
        self._embed = EmbedSlice(settings)
        self.parts = self._embed.parts
        self._failed: LodestoneError | None = None
        try:
            self._embed.warm_up()
        except LodestoneError as error:  # told with the first receipt: an actor that fails to start is started again and again
            self._failed = error

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Pickled tasks -> pickled receipts."""
        receipts = [self._work(pickle.loads(message)) for message in batch[_COLUMN]]  # noqa: S301 - our driver's own
        return {_COLUMN: np.array([pickle.dumps(receipt) for receipt in receipts], dtype=object)}

    def _work(self, task: SliceTask) -> SliceReceipt:
        if self._failed is not None:
            return SliceReceipt(task.slice_id, (), error=self._failed)
        begun = self._scratch / f"{task.slice_id}.begun"
        with begun.open("ab") as attempts:
            attempts.write(b".")
        if begun.stat().st_size > _ATTEMPTS:
            return SliceReceipt(task.slice_id, (), error=_deadly(task))
        receipt = self._embed(task)
        begun.unlink()
        return receipt


class RayDataExecutor:
    """Embeds slices in parallel processes. See `EmbedExecutor`.

    Args:
        settings: What workers need to know.
        workers: How many work at once.
    """

    def __init__(self, settings: EmbedSettings, workers: int) -> None:
        self._settings = settings
        self._workers = workers
        self._ray = LocalRay(workers=workers)
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
        self._ray.stop()

    def run(self, tasks: Iterable[SliceTask]) -> Iterator[SliceReceipt]:
        """See `EmbedExecutor.run`."""
        self.start()
        self._ready.wait()
        if self._failure is not None:
            raise RunFailedError(
                f"Ray cannot be started: {self._failure}", hint="index in this process instead: --executor inline"
            ) from self._failure
        messages = (pickle.dumps(task) for task in tasks)
        with stderr_of_libraries(self._ray.log):
            while window := list(islice(messages, WINDOW)):
                yield from self._run(window)

    def close(self) -> None:
        """Stop Ray, if it was started here."""
        if self._host is not None:
            self._done.set()
            self._host.join()
            self._host = None

    def _run(self, messages: list[bytes]) -> Iterator[SliceReceipt]:
        import ray
        from ray.data import ActorPoolStrategy, DataContext
        from ray.exceptions import RayError

        context = DataContext.get_current()
        context.enable_progress_bars = False
        context.print_on_execution_start = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        workers = min(self._workers, len(messages))
        dataset = ray.data.from_items([{_COLUMN: message} for message in messages], override_num_blocks=len(messages))
        receipts = dataset.map_batches(
            SliceWorker,
            fn_constructor_args=(self._settings, self._ray.folder),
            batch_size=1,
            batch_format="numpy",
            compute=ActorPoolStrategy(size=workers, max_tasks_in_flight_per_actor=1),
            num_cpus=_ACTOR_CPUS,
        )
        try:
            for batch in receipts.iter_batches(batch_size=1, batch_format="numpy", prefetch_batches=0):
                for message in batch[_COLUMN]:
                    receipt: SliceReceipt = pickle.loads(message)  # noqa: S301 - our worker's own
                    yield receipt
        except RayError as error:
            raise RunFailedError(
                f"embedding workers failed: {str(error).splitlines()[-1] if str(error) else type(error).__name__}",
                hint="what is finished is kept; run the same command again, with --executor inline if it fails again",
            ) from error


def _deadly(task: SliceTask) -> RunFailedError:
    first, last = task.rows[0].uri, task.rows[-1].uri
    return RunFailedError(
        f"a worker died {_ATTEMPTS} times on the slice of {len(task.rows)} pictures from {first!r} to {last!r}",
        hint="what is finished is kept; move the pictures of that slice elsewhere one by one to find the one it dies on",
    )
