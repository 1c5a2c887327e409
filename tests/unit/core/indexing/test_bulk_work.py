"""Bulk work in threads of this process: every task is done once, errors belong to their tasks, and little is made ahead."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field

import pytest

from lodestone.errors import InvalidRequestError, ModelUnavailableError
from lodestone.indexing.bulk_work import in_threads


@dataclass(frozen=True)
class Number:
    key: str


@dataclass
class Squares:
    """Work that counts how often it was prepared, and how many of its tasks ran at once."""

    prepared: int = 0
    running: int = 0
    most: int = 0
    together: threading.Barrier | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def prepare(self) -> Callable[[Number], int]:
        self.prepared += 1
        return self._square

    def _square(self, task: Number) -> int:
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)
        if self.together is not None:
            self.together.wait(30)
        with self.lock:
            self.running -= 1
        if task.key == "3":
            raise InvalidRequestError("no square of 3", hint="ask for another")
        return int(task.key) ** 2


def numbers(count: int) -> Iterator[Number]:
    return (Number(str(n)) for n in range(count))


@pytest.mark.parametrize("workers", [1, 3])
def test_each_task_has_its_result_or_its_error(workers: int) -> None:
    work = Squares()
    done = list(in_threads(workers)(work, numbers(9)))
    assert {one.task.key: one.result for one in done if one.error is None} == {str(n): n**2 for n in (0, 1, 2, 4, 5, 6, 7, 8)}
    ((failed, error),) = [(one.task.key, one.error) for one in done if one.error is not None]
    assert (failed, isinstance(error, InvalidRequestError)) == ("3", True)
    assert (work.prepared, len(done)) == (1, 9)


def test_as_many_tasks_run_at_once_as_there_are_workers() -> None:
    work = Squares(together=threading.Barrier(3))
    assert len(list(in_threads(3)(work, numbers(6)))) == 6
    assert work.most == 3


def test_nothing_is_prepared_without_a_task() -> None:
    work = Squares()
    assert list(in_threads(2)(work, numbers(0))) == []
    assert work.prepared == 0


def test_tasks_are_made_as_there_is_room_for_them_and_no_more_when_nobody_asks() -> None:
    made: list[str] = []

    def counted() -> Iterator[Number]:
        for number in numbers(100):
            made.append(number.key)
            yield number

    with closing(in_threads(2)(Squares(), counted())) as outcomes:
        next(outcomes)
        assert len(made) <= 2 + 2 + 1
    assert len(made) <= 2 + 2 + 1


def test_what_all_tasks_lack_ends_the_work() -> None:
    class Broken:
        def prepare(self) -> Callable[[Number], int]:
            raise ModelUnavailableError("no model", hint="fetch it")

    with pytest.raises(ModelUnavailableError):
        list(in_threads(2)(Broken(), numbers(3)))
