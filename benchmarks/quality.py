"""How good is text-to-image search with the bundled models? Prints the table of docs/quality.md.

    python benchmarks/quality.py --captions captions.tsv --images DIR [--names names.tsv DIR]
        [--cache DIR] [--seeds 3] [--ship FILE]

captions.tsv has the columns file, caption (several rows a file); names.tsv file, name (one row a file). The split is the
one of `lodestone.evaluation.splits`; models train on its first part, the weights between spaces are fitted on the second,
figures are of the third. `--cache` keeps outputs, text vectors and trained weights between runs. `--ship` also trains on
all pictures and writes the file.
"""

from __future__ import annotations

import argparse
import csv
import platform
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

import numpy as np
from PIL import Image

from lodestone.backbones.base import BackboneOutputs, OutputKey
from lodestone.backbones.registry import make_backbone
from lodestone.evaluation.metrics import bootstrap, first_ranks
from lodestone.evaluation.splits import PINNED, split_by_hash
from lodestone.models.cache import ModelCache, fingerprint
from lodestone.models.context import ModelContext
from lodestone.query.weights import SpaceWeights
from lodestone.spaces.bridge_arrays import BACKBONES
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone.spaces.labels import LabelSpace
from lodestone.text_encoders.labels import imagenet_labels
from lodestone.text_encoders.registry import make_text_encoder
from lodestone.training.bridge import train_bridge
from lodestone.training.classes import TEMPLATES, class_pairs, class_texts, classifiers
from lodestone.training.trust import ScoredQueries, fit_space_weights, fuse, sure_pictures, trust_of

BATCH = 16


class Collection(NamedTuple):
    """Pictures and the queries that each has one right answer among them."""

    outputs: BackboneOutputs
    texts: np.ndarray
    owner: np.ndarray


def read_table(path: Path, column: str) -> list[tuple[str, str]]:
    """The (file, text) rows of a table."""
    with path.open(encoding="utf8", newline="") as stream:
        rows = csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [(row["file"], row[column]) for row in rows]


