"""One batch through the models, for pictures of several slices; a faulty picture fails its own slice alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lodestone.backbones.base import Outputs
from lodestone.indexing.slices.picture_inputs import PreparedPicture
from lodestone.indexing.slices.picture_queues import QueuedPicture
from lodestone.indexing.slices.state import SliceState
from lodestone.indexing.slices.work import SliceWork

Counted = Callable[[float, int], None]
"""Called with the seconds and the pictures of a model pass."""


@dataclass(frozen=True, slots=True)
class SliceOutputs:
    """What a batch brought one slice.

    Attributes:
        state: The slice.
        numbers: Its pictures in the batch, as rows of its plan.
        batch_rows: Row of each of them in the outputs.
        outputs: Outputs of each backbone, or what the models raised.
    """

    state: SliceState
    numbers: list[int]
    batch_rows: list[int]
    outputs: dict[str, Outputs] | Exception


def embed_batch(
    stages: SliceWork, names: Sequence[str], batch: Sequence[QueuedPicture], counted: Counted
) -> list[SliceOutputs]:
    """Return what a batch brings each of its slices.

    Where the models fail, they run again for each slice alone.
    """
    results = [place.state.results[place.number] for place in batch]
    stacks = stages.stack(names, [result for result in results if isinstance(result, PreparedPicture)])
    rows: dict[SliceState, list[int]] = {}
    for row, place in enumerate(batch):
        rows.setdefault(place.state, []).append(row)
    numbers = {state: [batch[row].number for row in own] for state, own in rows.items()}
    together = _pass(stages, stacks, counted)
    if not isinstance(together, Exception) or len(rows) == 1:
        return [SliceOutputs(state, numbers[state], own, together) for state, own in rows.items()]
    return [
        SliceOutputs(
            state,
            numbers[state],
            list(range(len(own))),
            _pass(stages, {name: stack[own] for name, stack in stacks.items()}, counted),
        )
        for state, own in rows.items()
    ]


def _pass(stages: SliceWork, stacks: dict[str, NDArray[np.uint8]], counted: Counted) -> dict[str, Outputs] | Exception:
    started = time.perf_counter()

    def free() -> None:
        nonlocal started
        started = time.perf_counter()

    try:
        outputs = stages.embed(stacks, free)
    except Exception as error:  # noqa: BLE001 - it ends the slice, with its receipt
        return error
    counted(time.perf_counter() - started, len(next(iter(stacks.values()), ())))
    return outputs
