"""Temporary files of tests, in memory where there is enough of it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil
import pytest

LASTING: Final = ("catalog", "postgres", "qdrant", "template")
"""How the folders of fixtures of the whole session are called."""

_SHARED_MEMORY: Final = Path("/dev/shm")
_NEEDED: Final = 8 << 30  # bytes; a whole run has about half of that there at once
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


@pytest.fixture(scope="module", autouse=True)
def module_folders(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Remove the folders that a module's fixtures made, once its tests have passed: pytest keeps them until all tests ended.

    Fixtures of the whole session must use the names in `LASTING`.
    """
    base, failed = tmp_path_factory.getbasetemp(), request.session.testsfailed
    before = set(base.iterdir())
    yield
    if request.session.testsfailed == failed:
        for path in set(base.iterdir()) - before:
            if path.is_dir() and not path.is_symlink() and not path.name.startswith(LASTING):
                shutil.rmtree(path, ignore_errors=True)
