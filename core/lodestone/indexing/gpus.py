"""Use of this machine's GPUs as NVIDIA's management library (NVML) tells it, where the package nvidia-ml-py is installed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from typing import Any

from lodestone_schemas.runs import GpuUse

_log = logging.getLogger(__name__)


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
