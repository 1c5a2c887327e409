"""Quality of text-to-image search with the bundled models: the table of docs/quality.md.

    python -m research.fits.quality --data DIR [DIR ...] [--names names.tsv DIR]
        [--profile embedded [embedded-large]] [--cache DIR] [--seeds 3] [--ship FILE]

Each DIR is a set of captioned photos: `captions.tsv` (columns file, caption; several rows a file) and `images/`. names.tsv
has file, name (one row a file). Each set is split by `lodestone_eval.datasets.plain`: models train on the first parts, the
weights between spaces are fitted on the second ones, and figures are of the third ones, of each set apart. Names are searched
among the named photos alone, and among these and up to `--distractors` photos of the first set whose captions use none of the
names. Everyday names (`research/data/everyday_names.tsv`) are searched among the third parts of all sets together; right
are the photos whose captions have one of a name's words. The rule for the weights of spaces is the default one, unless
`--refit` asks for the one that is fitted to the first seed. With two profiles the second is compared with the first, query by
query. `--cache` keeps outputs, text vectors and trained weights between runs. `--ship` also trains a bridge for the last
profile on all pictures and writes the file.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

import numpy as np
from benchmarks.harness import Benchmark, Figure, Report
from PIL import Image

from lodestone.backbones.base import BackboneOutputs, OutputKey
from lodestone.backbones.registry import make_backbone
from lodestone.config.profiles import Profile, find_profile
from lodestone.models.cache import ModelCache, fingerprint
from lodestone.models.context import ModelContext
from lodestone.query.weighting.fitted import SpaceWeights
from lodestone.retrieval.metrics import first_ranks
from lodestone.spaces.bridge_arrays import BACKBONES, TEXT_ENCODER, BridgeInputs
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone.spaces.labels import LabelSpace
from lodestone.text_encoders.base import TextEncoder
from lodestone.text_encoders.labels import imagenet_labels
from lodestone.text_encoders.registry import make_text_encoder
from lodestone.training.bridge import TrainingReport, train_bridge
from lodestone.training.classes import TEMPLATES, Classifier, ClassPairs, class_pairs, class_texts, classifiers
from lodestone.training.phrases import PhrasePairs, in_templates, noun_phrases, phrase_pairs
from lodestone.training.retrain import translations_by
from lodestone_eval.compare import bootstrap
from lodestone_eval.datasets.plain import split_by_hash
from research.fits.everyday import asked, everyday_names, precision
from research.fits.space_weights import ScoredQueries, fit_space_weights, fuse, sure_pictures, trust_of

BATCH = 16
DEFAULT = "ConSE + bridge, one rule"
LABELS = "ConSE (label text, top 50)"
_FITTED_HERE = "chosen on the 736 validation photos, with a bridge trained on the 6,624"
_DATA = (
    "Flickr8k, official training split (Hodosh et al., 2013): all 6,000 photos, five captions each; 2,833 photos of COCO "
    "(Lin et al., 2014) with 6,448 captions"
)
NOTICE = (
    "Flickr8k is for research use, and weights learnt from it carry that notice. COCO's captions are CC BY 4.0; its photos are "
    "works of Flickr users under several Creative Commons licences"
)
Results = dict[str, dict[str, list[np.ndarray]]]  # gallery -> part of the search -> (queries,) hits of each seed


class Collection(NamedTuple):
    """Pictures, and queries that each have one right answer among them.

    Attributes:
        outputs: Stored outputs of the pictures.
        texts: (queries, d) vectors of the texts.
        owner: (queries,) row of the right picture.
        words: The texts; () where nobody needs them.
    """

    outputs: BackboneOutputs
    texts: np.ndarray
    owner: np.ndarray
    words: Sequence[str] = ()


def read_table(path: Path, column: str) -> list[tuple[str, str]]:
    """Read the (file, text) rows of a table."""
    with path.open(encoding="utf8", newline="") as stream:
        rows = csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [(row["file"], row[column]) for row in rows]


def cached(cache: Path, key: str, make: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return arrays from the cache; make and store them first where they are missing."""
    path = cache / f"{key}.npz"
    if not path.exists():
        np.savez(path, allow_pickle=False, **make())
    with np.load(path) as stored:
        return dict(stored)


