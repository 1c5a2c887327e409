"""Bulk work by Ray Data, without Ray: what is tried again, how often, and beside whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import pytest

from lodestone.errors import InvalidRequestError, LodestoneError, WorkerDiedError
from lodestone.indexing.tasks import SliceProgressCallback, ignore_progress
from lodestone_jobs.bulk import RayBulkWork
from lodestone_jobs.bulk_calls import BulkCall, BulkReceipt
from lodestone_jobs.slice_stream import RunWords


@dataclass(frozen=True)
class Number:
    key: str


class Squares:
    """Work that the fake dataset does itself."""

    def prepare(self) -> Callable[[Number], int]:
        raise AssertionError("only an actor prepares")


@dataclass
class Fake:
    """What the dataset has seen.

    Attributes:
        deaths: Task -> times that its worker dies.
        waves: (task, attempt, whether it had its worker for itself) of each call of the run.
    """

    deaths: Counter[str]
    waves: list[list[tuple[str, int, bool]]] = field(default_factory=list)

    def work(self) -> RayBulkWork:
        fake = self

        class Run(RayBulkWork):
            def run(
                self,
                tasks: Iterable[BulkCall],
                report_progress: SliceProgressCallback = ignore_progress,
            ) -> Iterator[BulkReceipt]:
                wave: list[tuple[str, int, bool]] = []
                fake.waves.append(wave)
                for call in tasks:
                    key = call.slice_id
                    wave.append((key, call.attempt, call.needs_a_worker))
                    error: LodestoneError | None = None
                    if fake.deaths[key]:
                        fake.deaths[key] -= 1
                        error = WorkerDiedError(f"worker died at {key}")
                    elif key == "3":
                        error = InvalidRequestError("no square of 3")
                    yield BulkReceipt(key, None if error else int(key) ** 2, error)

        return Run(Squares(), 1, words=RunWords("test worker", "nothing goes on"))


@pytest.mark.parametrize(("deaths", "attempts"), [(0, 1), (1, 2), (2, 3), (3, 3)])
def test_a_task_whose_worker_died_is_tried_again_by_itself_three_times_in_all(deaths: int, attempts: int) -> None:
    fake = Fake(Counter({"2": deaths}))
    done = {one.task.key: one for one in fake.work().outcomes(Number(key) for key in "0123")}
    assert [[(key, alone) for key, _, alone in wave] for wave in fake.waves] == [
        [("0", False), ("1", False), ("2", False), ("3", False)],
        *([("2", True)] for _ in range(attempts - 1)),
    ]
    assert [wave[-1][1] for wave in fake.waves] == list(range(1, attempts + 1))
    assert isinstance(done["3"].error, InvalidRequestError)  # such an error is not tried again
    assert (done["0"].result, done["1"].result) == (0, 1)
    if deaths < 3:
        assert (done["2"].result, done["2"].error) == (4, None)
    else:
        assert isinstance(done["2"].error, WorkerDiedError)
