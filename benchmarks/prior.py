"""How well does the learnt prior know what pictures of a sentence look like? Chooses its settings, and fits the one that ships.

    python -m benchmarks.prior --captions captions.tsv --images DIR [--cache DIR] [--bridge FILE] [--ship FILE]

captions.tsv has the columns file and caption, several rows a file. The prior is fitted on the train part of the split
(`lodestone.evaluation.splits`), all figures are of the validation part. R@10: is a caption's picture among the ten nearest to
the prior's mean, to one draw? Energy score (Gneiting and Raftery, 2007; lower is better): are draws as near to the truth as to
each other? `--bridge` names a bridge that never saw the validation part; `--ship` fits the one that ships, for the bridge that
ships, on the train part.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from benchmarks.machine import describe_machine, table
from benchmarks.quality import Collection, load, part, read_table
from lodestone.evaluation.metrics import first_ranks
from lodestone.evaluation.splits import PINNED, split_by_hash
from lodestone.generators.engines.prior_weights import PriorWeights, SpacePrior
from lodestone.models.cache import ModelCache
from lodestone.models.context import ModelContext
from lodestone.spaces.base import Projection
from lodestone.spaces.bridge import BridgeSpace
from lodestone.spaces.bridge_arrays import unit
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone.spaces.labels import LabelSpace
from lodestone.training.prior import PriorSettings, fit_space

PENALTIES = (1.0, 10.0, 100.0, 1000.0, 3000.0)
RANKS = (16, 64, 256)
TEMPERATURES = (0.5, 0.75, 1.0, 1.25)


def recall(vectors: np.ndarray, pictures: np.ndarray, truth: np.ndarray) -> float:
    """Share of rows whose picture is among the ten nearest."""
    return float((first_ranks(vectors @ pictures.T, truth) <= 10).mean())


def rows_of(prior: SpacePrior, what: Collection, pictures: np.ndarray) -> tuple[str, ...]:
    """R@10 of the mean and of one draw, and the energy score."""
    rng = np.random.default_rng(0)
    one, other, right = prior.draw(what.texts, rng), prior.draw(what.texts, rng), pictures[what.owner]
    energy = np.linalg.norm(one - right, axis=1).mean() - np.linalg.norm(one - other, axis=1).mean() / 2
    mean = recall(unit(prior.means(what.texts)), pictures, what.owner)
    return f"{mean:.3f}", f"{recall(one, pictures, what.owner):.3f}", f"{energy:.4f}"


def choose(projection: Projection, train: Collection, validation: Collection) -> list[tuple[str, ...]]:
    """One row a setting."""
    pairs, pictures = projection.project(train.outputs)[train.owner], projection.project(validation.outputs)
    rows = []
    chosen = PriorSettings()
    settings = [replace(chosen, penalty=penalty) for penalty in PENALTIES]
    settings += [replace(chosen, rank=rank, temperature=heat) for rank in RANKS for heat in TEMPERATURES]
    for one in settings:
        prior = fit_space(train.texts, pairs, settings=one)
        name = f"penalty {one.penalty:g}, rank {one.rank}, temperature {one.temperature:g}"
        rows.append((projection.name, name, *rows_of(prior, validation, pictures)))
    return rows


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captions", type=Path, required=True)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--bridge", type=Path)
    parser.add_argument("--ship", type=Path)
    args = parser.parse_args()
    cache = args.cache or Path(mkdtemp())
    cache.mkdir(parents=True, exist_ok=True)
    context = ModelContext(cache=ModelCache(cache / "models"), threads=2)
    rows = read_table(args.captions, "caption")
    split = split_by_hash(name for name, _ in rows)
    print("split:", "as pinned" if split.digests == PINNED else "of other files than the published figures")
    whole = load(context, cache, "captions", rows=rows, folder=args.images, names=split.train + split.validation + split.test)
    first, second = len(split.train), len(split.train) + len(split.validation)
    train, validation = part(whole, np.arange(first)), part(whole, np.arange(first, second))
    labels = LabelSpace(context)
    labels.warm_up()
    if args.ship:
        shipped = BridgeSpace(context, weights=BridgeWeights.shipped())
        spaces = {one.collection: fit_space(train.texts, one.project(train.outputs)[train.owner]) for one in (shipped, labels)}
        provenance = {
            "data": "Flickr8k, official training split (Hodosh et al., 2013): 4,500 of its 6,000 photos, five captions each",
            "licence_notice": "Flickr8k is for research use; weights learnt from it carry that notice",
            "pictures": train.outputs.rows,
        }
        print("wrote", PriorWeights(spaces, provenance=provenance).save_as(args.ship), *spaces)
        return
    bridge = BridgeSpace(context, weights=args.bridge)
    found: list[tuple[str, ...]] = [("space", "settings", "R@10 of the mean", "of one draw", "energy score")]
    for projection in (bridge, labels):
        found += choose(projection, train, validation)
    print(table(found))
    print(f"{validation.outputs.rows} pictures, {len(validation.texts)} queries; {describe_machine()}")


if __name__ == "__main__":
    main()
