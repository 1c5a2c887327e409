"""Devices and precision of torch models: half precision on a GPU where there is one, else single precision on the CPU.

This module imports torch: import it where a model is loaded, not before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd

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


def place_module(module: nn.Module, device: torch.device) -> None:
    """Move a model to its device for `inference`: frozen, and on a GPU in the layout and precision that are fast there.

    On a GPU, filters lie in memory with the channels of a position next to each other (`channels_last`), as pictures do, and
    the weights of `halve_weights` are halved once instead of in each pass.
    """
    module.eval().requires_grad_(requires_grad=False)
    if device.type == "cuda":
        halve_weights(module)
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch declares it for tensors alone
    module.to(device)


def halve_weights(module: nn.Module) -> None:
    """Convert to float16 what autocast would convert in each pass: weights of linear layers, convolutions and attention.

    Everything else keeps its precision, as autocast keeps it.
    """
    for part in module.modules():
        if isinstance(part, nn.Linear | _ConvNd):
            part.half()
        elif isinstance(part, nn.MultiheadAttention):
            for weights in (part.in_proj_weight, part.in_proj_bias, part.q_proj_weight, part.k_proj_weight, part.v_proj_weight):
                if weights is not None:
                    weights.data = weights.data.half()


def limit_threads(threads: int) -> None:
    """Let torch use at most this many threads per pass in this process; 0 keeps torch's own choice.

    Torch has one number for all models.
    """
    if threads > 0:
        torch.set_num_threads(threads)