def embed(context: ModelContext, folder: Path, names: Sequence[str], backbone_name: str) -> dict[str, np.ndarray]:
    """Return the outputs of a backbone, keyed `backbone/output`."""
    columns: dict[str, list[np.ndarray]] = {}
    backbone = make_backbone(backbone_name, context)
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
    context: ModelContext,
    cache: Path,
    kind: str,
    *,
    rows: list[tuple[str, str]],
    folder: Path,
    names: Sequence[str],
    backbones: Sequence[str] = BACKBONES,
    text_encoder: str = TEXT_ENCODER,
) -> Collection:
    """Return outputs, text vectors and owners of one set."""
    encoder = make_text_encoder(text_encoder, context)
    stored: dict[str, np.ndarray] = {}
    for backbone in backbones:
        key = f"{kind}-{backbone}-{fingerprint(*names)}"
        stored |= cached(cache, key, partial(embed, context, folder, names, backbone))
    outputs = BackboneOutputs({OutputKey(*key.split("/")): values for key, values in stored.items()})
    texts = [text for _, text in rows]

    def encode() -> dict[str, np.ndarray]:
        encoder.warm_up()
        return {"vectors": encoder.encode(texts)}

    place = {name: i for i, name in enumerate(names)}
    vectors = cached(cache, f"{kind}-texts-{fingerprint(encoder.version, *texts)}", encode)["vectors"]
    return Collection(outputs, vectors, np.array([place[name] for name, _ in rows]), texts)


def part(collection: Collection, rows: np.ndarray) -> Collection:
    """Return some of the pictures and the texts that belong to them."""
    selected = np.isin(collection.owner, rows)
    position = np.full(collection.outputs.rows, -1)
    position[rows] = np.arange(len(rows))
    words = [collection.words[int(text)] for text in np.flatnonzero(selected)] if collection.words else ()
    return Collection(collection.outputs.take(rows), collection.texts[selected], position[collection.owner[selected]], words)


def together(collections: Sequence[Collection]) -> Collection:
    """Return the pictures and texts of several collections as one."""
    starts = np.cumsum([0] + [collection.outputs.rows for collection in collections])
    keys = collections[0].outputs
    return Collection(
        BackboneOutputs({key: np.concatenate([collection.outputs[key] for collection in collections]) for key in keys}),
        np.concatenate([collection.texts for collection in collections]),
        np.concatenate([collection.owner + start for collection, start in zip(collections, starts, strict=False)]),
        [text for collection in collections for text in collection.words],
    )


def read_by(inputs: BridgeInputs, collection: Collection) -> Collection:
    """Return the same pictures with only those outputs that a bridge reads."""
    return collection._replace(outputs=BackboneOutputs({key: collection.outputs[key] for key in inputs.required}))


def among(collection: Collection, others: BackboneOutputs) -> Collection:
    """Return the same queries over a gallery with further pictures, which are right for none of them."""
    outputs = BackboneOutputs({key: np.concatenate([rows, others[key]]) for key, rows in collection.outputs.items()})
    return Collection(outputs, collection.texts, collection.owner)


def unmentioned(collection: Collection, names: Sequence[str]) -> np.ndarray:
    """Return the rows of pictures whose captions use none of the names, in singular or plural."""
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, names))})(s|es)?\b", re.IGNORECASE)
    says = [pattern.search(text) is not None for text in collection.words]
    return np.setdiff1d(np.arange(collection.outputs.rows), collection.owner[says])


