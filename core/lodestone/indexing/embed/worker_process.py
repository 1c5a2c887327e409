"""Embedding worker process: it loads the models, embeds the slices it is sent, several at once, and answers with receipts.

The `processes` executor runs it as `python -P -m lodestone.indexing.embed.worker_process HANDLE`, where HANDLE is the
descriptor of a pipe. It ends on request, and at once when the process at the other end has ended, because nobody would read
its further results.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import warnings
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Final

from lodestone.errors import LodestoneError

if TYPE_CHECKING:
    from lodestone.indexing.slices.flow import SliceFlow
    from lodestone.indexing.slices.pipeline import SlicePipeline
    from lodestone.indexing.tasks import EmbedSettings, SliceReceipt, SliceTask

_ABANDONED: Final = 3


def serve(channel: Connection) -> None:
    """Receive settings, then tasks until there is a None; send each task's progress (`Advance`) and its receipt.

    How many tasks are in flight is up to the sender. At the None, those that are under way are dropped.
    """
    inbox: queue.SimpleQueue[SliceTask | None] = queue.SimpleQueue()
    settings: EmbedSettings = channel.recv()
    threading.Thread(target=_listen, args=(channel, inbox), name="listen", daemon=True).start()
    pipeline, broken = _load_models(settings)
    if pipeline is None:
        while (task := inbox.get()) is not None:
            channel.send(_failed_receipt(task, broken))
        return
    with pipeline.flow() as flow:
        threading.Thread(target=_feed, args=(flow, inbox), name="feed", daemon=True).start()
        while (event := flow.take()) is not None:
            channel.send(event)
    pipeline.close()


def _feed(flow: SliceFlow, inbox: queue.SimpleQueue[SliceTask | None]) -> None:
    while (task := inbox.get()) is not None:
        flow.admit(task)
    flow.finish()


def _listen(channel: Connection, inbox: queue.SimpleQueue[SliceTask | None]) -> None:
    try:
        while (task := channel.recv()) is not None:
            inbox.put(task)
    except (EOFError, OSError):
        os._exit(_ABANDONED)  # the driver is gone: the next run adopts what is on disk by now
    inbox.put(None)


def _load_models(settings: EmbedSettings) -> tuple[SlicePipeline | None, LodestoneError | None]:
    from lodestone.indexing.slices.pipeline import SlicePipeline

    try:
        pipeline = SlicePipeline(settings)
        pipeline.warm_up()
    except LodestoneError as error:  # reported with the first receipt: a worker that does not start would be started again
        return None, error
    return pipeline, None


def _failed_receipt(task: SliceTask, error: LodestoneError | None) -> SliceReceipt:
    from lodestone.indexing.tasks import SliceReceipt, this_worker

    return SliceReceipt(task.slice_id, (), error=error, worker=this_worker())


class _NoPandas:
    """Import finder that reports pandas as missing."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def _keep_arrow_from_pandas() -> None:
    """Stop pyarrow from importing pandas at its first array, which costs each worker 0.3 s and 50 MB and has no use here."""
    import pyarrow as pa

    finder: Any = _NoPandas
    sys.meta_path.insert(0, finder)
    try:
        pa.array([""])
    finally:
        sys.meta_path.remove(finder)


def main(arguments: list[str]) -> int:
    """Run the worker's side of `ProcessExecutor`; returns the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group: the driver decides what it means
    warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")  # warnings about minor faults in metadata
    _keep_arrow_from_pandas()
    with Connection(int(arguments[0])) as channel:
        serve(channel)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
