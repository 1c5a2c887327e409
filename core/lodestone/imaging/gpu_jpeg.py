"""Decoder of JPEGs on a GPU, in batches: nvJPEG, through torchvision.

It takes the place of libjpeg for ordinary JPEGs (`jpeg.is_ordinary`) and obeys the same contract: the pixels at 1/scale of the
size, as they lie in the file; orientation and colours are the caller's. Threads that decode one picture each share batches:
while one batch is on the GPU, the pictures of the next one gather. What the GPU does not decode is left to the CPU, one picture
at a time: what is too large, what nvJPEG refuses, and everything of a batch that its memory has no room for.

Pixels differ a little from libjpeg's (other rounding, means of squares of pixels instead of scaling inside the DCT).

torch is imported when a decoder is loaded.
"""

from __future__ import annotations

import io
import logging
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lodestone.errors import ConfigurationError
from lodestone.models.gpu_memory import free_cached_memory, out_of_gpu_memory
from lodestone.models.packages import import_library

if TYPE_CHECKING:
    import torch

MOST_AT_ONCE: Final = 32
"""Most pictures of a batch."""

_MOST_PIXELS: Final = 50_000_000  # of one picture: its float16 copy takes 300 MB. libjpeg reduces larger ones cheaply
_MOST_BATCH_PIXELS: Final = 100_000_000
_SETTING: Final = "index.gpu_decode"
_INSTALL: Final = "pip install 'lodestone-search[clip]' with CUDA builds of torch and torchvision that belong together"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JpegFile:
    """A JPEG to decode.

    Attributes:
        data: The file.
        width: Width in pixels, as it lies in the file.
        height: Height, likewise.
        scale: 1, 2, 4 or 8: the fraction of its size that is wanted is 1/scale.
    """

    data: bytes
    width: int
    height: int
    scale: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return the shape of the decoded pixels: (rows, columns, 3)."""
        return -(-self.height // self.scale), -(-self.width // self.scale), 3


class BatchDecoder(Protocol):
    """Decodes several JPEGs in one call."""

    def decode(self, files: Sequence[JpegFile]) -> list[NDArray[np.uint8]]:
        """Return the (rows, columns, 3) uint8 pixels of each file; raises anything when one of them cannot be decoded."""


@dataclass(slots=True, eq=False)
class _Job:
    file: JpegFile
    pixels: NDArray[np.uint8] | None = None
    is_done: bool = False


class GpuJpegs:
    """Decodes JPEGs that threads bring one by one, in batches. Thread-safe.

    Args:
        decoder: Decodes a batch; it is called by one thread at a time.

    Attributes:
        most: Most pictures of a batch: fewer from the moment when memory ran out.
        decoded: Number of pictures that were decoded here.
        declined: Number of pictures that were left to the CPU.
    """

    def __init__(self, decoder: BatchDecoder) -> None:
        self._decoder = decoder
        self.most = MOST_AT_ONCE
        self.decoded = 0
        self.declined = 0
        self._waiting: deque[_Job] = deque()
        self._lock = threading.Lock()
        self._turn = threading.Lock()

    def decode(self, file: JpegFile) -> Image.Image | None:
        """Return the pixels in mode "RGB"; None if the CPU is to decode the file."""
        job = _Job(file)
        if file.width * file.height <= _MOST_PIXELS:
            with self._lock:
                self._waiting.append(job)
            while not job.is_done:
                with self._turn:
                    if not job.is_done:
                        self._run(self._next())
        with self._lock:
            self.decoded += job.pixels is not None
            self.declined += job.pixels is None
        return None if job.pixels is None else Image.fromarray(job.pixels)

    def _next(self) -> list[_Job]:
        with self._lock:
            batch: list[_Job] = []
            pixels = 0
            while self._waiting and len(batch) < self.most:
                file = self._waiting[0].file
                pixels += file.width * file.height
                if batch and pixels > _MOST_BATCH_PIXELS:
                    break
                batch.append(self._waiting.popleft())
            return batch

    def _run(self, batch: Sequence[_Job]) -> None:
        try:
            self._decode(batch)
        finally:
            for job in batch:
                job.is_done = True

    def _decode(self, batch: Sequence[_Job]) -> None:
        try:
            found = self._decoder.decode([job.file for job in batch])
        except Exception as error:  # noqa: BLE001 - decoders raise anything; the CPU says what is wrong with a file
            if out_of_gpu_memory(error):
                self._shrink(len(batch))
            elif len(batch) > 1:  # one of them is broken
                for job in batch:
                    self._decode([job])
            else:
                _log.debug("the GPU does not decode a JPEG: %s", error)
            return
        for job, pixels in zip(batch, found, strict=True):
            if pixels.shape == job.file.shape and pixels.dtype == np.uint8:
                job.pixels = pixels

    def _shrink(self, size: int) -> None:
        self.most = max(1, size // 2)
        free_cached_memory()
        _log.warning(
            "the GPU's memory has no room to decode %d JPEGs at once: the CPU decodes them; trying %d", size, self.most
        )


class TorchvisionJpegs:
    """Decodes batches by torchvision on one device. nvJPEG does it on a GPU, and libjpeg on a CPU, for tests.

    Args:
        device: Device of torch, such as `cuda`.

    Raises:
        ModelUnavailableError: torchvision is not installed, or does not belong to this torch.
        ConfigurationError: the device cannot decode JPEGs.
    """

    def __init__(self, device: str = "cuda") -> None:
        self._io = import_library("torchvision.io", "decode_jpeg", install=_INSTALL, needed_by=_SETTING)
        import torch

        if device.startswith("cuda") and not torch.cuda.is_available():
            raise _unusable("torch finds no GPU")
        self._device = torch.device(device)
        try:
            (blank,) = self.decode([_blank()])
        except Exception as error:
            if out_of_gpu_memory(error):
                raise _unusable("its memory is full") from error
            raise _unusable((str(error).strip() or type(error).__name__).splitlines()[0]) from error
        if blank.shape != _blank().shape:
            raise _unusable(f"a picture of {_blank().shape} came out as {blank.shape}")

    def decode(self, files: Sequence[JpegFile]) -> list[NDArray[np.uint8]]:
        """Return the pixels of each file; one that cannot be decoded fails the whole batch."""
        import torch

        data = [torch.frombuffer(bytearray(file.data), dtype=torch.uint8) for file in files]
        decoded = self._io.decode_jpeg(data, mode=self._io.ImageReadMode.RGB, device=self._device)
        reduced = [_reduced(planes, file.scale) for planes, file in zip(decoded, files, strict=True)]
        return [planes.permute(1, 2, 0).contiguous().cpu().numpy() for planes in reduced]


def _reduced(planes: torch.Tensor, scale: int) -> torch.Tensor:
    """Return (3, rows, columns) uint8 planes at 1/scale of their size: means of squares of scale x scale pixels."""
    if scale == 1:
        return planes
    import torch

    numbers = planes.half() if planes.is_cuda else planes.float()
    means: Any = torch.nn.functional.avg_pool2d(numbers[None], scale, ceil_mode=True, count_include_pad=False)[0]
    reduced: torch.Tensor = means.round_().to(torch.uint8)
    return reduced


def gpu_jpegs() -> GpuJpegs:
    """Return the decoder for the GPU that this process uses; loads torch and torchvision.

    Raises:
        ModelUnavailableError: as `TorchvisionJpegs`.
        ConfigurationError: as `TorchvisionJpegs`.
    """
    return GpuJpegs(TorchvisionJpegs())


def _blank() -> JpegFile:
    buffer = io.BytesIO()
    Image.new("RGB", (32, 16)).save(buffer, "JPEG")
    return JpegFile(buffer.getvalue(), 32, 16, 1)


def _unusable(why: str) -> ConfigurationError:
    return ConfigurationError(
        f"{_SETTING} is on, but JPEGs cannot be decoded on a GPU here: {why}",
        hint=f"set {_SETTING} = false, or use a machine with an Nvidia GPU: {_INSTALL}",
        setting=_SETTING,
    )
