"""One batch through the parts that read pixels, for pictures of several slices; a faulty picture fails its own slice alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lodestone.indexing.parts.contract import PartResult
from lodestone.indexing.slices.picture_inputs import PreparedPicture
from lodestone.indexing.slices.picture_queues import QueuedPicture
from lodestone.indexing.slices.state import SliceState
from lodestone.indexing.slices.work import SliceWork
from lodestone.indexing.tasks import SliceRow

Counted = Callable[[float, int], None]
"""Called with the seconds and the pictures of a model pass."""


@dataclass(frozen=True, slots=True)
class SliceResults:
    """Results that a batch brought one slice.

    Attributes:
        state: The slice.
        numbers: Its pictures in the batch, as rows of its plan.
        results: Part name -> the result of each of them, or what the part raised.
    """

    state: SliceState
    numbers: list[int]
    results: Mapping[str, Sequence[PartResult]] | Exception


def process_batch(
    work: SliceWork, names: Sequence[str], batch: Sequence[QueuedPicture], counted: Counted
) -> list[SliceResults]:
    """Return what a batch brings each of its slices.

    Where a part fails, all run again for each slice alone.
    """
    pictures = [place.state.results[place.number] for place in batch]
    decoded = [picture for picture in pictures if isinstance(picture, PreparedPicture)]
    inputs = {name: [picture.inputs.pop(name) for picture in decoded] for name in names}  # the pictures keep no pixels
    planned = [picture.row for picture in decoded]
    places: dict[SliceState, list[int]] = {}
    for place, queued in enumerate(batch):
        places.setdefault(queued.state, []).append(place)
    numbers = {state: [batch[place].number for place in own] for state, own in places.items()}
    together = _pass(work, planned, inputs, counted)
    if isinstance(together, Exception):
        if len(places) == 1:
            return [SliceResults(state, numbers[state], together) for state in places]
        return [
            SliceResults(
                state,
                numbers[state],
                _pass(work, _chosen(planned, own), {name: _chosen(each, own) for name, each in inputs.items()}, counted),
            )
            for state, own in places.items()
        ]
    return [
        SliceResults(state, numbers[state], {name: _chosen(results, own) for name, results in together.items()})
        for state, own in places.items()
    ]


def _chosen(values: Sequence[Any], places: Sequence[int]) -> list[Any]:
    return [values[place] for place in places]


def _pass(
    work: SliceWork, rows: Sequence[SliceRow], inputs: Mapping[str, Sequence[Any]], counted: Counted
) -> dict[str, list[PartResult]] | Exception:
    started = time.perf_counter()

    def free() -> None:
        nonlocal started
        started = time.perf_counter()

    try:
        results = work.process_batch(rows, inputs, free)
    except Exception as error:  # noqa: BLE001 - it ends the slice, with its receipt
        return error
    counted(time.perf_counter() - started, len(rows))
    return results
