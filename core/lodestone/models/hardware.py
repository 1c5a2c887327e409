"""Detection of the GPUs and CPU cores that models may use, without importing any model runtime."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_NVIDIA: Final = Path("/proc/driver/nvidia/gpus")


def gpus() -> int:
    """Return how many Nvidia GPUs this process may use."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") in {"", "-1"} or not _NVIDIA.is_dir():
        return 0
    return len(list(_NVIDIA.iterdir()))


def cores() -> int:
    """Return how many CPU cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
