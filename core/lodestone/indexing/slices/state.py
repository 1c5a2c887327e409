"""State of one slice while its pictures are in the stages: what is done of it, and what it leads to.

It is changed by one thread at a time: the flow (`flow.py`) holds a lock.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.backbones.base import Backbone, Outputs
from lodestone.catalog.records import Receipt
from lodestone.errors import LodestoneError, RunFailedError
from lodestone.indexing.slices.picture_inputs import PreparedPicture
from lodestone.indexing.stage_stats import StageShare
from lodestone.indexing.tasks import META_PART, RowFailure, SliceReceipt, SliceRow, SliceTask, this_worker

CAPTION_WORK: Final = 0.06  # of a picture's work: about 3 ms against 50 ms of a core, with the profile `embedded`

Captions = list[tuple[str, str, str]]  # image id, source, text


@dataclass(frozen=True, slots=True)
class SlicePlan:
    """What is left to do for a task, after the parts on disk were adopted.

    Attributes:
        rows: Pictures that are read, or whose captions are encoded.
        adopted: Receipts of the parts that were found, by part.
        failures: Failures that an adopted `meta` lists.
        backbones: Models whose outputs are missing.
        missing: Parts that are missing.
        encodes: Whether captions are encoded.
    """

    rows: tuple[SliceRow, ...]
    adopted: Mapping[str, Receipt]
    failures: tuple[RowFailure, ...]
    backbones: tuple[Backbone, ...]
    missing: tuple[str, ...]
    encodes: bool

    @property
    def reads(self) -> bool:
        """Return whether pixels are needed."""
        return bool(self.backbones) or META_PART in self.missing

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the missing backbones: pictures of slices with the same names share model passes."""
        return tuple(backbone.name for backbone in self.backbones)


