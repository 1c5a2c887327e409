"""SIGINT and SIGTERM of a service: the first one ends it, or its start; later ones must not interrupt that end."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop(threading.Event):
    """Event set by the first SIGINT or SIGTERM. During start-up, that signal also interrupts the current wait.

    Attributes:
        starting: Whether the service is starting.
    """

    starting = True

    def install(self) -> None:
        """Install the handler of both signals. Does nothing outside the main thread, which owns them."""
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                signal.signal(number, self._handle)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        first = not self.is_set()
        self.set()
        if self.starting and first:
            raise KeyboardInterrupt


@contextlib.contextmanager
def handled(stop: Stop) -> Iterator[None]:
    """Send signals to `stop` until the very end: a second Ctrl-C must not interrupt the shutdown that the first one began.

    A signal during start-up ends the block quietly, as a later one does.
    """
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    stop.install()
    try:
        yield
    except KeyboardInterrupt:
        if not stop.is_set():
            raise
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                signal.signal(number, handler)
