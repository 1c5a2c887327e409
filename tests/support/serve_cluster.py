"""A Ray cluster that takes serveConfigV2, for tests: one node on loopback with a dashboard, and a token."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
from tests.support.ports import free_ports

from lodestone_serve.graph.config import ENVIRONMENT

_READY_S = 120.0
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # leaves 127.0.0.1 as it is
    "RAY_AUTH_MODE": "token",
    "RAY_DEDUP_LOGS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "OMP_NUM_THREADS": "1",
    **ENVIRONMENT,
}


@dataclass(frozen=True)
class ServeCluster:
    """A running cluster.

    Attributes:
        dashboard: Where configurations are deployed.
        environment: What a driver or a command needs to be let in.
        folder: Of Ray's files.
    """

    dashboard: str
    environment: Mapping[str, str]
    folder: Path
    process: subprocess.Popen[bytes]

    def deploy(self, file: Path, *, wait_s: float = _READY_S) -> None:
        """Run `lodestone serve deploy` with a configuration, and wait until everything in it runs."""
        command = [sys.executable, "-m", "lodestone_cli", "serve", "deploy", "--address", self.dashboard]
        ended = subprocess.run(
            [*command, "--config", str(file), "--wait", str(wait_s)],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr[-3000:]

    def status(self) -> dict[str, Any]:
        """What the cluster says of its applications."""
        headers = {"Authorization": f"Bearer {self.environment['RAY_AUTH_TOKEN']}"}
        answer = httpx.get(f"{self.dashboard}/api/serve/applications/", headers=headers, timeout=30, trust_env=False)
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()["applications"]
        return found

    def replicas(self, application: str, deployment: str) -> dict[str, int]:
        """Replica -> the process of it, of those that run."""
        found = self.status()[application]["deployments"][deployment]["replicas"]
        return {one["replica_id"]: int(one["pid"]) for one in found if one["state"] == "RUNNING"}

    def logs(self) -> str:
        """The end of every log of Serve's, for a test that failed."""
        files = sorted(self.folder.glob("ray/session_latest/logs/serve/*.log"))
        return "\n".join(f"{file.name}:\n{file.read_text(errors='replace')[-1500:]}" for file in files)


@contextmanager
def run_serve_cluster(*, cpus: int = 12, environment: Mapping[str, str] | None = None) -> Iterator[ServeCluster]:
    """A cluster of its own with so many CPUs (of Ray's counting), killed at the end.

    Args:
        cpus: Of the node.
        environment: For every process of the cluster.
    """
    folder = Path(tempfile.mkdtemp(prefix="ls-serve-"))  # short: Unix sockets lie below it
    port, dashboard, agent = free_ports(3)
    own = {**_ENVIRONMENT, "RAY_AUTH_TOKEN": secrets.token_hex(32), **(environment or {})}
    command = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--block", "--disable-usage-stats"]
    options = {
        "--node-ip-address": "127.0.0.1",
        "--port": port,
        "--dashboard-host": "127.0.0.1",
        "--dashboard-port": dashboard,
        "--dashboard-agent-listen-port": agent,
        "--num-cpus": cpus,
        "--object-store-memory": 80 * 2**20,
        "--temp-dir": folder / "ray",
        "--min-worker-port": 0,
        "--max-worker-port": 0,
    }
    with (folder / "start.log").open("ab") as log:
        process = subprocess.Popen(
            [*command, *(f"{name}={value}" for name, value in options.items())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **own},
            start_new_session=True,
        )
    cluster = ServeCluster(f"http://127.0.0.1:{dashboard}", own, folder, process)
    try:
        _wait(cluster)
        yield cluster
    finally:
        _kill(process.pid)
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _wait(cluster: ServeCluster) -> None:
    until = time.monotonic() + _READY_S
    while True:
        with suppress(httpx.HTTPError):
            cluster.status()
            return
        told = (cluster.folder / "start.log").read_text(errors="replace")[-2000:]
        assert cluster.process.poll() is None and time.monotonic() < until, f"Ray did not start: {told}"
        time.sleep(0.2)


def _kill(pid: int) -> None:
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for one in [process, *process.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                one.kill()
