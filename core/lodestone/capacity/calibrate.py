"""Calibration of this machine: the index job is run twice on a sample of the user's pictures, with the user's settings.

Two runs of different size, in temporary homes, separate what a run costs once (starting workers, making collections) from what
each picture costs. They measure the whole job, with hashing, thumbnails, Parquet, loading and checks. Decoding and the models
are also timed separately on one core each, because a cluster is planned with these rates.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from lodestone.capacity.rates import DEFAULT_RATES, MODELS, Rates
from lodestone.errors import ImageError, InvalidRequestError
from lodestone.sources.folders import FoundFile, discover

if TYPE_CHECKING:
    from lodestone.backbones.base import Backbone
    from lodestone.config.settings import Settings
    from lodestone.home.runtime import Runtime
    from lodestone.indexing.run.report import IndexReport

RunIndex = Callable[["Runtime", Sequence[Path]], "IndexReport"]
"""Function that indexes folders in an opened home, with the workers that the settings request."""

SMALL: Final = 256
LARGE: Final = 1024
_SLICE: Final = 128  # small enough that even the small run has two slices, so that workers are used
_TIMED: Final = 48
_MODEL_BATCH: Final = 4
_MODEL_BATCHES: Final = 8


@dataclass(frozen=True, slots=True)
class MachineCalibration:
    """Holds the rates that were measured on this machine.

    Attributes:
        runs: (pictures, seconds) of the two runs.
        fixed_seconds: Seconds that any run costs once.
        seconds_an_image: Seconds that each picture costs.
        executor: Name of the executor that embedded.
        rates: `DEFAULT_RATES` with the measured values.
        megabytes: Mean file size of the sample.
        megapixels: Mean size of its pictures.
    """

    runs: tuple[tuple[int, float], ...]
    fixed_seconds: float
    seconds_an_image: float
    executor: str
    rates: Rates
    megabytes: float
    megapixels: float

    def seconds(self, images: int) -> float:
        """Return the expected seconds of a first index run over so many such pictures here, without building a graph."""
        return self.fixed_seconds + images * self.seconds_an_image


def calibrate(
    settings: Settings, folder: Path, *, run: RunIndex, sizes: tuple[int, int] = (SMALL, LARGE), seed: int = 0
) -> MachineCalibration:
    """Measure this machine on a random sample of the pictures below `folder`; the user's files are only read.

    Args:
        settings: The home's settings; the runs use temporary homes with the same models and workers.
        folder: Folder with pictures like those to be indexed. If it has few, they are used several times.
        run: The index job.
        sizes: Number of pictures of each of the two runs.
        seed: Seed of the sample.

    Raises:
        InvalidRequestError: there are no pictures, or the second run is not larger than the first.
        NotFoundError: there is no such folder.
    """
    small, large = sizes
    if not 0 < small < large:
        raise InvalidRequestError(f"the two runs have {small} and {large} pictures", hint="the second must be larger")
    sample = _sample(discover(folder, follow_symlinks=settings.index.follow_symlinks), large, seed=seed)
    if not sample:
        raise InvalidRequestError(
            f"there are no pictures below {str(folder)!r}", hint="give a folder with some of your pictures"
        )
    rates, megapixels = _single_core(settings, sample[:_TIMED])
    timings: list[tuple[int, float]] = []
    executor = "none"
    for count in (small, large):
        with _scratch(settings, sample, count) as (pictures, scratch_settings):
            from lodestone.home.runtime import Runtime

            started = time.perf_counter()
            with Runtime.open(scratch_settings, purpose="lodestone plan") as runtime:
                executor = run(runtime, [pictures]).executor
            timings.append((count, time.perf_counter() - started))
    (few, fast), (many, slow) = timings
    seconds_each = max((slow - fast) / (many - few), 1e-6)
    return MachineCalibration(
        runs=tuple(timings),
        fixed_seconds=max(fast - few * seconds_each, 0.0),
        seconds_an_image=seconds_each,
        executor=executor,
        rates=rates,
        megabytes=sum(file.size for file in sample) / len(sample) / 1e6,
        megapixels=megapixels,
    )


def _sample(files: Iterator[FoundFile], count: int, *, seed: int) -> list[FoundFile]:
    """Return a uniform sample of a stream (algorithm R), in random order."""
    draw = random.Random(seed)  # noqa: S311 - a sample, no secret
    kept: list[FoundFile] = []
    for number, file in enumerate(files):
        if len(kept) < count:
            kept.append(file)
        elif (slot := draw.randrange(number + 1)) < count:
            kept[slot] = file
    draw.shuffle(kept)
    return kept


@contextmanager
def _scratch(settings: Settings, sample: Sequence[FoundFile], count: int) -> Iterator[tuple[Path, Settings]]:
    """Make a folder with `count` links to sampled pictures, and settings of a temporary home."""
    folder = Path(tempfile.mkdtemp(prefix="lodestone-plan-"))
    try:
        pictures = folder / "pictures"
        pictures.mkdir()
        for number, file in enumerate(islice(cycle(sample), count)):
            (pictures / f"{number:06d}{file.path.suffix}").symlink_to(file.path)
        changes: dict[str, object] = {"home": folder / "home", "catalog_url": None}
        # A sample must not write to the buckets or clusters of the real collection.
        no_buckets: dict[str, object] = {"embeddings": None, "thumbnails": None}
        changes["index"] = settings.index.model_copy(update={"slice_size": _SLICE, "follow_symlinks": True, **no_buckets})
        changes["store"] = settings.store.model_copy(update={"kind": "edge"})
        changes["cluster"] = settings.cluster.model_copy(update={"address": None})
        yield pictures, settings.model_copy(update=changes)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _single_core(settings: Settings, sample: Sequence[FoundFile]) -> tuple[Rates, float]:
    """Measure decoding (with preparing and thumbnails) and the models with one thread each.

    Return rates and mean megapixels.
    """
    from lodestone.backbones.registry import make_backbone
    from lodestone.config.own_profiles import choose_profile
    from lodestone.imaging.decode import decode
    from lodestone.imaging.thumbnails import make_thumbnail
    from lodestone.models.cache import ModelCache
    from lodestone.models.context import ModelContext
    from lodestone.models.hardware import gpus

    profile = choose_profile(settings.profile, settings.profiles)
    context = ModelContext(ModelCache(settings.models.cache.expanduser()), threads=1)
    backbones = [make_backbone(name, context) for name in profile.backbones]
    side = max(backbone.input_size for backbone in backbones)
    pixels, decoded = 0, 0
    started = time.process_time()
    for file in sample:
        try:
            picture = decode(os.fspath(file.path), min_side=side, max_decoded_bytes=settings.index.max_decoded_mb << 20)
        except ImageError:
            continue
        for backbone in backbones:
            backbone.prepare(picture.image)
        make_thumbnail(picture.image, size_px=settings.index.thumbnail_px)
        pixels += picture.width * picture.height
        decoded += 1
    decode_seconds = max(time.process_time() - started, 1e-6)
    if not decoded:
        raise InvalidRequestError("none of the sampled files is a usable picture", hint="give a folder with pictures")
    megapixels = pixels / decoded / 1e6
    gmacs = sum(MODELS[name].gmacs for name in profile.backbones if name in MODELS)
    sources = {**DEFAULT_RATES.sources, "decode": "measured here, one core"}
    rates = replace(DEFAULT_RATES, decode=decoded / decode_seconds, decode_megapixels=max(megapixels, 1e-3), sources=sources)
    if gmacs and not gpus():  # with a card, the models would not run on a core
        rates = replace(
            rates,
            core_gmacs=gmacs / max(_model_seconds(backbones), 1e-9),
            sources={**sources, "core_gmacs": "measured here, one core"},
        )
    return rates, max(megapixels, 1e-3)


def _model_seconds(backbones: Sequence[Backbone]) -> float:
    """Return the processor seconds that all models take for one picture with one thread: the median of several batches."""
    total = 0.0
    for backbone in backbones:
        backbone.warm_up(threads=1)
        batch = np.zeros((_MODEL_BATCH, backbone.input_size, backbone.input_size, 3), np.uint8)
        times = []
        for _ in range(_MODEL_BATCHES + 1):
            started = time.process_time()  # processor time, so that other load on this machine does not count
            backbone.embed(batch)
            times.append(time.process_time() - started)
        total += float(np.median(times[1:])) / _MODEL_BATCH
    return total
