"""What does sharing a model pass bring when sixteen ask at once?

    python -m benchmarks.service_batching [--callers 16] [--seconds 5] [--rounds 3] [--write docs/load.md]

The encoders of the profile `embedded`, in this process. Sixteen callers ask for one text (or one picture) each, again and
again: with a pass for each call, in parallel (the peer: what a server does that does not batch) or in turn, and with passes
that take all who wait, as the service does. Then one caller with batches of a given size. Processor time per item is the
profile: where it is the same at size 16 as at size 1 and the cores are busy, there is nothing that a larger batch could save.
Rounds take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.loading.pages import publish, report
from benchmarks.machine import spread, table
from benchmarks.query_latency import context, sentences
from lodestone.backbones.base import Backbone
from lodestone.backbones.registry import make_backbone
from lodestone.config.profiles import PROFILES
from lodestone.language.base import TextEncoder
from lodestone.language.registry import make_text_encoder
from lodestone_serve.batching import BatchingTextEncoder

GOAL = 1.5  # items a second with shared passes, of those with a pass for each call
SIZES = (1, 2, 4, 8, 16, 32)
WAYS = ("a pass for each call, in parallel", "a pass for each call, in turn", "passes shared by all who wait")
Call = Callable[[int], object]  # encodes one item, the one of that number


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


class PictureTexts(TextEncoder):
    """A backbone as an encoder of `texts` that are numbers of pictures, so that they are batched as texts are."""

    def __init__(self, backbone: Backbone, pixels: NDArray[np.uint8]) -> None:
        self.name, self.dim = backbone.name, backbone.outputs[0].dim
        self._backbone, self._pixels = backbone, pixels

    @property
    def version(self) -> str:
        """See `TextEncoder.version`."""
        return self._backbone.version

    def warm_up(self, *, threads: int = 0) -> None:
        """See `TextEncoder.warm_up`."""
        self._backbone.warm_up(threads=threads)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `TextEncoder.encode`."""
        rows = self._backbone.embed(self._pixels[[int(text) % len(self._pixels) for text in texts]])
        return rows[self._backbone.outputs[0].name].astype(np.float32)


def calls(encoder: TextEncoder, items: Sequence[str], seen: list[int]) -> dict[str, Call]:
    """The three ways to encode one item; `seen` gets the size of every shared pass."""
    turn = threading.Lock()
    shared = BatchingTextEncoder(encoder, observe=seen.append)

    def in_turn(number: int) -> object:
        with turn:
            return encoder.encode([items[number % len(items)]])

    ways: Sequence[Call] = (
        lambda number: encoder.encode([items[number % len(items)]]),
        in_turn,
        lambda number: shared.encode([items[number % len(items)]]),
    )
    return dict(zip(WAYS, ways, strict=True))


def keep_calling(call: Call, *, callers: int, seconds: float) -> tuple[int, float, float]:
    """Items done by `callers` threads that call again at once; seconds, and processor seconds of this process."""
    end = time.perf_counter() + seconds

    def caller(first: int) -> int:
        done = 0
        while time.perf_counter() < end:
            call(first + done * callers)
            done += 1
        return done

    with ThreadPoolExecutor(callers) as pool:
        started, busy = time.perf_counter(), time.process_time()
        done = sum(pool.map(caller, range(callers)))
        return done, time.perf_counter() - started, time.process_time() - busy


def by_size(encoder: TextEncoder, items: Sequence[str], *, seconds: float) -> dict[int, Rates]:
    """One caller, batches of each size."""
    found = {}
    for size in SIZES:
        rates, done = Rates(), 0
        started, busy = time.perf_counter(), time.process_time()
        while time.perf_counter() < started + seconds:
            encoder.encode([items[(done + place) % len(items)] for place in range(size)])
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
            f"Shared passes held {self.batch:.1f} items on average and gave {self.gain:.2f} times the better of the others "
            f"(goal {GOAL:g}: {met}); an item in a pass of 16 takes {self.saved:.2f} of the processor time of one alone."
        )
        return f"**{self.name}**\n\n{table(ways)}\n\n{table(sizes)}\n\n{said}"

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        items = {way: round(float(np.median(rates.items)), 1) for way, rates in self.ways.items()}
        return {"encoder": self.name, "items_per_s": items, "gain": round(self.gain, 2), "saved": round(self.saved, 2)}


def measure(name: str, encoder: TextEncoder, items: Sequence[str], chosen: argparse.Namespace) -> Measured:
    """All ways, taking turns, then all sizes."""
    seen: list[int] = []
    ways = calls(encoder, items, seen)
    rates: dict[str, Rates] = {way: Rates() for way in ways}
    for call in ways.values():
        keep_calling(call, callers=chosen.callers, seconds=0.5)
    seen.clear()
    for _ in range(chosen.rounds):
        for way, call in ways.items():
            rates[way].add(*keep_calling(call, callers=chosen.callers, seconds=chosen.seconds))
    sizes = by_size(encoder, items, seconds=max(1.0, chosen.seconds / 2))
    return Measured(name, rates, sizes, float(np.mean(seen)) if seen else 0.0)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the profile's text encoder and its first backbone, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--callers", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each way in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0, help="of one model pass; default: the runtime's choice")
    parser.add_argument("--write", type=Path, help="a page with a section `batching`")
    parser.add_argument("--json", action="store_true", help="one line of figures, for machines")
    chosen = parser.parse_args(arguments)
    profile = PROFILES["embedded"]
    texts = make_text_encoder(profile.text_encoder, context())
    backbone = make_backbone(profile.backbones[0], context())
    side = backbone.input_size
    pixels = np.random.default_rng(0).integers(0, 256, (64, side, side, 3), dtype=np.uint8)
    pictures = PictureTexts(backbone, pixels)
    found = []
    for name, encoder, items in (
        (f"texts ({texts.name})", texts, sentences(256)),
        (f"pictures ({backbone.name})", pictures, [str(number) for number in range(len(pixels))]),
    ):
        encoder.warm_up(threads=chosen.threads)
        found.append(measure(name, encoder, items, chosen))
    if chosen.json:
        print(json.dumps([one.as_json() for one in found]))
        return
    load = os.getloadavg()[0]
    head = f"{chosen.callers} callers, {chosen.rounds} rounds of {chosen.seconds:g} s, median [quartiles]; load {load:.1f}."
    publish(chosen.write, "batching", report(head, *(one.report() for one in found)))


if __name__ == "__main__":
    main()