def score(labels: LabelSpace, weights: BridgeWeights, collection: Collection) -> ScoredQueries:
    """Score every text against every picture, in both spaces."""
    return ScoredQueries(
        labels=labels.project_texts(collection.texts) @ labels.project(collection.outputs).T,
        bridge=weights.texts(collection.texts) @ weights.pictures(collection.outputs).T,
        similarity=labels.label_similarity(collection.texts),
        familiarity=weights.familiarity(collection.texts),
        truth=collection.owner,
        bareness=labels.name_similarity(collection.texts),
    )


def made_names(collection: Collection, texts: np.ndarray) -> Collection:
    """Make name queries for unnamed pictures: classes that a picture shows for sure, in every template."""
    mean = np.mean([collection.outputs[OutputKey(b, "probabilities")].astype(np.float32) for b in BACKBONES], axis=0)
    classes, pictures = sure_pictures(mean)
    queries = np.concatenate([texts[template][classes] for template in range(len(TEMPLATES))])
    return Collection(collection.outputs, queries, np.tile(pictures, len(TEMPLATES)))


def rank_fusion(
    queries: ScoredQueries, weights: SpaceWeights, constant: float, top: int, *, weighted: bool = True
) -> np.ndarray:
    """Return the sum of (weighted) reciprocal ranks of the first `top` of each space."""
    trust = trust_of(queries, weights)[:, None]
    total = np.zeros(queries.labels.shape)
    for scores, weight in ((queries.labels, trust), (queries.bridge, 1 - trust)):
        ranks = (-scores).argsort(1).argsort(1) + 1
        total += (weight if weighted else 1.0) / (constant + ranks) * (ranks <= top)
    return total.astype(np.float32)


def distance_fusion(queries: ScoredQueries, weights: SpaceWeights, top: int) -> np.ndarray:
    """Return the weighted mean distance over the union of the first `top` of each space."""
    fused = fuse(queries, weights)
    listed = np.zeros(fused.shape, bool)
    for scores in (queries.labels, queries.bridge):
        listed |= (-scores).argsort(1).argsort(1) < top
    return np.where(listed, fused, -np.inf)


def hits_by_part(
    queries: ScoredQueries, weights: BridgeWeights, rule: SpaceWeights, collection: Collection
) -> dict[str, np.ndarray]:
    """Return part of the search -> (queries,) whether the right picture is among the first ten."""
    pictures = weights.picture_parts(weights.components(collection.outputs))
    texts = weights.text_parts(collection.texts)
    equal = replace(rule, floor=0.5, ceiling=0.5, named=0.0, strange=0.0, bare=0.5)
    scored = {
        LABELS: queries.labels,
        "ridge": texts[0] @ pictures[0].T,
        "two-tower": texts[1] @ pictures[1].T,
        "bridge (ridge + two-tower)": queries.bridge,
        "ConSE + bridge, equal": fuse(queries, equal),
        DEFAULT: fuse(queries, rule),
        "the same without a rule for bare names": fuse(queries, replace(rule, bare=0.0)),
        "the same with fixed scales": fuse(queries, rule, fixed_scales=True),
    }
    for top in (60, 200):
        scored[f"one rule, mean distance, top {top}"] = distance_fusion(queries, rule, top)
        scored[f"one rule, weighted reciprocal rank, top {top}"] = rank_fusion(queries, rule, 0, top)
        scored[f"one rule, weighted RRF 60, top {top}"] = rank_fusion(queries, rule, 60, top)
        scored[f"RRF 1, unweighted, top {top}"] = rank_fusion(queries, rule, 1, top, weighted=False)
        scored[f"RRF 60, unweighted, top {top}"] = rank_fusion(queries, rule, 60, top, weighted=False)
    return {name: first_ranks(values, queries.truth) <= 10 for name, values in scored.items()}


