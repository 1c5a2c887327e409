"""A real Qdrant server for tests: one a session, on free loopback ports, with a temporary storage directory.

Where the server cannot be had, tests that ask for it skip with the reason; with LODESTONE_REQUIRE_QDRANT=1 they fail.
"""

from __future__ import annotations

import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from scripts.fetch_qdrant import QdrantUnavailableError, fetch
from tests.support.ports import free_ports

REQUIRE = "LODESTONE_REQUIRE_QDRANT"
_READY_SECONDS = 120.0


@dataclass(frozen=True)
class QdrantServer:
    """A running server: `url` of its HTTP port, `grpc_port`, and its `process`."""

    url: str
    grpc_port: int
    process: subprocess.Popen[bytes]


@pytest.fixture(scope="session")
def qdrant_binary() -> Path:
    """The server's binary; without it the test skips or fails."""
    try:
        return fetch()
    except QdrantUnavailableError as error:
        if os.environ.get(REQUIRE) == "1":
            pytest.fail(f"{REQUIRE}=1, but there is no Qdrant server: {error}", pytrace=False)
        pytest.skip(f"no real Qdrant server: {error}")


@pytest.fixture(scope="session")
def qdrant_server(qdrant_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[QdrantServer]:
    """The session's Qdrant server."""
    with run_qdrant(qdrant_binary, tmp_path_factory.mktemp("qdrant")) as server:
        yield server


@contextmanager
def run_qdrant(binary: Path, home: Path, *, prefix: tuple[str, ...] = ()) -> Iterator[QdrantServer]:
    """Run a server that keeps its files under `home`, ready inside the block, killed at its end.

    `prefix` are words that come before the command; with any, its log and its files are where they lead.
    """
    for attempt in range(3):
        http_port, grpc_port = free_ports(2)
        process = _start(binary, home, http_port=http_port, grpc_port=grpc_port, prefix=prefix)
        url = f"http://127.0.0.1:{http_port}"
        try:
            # A port may be taken by another between looking and binding: then the server exits and others are tried.
            if _becomes_ready(process, url) or attempt == 2:
                assert process.poll() is None, f"Qdrant did not start: {(home / 'log').read_text()[-2000:]}"
                yield QdrantServer(url, grpc_port, process)
                return
        finally:
            process.kill()
            process.wait()


def _start(
    binary: Path, home: Path, *, http_port: int, grpc_port: int, prefix: tuple[str, ...] = ()
) -> subprocess.Popen[bytes]:
    settings = {
        "QDRANT__SERVICE__HOST": "127.0.0.1",
        "QDRANT__SERVICE__HTTP_PORT": str(http_port),
        "QDRANT__SERVICE__GRPC_PORT": str(grpc_port),
        "QDRANT__STORAGE__STORAGE_PATH": str(home / "storage"),
        "QDRANT__STORAGE__SNAPSHOTS_PATH": str(home / "snapshots"),
        "QDRANT__TELEMETRY_DISABLED": "true",
        "QDRANT__LOG_LEVEL": "WARN",
    }
    with (home / "log").open("ab") as log:
        return subprocess.Popen([*prefix, str(binary)], cwd=home, env={**os.environ, **settings}, stdout=log, stderr=log)


def _becomes_ready(process: subprocess.Popen[bytes], url: str) -> bool:
    until = time.monotonic() + _READY_SECONDS
    while time.monotonic() < until and process.poll() is None:
        with suppress(urllib.error.URLError, ConnectionError), urllib.request.urlopen(f"{url}/readyz", timeout=2) as reply:
            return reply.status == 200
        time.sleep(0.05)
    return False
