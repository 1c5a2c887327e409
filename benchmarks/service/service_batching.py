"""Gain of sharing a model pass when sixteen callers ask at once.

    python -m benchmarks.service.service_batching [--callers 16] [--seconds 5] [--rounds 3] [--write docs/load.md]

The encoders of the profile `embedded` run in this process. Sixteen callers ask for one text (or one picture) each, again and
again: with a pass for each call, in parallel (the peer: a server that does not batch) or in turn (batch 1), and through the
service's own lane, which divides all waiting items among the passes that may run at once. Then one caller sends batches of a
given size. Where processor time an item is the same at size 16 as at size 1 and the cores are busy, a larger batch can save
nothing. Rounds take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from benchmarks.data.filled_home import context, sentences
from benchmarks.harness import Benchmark, Figure, Report
from benchmarks.harness.tables import spread, table
from lodestone.backbones.registry import make_backbone
from lodestone.config.profiles import PROFILES
from lodestone.text_encoders.registry import make_text_encoder
from lodestone_serve.inference.lanes import Lane
from lodestone_serve.inference.shared_passes import LEAST_TEXTS, MOST_TEXTS, Passes

SIZES = (1, 2, 4, 8, 16, 32)
WAYS = ("a pass for each call, in parallel", "a pass for each call, in turn", "the service's lane")


@dataclass
class Rates:
    """Rates of one way of calling, one value a round."""

    items: list[float] = field(default_factory=list)  # a second
    processor_ms: list[float] = field(default_factory=list)  # an item
    cores: list[float] = field(default_factory=list)  # busy on average

    def add(self, done: int, seconds: float, processor: float) -> None:
        """Add what one round measured."""
        self.items.append(done / seconds)
        self.processor_ms.append(processor * 1000 / max(1, done))
        self.cores.append(processor / seconds)

    def cells(self) -> list[str]:
        """Return the columns of a table."""
        return [spread(self.items), spread(self.processor_ms), f"{np.median(self.cores):.2f}"]


Call = Callable[[int], Awaitable[object]]  # encodes one item, the one of that number
Run = Callable[[Sequence[int]], Mapping[str, NDArray[np.float32]]]  # encodes items by their numbers; blocking


@dataclass(frozen=True)
class Model:
    """One model, as the service runs it and as its peer does.

    Attributes:
        kind: `texts` or `pictures`.
        name: Name in the table.
        shared: Runs a pass of the service, with the threads that it uses.
        each: Runs a pass of the peer, with the runtime's own choice of threads.
        most: Items that a pass of the service takes at most.
        parallel: Passes of the service that run at once.
        least: Items that wait before a further pass begins.
    """

    kind: str
    name: str
    shared: Run
    each: Run
    most: int
    parallel: int
    least: int = 1


def ways_of(model: Model, sizes: list[int], pool: ThreadPoolExecutor) -> dict[str, Call]:
    """Return the three ways to encode one item; `sizes` collects the size of every shared pass."""
    turn = asyncio.Lock()
    lane: Lane[int, str] = Lane(model.shared, most=model.most, least=model.least, parallel=model.parallel, observe=sizes.append)

    async def parallel(number: int) -> object:
        return await asyncio.get_running_loop().run_in_executor(pool, model.each, [number])

    async def in_turn(number: int) -> object:
        async with turn:
            return await asyncio.to_thread(model.each, [number])

    async def shared(number: int) -> object:
        return await lane.ask([number])

    return dict(zip(WAYS, (parallel, in_turn, shared), strict=True))


async def keep_calling(call: Call, *, callers: int, seconds: float) -> tuple[int, float, float]:
    """Return the items done by `callers` that call again at once, the seconds, and the processor seconds of this process."""
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
    """Return batch size -> rates of one caller."""
    by_number = {}
    for size in SIZES:
        rates, done = Rates(), 0
        started, busy = time.perf_counter(), time.process_time()
        while time.perf_counter() < started + seconds:
            run(range(done, done + size))
            done += size
        rates.add(done, time.perf_counter() - started, time.process_time() - busy)
        by_number[size] = rates
    return by_number


@dataclass(frozen=True)
class Measured:
    """What was measured of one encoder."""

    kind: str
    name: str
    ways: Mapping[str, Rates]
    sizes: Mapping[int, Rates]
    batch: float  # items a shared pass, on average

    @property
    def gain(self) -> float:
        """Return the rate with shared passes over the better rate of the other two ways."""
        each, turn, shared = (float(np.median(self.ways[way].items)) for way in WAYS)
        return shared / max(each, turn)

    @property
    def gain_in_turn(self) -> float:
        """Return the rate with shared passes over the rate of one pass after another."""
        _, turn, shared = (float(np.median(self.ways[way].items)) for way in WAYS)
        return shared / turn

    @property
    def saved(self) -> float:
        """Return the processor time of an item in a batch of 16, as a share of that of an item alone."""
        return float(np.median(self.sizes[16].processor_ms) / np.median(self.sizes[1].processor_ms))

    def text(self) -> str:
        """Return the tables and what follows from them."""
        ways = [["calls", "items/s", "processor ms an item", "cores busy"]]
        ways += [[way, *rates.cells()] for way, rates in self.ways.items()]
        sizes = [["items a pass, one caller", "items/s", "processor ms an item", "cores busy"]]
        sizes += [[str(size), *rates.cells()] for size, rates in self.sizes.items()]
        conclusion = (
            f"The lane's passes held {self.batch:.1f} items on average and gave {self.gain_in_turn:.2f} times batch 1 in turn, "
            f"{self.gain:.2f} times the better of the others; an item in a pass of 16 takes "
            f"{self.saved:.2f} of the processor time of one alone."
        )
        return f"**{self.name}**\n\n{table(ways)}\n\n{table(sizes)}\n\n{conclusion}"


async def measure_model(model: Model, chosen: argparse.Namespace) -> Measured:
    """Measure all ways, which take turns, then all batch sizes."""
    passes: list[int] = []
    with ThreadPoolExecutor(chosen.callers) as pool:
        ways = ways_of(model, passes, pool)
        rates: dict[str, Rates] = {way: Rates() for way in ways}
        for call in ways.values():
            await keep_calling(call, callers=chosen.callers, seconds=0.5)
        passes.clear()
        for _ in range(chosen.rounds):
            for way, call in ways.items():
                rates[way].add(*await keep_calling(call, callers=chosen.callers, seconds=chosen.seconds))
    sizes = by_size(model.each, seconds=max(1.0, chosen.seconds / 2))
    return Measured(model.kind, model.name, rates, sizes, float(np.mean(passes)) if passes else 0.0)


def text_model() -> Model:
    """Return the profile's text encoder, on sentences."""
    passes = Passes.here()
    texts = sentences(256)

    def run_with(threads: int) -> tuple[str, Run]:
        encoder = make_text_encoder(PROFILES["embedded"].text_encoder, context())
        encoder.warm_up(threads=threads)
        return encoder.name, lambda numbers: {"rows": encoder.encode([texts[number % len(texts)] for number in numbers])}

    name, each = run_with(0)
    return Model(
        "texts", f"texts ({name})", run_with(passes.text_threads or 0)[1], each, MOST_TEXTS, passes.parallel, LEAST_TEXTS
    )


