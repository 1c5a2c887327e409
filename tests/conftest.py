"""Rules for all tests: libraries use one thread; servers, models and new catalogs are shared; logs have plain tracebacks."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import hypothesis
import pytest
import structlog
from tests.support.built_adapters import built_adapters
from tests.support.built_commands import built_commands
from tests.support.collecting import (
    import_share,
    is_left_out,
    leave_cases_to_the_night,
    look_for_garbage_once,
    look_for_garbage_rarely,
)
from tests.support.fresh_catalogs import copied_catalogs, real_migrations
from tests.support.grouping import GroupScheduling, make_scheduler, ray_first
from tests.support.home_copies import indexed_homes
from tests.support.postgres_server import postgres_binaries, postgres_catalog, postgres_server, postgres_url
from tests.support.qdrant_server import qdrant_binary, qdrant_server
from tests.support.ray_cluster import ray_cluster
from tests.support.shared_models import real_embedding, shared_models
from tests.support.shared_trust import shared_trust
from tests.support.temporary import keep_temporary_files_in_memory, module_folders
from tests.support.tls_contexts import share_tls_contexts
from xdist.remote import Producer

# Session fixtures stand here and nowhere else: a module that imports one has another of its own, with a server of its own.
__all__ = [
    "built_adapters",
    "built_commands",
    "copied_catalogs",
    "indexed_homes",
    "module_folders",
    "postgres_binaries",
    "postgres_catalog",
    "postgres_server",
    "postgres_url",
    "qdrant_binary",
    "qdrant_server",
    "ray_cluster",
    "real_embedding",
    "real_migrations",
    "shared_models",
    "shared_trust",
]


def pytest_configure() -> None:
    # Before numpy and torch look. Two processes whose every product of matrices waits for two threads are five times as slow.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # Where more threads are asked for, those that wait for another must not keep a processor busy that four processes share.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    look_for_garbage_rarely()
    keep_temporary_files_in_memory()
    share_tls_contexts()
    # Frameworks that only the client's retrievers use report to their makers unless they are told not to.
    os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")
    os.environ.setdefault("LANGSMITH_TRACING", "false")
    # Every frame with its variables, in colour, takes seconds. (Not `configure`: an app that nobody configured prints nothing.)
    structlog.get_config()["processors"][-1].exception_formatter = structlog.dev.plain_traceback
    # How long an example takes says something of the machine, and nothing of the example.
    hypothesis.settings.register_profile("tests", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
    hypothesis.settings.load_profile("tests")
    # A script's background job ignores Ctrl-C, and so would every process that a test starts and interrupts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return is_left_out(config.getoption("markexpr"), collection_path) or None  # None: others decide


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    import_share(session.config)


def pytest_collection_finish() -> None:
    look_for_garbage_once()  # what was collected stays until the end


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    look_for_garbage_once()


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    leave_cases_to_the_night(items)
    items[:] = ray_first(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> GroupScheduling | None:
    return make_scheduler(config, log)
