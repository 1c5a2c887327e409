"""Stopwatch of the command that runs: the seconds that its user has waited for it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_BEGAN: Final[ContextVar[float | None]] = ContextVar("BEGAN", default=None)


@contextmanager
def stopwatch(began: float | None = None) -> Iterator[None]:
    """Count the seconds of the command that runs inside.

    Args:
        began: When the user started it, on the clock of `time.monotonic()`; None for now.
    """
    token = _BEGAN.set(time.monotonic() if began is None else began)
    try:
        yield
    finally:
        _BEGAN.reset(token)


def waited_seconds() -> float | None:
    """Return the seconds since the command was started; None where no command runs."""
    began = _BEGAN.get()
    return None if began is None else time.monotonic() - began