@dataclass(slots=True, eq=False)
class SliceState:
    """A slice in flight.

    Attributes:
        task: The task.
        plan: What is left to do; None until the parts on disk were looked at.
        results: One for each row of the plan, in their order, as they become known.
        arrived: Pictures that are decoded or failed.
        settled: Pictures that are embedded (or need no model) or failed.
        thumbnails: Thumbnails that are not stored yet and get files of their own.
        packed: Content hash -> thumbnail, of those that are stored as one object with the slice's files.
        outputs: (backbone, output) -> (rows of the plan, dim), filled as batches come back.
        captions: Vectors of the captions, or the error of encoding them.
        receipts: Receipts of the parts on disk.
        error: Error that ended the slice.
        ended: Whether its receipt was made; later results are dropped.
        is_written: Whether its last jobs (captions, files) were started.
    """

    task: SliceTask
    plan: SlicePlan | None = None
    results: list[PreparedPicture | RowFailure | None] = field(default_factory=list)
    arrived: int = 0
    settled: int = 0
    thumbnails: int = 0
    packed: dict[str, bytes] = field(default_factory=dict)
    outputs: dict[tuple[str, str], NDArray[Any]] = field(default_factory=dict)
    captions: NDArray[np.float32] | LodestoneError | None = None
    receipts: list[Receipt] = field(default_factory=list)
    error: LodestoneError | None = None
    ended: bool = False
    is_written: bool = False
    waiting: list[tuple[str, bytes]] = field(default_factory=list)  # thumbnails: content hash, JPEG
    _started: float = field(default_factory=time.perf_counter)

    def begin(self, plan: SlicePlan) -> None:
        """Take the plan, and the receipts of adopted parts."""
        self.plan = plan
        self.receipts.extend(plan.adopted.values())
        self.results = [None] * len(plan.rows)

    def settle(self, places: Sequence[int], outputs: Mapping[str, Outputs], batch_rows: Sequence[int]) -> None:
        """Take the outputs of embedded pictures.

        Args:
            places: Numbers of the plan's rows.
            outputs: Backbone -> outputs of a whole batch.
            batch_rows: Row of each picture in the batch.
        """
        rows, chosen = np.asarray(places, np.intp), np.asarray(batch_rows, np.intp)
        for backbone, arrays in outputs.items():
            for name, array in arrays.items():
                key = (backbone, name)
                if key not in self.outputs:
                    self.outputs[key] = np.empty((len(self.results), *array.shape[1:]), array.dtype)
                self.outputs[key][rows] = array[chosen]
        self.settled += len(places)

    def take(self, number: int, picture: PreparedPicture) -> None:
        """Take a decoded picture; without models that need it, it is done."""
        self.results[number] = picture
        self.arrived += 1
        if self.plan is not None and not self.plan.backbones:
            self.settled += 1

    def fail(self, number: int, failure: RowFailure) -> None:
        """Take the failure of one picture."""
        self.results[number] = failure
        self.arrived += 1
        self.settled += 1

    @property
    def is_decoded(self) -> bool:
        """Return whether no picture is left to be read or decoded."""
        return self.arrived == len(self.results)

    @property
    def pixels_done(self) -> bool:
        """Return whether no picture is left to be read, decoded, embedded, or stored as a single thumbnail."""
        if self.plan is None:
            return False
        return not self.plan.reads or (self.settled == len(self.results) and not self.thumbnails)

    def pictures(self) -> list[PreparedPicture]:
        """Return the pictures that could be used, in the order of the rows."""
        return [result for result in self.results if isinstance(result, PreparedPicture)]

    def failures(self) -> list[RowFailure]:
        """Return the failures of this attempt, in the order of the rows."""
        return [result for result in self.results if isinstance(result, RowFailure)]

    def outputs_of(self, backbone: Backbone) -> dict[str, NDArray[Any]]:
        """Return one backbone's outputs for `pictures()`: (n, dim) each."""
        usable = np.asarray([isinstance(result, PreparedPicture) for result in self.results], np.bool_)
        arrays: dict[str, NDArray[Any]] = {}
        for spec in backbone.outputs:
            array = self.outputs.get((backbone.name, spec.name))
            if array is None:
                arrays[spec.name] = np.empty((0, spec.dim), np.float16)
            else:
                arrays[spec.name] = array if usable.all() else array[usable]
        return arrays

    def known_captions(self) -> Captions:
        """Return the captions to encode: those of the pictures just decoded, else those of the task."""
        if self.plan is None:
            return []
        if META_PART in self.plan.missing:
            return [(picture.row.image_id, *pair) for picture in self.pictures() for pair in picture.captions]
        return [(row.image_id, source, text) for row in self.plan.rows for source, text in row.captions]

    def done(self, *, captions: int = 0) -> int | None:
        """Return how many pictures' worth of work is done, for progress; None when all is, because the receipt says that.

        Args:
            captions: Captions that are encoded so far.
        """
        plan = self.plan
        if plan is None:
            return None
        pixels = float(len(plan.rows) if plan.reads else 0)
        count = sum(len(row.captions) for row in plan.rows) if plan.encodes else 0
        whole = pixels + count * CAPTION_WORK
        made = (self.settled if plan.reads else 0) + captions * CAPTION_WORK
        if not whole or made >= whole:
            return None
        return min(int(len(plan.rows) * made / whole), len(plan.rows))

    def receipt(self, stages: tuple[StageShare, ...] = (), *, most_in_pass: int = 0) -> SliceReceipt:
        """Return the receipt of what is finished.

        Args:
            stages: Work of the worker's stages so far.
            most_in_pass: As in the receipt.
        """
        plan = self.plan
        embeds = plan is not None and bool(plan.backbones) and (self.error is None or self.pixels_done)
        return SliceReceipt(
            slice_id=self.task.slice_id,
            receipts=tuple(self.receipts),
            failures=(*(plan.failures if plan else ()), *self.failures()),
            embedded=len(self.pictures()) if embeds else 0,
            adopted=tuple(plan.adopted) if plan else (),
            seconds=time.perf_counter() - self._started,
            error=self.error,
            worker=this_worker(),
            stages=stages,
            most_in_pass=most_in_pass,
        )


def slice_error(task: SliceTask, error: Exception) -> LodestoneError:
    """Return an exception as an error that can cross processes and names the slice; the run tries it again."""
    if isinstance(error, LodestoneError):
        return error
    first = f"the slice from {task.rows[0].uri!r}" if task.rows else "a slice without pictures"
    failure = RunFailedError(
        f"embedding {first} failed: {type(error).__name__}: {error}",
        hint="what is finished is kept; run the same command again",
    )
    failure.__cause__ = error
    return failure
