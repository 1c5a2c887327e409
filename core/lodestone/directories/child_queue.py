"""Queue of background indexing: one child process of low priority per order; this process, which owns the store, synchronises.

The child discovers and embeds by itself. Whenever it has something to load it sends a request, and waits while this process
synchronises its collections. When this process ends, the child ends too; the next run adopts what it finished.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, Pipe
from pathlib import PurePath
from typing import IO, Any, Final
from uuid import uuid4

from lodestone.config.settings import Settings
from lodestone.directories.messages import Cancel, Finished, JobFailed, Progressed, Start, Synced, WantsSync
from lodestone.directories.queue import IndexOrder, RunQueue
from lodestone.errors import (
    LodestoneError,
    NotFoundError,
    RunCancelledError,
    ServiceUnavailableError,
    StoreLockedError,
    WorkerDiedError,
)
from lodestone.indexing.progress import Progress
from lodestone_schemas.directories import JobInfo

_KEPT: Final = 50  # ended jobs that are listed
_STOP_S: Final = 10.0
_LOCKED_S: Final = (2.0, 60.0)  # first and longest pause, in seconds, while another process indexes the corpus
_STDERR_BYTES: Final = 4000
_log = logging.getLogger(__name__)

Synchronise = Callable[[str, Progress, bool], None]
"""Function that synchronises the collections for a run in this process: (run id, progress, whether to build graphs)."""


@dataclass(slots=True)
class _Job:
    order: IndexOrder
    info: JobInfo
    not_before: float = 0.0  # seconds on the monotonic clock
    pause: float = _LOCKED_S[0]
    cancelled: bool = False
    channel: Connection | None = None
    sending: threading.Lock = field(default_factory=threading.Lock)

    def tell(self, message: object) -> None:
        with self.sending:
            if self.channel is not None:
                self.channel.send(message)


class ChildQueue(RunQueue):
    """Implements `RunQueue` with child processes; one order is worked on at a time.

    Args:
        settings: Settings of the home.
        synchronise: Synchronises the collections; called in the queue's own thread.
    """

    def __init__(self, settings: Settings, synchronise: Synchronise) -> None:
        self._settings = settings
        self._synchronise = synchronise
        self._waiting: list[_Job] = []
        self._running: _Job | None = None
        self._ended: deque[_Job] = deque(maxlen=_KEPT)
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    def submit(self, order: IndexOrder) -> JobInfo:
        """Queue an order, or join it to a waiting one, as `RunQueue.submit` does."""
        with self._changed:
            if self._closed:
                raise ServiceUnavailableError("the service is stopping", hint="try again when it runs")
            for job in self._waiting:
                joined = job.order.joined(order)
                if joined is not None:
                    job.order = joined
                    return job.info
            info = JobInfo(job_id=str(uuid4()), corpus=order.corpus, reason=order.reason, state="waiting")
            self._waiting.append(_Job(order, info))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="lodestone-index-queue", daemon=True)
                self._thread.start()
            self._changed.notify_all()
            return info

    def jobs(self) -> list[JobInfo]:
        """Return the ended, running and waiting jobs, as `RunQueue.jobs` does."""
        with self._changed:
            running = [] if self._running is None else [self._running]
            return [job.info for job in (*self._ended, *running, *self._waiting)]

    def cancel(self, job_id: str) -> JobInfo:
        """Cancel a job, as `RunQueue.cancel` does.

        Raises:
            NotFoundError: there is no such job.
        """
        with self._changed:
            for job in self._waiting:
                if job.info.job_id == job_id:
                    self._waiting.remove(job)
                    _set(job, state="cancelled")
                    self._ended.append(job)
                    return job.info
            if self._running is not None and self._running.info.job_id == job_id:
                self._stop(self._running)
                return self._running.info
            for job in self._ended:
                if job.info.job_id == job_id:
                    return job.info
        raise NotFoundError(f"there is no job {job_id!r}", hint="see `lodestone directory jobs`", job_id=job_id)

    def withdraw(self, path: str) -> None:
        """Remove a path from waiting orders and stop a run that only indexes it, as `RunQueue.withdraw` does."""
        with self._changed:
            for job in [job for job in self._waiting if job.order.paths]:
                remaining = tuple(order_path for order_path in job.order.paths if not _below(order_path, path))
                if remaining:
                    job.order = replace(job.order, paths=remaining)
                else:
                    self._waiting.remove(job)
                    _set(job, state="cancelled")
                    self._ended.append(job)
            running = self._running
            if (
                running is not None
                and running.order.paths
                and all(_below(order_path, path) for order_path in running.order.paths)
            ):
                self._stop(running)
                self._changed.wait_for(lambda: self._running is not running, 2 * _STOP_S)

    def close(self) -> None:
        """Stop the queue and the running job, as `RunQueue.close` does."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            if self._running is not None:
                self._stop(self._running)
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(2 * _STOP_S)

    def wait(self, timeout_s: float) -> bool:
        """Wait until no job is running or waiting, and return whether that happened in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._running is None and not self._waiting, timeout_s)

    def _stop(self, job: _Job) -> None:
        job.cancelled = True
        try:
            job.tell(Cancel())
        except OSError:
            pass  # the child has ended already, which the reader of its pipe notices
        else:
            return

    def _work(self) -> None:
        while (job := self._next()) is not None:
            try:
                self._run(job)
            except Exception:  # noqa: BLE001 - a failed order must not stop the next one
                _log.exception("background indexing of the corpus %r failed unexpectedly", job.order.corpus)
                _set(job, state="failed", error="unexpected error; the log has the details")
            with self._changed:
                if job.cancelled and job.info.state == "waiting":  # cancelled just after it had found the corpus locked
                    _set(job, state="cancelled")
                self._running = None
                (self._waiting if job.info.state == "waiting" else self._ended).append(job)
                self._changed.notify_all()

    def _next(self) -> _Job | None:
        with self._changed:
            while not self._closed:
                now = time.monotonic()
                ready = next((job for job in self._waiting if job.not_before <= now), None)
                if ready is not None:
                    self._waiting.remove(ready)
                    self._running = ready
                    _set(ready, state="running", error="")
                    return ready
                soonest = min((job.not_before - now for job in self._waiting), default=None)
                self._changed.wait(soonest)
        return None

    def _run(self, job: _Job) -> None:
        with tempfile.TemporaryFile(prefix="lodestone-background-") as stderr_file:
            process, channel = _spawn(stderr_file)
            with self._changed:
                job.channel = channel
            try:
                job.tell(Start(self._settings, job.order))
                if job.cancelled:  # cancelled between selection and start
                    job.tell(Cancel())
                self._listen(job, channel)
            except (EOFError, OSError):
                self._child_crashed(job, process, stderr_file)
            finally:
                with self._changed, job.sending:
                    job.channel = None
                    channel.close()
                _reap(process)

    def _listen(self, job: _Job, channel: Connection) -> None:
        while True:
            message: Any = channel.recv()
            if isinstance(message, Progressed):
                _set(job, stage=str(message.event.stage), done=message.event.done, total=message.event.total)
            elif isinstance(message, WantsSync):
                job.tell(Synced(self._synced(message, job)))
            elif isinstance(message, Finished):
                counts = {name: int(count) for name, count in message.report.counts.items()}
                _set(job, state="done", stage="done", run_id=message.report.run_id, counts=counts)
                return
            elif isinstance(message, JobFailed):
                self._failed(job, message.error)
                return

    def _synced(self, wanted: WantsSync, job: _Job) -> LodestoneError | None:
        try:
            self._synchronise(
                wanted.run_id,
                lambda event: _set(job, stage=str(event.stage), done=event.done, total=event.total),
                wanted.build,
            )
        except LodestoneError as error:
            return error
        return None

    def _failed(self, job: _Job, error: LodestoneError | None) -> None:
        if error is None or job.cancelled or isinstance(error, RunCancelledError):
            _set(job, state="cancelled")
        elif isinstance(error, StoreLockedError):  # another process indexes the corpus, so the job waits
            job.not_before = time.monotonic() + job.pause
            job.pause = min(2 * job.pause, _LOCKED_S[1])
            _set(job, state="waiting", error=error.message)
        elif job.order.reason in {"watched", "repair"} and error.status in {404, 422}:
            _set(job, state="done", error=error.message)  # the changed file is gone again, or no picture is left
        else:
            _log.warning("background indexing failed: %s [%s]", error.message, error.code)
            _set(job, state="failed", error=f"{error.message} [{error.code}]")

    def _child_crashed(self, job: _Job, process: subprocess.Popen[bytes], stderr_file: IO[bytes]) -> None:
        if job.cancelled:
            _set(job, state="cancelled")
            return
        code = process.wait(_STOP_S)
        stderr_file.seek(max(stderr_file.seek(0, os.SEEK_END) - _STDERR_BYTES, 0))
        last_line = stderr_file.read().decode(errors="replace").strip().splitlines()[-1:]
        how = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
        error = WorkerDiedError(f"the indexing process {how}" + (f": {last_line[0]}" if last_line else ""))
        _log.warning("%s", error.message)
        _set(job, state="failed", error=f"{error.message} [{error.code}]")


def _below(path: str, folder: str) -> bool:
    return path == folder or folder in (str(parent) for parent in PurePath(path).parents)


def _set(job: _Job, **changed: object) -> None:
    job.info = job.info.model_copy(update=changed)


def _spawn(stderr_file: IO[bytes]) -> tuple[subprocess.Popen[bytes], Connection]:
    ours, theirs = Pipe()
    handle = theirs.fileno()
    # -P: a user's own lodestone.py in the working directory must not be imported instead.
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "lodestone.directories.child", str(handle)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=stderr_file,
        pass_fds=(handle,),
        start_new_session=True,  # Ctrl-C reaches this process only, which then stops the child
    )
    theirs.close()
    return process, ours


def _reap(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
