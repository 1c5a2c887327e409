"""Clients that ask all the time, and keep what they were told: for tests that change or break a service meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx


@dataclass(frozen=True)
class Told:
    """One answer, or what came instead (status 0)."""

    status: int
    said: str
    first: str
    started: float
    seconds: float

    @property
    def failed(self) -> bool:
        return self.status != 200


@dataclass
class Pressing:
    """What the clients were told so far, in the order of asking's end."""

    told: list[Told] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def failures(self) -> list[Told]:
        with self._lock:
            return [one for one in self.told if one.failed]

    def since(self, moment: float) -> list[Told]:
        """Those whose asking began at or after `moment` (`time.monotonic()`)."""
        with self._lock:
            return [one for one in self.told if one.started >= moment]

    def wait_for(self, count: int, *, seconds: float = 120.0) -> None:
        """Return when so many more have been answered."""
        until, wanted = time.monotonic() + seconds, len(self.told) + count
        while len(self.told) < wanted:
            assert time.monotonic() < until, f"{len(self.told)} answers of {wanted}"
            time.sleep(0.02)

    def _ask(self, client: httpx.Client, body: Mapping[str, Any]) -> None:
        started = time.monotonic()
        try:
            answer = client.post("/v1/search", json=body)
            hits = answer.json().get("hits") if answer.status_code == 200 else None
            status, said = answer.status_code, "" if hits else answer.text[:500]
            first = hits[0]["uri"] if hits else ""
        except httpx.HTTPError as error:
            status, said, first = 0, f"{type(error).__name__}: {error}", ""
        with self._lock:
            self.told.append(Told(status, said, first, started, time.monotonic() - started))


@contextmanager
def pressing(url: str, bodies: Sequence[Mapping[str, Any]], *, clients: int = 3) -> Iterator[Pressing]:
    """Clients that ask for `bodies` in turn, each for the next as soon as it has its answer, until the block ends."""
    found, stop = Pressing(), threading.Event()

    def ask(number: int) -> None:
        with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
            while not stop.is_set():
                found._ask(client, bodies[number % len(bodies)])
                number += clients

    threads = [threading.Thread(target=ask, args=(number,), daemon=True) for number in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield found
    finally:
        stop.set()
        for thread in threads:
            thread.join(90)
