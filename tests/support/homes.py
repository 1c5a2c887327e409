"""Homes with real pictures in them, indexed by the real job, and real services that serve them."""

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
from typing import Any

from tests.support.models import model_context
from tests.support.patience import DEADLINE_MS
from tests.support.photos import CAT, COFFEE, PERSON, ROCKET, photo
from tests.support.pictures import write_photos

from lodestone.config.home import Home
from lodestone.config.settings import Settings, load_settings
from lodestone.home.running_service.address import ServiceAddress, read_address
from lodestone.home.running_service.client import ServiceClient

START_S = 270.0
_SERVE = """
import json, sys
from lodestone.config.settings import load_settings
from lodestone.errors import LodestoneError
from lodestone_serve.hosting.run import serve_forever
try:
    serve_forever(load_settings(json.loads(sys.argv[1])).settings, ready_callback=lambda url: print("ready", url, flush=True))
except LodestoneError as error:
    print(f"{error.code}: {error.message}", flush=True)
    sys.exit(error.exit_code)
print("stopped", flush=True)
"""


def home_settings(home: Path, **flags: Any) -> Settings:
    """Settings of a home whose models are in the tests' shared cache, and which indexes as fast beside a service as without."""
    return load_settings(_flags(home, flags)).settings


def _flags(home: Path, flags: Mapping[str, Any]) -> dict[str, Any]:
    cache = model_context().cache.root
    own = {
        "models": {"cache": str(cache), "threads": 1},
        "index": {"background_nice": 0},
        "query": {"deadline_ms": DEADLINE_MS},
    }
    return {"home": str(home), **own, **flags}


def write_pictures(folder: Path, *, drawn: int = 56) -> None:
    """Four photographs (cat, coffee, rocket, person), one of them in a sub-folder, and `drawn` made-up ones."""
    write_photos(folder / "drawn", drawn)
    for name in (CAT, COFFEE, ROCKET):
        photo(name).save(folder / Path(name).with_suffix(".jpg"))
    (folder / "people").mkdir(exist_ok=True)
    photo(PERSON).save(folder / "people" / "person.png")


def index(settings: Settings, *paths: Path, corpus: str = "photos") -> None:
    """Index folders in this process; the home must not be served."""
    from lodestone.home.runtime import Runtime
    from lodestone.indexing.run.index_run import index_paths
    from lodestone.indexing.run.report import IndexRequest

    with Runtime.open(settings) as runtime:
        index_paths(runtime, IndexRequest(paths, corpus=corpus))


@dataclass(frozen=True)
class Service:
    """A running service: its process, its home and how to ask it."""

    process: subprocess.Popen[str]
    home: Home
    address: ServiceAddress

    @property
    def url(self) -> str:
        return self.address.url

    def client(self) -> ServiceClient:
        return ServiceClient(self.address)


@contextmanager
def running_service(home: Path, **serve: Any) -> Iterator[Service]:
    """A service of its own process on a free port, stopped by SIGTERM at the end."""
    process = start_service(home, **serve)
    try:
        first = read_line(process)
        assert first.startswith("ready "), first + (process.stdout.read() if process.stdout else "")
        address = read_address(Home(home))
        assert address is not None
        yield Service(process, Home(home), address)
    finally:
        stop(process)


def start_service(home: Path, **serve: Any) -> subprocess.Popen[str]:
    """Start serving; the first line it prints is `ready URL` or an error's `code: message`."""
    flags = _flags(home, {"serve": {"port": 0, **serve}, "store": {"lock_timeout_s": 1.0}})
    return subprocess.Popen(
        [sys.executable, "-c", _SERVE, json.dumps(flags)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


def read_line(process: subprocess.Popen[str]) -> str:
    """The next line of its output; fails when none comes in `START_S` seconds."""
    import threading

    assert process.stdout is not None
    timer = threading.Timer(START_S, process.kill)
    timer.start()
    try:
        return process.stdout.readline().strip()
    finally:
        timer.cancel()


def stop(process: subprocess.Popen[str], number: int = signal.SIGTERM, *, within_s: float = 180.0) -> int:
    """Send a signal and wait for the end; its exit code."""
    if process.poll() is None:
        process.send_signal(number)
    try:
        return process.wait(within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        raise


def wait_until(condition: Any, *, seconds: float = 180.0, every: float = 0.1) -> None:
    """Return when `condition()` is true; fail after `seconds`."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(every)