class Data(NamedTuple):
    """Everything that is trained, fitted and measured on, with the outputs of all backbones.

    Attributes:
        all: All captioned pictures.
        train: The first part of the split.
        validation: The second part.
        test: The third part.
        galleries: Name -> queries and pictures that figures are of.
        classes: (templates, classes, d) vectors of class names.
        labels: Label matching, warm.
        encoder: The text encoder, warm.
        translations: (n, languages, d) vectors that a text encoder of many languages is trained with; None for others.
    """

    all: Collection
    train: Collection
    validation: Collection
    test: Collection
    galleries: dict[str, Collection]
    classes: np.ndarray
    labels: LabelSpace
    encoder: TextEncoder
    translations: np.ndarray | None


def read_data(options: argparse.Namespace, report: Report, context: ModelContext, cache: Path) -> Data:
    """Embed what is not in the cache, and split it."""
    profiles = [find_profile(name) for name in options.profile]
    backbones = list(dict.fromkeys(name for profile in profiles for name in profile.backbones))
    text_encoder = profiles[0].text_encoder
    if any(profile.text_encoder != text_encoder for profile in profiles):
        raise SystemExit("profiles with different text encoders cannot be compared in one run")
    parts: list[list[Collection]] = []
    for folder in options.data:
        rows = read_table(folder / "captions.tsv", "caption")
        split = split_by_hash(name for name, _ in rows)
        report.text(
            f"{folder.name}: {len(split.train):,} + {len(split.validation):,} + {len(split.test):,} photos, {split.digests}"
        )
        files = split.train + split.validation + split.test
        captioned = load(
            context,
            cache,
            folder.name,
            rows=rows,
            folder=folder / "images",
            names=files,
            backbones=backbones,
            text_encoder=text_encoder,
        )
        ends = np.cumsum([0, len(split.train), len(split.validation), len(split.test)])
        parts.append([part(captioned, np.arange(start, end)) for start, end in pairwise(ends)])
    train, validation, test = (together(of_sets) for of_sets in zip(*parts, strict=True))
    first_set = together(parts[0])
    encoder = make_text_encoder(text_encoder, context)

    def encode_classes() -> dict[str, np.ndarray]:
        encoder.warm_up()
        return {"texts": class_texts(encoder)}

    classes = cached(cache, f"classes-{fingerprint(encoder.version, *imagenet_labels(), *TEMPLATES)}", encode_classes)["texts"]
    labels = LabelSpace(context, text_encoder=text_encoder)
    labels.warm_up()
    galleries = {f"captions of {folder.name}": sets[2] for folder, sets in zip(options.data, parts, strict=True)}
    if options.names:
        named = read_table(options.names[0], "name")
        asked = [(file, TEMPLATES[1].format(name)) for file, name in named]
        files_named = [file for file, _ in named]
        folder = options.names[1]
        names = load(
            context,
            cache,
            "names",
            rows=asked,
            folder=folder,
            names=files_named,
            backbones=backbones,
            text_encoder=text_encoder,
        )
        others = unmentioned(first_set, [name for _, name in named])[-options.distractors :]
        galleries[f"names among {names.outputs.rows:,}"] = names
        galleries[f"names among {names.outputs.rows + len(others):,}"] = among(names, first_set.outputs.take(others))
    encoder.warm_up()
    everything = together([train, validation, test])
    return Data(everything, train, validation, test, galleries, classes, labels, encoder, translations_by(encoder))


def _trained_on(
    taught: Collection, data: Data, *, classes: ClassPairs, seed: int, inputs: BridgeInputs, cache: Path
) -> tuple[BridgeWeights, TrainingReport]:
    phrases = short_texts(taught, data.encoder, cache)
    return train_bridge(*taught[:3], phrases=phrases, classes=classes, seed=seed, inputs=inputs, translations=data.translations)


