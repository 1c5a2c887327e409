"""Orderly end of long commands on SIGTERM and SIGHUP: as by Ctrl-C, with the signal's exit code."""

from __future__ import annotations

import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Final

# Not on every system. SIGHUP: the terminal was closed.
_ASKED: Final = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))

DEFAULT_CORPUS: Final = "default"
_SIGNALLED: Final = 128  # exit codes of processes that a signal ended begin above


@contextmanager
def stopped_by_signals(resume: str = "lodestone index --resume") -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the work inside in an orderly way: its run is recorded as interrupted.

    A signal that is ignored (`nohup`) stays ignored. A second one ends the process at once.

    Args:
        resume: Command that goes on with the work, for the message (`resume_command`).

    Raises:
        SystemExit: the signal came; its code is 128 and the signal's number.
    """

    def stop(number: int, _: FrameType | None) -> None:
        for other in before:
            signal.signal(other, signal.SIG_DFL)
        raise SystemExit(_SIGNALLED + number)

    if threading.current_thread() is not threading.main_thread():  # no other may set handlers
        yield
        return
    before = {one: signal.getsignal(one) for one in _ASKED if signal.getsignal(one) is signal.SIG_DFL}
    for one in before:
        signal.signal(one, stop)
    try:
        yield
    except KeyboardInterrupt:
        _say(f"what is finished is kept: `{resume}` goes on")
        raise
    except SystemExit as stopped:
        if isinstance(stopped.code, int) and stopped.code > _SIGNALLED:
            _say(f"stopped by {signal.Signals(stopped.code - _SIGNALLED).name}: `{resume}` goes on")
        raise
    finally:
        for one, usual in before.items():
            signal.signal(one, usual)


def resume_command(corpus: str, home: Path | None = None) -> str:
    """Return the command that finishes what the last run of a corpus left.

    Args:
        corpus: Name of the corpus.
        home: The home, where the user named one; None for the usual one.
    """
    words = ["lodestone", "index", "--resume"]
    words += [] if corpus == DEFAULT_CORPUS else ["--corpus", corpus]
    words += [] if home is None else ["--home", str(home)]
    return shlex.join(words)


def _say(line: str) -> None:
    with suppress(OSError):  # the terminal has gone
        sys.stderr.write(f"{line}\n")