def picture_model() -> Model:
    """Return the profile's first backbone, on random pixels of its size."""
    passes = Passes.here()
    backbone = make_backbone(PROFILES["embedded"].backbones[0], context())
    backbone.warm_up(threads=0)
    side, output = backbone.input_size, backbone.outputs[0].name
    pixels = np.random.default_rng(0).integers(0, 256, (64, side, side, 3), dtype=np.uint8)

    def run(numbers: Sequence[int]) -> Mapping[str, NDArray[np.float32]]:
        return {"rows": backbone.embed(pixels[[number % len(pixels) for number in numbers]])[output].astype(np.float32)}

    return Model("pictures", f"pictures ({backbone.name})", run, run, passes.pictures, passes.parallel_pictures)


def measure(options: argparse.Namespace, report: Report) -> None:
    """Measure the profile's text encoder and its first backbone."""
    report.text(f"{options.callers} callers, {options.rounds} rounds of {options.seconds:g} s, median [quartiles].")
    for make in (text_model, picture_model):
        measured = asyncio.run(measure_model(make(), options))
        report.text(measured.text())
        for way, rates in measured.ways.items():
            report.record("items a second", rates.items, case=f"{measured.name}, {way}")
        report.record("gain over the better of the others", measured.gain, case=measured.kind)
        report.record("gain over one pass after another", measured.gain_in_turn, case=measured.kind)
        report.record("processor time in a batch of 16 / alone", measured.saved, case=measured.kind)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--callers", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each way in each round")
    parser.add_argument("--rounds", type=int, default=3)


BENCHMARK = Benchmark(
    name="service_batching",
    about=__doc__,
    figures=(
        Figure("items a second", "items/s"),
        Figure("gain over the better of the others", "ratio", peer="a pass for each call"),
        Figure("gain over one pass after another", "ratio", peer="a pass for each call, in turn"),
        Figure("processor time in a batch of 16 / alone", "ratio", peer="a batch of 1"),
    ),
    options=add_options,
    measure=measure,
    section="batching",
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
