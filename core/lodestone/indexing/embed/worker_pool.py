"""Executor that embeds in worker processes of this machine; each has its own models and uses one thread per model pass.

Only Python itself is started, so the first picture is decoded a second or two after `start`, which the run calls as soon as
discovery shows that there is enough work. A worker holds a few slices at a time (`slices_in_flight`), so that it never waits
for the driver or for the end of one slice. On a machine with GPUs, each worker sees one of them. A crashed worker costs the
slices that it held, one receipt with a `WorkerDiedError` each, and is replaced. The error says how many others were beside it
(`beside`): only a slice that was alone is to blame.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from typing import IO, Final

from lodestone.errors import RunFailedError, WorkerDiedError
from lodestone.indexing.slices.limits import slices_in_flight
from lodestone.indexing.tasks import Advance, EmbedSettings, SliceProgressCallback, SliceReceipt, SliceTask, ignore_progress

_START_ATTEMPTS: Final = 3  # workers that crash before any of them has answered
_COMPLAINT_BYTES: Final = 4000


@dataclass(slots=True)
class _Worker:
    process: subprocess.Popen[bytes]
    channel: Connection
    complaints: IO[bytes]
    device: str = ""  # its GPU
    tasks: dict[str, SliceTask] = field(default_factory=dict)

    def has_room(self, most: int) -> bool:
        """Return whether another task may be sent; one that needs the worker for itself gets no company."""
        return len(self.tasks) < most and not any(held.needs_a_worker for held in self.tasks.values())

    def takes(self, task: SliceTask, most: int) -> bool:
        """Return whether this task may be sent now."""
        return not self.tasks if task.needs_a_worker else self.has_room(most)

    def give(self, task: SliceTask) -> None:
        self.tasks[task.slice_id] = task
        try:
            self.channel.send(task)
        except OSError:
            return  # it crashed: reading from it reports that

    def take(self) -> Advance | list[SliceReceipt]:
        """Return the progress of a slice, or a receipt: one for each slice with a `WorkerDiedError` if the worker crashed."""
        try:
            answer: Advance | SliceReceipt = self.channel.recv()
        except (EOFError, OSError):
            self.channel.close()
            held, self.tasks = list(self.tasks.values()), {}
            how = self._death()
            return [
                SliceReceipt(task.slice_id, (), error=self._error(how, task, len(held) - 1), worker=self.name) for task in held
            ]
        if isinstance(answer, Advance):
            return answer
        self.tasks.pop(answer.slice_id, None)
        return [answer]

    @property
    def name(self) -> str:
        return f"{socket.gethostname()}:{self.process.pid}"

    def stop(self) -> None:
        """Kill the worker: what it has finished is on disk, and its current work is not wanted."""
        self.process.kill()
        self.process.wait()
        self.channel.close()
        self.complaints.close()

    def _death(self) -> tuple[str, str]:
        """Return how the worker ended, and its last line."""
        code = self.process.wait()
        how = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
        self.complaints.seek(max(self.complaints.seek(0, os.SEEK_END) - _COMPLAINT_BYTES, 0))
        last_line = self.complaints.read().decode(errors="replace").strip().splitlines()[-1:]
        return how, f": {last_line[0]}" if last_line else ""

    def _error(self, how: tuple[str, str], task: SliceTask, beside: int) -> WorkerDiedError:
        company = f" and {beside} more" if beside else ""
        return WorkerDiedError(
            f"worker {self.name} {how[0]} at {_named(task)}{company}{how[1]}",
            hint="the slice is tried again; `dmesg` says whether the system was short of memory",
            beside=beside,
        )


class ProcessExecutor:
    """Embeds slices in processes on this machine, as an `EmbedExecutor`.

    Args:
        settings: What workers need to know.
        workers: Number of workers.
        devices: GPUs to share out among them, each as CUDA_VISIBLE_DEVICES names it; empty for no share.
    """

    def __init__(self, settings: EmbedSettings, workers: int, *, devices: Sequence[str] = ()) -> None:
        self._settings = settings
        self._count = workers
        self._devices = tuple(devices)
        self._workers: list[_Worker] = []
        self._slices = slices_in_flight(settings)
        self._waiting: Iterator[SliceTask] = iter(())
        self._following: SliceTask | None = None  # pulled, and not sent yet
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
        self._following, self._waiting = None, iter(tasks)
        finished = False
        try:
            while True:
                self._hand_out()
                busy = {worker.channel: worker for worker in self._workers if worker.tasks}
                if not busy:
                    break
                receipts: list[SliceReceipt] = []
                for channel in wait(list(busy)):
                    if isinstance(channel, Connection):
                        receipts += self._receive(busy[channel], report_progress)
                self._hand_out()  # before the receipts are yielded, because recording them takes a while
                yield from receipts
            finished = True
        finally:
            if not finished:  # the workers' current work is not wanted any more
                self.close()

    def _hand_out(self) -> None:
        """Send tasks, the next one always to the worker that has the fewest, while any worker has room."""
        while len(self._workers) < self._count or any(worker.has_room(self._slices) for worker in self._workers):
            self._following = self._following or next(self._waiting, None)
            task = self._following
            if task is None:
                return
            free = [worker for worker in self._workers if worker.takes(task, self._slices)]
            worker = min(free, key=lambda worker: len(worker.tasks), default=None)
            if len(self._workers) < self._count and (worker is None or worker.tasks):
                worker = self._spawn()
                self._workers.append(worker)
            if worker is None:
                return
            worker.give(task)
            self._following = None

    def close(self) -> None:
        """Stop all worker processes. Idempotent."""
        for worker in self._workers:
            worker.stop()
        self._workers.clear()

    def _receive(self, worker: _Worker, report_progress: SliceProgressCallback) -> list[SliceReceipt]:
        """Return the receipts of what a worker finished, or of all that it held when it crashed."""
        answer = worker.take()
        if isinstance(answer, Advance):
            self._answered = True
            report_progress(answer.slice_id, answer.pictures)
            return []
        if not worker.channel.closed:
            self._answered = True
            return answer
        self._workers.remove(worker)  # another takes its place as soon as there is a task for it
        worker.complaints.close()
        error = answer[0].error
        if not self._answered:
            self._early_deaths += 1
            if self._early_deaths >= _START_ATTEMPTS and error is not None:
                raise RunFailedError(
                    f"{self._early_deaths} workers died before one answered: {error.message}",
                    hint="try `--executor inline`, which shows what they die of; fewer --workers need less memory",
                ) from error
        return answer

    def _spawn(self) -> _Worker:
        used = [worker.device for worker in self._workers]
        device = min(self._devices, key=used.count, default="")
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
            env={**os.environ, **self._environment(device)},
        )
        theirs.close()
        with suppress(OSError):  # it crashed already: reading from it reports that
            ours.send(self._settings)
        return _Worker(process, ours, complaints, device)

    def _environment(self, device: str) -> dict[str, str]:
        # Libraries that count cores for themselves would start a pool as large as the machine in every worker.
        threads = {name: str(max(self._settings.model_threads, 1)) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        return {**threads, **({"CUDA_VISIBLE_DEVICES": device} if device else {})}


def _named(task: SliceTask) -> str:
    if not task.rows:
        return "a slice without pictures"
    return f"the slice of {len(task.rows)} pictures from {task.rows[0].uri!r} to {task.rows[-1].uri!r}"
