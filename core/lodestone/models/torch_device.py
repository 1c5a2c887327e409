"""Where does a torch model run? On the GPU in half precision where there is one, else on the CPU in single.

Imports torch: import this module where a model is loaded, not before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from lodestone.errors import ConfigurationError


def choose_device(wanted: str | None = None) -> torch.device:
    """The device to run on.

    Args:
        wanted: `cpu`, `cuda`, `cuda:1`, …; None for the first GPU, or the CPU where there is none.

    Raises:
        ConfigurationError: no such device on this machine.
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
    """The dtype of weights and activations: float16 on a GPU; float32 on a CPU, where half precision is emulated and slow."""
    return torch.float16 if device.type == "cuda" else torch.float32


@contextmanager
def inference(device: torch.device) -> Iterator[None]:
    """No gradients, and on a GPU matrix products in half precision; sums and norms stay in single, so nothing overflows."""
    with torch.inference_mode(), torch.autocast(device.type, dtype=torch.float16, enabled=device.type == "cuda"):
        yield


def limit_threads(threads: int) -> None:
    """Use at most so many threads a pass in this process; 0 leaves torch's own choice. Torch has one number for all models."""
    if threads > 0:
        torch.set_num_threads(threads)