def short_texts(taught: Collection, encoder: TextEncoder, cache: Path) -> PhrasePairs | None:
    """Return the noun phrases of a collection's captions with their vectors; None if there are none."""

    def encode() -> dict[str, np.ndarray]:
        phrases = noun_phrases(taught.words)
        pairs = phrase_pairs(phrases, encoder.encode(in_templates(phrases)), taught.owner)
        return (
            {}
            if pairs is None
            else {"texts": pairs.texts, "phrase": pairs.phrase, "owner": pairs.owner, "singular": pairs.singular}
        )

    stored = cached(cache, f"phrases-with-singulars-{fingerprint(encoder.version, *taught.words)}", encode)
    return PhrasePairs(**stored) if stored else None


def trained(data: Data, profile: Profile, *, seed: int, cache: Path) -> BridgeWeights:
    """Return a profile's bridge of the first part of the split; train it first where the cache does not have it."""
    path = cache / f"{profile.name}-{seed}.safetensors"
    if not path.exists():
        heads = classifiers()
        inputs = BridgeInputs(profile.backbones, tuple(head.backbone for head in heads), profile.text_encoder)
        taught = read_by(inputs, data.train)
        classes = class_pairs(taught.outputs, heads, data.classes, seed=seed)
        _trained_on(taught, data, classes=classes, seed=seed, inputs=inputs, cache=cache)[0].save_as(path)
    return BridgeWeights.load(path)


def measure(options: argparse.Namespace, report: Report) -> None:
    """Train, fit the weights between spaces, and measure every part of the search with several seeds."""
    cache = options.cache or Path(mkdtemp())
    cache.mkdir(parents=True, exist_ok=True)
    context = ModelContext(cache=ModelCache(cache / "models"), threads=2)
    data = read_data(options, report, context, cache)
    heads = classifiers()
    measured: dict[str, Results] = {}
    for profile in map(find_profile, options.profile):
        inputs = BridgeInputs(profile.backbones, tuple(head.backbone for head in heads), profile.text_encoder)
        rule = SpaceWeights()
        measured[profile.name] = {kind: {} for kind in data.galleries}
        for seed in range(options.seeds):
            weights = trained(data, profile, seed=seed, cache=cache)
            queries = score(data.labels, weights, data.validation)
            fitted = fit_space_weights(queries, score(data.labels, weights, made_names(data.validation, data.classes)))
            if seed == 0:  # one rule for all seeds: the first one's
                rule = fitted if options.refit else replace(rule, scales=fitted.scales)
            recall = (first_ranks(fuse(queries, rule), queries.truth) <= 10).mean()
            report.text(f"{profile.name}, seed {seed}: fitted {fitted}; validation, one rule: {recall:.3f}")
            for kind, gallery in data.galleries.items():
                hits = hits_by_part(score(data.labels, weights, gallery), weights, rule, gallery)
                for name, values in hits.items():
                    measured[profile.name][kind].setdefault(name, []).append(values)
        _report(profile.name, measured[profile.name], report)
        _report_everyday(profile, data, rule, cache, seeds=options.seeds, report=report)
    for name in options.profile[1:]:
        _compare(name, measured[name], options.profile[0], measured[options.profile[0]], report)
    if options.ship:
        _ship(options.ship, data, cache=cache, heads=heads, inputs=inputs, rule=rule, report=report)


def _ship(
    target: Path,
    data: Data,
    *,
    cache: Path,
    heads: Sequence[Classifier],
    inputs: BridgeInputs,
    rule: SpaceWeights,
    report: Report,
) -> None:
    taught = read_by(inputs, data.all)
    classes = class_pairs(taught.outputs, heads, data.classes)
    shipped, training = _trained_on(taught, data, classes=classes, seed=0, inputs=inputs, cache=cache)
    provenance = {
        "data": _DATA,
        "licence_notice": NOTICE,
        "pictures": training.pictures,
        "query_weights": _FITTED_HERE,
    }
    if data.translations is not None:
        provenance["translations"] = f"{len(data.translations)} sentences in five languages written for Lodestone; no caption"
    final = replace(shipped, query_weights=rule.to_header(), provenance=provenance)
    report.text(f"wrote {final.save_as(target)} {training}")


