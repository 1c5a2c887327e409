"""How much should label matching count for words that the bridge was never taught?

Trains bridges without the photos of a topic, and on the photos of one topic alone; then asks for what each never saw. Prints
R@10 by the share of label matching (constant), and by the rule without and with its term for unfamiliar words. Photos of the
training and validation parts alone (`lodestone.evaluation.splits`); the cache is that of benchmarks/quality.py.

    python -m benchmarks.strange_topics --captions CAPTIONS.tsv --images DIR --cache DIR
"""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.machine import table
from benchmarks.quality import Collection, load, part, read_table, score
from lodestone.evaluation.metrics import first_ranks
from lodestone.evaluation.splits import split_by_hash
from lodestone.models.cache import ModelCache
from lodestone.models.context import ModelContext
from lodestone.query.weights import SpaceWeights
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone.spaces.labels import LabelSpace
from lodestone.text_encoders.registry import make_text_encoder
from lodestone.training.bridge import train_bridge
from lodestone.training.classes import class_pairs, class_texts, classifiers
from lodestone.training.trust import ScoredQueries, fuse

TOPICS = {
    "dogs": r"dogs?|pupp(?:y|ies)",
    "vehicles and snow": r"bikes?|bicycl\w+|biker|motor(?:cycle|bike)|cars?|truck|vehicle|snowy?|ski|skier|snowboarder",
    "water": r"water|beach|ocean|pool|river|lake|boat|swim\w*|surf\w*|waves?",
}
SHARES = (0.0, 0.05, 0.2, 0.4)
_HELD = 300  # pictures of a topic that join the validation photos


def recall(queries: ScoredQueries, weights: SpaceWeights) -> float:
    """R@10 of the fused scores."""
    return float((first_ranks(fuse(queries, weights), queries.truth) <= 10).mean())


def row(title: str, queries: ScoredQueries) -> list[str]:
    """One line of the table."""
    constant = [SpaceWeights(named=0, strange=0, floor=share, ceiling=max(share, 0.01)) for share in SHARES]
    rules = [replace(SpaceWeights(), strange=0.0), SpaceWeights()]
    return [title, *(f"{recall(queries, weights):.3f}" for weights in (*constant, *rules))]


def main() -> None:
    """Train, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captions", type=Path, required=True)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    args = parser.parse_args()
    context = ModelContext(cache=ModelCache(args.cache / "models"), threads=2)
    rows = read_table(args.captions, "caption")
    split = split_by_hash(name for name, _ in rows)
    names = split.train + split.validation + split.test
    whole = load(context, args.cache, "captions", rows=rows, folder=args.images, names=names)
    train, seen = len(split.train), len(split.train) + len(split.validation)
    place = {name: i for i, name in enumerate(names)}
    encoder = make_text_encoder("minilm", context)
    encoder.warm_up()
    texts, heads = class_texts(encoder), classifiers()
    labels = LabelSpace(context)
    labels.warm_up()
    rng = np.random.default_rng(0)

    def trained(pictures: np.ndarray) -> BridgeWeights:
        pairs = part(whole, pictures)
        classes = class_pairs(pairs.outputs, heads, texts)
        return train_bridge(pairs.outputs, pairs.texts, pairs.owner, classes=classes)[0]

    def asked(weights: BridgeWeights, gallery: np.ndarray, about: np.ndarray) -> ScoredQueries:
        all_of = part(whole, gallery)
        kept = np.isin(gallery[all_of.owner], about)
        return score(labels, weights, Collection(all_of.outputs, all_of.texts[kept], all_of.owner[kept]))

    validation = np.arange(train, seen)
    lines = [["bridge trained", *map(str, SHARES), "rule without", "rule with"]]
    for topic, words in TOPICS.items():
        about = np.array(sorted({place[n] for n, c in rows if re.search(rf"\b(?:{words})\b", c.lower())}), np.intp)
        learnt = about[about < train]
        gallery = np.concatenate([validation, rng.choice(learnt, min(_HELD, len(learnt)), replace=False)])
        lines.append(row(f"without {topic}", asked(trained(np.setdiff1d(np.arange(train), about)), gallery, about)))
        alone = trained(learnt)
        lines.append(row(f"on {topic} alone", asked(alone, validation, np.setdiff1d(validation, about))))
    lines.append(row("on everything", asked(trained(np.arange(train)), validation, validation)))
    print(table(lines))


if __name__ == "__main__":
    main()
