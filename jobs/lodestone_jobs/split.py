"""Workers that decode apart from the models: actors on CPUs decode slices, and actors on GPUs embed the pixels.

One block of uint8 pixels per slice goes through the object store, of less than 128 MB, which is Ray Data's own limit of a
block. Larger slices are read by the actor that embeds them.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.errors import LodestoneError
from lodestone.indexing.tasks import EmbedSettings, RowFailure, SliceReceipt, SliceTask
from lodestone_jobs.attempts import MOST, Attempts, deadly
from lodestone_jobs.workers import MESSAGE, PIXELS, SliceWorker, failure_of, packed

if TYPE_CHECKING:
    from lodestone.indexing.embed.picture_inputs import PreparedPicture

BLOCK_BYTES: Final = 128 << 20
IN_FLIGHT: Final = 4  # blocks in flight to an actor with models, just enough that it never waits


@dataclass(frozen=True, slots=True)
class Handed:
    """Holds what a decoder sends beside the pixels.

    Attributes:
        task: The slice to embed.
        prepared: Its pictures without their inputs, and failures; None when the actor that embeds must read them.
        shapes: Shape of each backbone's inputs, in the order of the pixels.
        error: Error that ended the decoding.
    """

    task: SliceTask
    prepared: tuple[PreparedPicture | RowFailure, ...] | None = None
    shapes: Mapping[str, tuple[int, ...]] | None = None
    error: LodestoneError | None = None


class DecodeWorker:
    """Reads and decodes slices inside a Ray actor that holds no model.

    Args:
        settings: Settings of the worker.
        attempts: Counter of attempts at a slice.
    """

    def __init__(self, settings: EmbedSettings, attempts: Attempts) -> None:
        from lodestone.indexing.embed.slice_embedder import EmbedSlice

        self._embed = EmbedSlice(replace(settings, models=settings.models.expanduser()))
        self._attempts = attempts

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Decode pickled tasks, and return pickled `Handed` objects with their pixels."""
        task: SliceTask = pickle.loads(batch[MESSAGE][0])  # noqa: S301 - our driver's own
        handed, pixels = self._decode(task)
        return {MESSAGE: packed(handed), PIXELS: pixels[None, :]}

    def _decode(self, task: SliceTask) -> tuple[Handed, NDArray[np.uint8]]:
        if task.isolate:  # the slice crashed a worker, so the embedding actor decodes its pictures one by one
            return Handed(task), _NOTHING
        key = f"{task.slice_id}-decode"
        if self._attempts.begin(key) > MOST:
            self._attempts.end(key)
            return Handed(task, error=deadly(task)), _NOTHING
        try:
            handed, pixels = join(task, self._embed.prepare(task))
        except Exception as error:  # noqa: BLE001 - sent with the receipt; the run tries again and then raises it
            handed, pixels = Handed(task, error=failure_of(task, error)), _NOTHING
        self._attempts.end(key)
        return handed, pixels


class PixelWorker(SliceWorker):
    """Embeds slices whose pixels a `DecodeWorker` sent; it takes the arguments of `SliceWorker`."""

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Embed slices from pickled `Handed` objects with their pixels, and return pickled receipts."""
        handed: Handed = pickle.loads(batch[MESSAGE][0])  # noqa: S301 - our decoder's own
        if handed.error is not None:
            return {MESSAGE: packed(SliceReceipt(handed.task.slice_id, (), error=handed.error))}
        return {MESSAGE: packed(self.work(handed.task, part(handed, batch[PIXELS][0])))}


_NOTHING: Final = np.zeros(1, np.uint8)  # Arrow does not allow a tensor of length 0


def join(
    task: SliceTask, prepared: Sequence[PreparedPicture | RowFailure] | None, *, most: int = BLOCK_BYTES
) -> tuple[Handed, NDArray[np.uint8]]:
    """Return what is sent for a slice, and its pictures' inputs as one (n,) uint8 row of less than `most` bytes.

    With more bytes, or without prepared pictures, the row is empty but for one byte, and the embedding actor reads the
    pictures.
    """
    from lodestone.indexing.embed.picture_inputs import PreparedPicture

    if prepared is None:
        return Handed(task), _NOTHING
    pictures = [item for item in prepared if isinstance(item, PreparedPicture)]
    names = tuple(pictures[0].inputs) if pictures else ()
    if sum(inputs.nbytes for picture in pictures for inputs in picture.inputs.values()) >= most:
        return Handed(task), _NOTHING
    stacks = {name: np.stack([picture.inputs[name] for picture in pictures]) for name in names}
    bare = tuple(replace(item, inputs={}) if isinstance(item, PreparedPicture) else item for item in prepared)
    pixels = np.concatenate([stack.reshape(-1) for stack in stacks.values()]) if stacks else _NOTHING
    return Handed(task, bare, {name: stack.shape for name, stack in stacks.items()}), pixels


def part(handed: Handed, pixels: NDArray[np.uint8]) -> list[PreparedPicture | RowFailure] | None:
    """Return the pictures that `join` was given, with their inputs as views of the pixels; None when none were sent."""
    from lodestone.indexing.embed.picture_inputs import PreparedPicture

    if handed.prepared is None:
        return None
    stacks: dict[str, NDArray[np.uint8]] = {}
    start = 0
    for name, shape in (handed.shapes or {}).items():
        size = int(np.prod(shape))
        stacks[name] = pixels[start : start + size].reshape(shape)
        start += size
    pictures: list[PreparedPicture | RowFailure] = []
    number = 0
    for item in handed.prepared:
        if isinstance(item, PreparedPicture):
            pictures.append(replace(item, inputs={name: stack[number] for name, stack in stacks.items()}))
            number += 1
        else:
            pictures.append(item)
    return pictures
