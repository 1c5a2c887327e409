"""What holds for all tests: new catalogs are copies of a migrated one, and a traceback in the log is a plain one."""

from __future__ import annotations

import structlog
from tests.support.fresh_catalogs import copied_catalogs, real_migrations

__all__ = ["copied_catalogs", "real_migrations"]


def pytest_configure() -> None:
    # Every frame with its variables, in colour, takes seconds. (Not `configure`: an app that nobody configured prints nothing.)
    structlog.get_config()["processors"][-1].exception_formatter = structlog.dev.plain_traceback
