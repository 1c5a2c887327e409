"""Copies of photos that `lodestone duplicates find` groups, and how near copies and different pictures are.

    python -m research.studies.duplicates --images DIR [--photos 200] [--others 1500] [--seed 0]

Of each of `--photos` photos, drawn at random from a folder, five copies are made: saved at JPEG quality 40, half as large, 5 %
cut off each side, mirrored, 30 % brighter. Photos, copies and `--others` further photos are indexed in a home of their own in
a temporary folder, and the search groups them as the command does. The distance is that of the space `bridge`, 1 - cosine; the
correlation is that of the grey values (`lodestone.duplicates.likeness`). The width of the photos is stated, because half of a
small photo is smaller than what the models see.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from benchmarks.harness import Benchmark, Figure, Report
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageOps

from lodestone.catalog.pictures.duplicates import NEAR
from lodestone.config.settings import IndexSettings, Settings
from lodestone.duplicates.find import DEFAULT_DISTANCE, find_duplicates, list_groups
from lodestone.duplicates.likeness import ALIKE, Forms, correlation, forms_of
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest

SPACE: Final = "bridge"
QUALITY: Final = 40
_PLAIN: Final = 95  # JPEG quality of what is not about quality
_CUT: Final = 0.05
_BRIGHTER: Final = 1.3


def _cut_off(image: Image.Image) -> Image.Image:
    width, height = image.size
    return image.crop((round(width * _CUT), round(height * _CUT), round(width * (1 - _CUT)), round(height * (1 - _CUT))))


COPIES: Final[Mapping[str, tuple[Callable[[Image.Image], Image.Image], int]]] = {
    f"saved at JPEG quality {QUALITY}": (lambda image: image, QUALITY),
    "half as large": (lambda image: image.resize((image.width // 2, image.height // 2)), _PLAIN),
    "5 % cut off each side": (_cut_off, _PLAIN),
    "mirrored": (ImageOps.mirror, _PLAIN),
    "30 % brighter": (lambda image: ImageEnhance.Brightness(image).enhance(_BRIGHTER), _PLAIN),
}
"""Name of a kind of copy -> what makes it of a picture, and the JPEG quality that it is saved with."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """What the home holds after the search.

    Attributes:
        vectors: File -> (dim,) float32 vector, L2-normalised.
        groups: Files of each group of near copies.
    """

    vectors: Mapping[str, NDArray[np.float32]]
    groups: list[frozenset[str]]


def write_pictures(photos: list[Path], others: list[Path], folder: Path) -> None:
    """Write photos, their copies (`NUMBER-KIND.jpg`) and further photos into an empty folder."""
    for number, path in enumerate(photos):
        with Image.open(path) as opened:
            image = opened.convert("RGB")
        image.save(folder / f"{number}-original.jpg", quality=_PLAIN)
        for kind, (change, quality) in enumerate(COPIES.values()):
            change(image).save(folder / f"{number}-{kind}.jpg", quality=quality)
    for number, path in enumerate(others):
        with Image.open(path) as opened:
            opened.convert("RGB").save(folder / f"other-{number}.jpg", quality=_PLAIN)


def searched(folder: Path, home: Path, *, distance: float) -> Indexed:
    """Index a folder in a home and group what looks alike."""
    settings = Settings(home=home, index=IndexSettings(executor="inline"))
    with Runtime.open(settings, purpose="a benchmark of duplicates") as runtime:
        index_paths(runtime, IndexRequest((folder,)))
        corpus = runtime.catalog.corpus("default")
        find_duplicates(
            runtime.catalog,
            runtime.store,
            runtime.home,
            corpus,
            space=SPACE,
            thumbnails=runtime.thumbnails,
            distance=distance,
        )
        groups = [
            frozenset(member.file.rpartition("/")[2] for member in group.members)
            for group in list_groups(runtime.catalog, kind=NEAR)
        ]
        names = {
            image.image_id: image.uri
            for root in runtime.catalog.roots(corpus.corpus_id)
            for image in runtime.catalog.images_of_root(root.root_id)
        }
        vectors = {
            names[point]: vector
            for batch in runtime.store.scroll(runtime.store.aliases()[SPACE])
            for point, vector in zip(batch.ids, batch.vectors, strict=True)
            if point in names
        }
    return Indexed(vectors, groups)


def wrong_groups(groups: list[frozenset[str]]) -> int:
    """Return how many groups hold pictures of two photos; other photos are each their own."""
    return sum(len({name if name.startswith("other") else name.partition("-")[0] for name in group}) > 1 for group in groups)


def different_pairs(indexed: Indexed, folder: Path, *, distance: float) -> tuple[float, int, float]:
    """Return the least distance of different photos, how many pairs are within a distance, and their highest correlation."""
    names = sorted(name for name in indexed.vectors if name.startswith("other") or name.endswith("-original.jpg"))
    vectors = np.stack([indexed.vectors[name] for name in names])
    distances = 1 - vectors @ vectors.T
    distances[np.tril_indices(len(names))] = np.inf
    near = np.argwhere(distances <= distance)
    forms: dict[int, Forms] = {}
    for row in np.unique(near).tolist():
        with Image.open(folder / names[row]) as image:
            forms[row] = forms_of(image)
    return float(distances.min()), len(near), max((correlation(forms[a], forms[b]) for a, b in near.tolist()), default=0.0)


def measure(options: argparse.Namespace, report: Report) -> int:
    """Measure copies and different photos; the exit code is 1 if pictures of two photos were grouped."""
    files = sorted(path for path in options.images.iterdir() if path.suffix.casefold() in {".jpg", ".jpeg", ".png"})
    drawn = np.random.default_rng(options.seed).permutation(len(files))[: options.photos + options.others]
    photos = [files[place] for place in drawn[: options.photos]]
    others = [files[place] for place in drawn[options.photos :]]
    sides = []
    for path in photos:
        with Image.open(path) as image:
            sides.append(max(image.size))
    with tempfile.TemporaryDirectory(prefix="lodestone-duplicates-") as name:
        folder = Path(name, "pictures")
        folder.mkdir()
        write_pictures(photos, others, folder)
        indexed = searched(folder, Path(name, "home"), distance=options.distance)
        rows = [("copy", "median distance", "largest distance", "within 0.05", "within 0.4", "lowest correlation", "found")]
        for kind, copy in enumerate(COPIES):
            pairs = [(f"{number}-original.jpg", f"{number}-{kind}.jpg") for number in range(len(photos))]
            apart = np.array([1 - indexed.vectors[one] @ indexed.vectors[other] for one, other in pairs])
            alike = [_correlation(folder, *pair) for pair in pairs]
            found = sum(any({*pair} <= group for group in indexed.groups) for pair in pairs)
            report.record("copies found", found / len(pairs), case=copy)
            near, all_near = (f"{100 * np.mean(apart <= most):.0f} %" for most in (0.05, 0.4))
            row = (copy, f"{np.median(apart):.3f}", f"{apart.max():.2f}", near, all_near, f"{min(alike):.3f}")
            rows.append((*row, f"{found} of {len(pairs)}"))
        least, count, highest = different_pairs(indexed, folder, distance=options.distance)
    wrong = wrong_groups(indexed.groups)
    report.record("groups of different photos", wrong)
    report.record("highest correlation of different photos", highest)
    report.table(rows)
    report.text(
        f"{len(photos)} photos and {len(others)} others; the longer side has {min(sides)} to {max(sides)} pixels.",
        f"Different photos: the nearest two are {least:.3f} apart, {count:,} pairs are within {options.distance:g}, and none "
        f"correlates by more than {highest:.2f} (copies: {ALIKE:g} or more). Groups of different photos: {wrong}.",
    )
    return 1 if wrong else 0


def _correlation(folder: Path, one: str, other: str) -> float:
    with Image.open(folder / one) as first, Image.open(folder / other) as second:
        return correlation(forms_of(first), forms_of(second))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--images", type=Path, required=True, help="folder of photos; folders inside are not read")
    parser.add_argument("--photos", type=int, default=200, help="photos of which copies are made")
    parser.add_argument("--others", type=int, default=1500, help="further photos")
    parser.add_argument("--distance", type=float, default=DEFAULT_DISTANCE)
    parser.add_argument("--seed", type=int, default=0)


BENCHMARK = Benchmark(
    name="duplicates",
    about=__doc__,
    figures=(
        Figure("copies found", "share"),
        Figure("groups of different photos", "count"),
        Figure("highest correlation of different photos", "correlation", peer="what copies need"),
    ),
    options=add_options,
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
