"""What holds for all tests: libraries use one thread, new catalogs are copies of a migrated one, logs have plain tracebacks."""

from __future__ import annotations

import os

import structlog
from tests.support.fresh_catalogs import copied_catalogs, real_migrations
from tests.support.shared_models import shared_models

__all__ = ["copied_catalogs", "real_migrations", "shared_models"]


def pytest_configure() -> None:
    # Before numpy and torch look. Two processes whose every product of matrices waits for two threads are five times as slow.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # Every frame with its variables, in colour, takes seconds. (Not `configure`: an app that nobody configured prints nothing.)
    structlog.get_config()["processors"][-1].exception_formatter = structlog.dev.plain_traceback
