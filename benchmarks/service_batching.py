"""What does sharing a model pass bring when sixteen ask at once?

    python -m benchmarks.service_batching [--callers 16] [--seconds 5] [--rounds 3] [--write docs/load.md]

The encoders of the profile `embedded`, in this process. Sixteen callers ask for one text (or one picture) each, again and
again: with a pass for each call, in parallel (the peer: what a server does that does not batch) or in turn (batch 1), and
through the service's own lane, which divides all who wait among the passes that may run at once. Then one caller with batches
of a given size. Processor time per item is the profile: where it is the same at size 16 as at size 1 and the cores are busy,
there is nothing that a larger batch could save.
Rounds take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.loading.pages import publish, report
from benchmarks.machine import spread, table
from benchmarks.query_latency import context, sentences
from lodestone.backbones.registry import make_backbone
from lodestone.config.profiles import PROFILES
from lodestone.text_encoders.registry import make_text_encoder
from lodestone_serve.inference.lanes import Lane
from lodestone_serve.inference.shared_passes import MOST_TEXTS, Passes

GOAL = 1.5  # items a second with shared passes, of those with a pass for each call
SIZES = (1, 2, 4, 8, 16, 32)
WAYS = ("a pass for each call, in parallel", "a pass for each call, in turn", "the service's lane")


@dataclass
class Rates:
    """What one way of calling gave in each round."""

    items: list[float] = field(default_factory=list)  # a second
    processor_ms: list[float] = field(default_factory=list)  # an item
    cores: list[float] = field(default_factory=list)  # busy on average

    def add(self, done: int, seconds: float, processor: float) -> None:
        """One round."""
        self.items.append(done / seconds)
        self.processor_ms.append(processor * 1000 / max(1, done))
        self.cores.append(processor / seconds)

    def cells(self) -> list[str]:
        """Columns of a table."""
        return [spread(self.items), spread(self.processor_ms), f"{np.median(self.cores):.2f}"]


Call = Callable[[int], Awaitable[object]]  # encodes one item, the one of that number
Run = Callable[[Sequence[int]], Mapping[str, NDArray[np.float32]]]  # encodes items by their numbers; blocking


@dataclass(frozen=True)
class Model:
    """One model, as the service runs it, and as its peer does.

    Attributes:
        name: For the table.
        shared: A pass of the service: with the threads that it uses.
        each: A pass of the peer: with the runtime's own choice of threads.
        most: Items that a pass of the service takes.
        parallel: Passes of the service at once.
    """

    name: str
    shared: Run
    each: Run
    most: int
    parallel: int


def ways_of(model: Model, seen: list[int], pool: ThreadPoolExecutor) -> dict[str, Call]:
    """The three ways to encode one item; `seen` gets the size of every shared pass."""
    turn = asyncio.Lock()
    lane: Lane[int, str] = Lane(model.shared, most=model.most, parallel=model.parallel, observe=seen.append)

    async def parallel(number: int) -> object:
        return await asyncio.get_running_loop().run_in_executor(pool, model.each, [number])

    async def in_turn(number: int) -> object:
        async with turn:
            return await asyncio.to_thread(model.each, [number])

    async def shared(number: int) -> object:
        return await lane.ask([number])

    return dict(zip(WAYS, (parallel, in_turn, shared), strict=True))


async def keep_calling(call: Call, *, callers: int, seconds: float) -> tuple[int, float, float]:
    """Items done by `callers` that call again at once; seconds, and processor seconds of this process."""
    end = time.perf_counter() + seconds

    async def caller(first: int) -> int:
        done = 0
        while time.perf_counter() < end:
            await call(first + done * callers)
            done += 1
        return done

    started, busy = time.perf_counter(), time.process_time()
    done = sum(await asyncio.gather(*(caller(first) for first in range(callers))))
    return done, time.perf_counter() - started, time.process_time() - busy


def by_size(run: Run, *, seconds: float) -> dict[int, Rates]:
    """One caller, batches of each size."""
    found = {}
    for size in SIZES:
        rates, done = Rates(), 0
        started, busy = time.perf_counter(), time.process_time()
        while time.perf_counter() < started + seconds:
            run(range(done, done + size))
            done += size
        rates.add(done, time.perf_counter() - started, time.process_time() - busy)
        found[size] = rates
    return found


@dataclass(frozen=True)
class Measured:
    """One encoder."""

    name: str
    ways: Mapping[str, Rates]
    sizes: Mapping[int, Rates]
    batch: float  # items a shared pass, on average

    @property
    def gain(self) -> float:
        """Of shared passes over the better of the other two."""
        each, turn, shared = (float(np.median(self.ways[way].items)) for way in WAYS)
        return shared / max(each, turn)

    @property
    def gain_in_turn(self) -> float:
        """Of shared passes over one pass after another."""
        _, turn, shared = (float(np.median(self.ways[way].items)) for way in WAYS)
        return shared / turn

    @property
    def saved(self) -> float:
        """Processor time of an item in a batch of 16, as a share of that alone."""
        return float(np.median(self.sizes[16].processor_ms) / np.median(self.sizes[1].processor_ms))

    def report(self) -> str:
        """Tables and what follows from them."""
        ways = [["calls", "items/s", "processor ms an item", "cores busy"]]
        ways += [[way, *rates.cells()] for way, rates in self.ways.items()]
        sizes = [["items a pass, one caller", "items/s", "processor ms an item", "cores busy"]]
        sizes += [[str(size), *rates.cells()] for size, rates in self.sizes.items()]
        met = "met" if self.gain >= GOAL else "not met"
        said = (
            f"The lane's passes held {self.batch:.1f} items on average and gave {self.gain_in_turn:.2f} times batch 1 in turn, "
            f"{self.gain:.2f} times the better of the others (goal {GOAL:g}: {met}); an item in a pass of 16 takes "
            f"{self.saved:.2f} of the processor time of one alone."
        )
        return f"**{self.name}**\n\n{table(ways)}\n\n{table(sizes)}\n\n{said}"

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        items = {way: round(float(np.median(rates.items)), 1) for way, rates in self.ways.items()}
        return {"encoder": self.name, "items_per_s": items, "gain": round(self.gain, 2), "saved": round(self.saved, 2)}


async def measure(model: Model, chosen: argparse.Namespace) -> Measured:
    """All ways, taking turns, then all sizes."""
    seen: list[int] = []
    with ThreadPoolExecutor(chosen.callers) as pool:
        ways = ways_of(model, seen, pool)
        rates: dict[str, Rates] = {way: Rates() for way in ways}
        for call in ways.values():
            await keep_calling(call, callers=chosen.callers, seconds=0.5)
        seen.clear()
        for _ in range(chosen.rounds):
            for way, call in ways.items():
                rates[way].add(*await keep_calling(call, callers=chosen.callers, seconds=chosen.seconds))
    sizes = by_size(model.each, seconds=max(1.0, chosen.seconds / 2))
    return Measured(model.name, rates, sizes, float(np.mean(seen)) if seen else 0.0)


def text_model() -> Model:
    """The profile's text encoder, on sentences."""
    passes = Passes.here()
    texts = sentences(256)

    def run_with(threads: int) -> tuple[str, Run]:
        encoder = make_text_encoder(PROFILES["embedded"].text_encoder, context())
        encoder.warm_up(threads=threads)
        return encoder.name, lambda numbers: {"rows": encoder.encode([texts[number % len(texts)] for number in numbers])}

    name, each = run_with(0)
    return Model(f"texts ({name})", run_with(passes.text_threads or 0)[1], each, MOST_TEXTS, passes.parallel)


