"""Ray cluster of several nodes for tests: raylets on loopback, any of which can be killed, and new ones added.

The first node is the head. All have one token, and no dashboard, log monitor or client server.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

NODES = 3
_READY_SECONDS = 120.0
_ENDING_SECONDS = 15.0
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


class NodeNotStartedError(AssertionError):
    """A node did not start, because its cluster has no head or because it took too long."""


@dataclass
class RayNodes:
    """A cluster on this machine. Each node is held by a process of its own, so none waits for another. Thread-safe.

    Attributes:
        environment: What a driver needs in its environment to join.
        folder: Of Ray's files.
        alive: Numbers of the nodes that run; 0 is the head.
        address: To join at.
    """

    environment: dict[str, str]
    folder: Path
    alive: set[int] = field(default_factory=set)
    address: str = ""
    _host_environment: dict[str, str] = field(default_factory=dict)
    _hosts: dict[int, subprocess.Popen[str]] = field(default_factory=dict)  # of the nodes that run or start
    _number: int = 0
    _changing: threading.Lock = field(default_factory=threading.Lock)
    _starting: threading.Lock = field(default_factory=threading.Lock)  # nodes that start at once choose the same socket

    def add(self, *, cpus: int = 2, gpus: int = 0) -> int:
        """Start one more node, with so many CPUs and GPUs by Ray's counting; its number. The first one is the head.

        Raises:
            NodeNotStartedError: the head is dead or dies meanwhile, or the node has not started within a minute.
        """
        with self._starting:
            with self._changing:
                number = self._number
                if number and 0 not in self.alive:
                    raise NodeNotStartedError(f"node {number} cannot join a cluster whose head is dead")
                self._number += 1
                host = self._hosts[number] = self._host(str(cpus), str(gpus), *([self.address] if number else []))
            address = _address_of(host)
            with self._changing:
                if address is not None and self._hosts.get(number) is host:
                    self.alive.add(number)
                    self.address = address
                    return number
                if self._hosts.get(number) is host:
                    del self._hosts[number]
            _end([host])
            raise NodeNotStartedError(f"node {number} did not start: {(self.folder / 'host.log').read_text()[-2000:]}")

    def kill(self, number: int) -> None:
        """SIGKILL all processes of a node, its workers too; with the head, nodes that wait for it to start."""
        with self._changing:
            self.alive.discard(number)
            doomed = [each for each in self._hosts if each == number or (number == 0 and each not in self.alive)]
            hosts = [self._hosts.pop(each) for each in doomed]
        _end(hosts)

    def kill_all(self) -> None:
        """SIGKILL every node; the next one is the head of a new cluster."""
        with self._changing:
            hosts, self._hosts = list(self._hosts.values()), {}
            self.alive.clear()
            self._number = 0
        _end(hosts)

    def restart(self, *, nodes: int = NODES, cpus: int = 2) -> None:
        """Kill what is left, and start a new cluster at another address: one whose head is gone does not come back."""
        self.kill_all()
        for _ in range(nodes):
            self.add(cpus=cpus)

    def processes(self) -> list[psutil.Process]:
        """All processes of all nodes."""
        with self._changing:
            pids = [host.pid for host in self._hosts.values()]
        found: list[psutil.Process] = []
        for pid in pids:
            with suppress(psutil.NoSuchProcess):
                found += psutil.Process(pid).children(recursive=True)
        return found

    def _host(self, *arguments: str) -> subprocess.Popen[str]:
        with (self.folder / "host.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.support.ray_node_host", str(self.folder / "ray"), *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=Path(__file__).resolve().parents[2],
                env={**os.environ, **self.environment, **self._host_environment},
            )


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
    cluster = RayNodes(own, folder, _host_environment=environment or {})
    try:
        for _ in range(nodes):
            cluster.add(cpus=cpus)
        yield cluster
    finally:
        cluster.kill_all()
        shutil.rmtree(folder, ignore_errors=True)


def _address_of(host: subprocess.Popen[str]) -> str | None:
    """The address that a host tells when its node runs; None when it ends before, which it is made to after a minute."""
    assert host.stdout is not None
    deadline = threading.Timer(_READY_SECONDS, _end, [[host]])
    deadline.start()
    try:
        while line := host.stdout.readline():
            if line.startswith("{"):
                return str(json.loads(line)["address"])
        return None
    finally:
        deadline.cancel()


def _end(hosts: Sequence[subprocess.Popen[str]]) -> None:
    """End hosts and all that they started. Idempotent."""
    for host in hosts:
        assert host.stdin is not None
        with suppress(OSError):
            host.stdin.close()
    for host in hosts:
        try:
            host.wait(_ENDING_SECONDS)
        except subprocess.TimeoutExpired:  # stopped, or stuck in Ray
            stuck = psutil.Process(host.pid)
            for process in (*stuck.children(recursive=True), stuck):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            host.wait()
