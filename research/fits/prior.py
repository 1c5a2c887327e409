"""Quality of the learnt prior (sentence to image vector): chooses its settings, and fits the one that ships.

    python -m research.fits.prior --data DIR [DIR ...] [--cache DIR] [--bridge FILE] [--ship FILE]

Each DIR holds `captions.tsv` (columns file, caption; several rows a file) and `images/`. The prior is fitted on the train
parts of the sets (`lodestone_eval.datasets.plain`); all figures are of the validation parts. R@10 is the share of captions with
their picture among the ten nearest to the prior's mean, or to one draw. The energy score (Gneiting and Raftery, 2007; lower
is better) compares the distance of draws from the truth with their distance from each other. `--bridge` names a bridge that
was not trained on the validation part; `--ship` fits the prior that ships, for the bridge that ships, on the train parts.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
from benchmarks.harness import Benchmark, Figure, Report

from lodestone.generators.engines.prior_weights import PriorWeights, SpacePrior
from lodestone.models.cache import ModelCache
from lodestone.models.context import ModelContext
from lodestone.retrieval.metrics import first_ranks
from lodestone.spaces.base import Projection
from lodestone.spaces.bridge import BridgeSpace
from lodestone.spaces.bridge_arrays import unit
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone.training.prior import PriorSettings, fit_space
from research.fits.quality import NOTICE, Collection, read_data

PENALTIES = (1.0, 10.0, 100.0, 1000.0, 3000.0)
RANKS = (16, 64, 256)
TEMPERATURES = (0.5, 0.75, 1.0, 1.25)


def recall(vectors: np.ndarray, pictures: np.ndarray, truth: np.ndarray) -> float:
    """Return the share of rows whose picture is among the ten nearest."""
    return float((first_ranks(vectors @ pictures.T, truth) <= 10).mean())


def quality_of(prior: SpacePrior, queries: Collection, pictures: np.ndarray) -> tuple[float, float, float]:
    """Return R@10 of the mean and of one draw, and the energy score."""
    rng = np.random.default_rng(0)
    draw, other, right = prior.draw(queries.texts, rng), prior.draw(queries.texts, rng), pictures[queries.owner]
    energy = np.linalg.norm(draw - right, axis=1).mean() - np.linalg.norm(draw - other, axis=1).mean() / 2
    mean = recall(unit(prior.means(queries.texts)), pictures, queries.owner)
    return mean, recall(draw, pictures, queries.owner), float(energy)


def choose(projection: Projection, train: Collection, validation: Collection, report: Report) -> None:
    """Measure every setting of the prior of one space."""
    pairs, pictures = projection.project(train.outputs)[train.owner], projection.project(validation.outputs)
    default = PriorSettings()
    settings = [replace(default, penalty=penalty) for penalty in PENALTIES]
    settings += [replace(default, rank=rank, temperature=heat) for rank in RANKS for heat in TEMPERATURES]
    for setting in settings:
        mean, draw, energy = quality_of(fit_space(train.texts, pairs, settings=setting), validation, pictures)
        name = f"penalty {setting.penalty:g}, rank {setting.rank}, temperature {setting.temperature:g}"
        case = f"{projection.name}, {name}"
        report.record("R@10 of the mean", mean, case=case)
        report.record("R@10 of one draw", draw, case=case)
        report.record("energy score", energy, case=case)


def measure(options: argparse.Namespace, report: Report) -> None:
    """Fit on the train part, then choose settings on the validation part, or write the prior that ships."""
    cache = options.cache or Path(mkdtemp())
    cache.mkdir(parents=True, exist_ok=True)
    context = ModelContext(cache=ModelCache(cache / "models"), threads=2)
    data = read_data(argparse.Namespace(data=options.data, profile=["embedded"], names=None), report, context, cache)
    train, validation, labels = data.train, data.validation, data.labels
    if options.ship:
        shipped = BridgeSpace(context, weights=BridgeWeights.shipped())
        spaces = {
            space.collection: fit_space(train.texts, space.project(train.outputs)[train.owner]) for space in (shipped, labels)
        }
        provenance = {
            "data": "Flickr8k, official training split (Hodosh et al., 2013): 4,500 of its 6,000 photos, five captions each; "
            "2,124 photos of COCO (Lin et al., 2014)",
            "licence_notice": NOTICE,
            "pictures": train.outputs.rows,
        }
        report.text(f"wrote {PriorWeights(spaces, provenance=provenance).save_as(options.ship)} {' '.join(spaces)}")
        return
    bridge = BridgeSpace(context, weights=options.bridge)
    for projection in (bridge, labels):
        choose(projection, train, validation, report)
    report.text(f"{validation.outputs.rows} pictures, {len(validation.texts)} queries.")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--data", type=Path, nargs="+", required=True, metavar="DIR")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--bridge", type=Path)
    parser.add_argument("--ship", type=Path)


BENCHMARK = Benchmark(
    name="prior",
    about=__doc__,
    figures=(
        Figure("R@10 of the mean", "share"),
        Figure("R@10 of one draw", "share"),
        Figure("energy score", "distance"),
    ),
    options=add_options,
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
