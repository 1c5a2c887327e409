"""Detection of the GPUs and CPU cores that models may use, without importing any model runtime."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_NVIDIA: Final = Path("/proc/driver/nvidia/gpus")


def gpus() -> int:
    """Return how many Nvidia GPUs this process may use."""
    return len(gpu_names())


def gpu_names() -> tuple[str, ...]:
    """Return the GPUs that this process may use, each as CUDA_VISIBLE_DEVICES names it: by its number or its UUID."""
    if not _NVIDIA.is_dir():
        return ()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return tuple(str(number) for number in range(len(list(_NVIDIA.iterdir()))))
    names = [name.strip() for name in visible.split(",")]
    hidden = next((place for place, name in enumerate(names) if name in {"", "-1"}), len(names))  # CUDA stops reading there
    return tuple(names[:hidden])


def cores() -> int:
    """Return how many CPU cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
