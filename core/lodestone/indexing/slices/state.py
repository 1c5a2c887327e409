"""State of one slice while its pictures are in the stages: what is left to do, what is done of it, and what it leads to.

It is changed by one thread at a time: the flow (`flow.py`) holds a lock.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lodestone.catalog.records import Receipt
from lodestone.errors import LodestoneError, RunFailedError
from lodestone.indexing.parts.contract import PartResult, SlicePart
from lodestone.indexing.slices.picture_inputs import PreparedPicture
from lodestone.indexing.stage_stats import StageShare
from lodestone.indexing.tasks import META_PART, RowFailure, SliceReceipt, SliceRow, SliceTask, this_worker


@dataclass(frozen=True, slots=True)
class SlicePlan:
    """What is left to do for a task, after the parts on disk were adopted.

    Attributes:
        rows: Pictures that the parts are made of.
        adopted: Receipts of the parts that were found, by the name of their file.
        failures: Failures that an adopted `meta` lists.
        parts: Parts that are missing, in the order in which their files are written.
    """

    rows: tuple[SliceRow, ...]
    adopted: Mapping[str, Receipt]
    failures: tuple[RowFailure, ...]
    parts: tuple[SlicePart, ...]

    @property
    def opens(self) -> bool:
        """Return whether the pictures' files are needed."""
        return any(part.opens for part in self.parts)

    @property
    def makes_meta(self) -> bool:
        """Return whether `meta` is missing."""
        return any(part.name == META_PART for part in self.parts)

    @property
    def batched(self) -> tuple[SlicePart, ...]:
        """Return the parts that process pictures in batches across slices."""
        return tuple(part for part in self.parts if part.in_batches)

    @property
    def by_slice(self) -> tuple[SlicePart, ...]:
        """Return the parts that process the pictures of a slice at once."""
        return tuple(part for part in self.parts if not part.in_batches)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the missing parts."""
        return tuple(part.name for part in self.parts)

    @property
    def batch_names(self) -> tuple[str, ...]:
        """Return the names of `batched`: pictures of slices with the same names share batches."""
        return tuple(part.name for part in self.batched)


@dataclass(slots=True, eq=False)
class SliceState:
    """A slice in flight.

    Attributes:
        task: The task.
        plan: What is left to do; None until the parts on disk were looked at.
        results: One for each row of the plan, in their order, as they become known.
        arrived: Pictures that are decoded or failed.
        settled: Pictures that went through all batches that they need (or need none) or failed.
        thumbnails: Thumbnails that are not stored yet and get files of their own.
        packed: Content hash -> thumbnail, of those that are stored as one object with the slice's files.
        made: Part name -> the result of each row of the plan, filled as batches come back.
        unmade: Part name -> the error of a part that is made of a slice at once.
        postponed: Part name -> why the slice lacks it until a later run.
        receipts: Receipts of the parts on disk.
        error: Error that ended the slice.
        ended: Whether its receipt was made; later results are dropped.
        is_written: Whether its last jobs (parts of a slice at once, files) were started.
    """

    task: SliceTask
    plan: SlicePlan | None = None
    results: list[PreparedPicture | RowFailure | None] = field(default_factory=list)
    arrived: int = 0
    settled: int = 0
    thumbnails: int = 0
    packed: dict[str, bytes] = field(default_factory=dict)
    made: dict[str, list[PartResult | None]] = field(default_factory=dict)
    unmade: dict[str, LodestoneError] = field(default_factory=dict)
    postponed: dict[str, str] = field(default_factory=dict)
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
        self.made = {part.name: [None] * len(plan.rows) for part in plan.batched}

    def settle(self, numbers: Sequence[int], results: Mapping[str, Sequence[PartResult]]) -> None:
        """Take the results of pictures that went through a batch.

        Args:
            numbers: Numbers of the plan's rows.
            results: Part name -> results of these pictures.
        """
        for name, of_part in results.items():
            for number, result in zip(numbers, of_part, strict=True):
                self.made[name][number] = result
        self.settled += len(numbers)

    def take(self, number: int, picture: PreparedPicture) -> None:
        """Take a decoded picture; without a part that needs it in a batch, it is done."""
        self.results[number] = picture
        self.arrived += 1
        if self.plan is not None and not self.plan.batched:
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
        """Return whether no picture is left to be read, decoded, processed in a batch, or stored as a single thumbnail."""
        if self.plan is None:
            return False
        return not self.plan.opens or (self.settled == len(self.results) and not self.thumbnails)

    def pictures(self) -> list[PreparedPicture]:
        """Return the pictures that could be used, in the order of the rows."""
        return [result for result in self.results if isinstance(result, PreparedPicture)]

    def failures(self) -> list[RowFailure]:
        """Return the failures of this attempt, in the order of the rows."""
        return [result for result in self.results if isinstance(result, RowFailure)]

    def rows_of(self, part: SlicePart) -> list[SliceRow]:
        """Return the pictures that a part is made of: those that could be used, or all of the plan where no file decides that.

        A part that opens no file is made of pictures that cannot be read now, too, as long as they were read for `meta` before.
        """
        if self.plan is None:
            return []
        if part.opens or self.plan.makes_meta:
            return [picture.row for picture in self.pictures()]
        return list(self.plan.rows)

    def failures_of(self, part: SlicePart) -> list[RowFailure]:
        """Return the pictures that a part cannot be made of."""
        return self.failures() if part.opens or (self.plan is not None and self.plan.makes_meta) else []

    def results_of(self, part: SlicePart) -> list[PartResult]:
        """Return what a part made of `rows_of` it."""
        return [result for result in self.made.get(part.name, ()) if result is not None]

    def done(self, *, work: float = 0.0) -> int | None:
        """Return how many pictures' worth of work is done, for progress; None when all is, because the receipt says that.

        Args:
            work: Work of the parts that are made of a slice at once, in pictures.
        """
        plan = self.plan
        if plan is None:
            return None
        whole = float(len(plan.rows) if plan.opens else 0) + sum(part.work(plan.rows) for part in plan.by_slice)
        made = (self.settled if plan.opens else 0) + work
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
        done = self.error is None or self.pixels_done
        embeds = plan is not None and done and any(part.embeds for part in plan.parts)
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
            postponed=dict(self.postponed),
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
