"""Contract of bulk work: tasks over slices that plain code does, one result each, and the host that does them in threads.

Whoever has such work writes what is done with one task, and says nothing about where. A host does the tasks: `in_threads` in
this process, `lodestone_jobs.bulk` by Ray Data on a cluster. Tasks, results and the work itself are small and picklable;
pictures and vectors go through files.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from lodestone.errors import LodestoneError

_AHEAD: Final = 2  # tasks that are made before a thread is free for them


class BulkTask(Protocol):
    """One piece of work: a slice, or a few of them."""

    @property
    def key(self) -> str:
        """Return the name of the task, which no other task of the run has."""


TaskT = TypeVar("TaskT", bound=BulkTask)
ResultT = TypeVar("ResultT")
_Task_contra = TypeVar("_Task_contra", bound=BulkTask, contravariant=True)
_Result_co = TypeVar("_Result_co", covariant=True)


class BulkWork(Protocol[_Task_contra, _Result_co]):
    """Work that is done with each task. Picklable."""

    def prepare(self) -> Callable[[_Task_contra], _Result_co]:
        """Load what all tasks need, once a worker, and return what does one of them; it is called from several threads.

        Doing a task again must give the same result. What it returns raises a `LodestoneError` for a task that cannot be done.

        Raises:
            LodestoneError: something that all tasks need is not there.
        """


class Done(NamedTuple, Generic[TaskT, ResultT]):
    """A task, and its result or the error that ended it."""

    task: TaskT
    result: ResultT | None = None
    error: LodestoneError | None = None


class BulkHost(Protocol):
    """Does the tasks of bulk work, wherever there is room."""

    def __call__(self, work: BulkWork[TaskT, ResultT], tasks: Iterable[TaskT], /) -> Generator[Done[TaskT, ResultT]]:
        """Yield what became of each task, in any order. `tasks` is read as there is room for them; to close it stops the work.

        Raises:
            LodestoneError: no task can be done any more.
        """


def in_threads(workers: int) -> BulkHost:
    """Return the host that does tasks in threads of this process.

    Args:
        workers: Most tasks at once.
    """

    def do(work: BulkWork[TaskT, ResultT], tasks: Iterable[TaskT], /) -> Generator[Done[TaskT, ResultT]]:
        waiting = iter(tasks)
        first = next(waiting, None)
        if first is None:
            return
        do_one = work.prepare()
        pool = ThreadPoolExecutor(workers, thread_name_prefix="lodestone-bulk")
        running: dict[Future[ResultT], TaskT] = {pool.submit(do_one, first): first}
        try:
            is_over = False
            while running or not is_over:
                while not is_over and len(running) < workers + _AHEAD:
                    task = next(waiting, None)
                    is_over = task is None
                    if task is not None:
                        running[pool.submit(do_one, task)] = task
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield _outcome(running.pop(future), future)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    return do


def _outcome(task: TaskT, future: Future[ResultT]) -> Done[TaskT, ResultT]:
    try:
        return Done(task, result=future.result())
    except LodestoneError as error:
        return Done(task, error=error)
