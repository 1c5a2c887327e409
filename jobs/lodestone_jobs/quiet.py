"""How is a person's terminal kept free of what Ray's C++ side writes to it, past every logging setting?"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_STDERR: Final = 2


@contextmanager
def stderr_of_libraries(file: Path) -> Iterator[None]:
    """Send what is written to file descriptor 2 to `file`; what Python writes to `sys.stderr` goes where it went before."""
    if not _is_stderr():  # replaced by somebody (a test runner, a notebook): leave it alone
        yield
        return
    python = sys.stderr
    python.flush()
    terminal = os.dup(_STDERR)
    with file.open("ab") as log, os.fdopen(terminal, "w", encoding=python.encoding, buffering=1) as replacement:
        os.dup2(log.fileno(), _STDERR)
        sys.stderr = replacement
        try:
            yield
        finally:
            replacement.flush()
            os.dup2(replacement.fileno(), _STDERR)
            sys.stderr = python


def _is_stderr() -> bool:
    try:
        return bool(sys.stderr.fileno() == _STDERR)
    except (OSError, ValueError, AttributeError):
        return False
