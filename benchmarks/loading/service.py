"""Service under load: a real one in a process of its own, over a home of pictures that do not exist.

It runs as `lodestone serve` does (`serve`), on Ray Serve (`ray`; `watched`: it also prints how many replicas there are), or, as
their peer, the same app on uvicorn alone.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx
import psutil

from benchmarks.data.filled_home import fill, sentences
from lodestone.config.settings import Settings, load_settings
from lodestone.home.runtime import Runtime

START_S = 240.0
_POLL_S = 0.05
REPLICA, PROXY, CONTROLLER = "ray::ServeReplica", "ray::ProxyActor", "ray::ServeController"
Host = Literal["serve", "ray", "watched", "uvicorn"]
_PROGRAMS: Mapping[str, str] = {
    "serve": """
import json, sys
from lodestone.config.settings import load_settings
from lodestone_serve.hosting.run import serve_forever
serve_forever(load_settings(json.loads(sys.argv[1])).settings, ready_callback=lambda url: print("ready", url, flush=True))
""",
    "watched": """
import json, sys, threading, time
from lodestone.config.settings import load_settings
from lodestone_serve.hosting.run import serve_forever
def watch():
    from ray import serve
    last = None
    while True:
        applications = serve.status().applications.values()
        states = {name: {str(getattr(state, "value", state)): count for state, count in one.replica_states.items() if count}
                  for found in applications for name, one in found.deployments.items()}
        if states != last:
            print("replicas", json.dumps([time.time(), states]), flush=True)
            last = states
        time.sleep(0.1)
def ready(url):
    threading.Thread(target=watch, daemon=True).start()
    print("ready", url, flush=True)
serve_forever(load_settings(json.loads(sys.argv[1])).settings, ready_callback=ready)
""",
    "uvicorn": """
import asyncio, json, sys
import uvicorn
from lodestone.config.settings import load_settings
from lodestone_serve.http.application import create_app
from lodestone_serve.inference.home import home_services
from lodestone_serve.telemetry.metrics import Metrics
settings = load_settings(json.loads(sys.argv[1])).settings
metrics = Metrics()
services = home_services(settings, observe_batch=metrics.text_batch.observe, observe_engines=metrics.engines)
app = create_app(services, settings=settings.serve, token="benchmark", metrics=metrics)
server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", lifespan="on"))
async def main():
    serving = asyncio.create_task(server.serve())
    while not server.started and not serving.done():
        await asyncio.sleep(0.05)
    if server.started:
        print(f"ready http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", flush=True)
    await serving
asyncio.run(main())
""",
}


@dataclass(frozen=True, slots=True)
class Running:
    """A running service in a process of its own.

    Attributes:
        process: Its main process.
        url: Its address.
        log: The file that holds its output.
    """

    process: subprocess.Popen[str]
    url: str
    log: Path

    def processes(self, title: str) -> list[int]:
        """Return the ids of its processes whose title begins like this: `REPLICA`, `PROXY`, `CONTROLLER`, or longer."""
        return [pid for pid, _ in self.titles(title)]

    def titles(self, begin: str) -> list[tuple[int, str]]:
        """Return ids and titles of its processes with this beginning; a title is `KIND:APPLICATION:DEPLOYMENT`."""
        processes = []
        for process in psutil.Process(self.process.pid).children(recursive=True):
            try:
                words = process.cmdline()
            except psutil.Error:  # it has ended meanwhile
                continue
            if words and words[0].startswith(begin):
                processes.append((process.pid, words[0].split()[0].partition(".")[0]))
        return processes

    def replicas(self) -> list[tuple[float, dict[str, dict[str, int]]]]:
        """Return every change that a `watched` service saw: wall-clock seconds, and deployment -> state -> replicas."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        changes = [json.loads(line.removeprefix("replicas ")) for line in lines if line.startswith("replicas [")]
        return [(float(at), states) for at, states in changes]

    def metrics(self) -> dict[str, float]:
        """Read /metrics; return name with labels -> value."""
        lines = httpx.get(f"{self.url}/metrics", trust_env=False, timeout=10).text.splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, value in pairs}


def flags_for(home: Path, **sections: Mapping[str, Any] | str) -> dict[str, Any]:
    """Return settings of a benchmark's home for `load_settings`: a free port, and the user's cache of models.

    Tags that queries leave would change later answers, so they are off. `sections` override.
    """
    base: dict[str, Any] = {"home": str(home), "serve": {"port": 0, "upkeep": False}, "tags": {"implicit": False}}
    for name, section in sections.items():
        base[name] = {**base.get(name, {}), **section} if isinstance(section, Mapping) else section
    return base


def settings_of(flags: Mapping[str, Any]) -> Settings:
    """Return the settings of a service that is started with `flags`."""
    return load_settings(dict(flags)).settings


def fill_home(flags: Mapping[str, Any], *, points: int, captioned: float) -> None:
    """Fill a home with pictures that do not exist: random vectors in every space of the profile, some with captions."""
    with Runtime.open(settings_of(flags)) as runtime:
        captions = sentences(int(points * captioned))
        fill(runtime.catalog, runtime.store, list(runtime.projections().values()), points=points, captions=captions)


@contextmanager
def running(flags: Mapping[str, Any], *, host: Host = "serve") -> Iterator[Running]:
    """Serve the home of `flags` inside the block; SIGTERM stops the service at its end.

    Args:
        flags: Settings from `flags_for`.
        host: What the service runs on.

    Raises:
        RuntimeError: the service did not come up; the message holds the end of its output.
    """
    path = Path(str(flags["home"])) / f"{host}.log"
    program = _PROGRAMS["serve" if host == "ray" else host]
    if host == "ray":
        flags = {**flags, "serve": {**flags.get("serve", {}), "engine": "ray"}}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w+", encoding="utf-8") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", program, json.dumps(flags)],
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        try:
            yield Running(process, started_url(process, path), path)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def started_url(process: subprocess.Popen[str], output: Path) -> str:
    """Return the address that a server prints when it is ready; raises as `running`."""
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        for line in output.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("ready "):
                return line.removeprefix("ready ").strip()
        time.sleep(_POLL_S)
    printed = output.read_text(encoding="utf-8", errors="replace")[-2_000:]
    raise RuntimeError(f"the service did not come up:\n{printed}")
