"""Tests of commands that want the embedded store of a home for themselves while a service runs on it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.support.cli import run_here
from tests.support.home import settings_for
from tests.support.scripted_server import answer, scripted

from lodestone.errors import StoreLockedError
from lodestone.home.running_service.address import ServiceAddress, instance_of
from lodestone.home.runtime import Runtime
from lodestone.store.ownership import StoreOwnership

TOKEN = "a-token"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Path]:
    """A home with a corpus, whose store is held as a service holds it, and whose service says that it lives."""
    with Runtime.open(settings_for(tmp_path)) as runtime:
        runtime.catalog.ensure_corpus("default")
        home = runtime.home
    alive = json.dumps({"status": "ok", "version": "0.1.0", "instance": instance_of(TOKEN)}).encode()
    owner = StoreOwnership(home.store, command="lodestone serve", timeout=0)
    owner.acquire()
    with scripted(answer(200, alive)) as service:
        ServiceAddress(service.url, os.getpid(), TOKEN, "0.1.0", datetime.now(UTC)).write(home)
        yield home.path
    owner.release()


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("search", "dogs", "--local"), "leave --local out"),
        (("index", ".", "--local"), "leave --local out"),
        (("train", "bridge", "--corpus", "default", "--local"), "leave --local out"),
        (("verify", "--repair"), "stop the service"),
    ],
)
def test_a_command_that_needs_the_store_says_at_once_that_the_service_owns_it(
    served: Path, arguments: tuple[str, ...], hint: str
) -> None:
    done = run_here(*arguments, home=served, LODESTONE_STORE__LOCK_TIMEOUT_S="3600")  # a wait would not end

    assert f"error [{StoreLockedError.code}]: the service at http://127.0.0.1:" in done.err
    assert hint in done.err
    assert "waited" not in done.err


def test_equal_files_are_found_beside_a_service(served: Path) -> None:
    assert run_here("duplicates", "find", "--exact", home=served).out == "default: 0 equal files in 0 groups\n"
