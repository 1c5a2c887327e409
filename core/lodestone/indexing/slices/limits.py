"""Sizes of the stages that embed slices: what is in flight at once, and how many bytes each stage may hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lodestone.imaging.gpu_jpeg import MOST_AT_ONCE
from lodestone.indexing.parts.contract import SlicePart
from lodestone.indexing.tasks import EmbedSettings
from lodestone.models.hardware import gpus

_CPU_BATCH: Final = 4
_GPU_BATCH: Final = 256
_DECODE_THREADS: Final = 2  # more of them wait for each other: two fifths of their work hold the interpreter's lock
_CPU_SLICES: Final = 2  # the next one is read while the last pictures of the one before are embedded and written
_GPU_SLICES: Final = 16  # so that second-long waits for an object store are hidden at thousands of pictures a second
_BATCHES_AHEAD: Final = 3  # one in the model, one waiting for it, one being filled
_LEAST_DECODED_BYTES: Final = 16 << 20
_CPU_FETCHED_BYTES: Final = 16 << 20
_GPU_FETCHED_BYTES: Final = 512 << 20
_THUMBNAIL_BYTES: Final = 64 << 20
_LOCAL_READS: Final = 2
_REMOTE_READS: Final = 128
_GPU_REMOTE_READS: Final = 256
_LOCAL_WRITES: Final = 2
_REMOTE_WRITES: Final = 16


@dataclass(frozen=True, slots=True)
class PipelineLimits:
    """Sizes of the stages.

    Attributes:
        slices: Most slices in flight, from the pulling of a task to its receipt.
        batch_size: Pictures per model pass.
        remote_reads: Most requests for pictures to object stores at once.
        local_reads: Most reads from disk at once.
        decoders: Pictures decoded at once.
        decode_processes: Whether each of them is decoded in a child process.
        writers: Slices whose files are written at once.
        fetched_bytes: Most bytes of files that are being read or wait to be decoded. One picture may exceed it alone.
        decoded_bytes: Most bytes of model inputs that are being decoded, wait for the models or are in them.
        thumbnail_bytes: Most bytes of single thumbnails that wait to be written.
    """

    slices: int
    batch_size: int
    remote_reads: int = _REMOTE_READS
    local_reads: int = _LOCAL_READS
    decoders: int = 1
    decode_processes: bool = False
    writers: int = _LOCAL_WRITES
    fetched_bytes: int = _CPU_FETCHED_BYTES
    decoded_bytes: int = _LEAST_DECODED_BYTES
    thumbnail_bytes: int = _THUMBNAIL_BYTES

    @classmethod
    def of(cls, settings: EmbedSettings, parts: Sequence[SlicePart]) -> PipelineLimits:
        """Return the sizes for a worker's settings, on the machine that it runs on."""
        needs = [part.resources for part in parts if part.in_batches]
        gpu = bool(needs) and all(need.on_gpu for need in needs)
        batch = settings.batch_size or (_GPU_BATCH if gpu else _CPU_BATCH)
        picture = sum(need.prepared_bytes for need in needs)
        return cls(
            slices=slices_in_flight(settings),
            batch_size=batch,
            remote_reads=settings.reads or (_GPU_REMOTE_READS if gpu else _REMOTE_READS),
            # their threads wait for the GPU most of the time, and a batch is made of what they bring
            decoders=max(settings.decode_threads, MOST_AT_ONCE) if settings.gpu_decode else settings.decode_threads,
            decode_processes=(
                gpu and settings.decode_threads > _DECODE_THREADS and not settings.gpu_decode
                if settings.decode_processes is None
                else settings.decode_processes
            ),
            writers=_LOCAL_WRITES if _on_disk(settings) else _REMOTE_WRITES,
            fetched_bytes=_GPU_FETCHED_BYTES if gpu else _CPU_FETCHED_BYTES,
            decoded_bytes=max(_BATCHES_AHEAD * batch * picture, _LEAST_DECODED_BYTES),
        )


def slices_in_flight(settings: EmbedSettings, *, on_gpu: bool | None = None) -> int:
    """Return how many slices one worker has in flight.

    Args:
        settings: Its settings.
        on_gpu: Whether it has a GPU; None for what this machine has.
    """
    if on_gpu is None:
        on_gpu = gpus() > 0
    return settings.slices_in_flight or (_GPU_SLICES if on_gpu else _CPU_SLICES)


def _on_disk(settings: EmbedSettings) -> bool:
    return settings.embeddings.folder is not None and settings.thumbnails.folder is not None
