"""Devices and precision of torch models: half precision on a GPU where there is one, else single precision on the CPU.

This module imports torch: import it where a model is loaded, not before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from lodestone.errors import ConfigurationError


def choose_device(wanted: str | None = None) -> torch.device:
    """Return the device to run on.

    Args:
        wanted: `cpu`, `cuda`, `cuda:1`, …; None for the first GPU, or the CPU where there is none.

    Raises:
        ConfigurationError: this machine has no such device.
    """
    if wanted is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(wanted)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigurationError(f"torch cannot use the device {wanted!r}: {error}", hint="use cpu or cuda") from error
    return device


def half_precision(device: torch.device) -> torch.dtype:
    """Return the dtype of weights and activations: float16 on a GPU, float32 on a CPU.

    A CPU emulates half precision, which is slow.
    """
    return torch.float16 if device.type == "cuda" else torch.float32


@contextmanager
def inference(device: torch.device) -> Iterator[None]:
    """Disable gradients, and on a GPU compute matrix products in half precision.

    Sums and norms stay in single precision, so nothing overflows.
    """
    with torch.inference_mode(), torch.autocast(device.type, dtype=torch.float16, enabled=device.type == "cuda"):
        yield


def limit_threads(threads: int) -> None:
    """Let torch use at most this many threads per pass in this process; 0 keeps torch's own choice.

    Torch has one number for all models.
    """
    if threads > 0:
        torch.set_num_threads(threads)
