"""Background indexing process: one index run, whose collections the parent process synchronises.

`ChildQueue` runs it as `python -P -m lodestone.directories.child HANDLE`, where HANDLE is the descriptor of a pipe. It runs at
low priority, stops on request, and ends when the parent process is gone.
"""

from __future__ import annotations

import _thread
import logging
import os
import queue
import signal
import sys
import threading
import time
import warnings
from multiprocessing.connection import Connection
from typing import Final

from lodestone.directories.messages import Cancel, Finished, JobFailed, Progressed, Start, Synced, WantsSync
from lodestone.errors import LodestoneError, RunFailedError
from lodestone.indexing.progress import Progress, ProgressEvent, RunStage

_ABANDONED: Final = 3
_PROGRESS_S: Final = 0.2  # seconds between two reports of one stage
_BATCH_S: Final = 60.0  # longest time, in seconds, until embedded pictures become searchable
_log = logging.getLogger(__name__)


class _Parent:
    """Talks to the parent process at the other end of the pipe."""

    def __init__(self, channel: Connection) -> None:
        self._channel = channel
        self._sending = threading.Lock()  # a sync between two batches of slices is requested from another thread
        self._answers: queue.SimpleQueue[Synced] = queue.SimpleQueue()
        self._stage: RunStage | None = None
        self._reported_at = 0.0
        self._cancelled = False

    def listen(self) -> None:
        """Receive messages until the end; runs in a thread."""
        while True:
            try:
                message = self._channel.recv()
            except (EOFError, OSError):
                os._exit(_ABANDONED)  # nobody would load further pictures; the next run adopts the files on disk
            if not isinstance(message, Cancel):
                self._answers.put(message)
            elif not self._cancelled:
                self._cancelled = True
                _thread.interrupt_main()  # same effect as Ctrl-C, so that the run's row says that it was interrupted

    def tell(self, message: object) -> None:
        """Send one message; any thread may call it."""
        with self._sending:
            self._channel.send(message)

    def progress(self, event: ProgressEvent) -> None:
        """Pass a progress event on, at most a few a second."""
        now = time.monotonic()
        if event.stage is self._stage and now - self._reported_at < _PROGRESS_S and event.done < event.total:
            return
        self._stage, self._reported_at = event.stage, now
        self.tell(Progressed(event))

    def synchronise(self, run_id: str, progress: Progress, *, build: bool = True) -> None:  # noqa: ARG002 - the parent has it
        """Have the parent synchronise the collections, and wait for its answer.

        Raises:
            LodestoneError: the parent failed to synchronise them.
        """
        self.tell(WantsSync(run_id, build))
        while True:
            try:
                answer = self._answers.get(timeout=0.2)  # a wait without a timeout could not be interrupted
            except queue.Empty:
                continue
            break
        if answer.error is not None:
            raise answer.error


def work(channel: Connection) -> None:
    """Carry out one order, from its start to the message that ends it."""
    start: Start = channel.recv()
    if hasattr(os, "nice"):
        os.nice(start.settings.index.background_nice)
    parent = _Parent(channel)
    threading.Thread(target=parent.listen, name="listen", daemon=True).start()
    try:
        from lodestone.home.runtime import Runtime
        from lodestone.indexing.run.index_run import index_paths
        from lodestone.indexing.run.report import IndexRequest

        order = start.order
        request = IndexRequest(
            tuple(order.paths),
            corpus=order.corpus,
            retry_failed=order.retry_failed,
            resume="" if order.resume else None,
        )
        index = start.settings.index
        index_settings = index.model_copy(update={"batch_s": min(index.batch_s, _BATCH_S)})
        settings = start.settings.model_copy(update={"index": index_settings})
        with Runtime.open(settings, purpose="background indexing") as runtime:
            report = index_paths(runtime, request, synchronise=parent.synchronise, progress=parent.progress)
        parent.tell(Finished(report))
    except KeyboardInterrupt:
        parent.tell(JobFailed(None))
    except LodestoneError as error:
        parent.tell(JobFailed(error))
    except Exception as error:  # noqa: BLE001 - it crosses to the parent, which records it
        _log.exception("background indexing failed")
        parent.tell(JobFailed(RunFailedError(f"indexing failed: {type(error).__name__}: {error}")))


def main(arguments: list[str]) -> int:
    """Run the child's side of `ChildQueue`, and return the exit status."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")  # about faulty metadata
    with Connection(int(arguments[0])) as channel:
        work(channel)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
