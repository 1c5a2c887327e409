"""Orderly end of long commands on Ctrl-C, SIGTERM and SIGHUP, with a message that says what is kept and how to go on."""

from __future__ import annotations

import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

from lodestone.indexing.stop_request import StopRequest

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog

# Not on every system. SIGHUP: the terminal was closed.
_ASKED: Final = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))

DEFAULT_CORPUS: Final = "default"
_SIGNALLED: Final = 128  # exit codes of processes that a signal ended begin above


@contextmanager
def stopped_by_signals(outcome: Callable[[], str] = lambda: "what is finished is kept") -> Iterator[StopRequest]:
    """Let Ctrl-C, SIGTERM and SIGHUP end the work inside in an orderly way: its run is recorded as interrupted.

    At the first Ctrl-C, work that honours the request finishes what is under way. A second Ctrl-C ends it at once, and so does
    the first one where nothing is under way. SIGTERM and SIGHUP end it at once, because whoever sends them does not wait long.
    A second one of them ends the process. A signal that is ignored (`nohup`) stays ignored.

    Args:
        outcome: Called when the work was interrupted. It returns what is kept and how to go on, for the message.

    Yields:
        The request, to be given to the work.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
        SystemExit: another signal came; its code is 128 and the signal's number.
    """
    request = StopRequest()
    try:
        with _handlers(request):
            yield request
    except KeyboardInterrupt:
        _say(outcome())
        raise
    except SystemExit as stopped:
        if isinstance(stopped.code, int) and stopped.code > _SIGNALLED:
            _say(f"stopped by {signal.Signals(stopped.code - _SIGNALLED).name}: {outcome()}")
        raise


@contextmanager
def _handlers(request: StopRequest) -> Iterator[None]:
    """Handle signals inside as `stopped_by_signals` describes."""
    if threading.current_thread() is not threading.main_thread():  # no other may set handlers
        yield
        return
    asked = [one for one in _ASKED if signal.getsignal(one) is signal.SIG_DFL]

    def interrupt(_number: int, _: FrameType | None) -> None:
        if not request.ask(KeyboardInterrupt()):
            raise KeyboardInterrupt

    def stop(number: int, _: FrameType | None) -> None:
        for other in asked:
            signal.signal(other, signal.SIG_DFL)
        raise SystemExit(_SIGNALLED + number)

    before = {one: signal.signal(one, stop) for one in asked}
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        before[signal.SIGINT] = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        for one, usual in before.items():
            signal.signal(one, usual)


def outcome_of(catalog: Callable[[], Catalog], corpus: str, home: Path | None = None) -> str:
    """Return what an interrupted index run of a corpus has kept, and the command that goes on.

    Args:
        catalog: Returns the home's catalog; the home may not be open yet.
        corpus: Name of the corpus.
        home: The home, where the user named one; None for the usual one.
    """
    from lodestone.errors import LodestoneError, UnknownNameError
    from lodestone.indexing.run.unfinished import unfinished_run

    resume = resume_command(corpus, home)
    try:
        opened = catalog()
        run = unfinished_run(opened, opened.corpus(corpus), ours_ended=True)
    except UnknownNameError:
        run = None
    except LodestoneError:  # the catalog cannot be read: it says so when it is used next
        return f"what is finished is kept; `{resume}` goes on"
    if run is None:
        return "no run was begun: run the same command again"
    return f"{run.progress}; `{resume}` goes on"


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
