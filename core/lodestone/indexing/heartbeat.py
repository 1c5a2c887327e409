"""Heartbeat and cancellation of a run.

A separate thread writes the heartbeat, so that a long step (a graph being built, a slow bucket) does not look like a crash. The
run calls `check` wherever it can stop without losing anything: between files, slices and groups of points.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from types import TracebackType
from typing import Any, Final, Self

from lodestone.catalog.catalog import Catalog
from lodestone.errors import LodestoneError, RunCancelledError
from lodestone.indexing.progress import Progress, ProgressEvent
from lodestone.indexing.run_progress import run_progress
from lodestone.indexing.stage_stats import StageShare
from lodestone_schemas.runs import GpuUse


def gpu_use(library: Callable[[], Any] | None = None) -> list[GpuUse]:
    """Return the use of each GPU now; empty without GPUs, without the package, and where the driver does not answer.

    Args:
        library: Returns the module `pynvml`, initialised, or None; None for the installed one.
    """
    nvml = (library or _nvml)()
    if nvml is None:
        return []
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(number) for number in range(nvml.nvmlDeviceGetCount())]
        return [_use(nvml, number, handle) for number, handle in enumerate(handles)]
    except nvml.NVMLError as error:  # e.g. a GPU that fell off the bus; the run itself will tell
        _log.debug("the GPUs cannot be asked: %s", error)
        return []


def _use(nvml: Any, number: int, handle: Any) -> GpuUse:  # noqa: ANN401 - NVML's own
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    busy = nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
    return GpuUse(gpu=number, busy=busy, memory_used=int(memory.used), memory_size=int(memory.total))


@cache
def _nvml() -> Any:  # noqa: ANN401 - a module without types
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml


BEAT_SECONDS: Final = 5.0
LOST_BEATS: Final = 12  # after so many missing heartbeats a run's driver counts as lost
_log = logging.getLogger(__name__)


class Heartbeat:
    """Writes the heartbeat of one run and learns from the catalog when the run is cancelled; a context manager.

    Args:
        catalog: Holds the run's row.
        run_id: The run.
        seconds: Seconds between two beats.
    """

    def __init__(self, catalog: Catalog, run_id: str, *, seconds: float = BEAT_SECONDS) -> None:
        self._catalog = catalog
        self._run_id = run_id
        self._seconds = seconds
        self._cancelled, self._over = threading.Event(), threading.Event()
        self._event: ProgressEvent | None = None
        self._stages: tuple[StageShare, ...] = ()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
        if kind is None and self._event is not None:  # a short run has had no beat yet
            with suppress(LodestoneError):
                self._tell()

    def check(self) -> None:
        """Return unless the run has been cancelled.

        Raises:
            RunCancelledError: the run was cancelled.
        """
        if self._cancelled.is_set():
            raise RunCancelledError(
                f"run {self._run_id} was cancelled",
                hint="what it finished is kept; `lodestone index --resume` finishes the rest",
                run_id=self._run_id,
            )

    def abandon(self) -> None:
        """Make every later `check` raise, so that all threads of the run stop."""
        self._cancelled.set()

    def wait(self, seconds: float) -> None:
        """Wait for some seconds; raise as `check` does as soon as the run is cancelled."""
        if self._cancelled.wait(seconds):
            self.check()

    def watching(self, progress: Progress) -> Progress:
        """Return a progress callback that calls `check` at every event before it calls `progress`.

        The next heartbeat tells the catalog of the last event.
        """

        def report(event: ProgressEvent) -> None:
            self.check()
            self._event, self._stages = event, event.stages or self._stages
            progress(event)

        return report

    def _tell(self) -> bool:
        """Write a heartbeat with the progress; return True if the run must stop."""
        event = self._event
        told = None if event is None else run_progress(event, stages=self._stages, gpus=gpu_use()).model_dump()
        return self._catalog.beat(self._run_id, progress=told)

    def _beat(self) -> None:
        while not self._over.wait(self._seconds):
            try:
                if self._tell():
                    self._cancelled.set()
            except LodestoneError as error:  # the catalog may be restarting; the run itself fails if it stays unreachable
                _log.warning("no heartbeat of run %s could be written: %s", self._run_id, error)
