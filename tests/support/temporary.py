"""Temporary files of tests, in memory where there is enough of it."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

import psutil

_SHARED_MEMORY: Final = Path("/dev/shm")
_NEEDED: Final = 8 << 30  # bytes; what a whole run leaves there until it ends is about half of that
_LEFT: Final = 6 << 30  # bytes of memory that the tests' processes need besides


def keep_temporary_files_in_memory() -> None:
    """Let tests and their processes put temporary files into shared memory, unless TMPDIR names a place or memory is short.

    Tests make and remove hundreds of homes and databases of small files. On ext4 a fifth of the processors' time goes into
    finding inodes that were not removed a moment ago.
    """
    if "TMPDIR" in os.environ or not os.access(_SHARED_MEMORY, os.W_OK) or not _SHARED_MEMORY.is_mount():
        return
    if shutil.disk_usage(_SHARED_MEMORY).free < _NEEDED or psutil.virtual_memory().available < _NEEDED + _LEFT:
        return
    os.environ["TMPDIR"] = str(_SHARED_MEMORY)
    tempfile.tempdir = None  # pytest has asked for the folder already
