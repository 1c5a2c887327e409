"""Executor that embeds in worker processes of this machine; each has its own models and uses one thread per model pass.

Only Python itself is started, so the first picture is decoded a second or two after `start`, which the run calls as soon as
discovery shows that there is enough work. A worker holds one slice at a time; the next one waits in the driver, ready to be
sent. A crashed worker costs the slice that it held (a receipt with a `WorkerDiedError`) and is replaced.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from typing import IO, Final

from lodestone.errors import RunFailedError, WorkerDiedError
from lodestone.indexing.tasks import EmbedSettings, SliceProgressCallback, SliceReceipt, SliceTask, ignore_progress

_START_ATTEMPTS: Final = 3  # workers that crash before any of them has answered
_COMPLAINT_BYTES: Final = 4000


@dataclass(slots=True)
class _Worker:
    process: subprocess.Popen[bytes]
    channel: Connection
    complaints: IO[bytes]
    task: SliceTask | None = None

    def give(self, task: SliceTask) -> None:
        self.task = task
        try:
            self.channel.send(task)
        except OSError:
            return  # it crashed: reading from it reports that

    def take(self) -> SliceReceipt | int:
        """Return the worker's receipt (with a `WorkerDiedError` if it crashed), or how many pictures of its task are done."""
        try:
            answer: SliceReceipt | int = self.channel.recv()
        except (EOFError, OSError):
            self.channel.close()
            task, self.task = self.task, None
            slice_id = "" if task is None else task.slice_id
            return SliceReceipt(slice_id, (), error=self._death(task), worker=self.name)
        if not isinstance(answer, int):
            self.task = None
        return answer

    @property
    def name(self) -> str:
        return f"{socket.gethostname()}:{self.process.pid}"

    def stop(self) -> None:
        """Kill the worker: what it has finished is on disk, and its current work is not wanted."""
        self.process.kill()
        self.process.wait()
        self.channel.close()
        self.complaints.close()

    def _death(self, task: SliceTask | None) -> WorkerDiedError:
        code = self.process.wait()
        how = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
        self.complaints.seek(max(self.complaints.seek(0, os.SEEK_END) - _COMPLAINT_BYTES, 0))
        last_line = self.complaints.read().decode(errors="replace").strip().splitlines()[-1:]
        where = "while it started" if task is None else f"at {_named(task)}"
        return WorkerDiedError(
            f"worker {self.name} {how} {where}" + (f": {last_line[0]}" if last_line else ""),
            hint="the slice is tried again; `dmesg` says whether the system was short of memory",
        )


class ProcessExecutor:
    """Embeds slices in processes on this machine, as an `EmbedExecutor`.

    Args:
        settings: What workers need to know.
        workers: Number of workers.
    """

    def __init__(self, settings: EmbedSettings, workers: int) -> None:
        self._settings = settings
        self._count = workers
        self._workers: list[_Worker] = []
        self._answered = False
        self._early_deaths = 0

    def start(self) -> None:
        """Start the workers; they get ready while the caller goes on."""
        while len(self._workers) < self._count:
            self._workers.append(self._spawn())

    def run(
        self, tasks: Iterable[SliceTask], report_progress: SliceProgressCallback = ignore_progress
    ) -> Iterator[SliceReceipt]:
        """Give the tasks to the workers and yield their receipts as they finish.

        Raises:
            RunFailedError: several workers crashed before any of them had answered.
        """
        waiting = iter(tasks)
        following = next(waiting, None)
        finished = False
        try:
            while True:
                for place in range(self._count):
                    if following is None:
                        break
                    if place == len(self._workers):
                        self._workers.append(self._spawn())
                    if self._workers[place].task is None:
                        self._workers[place].give(following)
                        following = next(waiting, None)
                busy = {worker.channel: worker for worker in self._workers if worker.task is not None}
                if not busy:
                    break
                heard = [
                    self._receive(busy[channel], report_progress)
                    for channel in wait(list(busy))
                    if isinstance(channel, Connection)
                ]
                receipts = [receipt for receipt in heard if receipt is not None]
                for worker in self._workers:  # before the receipts are yielded, because recording them takes a while
                    if worker.task is None and following is not None:
                        worker.give(following)
                        following = next(waiting, None)
                yield from receipts
            finished = True
        finally:
            if not finished:  # the workers' current work is not wanted any more
                self.close()

    def close(self) -> None:
        """Stop all worker processes. Idempotent."""
        for worker in self._workers:
            worker.stop()
        self._workers.clear()

    def _receive(self, worker: _Worker, report_progress: SliceProgressCallback) -> SliceReceipt | None:
        """Return what a worker finished; None when it reported a task that goes on."""
        task = worker.task
        receipt = worker.take()
        if isinstance(receipt, int):
            self._answered = True
            if task is not None:
                report_progress(task.slice_id, receipt)
            return None
        if not worker.channel.closed:
            self._answered = True
            return receipt
        self._workers.remove(worker)  # another takes its place as soon as there is a task for it
        worker.complaints.close()
        if not self._answered:
            self._early_deaths += 1
            if self._early_deaths >= _START_ATTEMPTS and receipt.error is not None:
                raise RunFailedError(
                    f"{self._early_deaths} workers died before one answered: {receipt.error.message}",
                    hint="try `--executor inline`, which shows what they die of; fewer --workers need less memory",
                ) from receipt.error
        return receipt

    def _spawn(self) -> _Worker:
        ours, theirs = Pipe()
        complaints = tempfile.TemporaryFile(prefix="lodestone-worker-")  # noqa: SIM115 - as long as the worker
        handle = theirs.fileno()
        # -P: a user's own lodestone.py in the working directory must not take our place.
        command = [sys.executable, "-P", "-m", "lodestone.indexing.embed.worker_process", str(handle)]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=complaints,
            pass_fds=(handle,),
            env={**os.environ, **self._environment()},
        )
        theirs.close()
        with suppress(OSError):  # it crashed already: reading from it reports that
            ours.send(self._settings)
        return _Worker(process, ours, complaints)

    def _environment(self) -> dict[str, str]:
        # Libraries that count cores for themselves would start a pool as large as the machine in every worker.
        return {name: str(max(self._settings.model_threads, 1)) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}


def _named(task: SliceTask) -> str:
    if not task.rows:
        return "a slice without pictures"
    return f"the slice of {len(task.rows)} pictures from {task.rows[0].uri!r} to {task.rows[-1].uri!r}"