def cached(cache: Path, key: str, make: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Arrays from the cache, made and stored first where they are missing."""
    path = cache / f"{key}.npz"
    if not path.exists():
        np.savez(path, **make())
    with np.load(path) as stored:
        return dict(stored)


def embed(context: ModelContext, folder: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Outputs of all backbones, keyed `backbone/output`."""
    columns: dict[str, list[np.ndarray]] = {}
    for backbone in (make_backbone(name, context) for name in BACKBONES):
        backbone.warm_up()
        for i in range(0, len(names), BATCH):
            pixels = []
            for name in names[i : i + BATCH]:
                with Image.open(folder / name) as image:
                    pixels.append(backbone.prepare(image.convert("RGB")))
            for output, values in backbone.embed(np.stack(pixels)).items():
                columns.setdefault(f"{backbone.name}/{output}", []).append(values)
    return {key: np.vstack(parts) for key, parts in columns.items()}


def load(
    context: ModelContext, cache: Path, kind: str, *, rows: list[tuple[str, str]], folder: Path, names: Sequence[str]
) -> Collection:
    """Outputs, text vectors and owners of one set."""
    encoder = make_text_encoder("minilm", context)
    stored = cached(cache, f"{kind}-pictures-{fingerprint(*names)}", lambda: embed(context, folder, names))
    outputs = BackboneOutputs({OutputKey(*key.split("/")): values for key, values in stored.items()})
    texts = [text for _, text in rows]

    def encode() -> dict[str, np.ndarray]:
        encoder.warm_up()
        return {"vectors": encoder.encode(texts)}

    place = {name: i for i, name in enumerate(names)}
    vectors = cached(cache, f"{kind}-texts-{fingerprint(*texts)}", encode)["vectors"]
    return Collection(outputs, vectors, np.array([place[name] for name, _ in rows]))


def part(whole: Collection, rows: np.ndarray) -> Collection:
    """Some of the pictures and the texts that belong to them."""
    asked = np.isin(whole.owner, rows)
    position = np.full(whole.outputs.rows, -1)
    position[rows] = np.arange(len(rows))
    return Collection(whole.outputs.take(rows), whole.texts[asked], position[whole.owner[asked]])


def score(labels: LabelSpace, weights: BridgeWeights, what: Collection) -> ScoredQueries:
    """Every text against every picture, in both spaces."""
    return ScoredQueries(
        labels=labels.project_texts(what.texts) @ labels.project(what.outputs).T,
        bridge=weights.texts(what.texts) @ weights.pictures(what.outputs).T,
        similarity=labels.label_similarity(what.texts),
        familiarity=weights.familiarity(what.texts),
        truth=what.owner,
    )


def made_names(what: Collection, texts: np.ndarray) -> Collection:
    """Name queries without names: classes that a picture shows for sure, in every template."""
    mean = np.mean([what.outputs[OutputKey(b, "probabilities")].astype(np.float32) for b in BACKBONES], axis=0)
    classes, pictures = sure_pictures(mean)
    return Collection(
        what.outputs, np.concatenate([texts[t][classes] for t in range(len(TEMPLATES))]), np.tile(pictures, len(TEMPLATES))
    )


def rank_fusion(
    queries: ScoredQueries, weights: SpaceWeights, constant: float, top: int, *, weighted: bool = True
) -> np.ndarray:
    """(Weighted) reciprocal ranks of the first `top` of each space."""
    trust = trust_of(queries, weights)[:, None]
    total = np.zeros(queries.labels.shape)
    for scores, weight in ((queries.labels, trust), (queries.bridge, 1 - trust)):
        ranks = (-scores).argsort(1).argsort(1) + 1
        total += (weight if weighted else 1.0) / (constant + ranks) * (ranks <= top)
    return total.astype(np.float32)


def distance_fusion(queries: ScoredQueries, weights: SpaceWeights, top: int) -> np.ndarray:
    """Weighted mean distance over the union of the first `top` of each space."""
    fused = fuse(queries, weights)
    listed = np.zeros(fused.shape, bool)
    for scores in (queries.labels, queries.bridge):
        listed |= (-scores).argsort(1).argsort(1) < top
    return np.where(listed, fused, -np.inf)


def rows_of(queries: ScoredQueries, weights: BridgeWeights, rule: SpaceWeights, what: Collection) -> dict[str, np.ndarray]:
    """Part -> (queries,) R@10."""
    pictures, texts = weights.picture_parts(weights.components(what.outputs)), weights.text_parts(what.texts)
    equal = replace(rule, floor=0.5, ceiling=0.5, named=0.0, strange=0.0)
    scored = {
        "ConSE (label text, top 50)": queries.labels,
        "ridge": texts[0] @ pictures[0].T,
        "two-tower": texts[1] @ pictures[1].T,
        "bridge (ridge + two-tower)": queries.bridge,
        "ConSE + bridge, equal": fuse(queries, equal),
        "ConSE + bridge, one rule": fuse(queries, rule),
        "the same with fixed scales": fuse(queries, rule, fixed_scales=True),
    }
    for top in (60, 200):
        scored[f"one rule, mean distance, top {top}"] = distance_fusion(queries, rule, top)
        scored[f"one rule, weighted reciprocal rank, top {top}"] = rank_fusion(queries, rule, 0, top)
        scored[f"one rule, weighted RRF 60, top {top}"] = rank_fusion(queries, rule, 60, top)
        scored[f"RRF 1, unweighted, top {top}"] = rank_fusion(queries, rule, 1, top, weighted=False)
        scored[f"RRF 60, unweighted, top {top}"] = rank_fusion(queries, rule, 60, top, weighted=False)
    return {name: first_ranks(values, queries.truth) <= 10 for name, values in scored.items()}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captions", type=Path, required=True)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--names", type=Path, nargs=2, metavar=("TSV", "DIR"))
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
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
    train, validation, test = (
        part(whole, np.arange(*ends)) for ends in ((0, first), (first, second), (second, whole.outputs.rows))
    )
    encoder = make_text_encoder("minilm", context)

    def encode_classes() -> dict[str, np.ndarray]:
        encoder.warm_up()
        return {"texts": class_texts(encoder)}

    texts = cached(cache, f"classes-{fingerprint(*imagenet_labels(), *TEMPLATES)}", encode_classes)["texts"]
    labels = LabelSpace(context)
    labels.warm_up()
    sets = {"captions": test}
    if args.names:
        named = [(file, TEMPLATES[1].format(name)) for file, name in read_table(args.names[0], "name")]
        sets["names"] = load(context, cache, "names", rows=named, folder=args.names[1], names=[file for file, _ in named])
    results: dict[str, dict[str, list[np.ndarray]]] = {kind: {} for kind in sets}
    rule = SpaceWeights()
    heads = classifiers()
    for seed in range(args.seeds):
        path = cache / f"trained-{seed}.safetensors"
        if not path.exists():
            classes = class_pairs(train.outputs, heads, texts, seed=seed)
            train_bridge(train.outputs, train.texts, train.owner, classes=classes, seed=seed)[0].save_as(path)
        weights = BridgeWeights.load(path)
        queries = score(labels, weights, validation)
        fitted = fit_space_weights(queries, score(labels, weights, made_names(validation, texts)))
        rule = fitted if seed == 0 else rule  # one rule for all seeds: the first one's
        print(f"seed {seed}: fitted {fitted}")
        print(f"  validation, one rule: {(first_ranks(fuse(queries, rule), queries.truth) <= 10).mean():.3f}")
        for kind, what in sets.items():
            for name, values in rows_of(score(labels, weights, what), weights, rule, what).items():
                results[kind].setdefault(name, []).append(values)
    _print(results)
    if args.ship:
        classes = class_pairs(whole.outputs, heads, texts)
        shipped, report = train_bridge(whole.outputs, whole.texts, whole.owner, classes=classes)
        provenance = {
            "data": "Flickr8k, official training split (Hodosh et al., 2013): all 6,000 photos, five captions each",
            "licence_notice": "Flickr8k is for research use; weights learnt from it carry that notice",
            "pictures": report.pictures,
            "query_weights": "fitted on the 500 validation photos, with a bridge trained on the 4,500",
        }
        final = replace(shipped, query_weights=rule.to_header(), provenance=provenance)
        print("wrote", final.save_as(args.ship), report)


def _print(results: dict[str, dict[str, list[np.ndarray]]]) -> None:
    machine = f"{platform.machine()}, Python {platform.python_version()}"
    print(f"\nR@10, mean over seeds (least to most) [95 % over queries, first seed]; {machine}")
    for name in results["captions"]:
        cells = []
        for kind in results:
            each = [values.mean() for values in results[kind][name]]
            interval = bootstrap(results[kind][name][0].astype(float))
            cells.append(f"{np.mean(each):.3f} ({min(each):.3f} to {max(each):.3f}) [{interval.low:.3f}, {interval.high:.3f}]")
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
