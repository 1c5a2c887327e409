"""Decoding of pictures in child processes: of those that may crash the process that decodes them, and of many at once.

Broken files can crash a decoder without an exception, or make the system kill a process that takes too much memory. After a
worker has crashed, the pictures of its slice are decoded in one child, one at a time. A picture that crashes the child
repeatedly becomes a failure row, `kills_worker`; the worker continues with the other pictures.

Two fifths of the decoding of a picture hold the interpreter's lock, so threads of one process use two to three cores. Where
one worker decodes for a GPU, each of its threads hands the pictures to a child of its own.

A child runs `python -P -m lodestone.indexing.slices.isolation HANDLE`.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import warnings
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lodestone.errors import LodestoneError
from lodestone.indexing.tasks import RowFailure

if TYPE_CHECKING:
    from lodestone.indexing.slices.picture_inputs import DecodedPicture
    from lodestone.indexing.slices.preparing import Content
    from lodestone.indexing.tasks import EmbedSettings, SliceRow

KILLS_WORKER: Final = "kills_worker"
_CRASHES: Final = 2  # crashes of the child at one picture; the worker's own crash came before
_STOP_SECONDS: Final = 5.0
_FIRST_VICTIM: Final = "1000"  # oom_score_adj: when memory runs out the system kills the child, not the worker


class DecodingChild:
    """Decodes pictures in a child process, one picture at a time. Thread-safe.

    Args:
        settings: Settings of the worker.
    """

    def __init__(self, settings: EmbedSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._channel: Connection | None = None

    def decode(self, row: SliceRow, content: Content | None, *, parts: tuple[str, ...]) -> DecodedPicture | RowFailure:
        """Decode a picture as `decode_picture` does, and return a failure when it crashes the child repeatedly.

        Args:
            row: The planned row.
            content: What was read of it. The child reads a large file, which is given open and closed here, by itself.
            parts: Names of the parts that are missing.

        Raises:
            LodestoneError: as `decode_picture`.
        """
        if content is not None and not isinstance(content, bytes):
            content.close()
            content = None
        with self._lock:
            for crash in range(1, _CRASHES + 1):
                try:
                    return self._ask(row, content, parts)
                except (EOFError, OSError):
                    how = self._reaped()
                    if crash == _CRASHES:
                        return RowFailure(
                            row.image_id, row.uri, KILLS_WORKER, f"decoding it {how}, {_CRASHES} times out of {_CRASHES}"
                        )
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Stop the child process. Idempotent."""
        with self._lock:
            if self._channel is not None:
                self._channel.close()
            if self._child is not None:
                try:
                    self._child.wait(_STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    self._child.kill()
                    self._child.wait()
            self._child = self._channel = None

    def _ask(self, row: SliceRow, content: bytes | None, parts: tuple[str, ...]) -> DecodedPicture | RowFailure:
        channel = self._channel or self._start()
        channel.send((row, content, parts))
        answer: DecodedPicture | RowFailure | LodestoneError = channel.recv()
        if isinstance(answer, LodestoneError):
            raise answer
        return answer

    def _start(self) -> Connection:
        ours, theirs = Pipe()
        handle = theirs.fileno()
        command = [sys.executable, "-P", "-m", "lodestone.indexing.slices.isolation", str(handle)]
        self._child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(handle,)
        )
        theirs.close()
        self._channel = ours
        ours.send(self._settings)
        return ours

    def _reaped(self) -> str:
        """Release the crashed child, and return how it ended."""
        if self._channel is not None:
            self._channel.close()
        code = 0 if self._child is None else self._child.wait()
        self._child = self._channel = None
        return f"ended the process with signal {signal.Signals(-code).name}" if code < 0 else f"ended the process ({code})"


class DecodingChildren:
    """Decodes as many pictures at once as there are children, which start when they are first needed. Thread-safe.

    Args:
        settings: Settings of the worker.
        size: Number of children.
    """

    def __init__(self, settings: EmbedSettings, size: int) -> None:
        self._children = [DecodingChild(settings) for _ in range(size)]
        # The one that was used last comes first, so that no more are started than are needed.
        self._free: queue.LifoQueue[DecodingChild] = queue.LifoQueue()
        for child in reversed(self._children):
            self._free.put(child)

    def decode(self, row: SliceRow, content: Content | None, *, parts: tuple[str, ...]) -> DecodedPicture | RowFailure:
        """Decode a picture in a child that is free, as `DecodingChild.decode` does; wait for one while none is."""
        child = self._free.get()
        try:
            return child.decode(row, content, parts=parts)
        finally:
            self._free.put(child)

    def close(self) -> None:
        """Stop all children. Idempotent."""
        for child in self._children:
            child.close()


def _serve(channel: Connection) -> None:
    from lodestone.indexing.slices.preparing import Decode, decoder  # slow; `main` ignores Ctrl-C by now

    settings = channel.recv()
    decoders: dict[tuple[str, ...], Decode] = {}
    while True:
        row, content, names = channel.recv()
        try:
            decode = decoders.get(names) or decoders.setdefault(names, decoder(settings, names))
            answer: Any = decode(row, content)
        except LodestoneError as error:
            answer = error
        channel.send(answer)


def main(arguments: list[str]) -> int:
    """Decode pictures for the parent process until it closes the pipe; return the exit status."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")
    with suppress(OSError):  # the file exists on Linux only
        Path(f"/proc/{os.getpid()}/oom_score_adj").write_text(_FIRST_VICTIM)
    with Connection(int(arguments[0])) as channel, suppress(EOFError):
        _serve(channel)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
