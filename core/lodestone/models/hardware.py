"""What may models run on here? Found out without importing any of their runtimes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_NVIDIA: Final = Path("/proc/driver/nvidia/gpus")


def gpus() -> int:
    """Nvidia GPUs that this process may use."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") in {"", "-1"} or not _NVIDIA.is_dir():
        return 0
    return len(list(_NVIDIA.iterdir()))


def cores() -> int:
    """CPU cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
