"""Weight of label matching for words that the bridge was not taught.

The benchmark trains bridges without the photos of a topic, and on the photos of one topic alone; then it asks for what each
bridge was not trained on. It reports R@10 by the share of label matching (constant), and by the rule without and with its term
for unfamiliar words. Only photos of the training and validation parts are used (`lodestone_eval.datasets.plain`); the cache is
that of `research.fits.quality`.

    python -m research.studies.strange_topics --captions CAPTIONS.tsv --images DIR --cache DIR
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from benchmarks.harness import Benchmark, Figure, Report

from lodestone.models.cache import ModelCache
from lodestone.models.context import ModelContext
from lodestone.query.weighting.fitted import SpaceWeights
from lodestone.retrieval.metrics import first_ranks
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone.spaces.labels import LabelSpace
from lodestone.text_encoders.registry import make_text_encoder
from lodestone.training.bridge import train_bridge
from lodestone.training.classes import class_pairs, class_texts, classifiers
from lodestone_eval.datasets.plain import split_by_hash
from research.fits.quality import Collection, load, part, read_table, score
from research.fits.space_weights import ScoredQueries, fuse

TOPICS = {
    "dogs": r"dogs?|pupp(?:y|ies)",
    "vehicles and snow": r"bikes?|bicycl\w+|biker|motor(?:cycle|bike)|cars?|truck|vehicle|snowy?|ski|skier|snowboarder",
    "water": r"water|beach|ocean|pool|river|lake|boat|swim\w*|surf\w*|waves?",
}
SHARES = (0.0, 0.05, 0.2, 0.4)
_HELD = 300  # pictures of a topic that join the validation photos


def recall(queries: ScoredQueries, weights: SpaceWeights) -> float:
    """Return R@10 of the fused scores."""
    return float((first_ranks(fuse(queries, weights), queries.truth) <= 10).mean())


def record(title: str, queries: ScoredQueries, report: Report) -> None:
    """Record R@10 of one bridge by constant shares of label matching and by both rules."""
    shares = {f"share {share:g}": SpaceWeights(named=0, strange=0, floor=share, ceiling=max(share, 0.01)) for share in SHARES}
    rules = {"rule without the term": replace(SpaceWeights(), strange=0.0), "rule with the term": SpaceWeights()}
    for name, weights in {**shares, **rules}.items():
        report.record("R@10", recall(queries, weights), case=f"bridge trained {title}, {name}")


def measure(options: argparse.Namespace, report: Report) -> None:
    """Train the bridges and ask each for the topics that it was not trained on."""
    context = ModelContext(cache=ModelCache(options.cache / "models"), threads=2)
    rows = read_table(options.captions, "caption")
    split = split_by_hash(name for name, _ in rows)
    names = split.train + split.validation + split.test
    collection = load(context, options.cache, "captions", rows=rows, folder=options.images, names=names)
    train, end = len(split.train), len(split.train) + len(split.validation)
    place = {name: row for row, name in enumerate(names)}
    encoder = make_text_encoder("minilm", context)
    encoder.warm_up()
    texts, heads = class_texts(encoder), classifiers()
    labels = LabelSpace(context)
    labels.warm_up()
    rng = np.random.default_rng(0)

    def trained(pictures: np.ndarray) -> BridgeWeights:
        pairs = part(collection, pictures)
        classes = class_pairs(pairs.outputs, heads, texts)
        return train_bridge(pairs.outputs, pairs.texts, pairs.owner, classes=classes)[0]

    def asked(weights: BridgeWeights, gallery: np.ndarray, about: np.ndarray) -> ScoredQueries:
        pictures = part(collection, gallery)
        kept = np.isin(gallery[pictures.owner], about)
        return score(labels, weights, Collection(pictures.outputs, pictures.texts[kept], pictures.owner[kept]))

    validation = np.arange(train, end)
    for topic, words in TOPICS.items():
        pattern = re.compile(rf"\b(?:{words})\b")
        about = np.array(sorted({place[name] for name, caption in rows if pattern.search(caption.lower())}), np.intp)
        learnt = about[about < train]
        gallery = np.concatenate([validation, rng.choice(learnt, min(_HELD, len(learnt)), replace=False)])
        record(f"without {topic}", asked(trained(np.setdiff1d(np.arange(train), about)), gallery, about), report)
        record(f"on {topic} alone", asked(trained(learnt), validation, np.setdiff1d(validation, about)), report)
    record("on everything", asked(trained(np.arange(train)), validation, validation), report)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--captions", type=Path, required=True)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)


BENCHMARK = Benchmark(
    name="strange_topics",
    about=__doc__,
    figures=(Figure("R@10", "share"),),
    options=add_options,
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