def picture_model() -> Model:
    """The profile's first backbone, on random pixels of its size."""
    passes = Passes.here()
    backbone = make_backbone(PROFILES["embedded"].backbones[0], context())
    backbone.warm_up(threads=0)
    side, output = backbone.input_size, backbone.outputs[0].name
    pixels = np.random.default_rng(0).integers(0, 256, (64, side, side, 3), dtype=np.uint8)

    def run(numbers: Sequence[int]) -> Mapping[str, NDArray[np.float32]]:
        return {"rows": backbone.embed(pixels[[number % len(pixels) for number in numbers]])[output].astype(np.float32)}

    return Model(f"pictures ({backbone.name})", run, run, passes.pictures, passes.parallel_pictures)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the profile's text encoder and its first backbone, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--callers", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each way in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", type=Path, help="a page with a section `batching`")
    parser.add_argument("--json", action="store_true", help="one line of figures, for machines")
    chosen = parser.parse_args(arguments)
    found = [asyncio.run(measure(make(), chosen)) for make in (text_model, picture_model)]
    if chosen.json:
        print(json.dumps([one.as_json() for one in found]))
        return
    load = os.getloadavg()[0]
    head = f"{chosen.callers} callers, {chosen.rounds} rounds of {chosen.seconds:g} s, median [quartiles]; load {load:.1f}."
    publish(chosen.write, "batching", report(head, *(one.report() for one in found)))


if __name__ == "__main__":
    main()
