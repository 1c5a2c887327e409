"""Guide engines for tests: in this process, obedient or not, and hubs of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence

import numpy as np

from lodestone.config.engines import EngineSettings
from lodestone.generators.assembly import make_engine
from lodestone.generators.base import Generator, Guide, GuideRequest
from lodestone.generators.engine_call import Engine
from lodestone.generators.hub import Hub
from lodestone.generators.registry import GeneratorContext
from lodestone.query_notes import QueryNotes


class Drawer(Generator):
    """Draws seeded noise. `delay` before it answers, `error` instead of an answer, `has` guides altogether."""

    version = "1"

    def __init__(self, *, delay=0.0, error=None, has=None, guides_a_call=None, pixels=True, deaf=False):
        self.name = "drawer"
        self.delay, self.error, self.has, self.guides_a_call, self.pixels = delay, error, has, guides_a_call, pixels
        self.deaf = deaf  # does not listen when it is told to stop
        self.asked: list[GuideRequest] = []
        self.running = self.most_running = self.cancelled = self.closed = 0

    async def warm_up(self):
        if isinstance(self.error, Exception):
            raise self.error

    async def generate(self, request):
        self.asked.append(request)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            end = time.monotonic() + self.delay
            while time.monotonic() < end:
                try:
                    await asyncio.sleep(min(self.delay, end - time.monotonic()))
                except asyncio.CancelledError:
                    self.cancelled += 1
                    if not self.deaf:
                        raise
            if self.error:
                raise self.error
        finally:
            self.running -= 1
        last = request.first + request.n if self.has is None else min(self.has, request.first + request.n)
        return [self._guide(number, request) for number in range(request.first, last)]

    async def close(self):
        self.closed += 1

    def _guide(self, number, request):
        rng = np.random.default_rng([request.seed, number, *request.prompt.encode()])
        pixels = rng.integers(0, 256, (request.size, request.size, 3), np.uint8) if self.pixels else None
        vectors = {} if self.pixels else {"s-1": rng.standard_normal(4).astype(np.float32)}
        return Guide(f"drawer/{number}", "drawer", 0.5, {"seed": request.seed}, pixels=pixels, vectors=vectors)


class Editor(Drawer):
    """Gives `picture` for whatever it is to edit: (h, w, 3) uint8, or anything else, to see what becomes of it."""

    edits = True

    def __init__(self, picture, **rest):
        super().__init__(**rest)
        self.picture = picture

    def _guide(self, number, request):
        return Guide(f"editor/{number}", "editor", 1.0, {"prompt": request.prompt}, pixels=self.picture)


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self, now: float = 100.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Recorder:
    """A `HubObserver` that remembers."""

    def __init__(self):
        self.calls: list[tuple[str, str, float, int, float]] = []
        self.breakers: list[tuple[str, str]] = []
        self.cached: list[str] = []

    def asked(self, engine, outcome, seconds, guides, cost):
        self.calls.append((engine, outcome, seconds, guides, cost))

    def breaker(self, engine, state):
        self.breakers.append((engine, state))

    def cache(self, kind):
        self.cached.append(kind)

    def outcomes(self, engine: str) -> list[str]:
        return [call[1] for call in self.calls if call[0] == engine]

    @property
    def cost(self) -> float:
        return sum(call[4] for call in self.calls)


def engine(name: str, generator: Generator, **settings) -> Engine:
    """An engine around a generator of ours."""
    return Engine(name, EngineSettings(kind="drawer", **{"size": 32, **settings}), generator)


def remote(name: str, url: str, *, kind: str = "http", **settings) -> Engine:
    """An engine over HTTP."""
    return make_engine(name, EngineSettings(kind=kind, url=url, **{"size": 64, **settings}), GeneratorContext(None, None))


def hub_of(*engines: Engine, **rest) -> Hub:
    return Hub({one.name: one for one in engines}, **rest)


def breaker_clock(hub: Hub, name: str) -> Clock:
    """Stop the time of an engine's breaker, which counts how long it rests, and return what moves it on."""
    clock = Clock()
    hub._callers[name].breaker._clock = clock
    return clock


def hub_around(generators: Mapping[str, Generator], **settings) -> Hub:
    """A hub of generators by name, as the settings would make it: everything at its default, no cache. `settings`: of each."""
    return hub_of(
        *(Engine(name, EngineSettings(**{"kind": name, **settings}), generator) for name, generator in generators.items())
    )


async def drawn(
    hub: Hub, *, n: int = 4, seconds: float = 30.0, log: QueryNotes | None = None, query="a cat", **rest
) -> list[Guide]:
    """All guides of one query, in the order of coming."""
    request = rest.pop("request", None) or GuideRequest(query, query, n)
    draw = hub.draw(request, deadline=time.monotonic() + seconds, log=QueryNotes() if log is None else log, **rest)
    return [guide async for batch in draw for guide in batch]


def ids(guides: Sequence[Guide]) -> list[str]:
    return sorted(guide.guide_id for guide in guides)
