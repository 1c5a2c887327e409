"""Redirection of stderr that keeps the output of Ray's C++ code, which ignores logging settings, off the terminal."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

_STDERR: Final = 2


@contextmanager
def stderr_of_libraries(file: Path) -> Iterator[None]:
    """Redirect file descriptor 2 to `file`, except for what Python writes to `sys.stderr`.

    Python's log output is kept too: the root logger's handlers may hold the `sys.stderr` of the time when they were made.
    """
    if not _leads_to_stderr(sys.stderr):  # a test runner or a notebook has replaced it, so nothing is redirected
        yield
        return
    python = sys.stderr
    python.flush()
    terminal = os.dup(_STDERR)
    with file.open("ab") as log, os.fdopen(terminal, "w", encoding=python.encoding, buffering=1) as replacement:
        os.dup2(log.fileno(), _STDERR)
        sys.stderr = replacement
        handlers = [handler for handler in _handlers() if _leads_to_stderr(handler.stream)]
        streams = [handler.setStream(replacement) for handler in handlers]
        try:
            yield
        finally:
            replacement.flush()
            os.dup2(replacement.fileno(), _STDERR)
            sys.stderr = python
            for handler, stream in zip(handlers, streams, strict=True):
                handler.setStream(stream)


def _handlers() -> list[logging.StreamHandler[Any]]:
    return [handler for handler in logging.getLogger().handlers if isinstance(handler, logging.StreamHandler)]


def _leads_to_stderr(stream: Any) -> bool:  # noqa: ANN401 - may be any replacement of a stream
    try:
        return bool(stream.fileno() == _STDERR)
    except (OSError, ValueError, AttributeError):
        return False