def _report(profile: str, results: Results, report: Report) -> None:
    report.text(f"{profile}: R@10, mean over seeds (least to most) [95 % over queries, first seed]:")
    rows = [["part", *results]]
    for name in next(iter(results.values())):
        cells = []
        for kind in results:
            recalls = [float(values.mean()) for values in results[kind][name]]
            interval = bootstrap(results[kind][name][0].astype(float))
            spread = f"({min(recalls):.3f} to {max(recalls):.3f}) [{interval.low:.3f}, {interval.high:.3f}]"
            cells.append(f"{np.mean(recalls):.3f} {spread}")
            if name == DEFAULT:
                report.record("R@10 of the default", recalls, case=f"{profile}, {kind}")
        rows.append([name, *cells])
    report.table(rows)
    for kind in results:
        report.text(f"{kind}: the default less label matching alone {_change(results[kind], DEFAULT, results[kind], LABELS)}")


def _report_everyday(profile: Profile, data: Data, rule: SpaceWeights, cache: Path, *, seeds: int, report: Report) -> None:
    names = everyday_names(data.test.words, data.test.owner, data.test.outputs.rows)
    texts = data.encoder.encode(asked(names))
    queries = Collection(data.test.outputs, texts, np.zeros(len(texts), np.intp))
    sets = np.tile([one.set_name for one in names], len(TEMPLATES))
    figures = []
    for seed in range(seeds):
        scored = score(data.labels, trained(data, profile, seed=seed, cache=cache), queries)
        figures.append([precision(scores, names) for scores in (scored.labels, scored.bridge, fuse(scored, rule))])
    rows = [["everyday names: mAP, R@1", *sorted(set(sets))]]
    for number, name in enumerate((LABELS, "bridge (ridge + two-tower)", DEFAULT)):
        cells = []
        for kind in sorted(set(sets)):
            of_seeds = [of_parts[number][sets == kind].mean(0) for of_parts in figures]
            cells.append(f"{np.mean(of_seeds, 0)[0]:.3f}, {np.mean(of_seeds, 0)[1]:.3f} ({(sets == kind).sum()} queries)")
            if name == DEFAULT:
                report.record("mAP of everyday names", [float(one[0]) for one in of_seeds], case=f"{profile.name}, {kind}")
        rows.append([name, *cells])
    report.table(rows)


def _compare(profile: str, results: Results, base_profile: str, base: Results, report: Report) -> None:
    for kind in results:
        for name in (DEFAULT, "bridge (ridge + two-tower)"):
            change = _change(results[kind], name, base[kind], name)
            report.text(f"{kind}, {name}: {profile} less {base_profile} {change}")


def _change(results: dict[str, list[np.ndarray]], name: str, base: dict[str, list[np.ndarray]], base_name: str) -> str:
    """Return the mean change with its interval over the same queries, each query's hits being averaged over the seeds."""
    difference = np.mean(results[name], axis=0) - np.mean(base[base_name], axis=0)
    change = bootstrap(difference)
    return f"{change.mean:+.4f} [{change.low:+.4f}, {change.high:+.4f}]"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--data", type=Path, nargs="+", required=True, metavar="DIR")
    parser.add_argument("--names", type=Path, nargs=2, metavar=("TSV", "DIR"))
    parser.add_argument("--distractors", type=int, default=4000)
    parser.add_argument("--profile", nargs="+", default=["embedded"])
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--refit", action="store_true", help="use the weights fitted here, not those that ship")
    parser.add_argument("--ship", type=Path)


BENCHMARK = Benchmark(
    name="quality",
    about=__doc__,
    figures=(Figure("R@10 of the default", "share"), Figure("mAP of everyday names", "share")),
    options=add_options,
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
