"""Orderly end of long commands on SIGTERM and SIGHUP: as by Ctrl-C, with the signal's exit code."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

# Not on every system. SIGHUP: the terminal was closed.
_ASKED: Final = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))

_SIGNALLED: Final = 128  # exit codes of processes that a signal ended begin above


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the work inside in an orderly way: its run is recorded as interrupted.

    A signal that is ignored (`nohup`) stays ignored. A second one ends the process at once.

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
        _say("what is finished is kept: `lodestone index --resume` goes on")
        raise
    except SystemExit as stopped:
        if isinstance(stopped.code, int) and stopped.code > _SIGNALLED:
            _say(f"stopped by {signal.Signals(stopped.code - _SIGNALLED).name}: `lodestone index --resume` goes on")
        raise
    finally:
        for one, usual in before.items():
            signal.signal(one, usual)


def _say(line: str) -> None:
    with suppress(OSError):  # the terminal has gone
        sys.stderr.write(f"{line}\n")
