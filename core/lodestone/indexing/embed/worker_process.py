"""Embedding worker process: it loads the models, embeds the slices it is sent, and answers each with a receipt.

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

from lodestone.errors import LodestoneError, RunFailedError

if TYPE_CHECKING:
    from lodestone.indexing.embed.slice_embedder import EmbedSlice
    from lodestone.indexing.tasks import EmbedSettings, SliceReceipt, SliceTask

_ABANDONED: Final = 3


def serve(channel: Connection) -> None:
    """Receive settings, then tasks until there is a None; answer each task with its receipt."""
    inbox: queue.SimpleQueue[SliceTask | None] = queue.SimpleQueue()
    settings: EmbedSettings = channel.recv()
    threading.Thread(target=_listen, args=(channel, inbox), name="listen", daemon=True).start()
    embed, broken = _load_models(settings)
    while (task := inbox.get()) is not None:
        if broken is not None or embed is None:
            channel.send(_failed_receipt(task, broken))
        else:
            channel.send(_embed_safely(embed, task, channel))
    if embed is not None:
        embed.close()


def _listen(channel: Connection, inbox: queue.SimpleQueue[SliceTask | None]) -> None:
    try:
        while (task := channel.recv()) is not None:
            inbox.put(task)
    except (EOFError, OSError):
        os._exit(_ABANDONED)  # the driver is gone: the next run adopts what is on disk by now
    inbox.put(None)


def _load_models(settings: EmbedSettings) -> tuple[EmbedSlice | None, LodestoneError | None]:
    from lodestone.indexing.embed.slice_embedder import EmbedSlice

    try:
        embed = EmbedSlice(settings)
        embed.warm_up()
    except LodestoneError as error:  # reported with the first receipt: a worker that does not start would be started again
        return None, error
    return embed, None


def _embed_safely(embed: EmbedSlice, task: SliceTask, channel: Connection) -> SliceReceipt:
    try:
        return embed(task, report_progress=lambda _, pictures: channel.send(pictures))
    except Exception as error:  # noqa: BLE001 - it crosses to the driver, which tries again and then raises it
        return _failed_receipt(
            task,
            RunFailedError(
                f"embedding the slice from {task.rows[0].uri!r} failed: {type(error).__name__}: {error}"
                if task.rows
                else f"embedding a slice without pictures failed: {type(error).__name__}: {error}",
                hint="what is finished is kept; run the same command again",
            ),
        )


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
