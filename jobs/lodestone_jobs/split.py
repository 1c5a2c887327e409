"""How is decoding kept apart from the models? A pool of actors on CPUs decodes slices, and one on GPUs embeds what they send.

Of each slice one block of uint8 pixels travels through the object store, under 128 MB: Ray Data's own bound of a block. Slices
whose pixels would be more are read by the actor that embeds them.
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
IN_FLIGHT: Final = 4  # blocks on their way to an actor with models: enough that it never waits, and no more


@dataclass(frozen=True, slots=True)
class Handed:
    """What a decoder sends beside the pixels.

    Attributes:
        task: What is to be embedded.
        prepared: Its pictures without their inputs, and failures; None: they are read by who embeds them.
        shapes: Of each backbone's inputs, in the order of the pixels.
        error: What ended the decoding.
    """

    task: SliceTask
    prepared: tuple[PreparedPicture | RowFailure, ...] | None = None
    shapes: Mapping[str, tuple[int, ...]] | None = None
    error: LodestoneError | None = None


class DecodeWorker:
    """Reads and decodes slices inside a Ray actor that holds no model.

    Args:
        settings: What it needs to know.
        attempts: Where it counts what it begins.
    """

    def __init__(self, settings: EmbedSettings, attempts: Attempts) -> None:
        from lodestone.indexing.embed.slice_embedder import EmbedSlice

        self._embed = EmbedSlice(replace(settings, models=settings.models.expanduser()))
        self._attempts = attempts

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Pickled tasks -> what is handed on, with pixels."""
        task: SliceTask = pickle.loads(batch[MESSAGE][0])  # noqa: S301 - our driver's own
        handed, pixels = self._decode(task)
        return {MESSAGE: packed(handed), PIXELS: pixels[None, :]}

    def _decode(self, task: SliceTask) -> tuple[Handed, NDArray[np.uint8]]:
        if task.isolate:  # whoever embeds it decodes it as carefully as a slice that killed a worker must be
            return Handed(task), _NOTHING
        key = f"{task.slice_id}-decode"
        if self._attempts.begin(key) > MOST:
            self._attempts.end(key)
            return Handed(task, error=deadly(task)), _NOTHING
        try:
            handed, pixels = join(task, self._embed.prepare(task))
        except Exception as error:  # noqa: BLE001 - told with the receipt: the run tries again and then raises it
            handed, pixels = Handed(task, error=failure_of(task, error)), _NOTHING
        self._attempts.end(key)
        return handed, pixels


class PixelWorker(SliceWorker):
    """Embeds slices whose pixels a `DecodeWorker` sent. Arguments as `SliceWorker`'s."""

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """What was handed on, with pixels -> pickled receipts."""
        handed: Handed = pickle.loads(batch[MESSAGE][0])  # noqa: S301 - our decoder's own
        if handed.error is not None:
            return {MESSAGE: packed(SliceReceipt(handed.task.slice_id, (), error=handed.error))}
        return {MESSAGE: packed(self.work(handed.task, part(handed, batch[PIXELS][0])))}


_NOTHING: Final = np.zeros(1, np.uint8)  # Arrow has no tensors of no length


def join(
    task: SliceTask, prepared: Sequence[PreparedPicture | RowFailure] | None, *, most: int = BLOCK_BYTES
) -> tuple[Handed, NDArray[np.uint8]]:
    """The pictures of a slice -> what is handed on, and their inputs as one (n,) uint8 row of less than `most` bytes."""
    from lodestone.indexing.embed.picture_inputs import PreparedPicture

    if prepared is None:
        return Handed(task), _NOTHING
    pictures = [one for one in prepared if isinstance(one, PreparedPicture)]
    names = tuple(pictures[0].inputs) if pictures else ()
    if sum(inputs.nbytes for picture in pictures for inputs in picture.inputs.values()) >= most:
        return Handed(task), _NOTHING
    stacks = {name: np.stack([picture.inputs[name] for picture in pictures]) for name in names}
    bare = tuple(replace(one, inputs={}) if isinstance(one, PreparedPicture) else one for one in prepared)
    pixels = np.concatenate([stack.reshape(-1) for stack in stacks.values()]) if stacks else _NOTHING
    return Handed(task, bare, {name: stack.shape for name, stack in stacks.items()}), pixels


def part(handed: Handed, pixels: NDArray[np.uint8]) -> list[PreparedPicture | RowFailure] | None:
    """The inverse of `join`: pictures with their inputs again, views of the pixels."""
    from lodestone.indexing.embed.picture_inputs import PreparedPicture

    if handed.prepared is None:
        return None
    stacks: dict[str, NDArray[np.uint8]] = {}
    start = 0
    for name, shape in (handed.shapes or {}).items():
        size = int(np.prod(shape))
        stacks[name] = pixels[start : start + size].reshape(shape)
        start += size
    whole: list[PreparedPicture | RowFailure] = []
    number = 0
    for one in handed.prepared:
        if isinstance(one, PreparedPicture):
            whole.append(replace(one, inputs={name: stack[number] for name, stack in stacks.items()}))
            number += 1
        else:
            whole.append(one)
    return whole
