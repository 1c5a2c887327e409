"""How do tests get a Ray cluster of several nodes? Raylets on loopback, any of which can be killed, and new ones added.

The first node is the head. All have one token, and no dashboard, log monitor or client server.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.ports import free_ports

NODES = 3
_READY_SECONDS = 60.0
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # leaves 127.0.0.1 as it is
    "RAY_AUTH_MODE": "token",
    "RAY_DEDUP_LOGS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # A dead node is noticed by its broken connection at once; these bound what needs a missed heartbeat.
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "3",
}


@dataclass
class RayNodes:
    """A cluster on this machine.

    Attributes:
        environment: What a driver needs in its environment to join.
        folder: Of Ray's files.
        alive: Numbers of the nodes that run; 0 is the head.
        address: To join at.
    """

    environment: dict[str, str]
    folder: Path
    host: subprocess.Popen[str]
    alive: set[int] = field(default_factory=set)
    address: str = ""
    _telling: threading.Lock = field(default_factory=threading.Lock)

    def add(self, *, cpus: int = 2, gpus: int = 0) -> int:
        """Start one more node, with so many CPUs and GPUs by Ray's counting; its number."""
        answer = self._tell(f"add {cpus} {gpus}")
        self.address = answer["address"]
        self.alive.add(answer["number"])
        return int(answer["number"])

    def kill(self, number: int) -> None:
        """SIGKILL all processes of a node, its workers too."""
        self._tell(f"kill {number}")
        self.alive.discard(number)

    def restart(self, *, nodes: int = NODES, cpus: int = 2) -> None:
        """Kill what is left, and start a new cluster at another address: one whose head is gone does not come back."""
        self._tell("kill all")
        self.alive.clear()
        for _ in range(nodes):
            self.add(cpus=cpus)

    @contextmanager
    def client_server(self) -> Iterator[str]:
        """Let drivers in that are on no node; yields the `ray://` address."""
        port = free_ports(1)[0]
        command = [sys.executable, "-m", "ray.util.client.server", "--address", self.address, "--host", "127.0.0.1"]
        with (self.folder / "client-server.log").open("ab") as log:
            server = subprocess.Popen(
                [*command, "--port", str(port), "--mode", "proxy"],
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )
        try:
            until = time.monotonic() + _READY_SECONDS
            while not _listens(port):
                assert server.poll() is None and time.monotonic() < until, "Ray's client server did not start"
                time.sleep(0.1)
            yield f"ray://127.0.0.1:{port}"
        finally:
            os.killpg(server.pid, signal.SIGKILL)  # a server for each client hangs on it
            server.wait()

    def _tell(self, command: str) -> dict[str, Any]:
        assert self.host.stdin is not None
        assert self.host.stdout is not None
        with self._telling:
            self.host.stdin.write(command + "\n")
            self.host.stdin.flush()
            while line := self.host.stdout.readline():
                if line.startswith("{"):
                    answer: dict[str, Any] = json.loads(line)
                    return answer
        raise AssertionError(f"the host of the Ray nodes died at {command!r}: {(self.folder / 'host.log').read_text()[-2000:]}")


@contextmanager
def run_ray_nodes(*, nodes: int = NODES, cpus: int = 2, environment: dict[str, str] | None = None) -> Iterator[RayNodes]:
    """A cluster of `nodes` nodes with `cpus` each (of Ray's counting), killed at the end.

    Args:
        nodes: How many, the head among them.
        cpus: A node's.
        environment: For the nodes and so for every worker.
    """
    folder = Path(tempfile.mkdtemp(prefix="ls-ray-"))  # short: Unix sockets lie below it
    own = {**_ENVIRONMENT, "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    repository = str(Path(__file__).resolve().parents[2])
    with (folder / "host.log").open("ab") as log:
        host = subprocess.Popen(
            [sys.executable, "-m", "tests.support.ray_node_host", str(folder / "ray")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=repository,
            env={**os.environ, **own, **(environment or {})},
        )
    cluster = RayNodes(own, folder, host)
    try:
        for _ in range(nodes):
            cluster.add(cpus=cpus)
        yield cluster
    finally:
        assert host.stdin is not None
        host.stdin.close()
        try:
            host.wait(30)
        finally:
            host.kill()
            shutil.rmtree(folder, ignore_errors=True)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
