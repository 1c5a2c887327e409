"""Batches of pictures on the device of a torch model: one is copied to the GPU while the one before it is computed.

This module imports torch: import it where a model is loaded, not before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class DevicePixels:
    """A batch on a device.

    Attributes:
        planes: (n, 3, size, size) uint8, with the channels of a pixel next to each other in memory (`channels_last`).
        copied: Event that the copy ends with; None where nothing is copied in the background.
    """

    planes: torch.Tensor
    copied: torch.cuda.Event | None = None


class DeviceCopies:
    """Copies batches to a device. On a GPU the copies have a stream of their own and start from pinned memory. Thread-safe.

    Torch keeps pinned memory for the next batch once a copy has ended, so two batches under way take two buffers.

    Args:
        device: Where the model runs.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def upload(self, pixels: NDArray[np.uint8]) -> DevicePixels:
        """Start the copy of (n, size, size, 3) uint8 pixels; a GPU may not have them yet when this returns."""
        batch = torch.from_numpy(np.require(pixels, requirements=("C", "W")))
        if self._stream is None:
            return DevicePixels(batch.to(self._device).permute(0, 3, 1, 2))
        pinned = batch.pin_memory()
        with torch.cuda.stream(self._stream):
            planes = pinned.to(self._device, non_blocking=True).permute(0, 3, 1, 2)
            copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
            copied.record(self._stream)
        return DevicePixels(planes, copied)

    def arrived(self, pixels: DevicePixels) -> torch.Tensor:
        """Return the planes of a batch, for use on the current stream, which waits for the end of the copy."""
        if pixels.copied is not None:
            current = torch.cuda.current_stream(self._device)
            current.wait_event(pixels.copied)
            pixels.planes.record_stream(current)  # so that the memory is not given to another copy before it is read
        return pixels.planes
