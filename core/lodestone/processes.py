"""Checks for running processes, and removal of the temporary folders that killed processes left behind."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path


def is_running(pid: int) -> bool:
    """Return True if a process with this id exists, whoever owns it."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it runs, as another user
        return True
    return True


def sweep_folders(prefix: str) -> None:
    """Remove temporary folders named `<prefix><pid>-…` whose process has ended; those of other users stay."""
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        match = re.match(rf"{re.escape(prefix)}(\d+)-", folder.name)
        if match and not is_running(int(match[1])):
            shutil.rmtree(folder, ignore_errors=True)
