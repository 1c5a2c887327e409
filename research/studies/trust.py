"""Gain of trust learnt from feedback: a simulated user over 300 queries of two kinds, with and without it.

    python -m research.studies.trust --data DIR --out FILE.png [--part validation] [--seeds 10] [--cache DIR] [--bridge FILE]

DIR holds flickr8k-train (captions.tsv, images) and object-names (names.tsv, images). The pictures of one part of the first and
all of the second are one collection; 150 captions and 150 "a photo of a ..." are asked in random order, each with one right
picture. The user looks at the first 20 results and calls the right one relevant and the others irrelevant. Spaces, weights,
fusion and what is recorded are the engine's; the bridge is trained on the training part (or read from FILE).

For each set of spaces the table gives MAP without trust, with learning, and with the best fixed trust for each kind, chosen
with hindsight (oracle), and paired differences with 95 % bootstrap intervals over pictures.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
from benchmarks.harness import Benchmark, Figure, Report
from benchmarks.harness.tables import table

from lodestone.backbones.base import BackboneOutputs
from lodestone.catalog.catalog import Catalog
from lodestone.catalog.use_records import QueryRecord
from lodestone.config.settings import ModelSettings, TrustSettings
from lodestone.models.cache import ModelCache
from lodestone.models.context import ModelContext
from lodestone.query.weighting.choice import apply_trust
from lodestone.query.weighting.fitted import SpaceWeights
from lodestone.query_log.trace import Trace
from lodestone.retrieval.fusion import FusedList, RankedList, mean_distance
from lodestone.retrieval.metrics import first_ranks
from lodestone.retrieval.rescoring import ALL_GUIDES
from lodestone.spaces.bridge_arrays import BACKBONES
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone.spaces.labels import LabelSpace
from lodestone.training.bridge import train_bridge
from lodestone.training.classes import TEMPLATES
from lodestone.trust.service import TrustService
from lodestone_eval.compare import compare_paired, estimate
from lodestone_eval.datasets.plain import split_by_hash
from lodestone_schemas.api import FeedbackRequest
from research.fits.quality import Collection, load, part, read_table

QUERIES: Final = 300
SHOWN: Final = 20
DEPTH: Final = 100
WINDOW: Final = 60
UNDONE: Final = 25
GRID: Final = (0.1, 0.3, 1.0, 3.0)
CAPTION, NAME = 0, 1


@dataclass(frozen=True, slots=True)
class World:
    """All queries against one collection.

    Attributes:
        scores: Space -> (queries, pictures) inner products.
        scales: Space -> (queries,) standard deviation of the inner products.
        texts: (queries, d) vectors of the words.
        truth: (queries,) row of the right picture.
        kind: (queries,) CAPTION or NAME.
        fitted: (queries, 2) weights of bridge and labels by the shipped rule.
    """

    scores: Mapping[str, np.ndarray]
    scales: Mapping[str, np.ndarray]
    texts: np.ndarray
    truth: np.ndarray
    kind: np.ndarray
    fitted: np.ndarray


@dataclass(frozen=True, slots=True)
class Setting:
    """The spaces that are searched, and their weights before trust."""

    title: str
    spaces: tuple[str, ...]
    weights: Callable[[World, int], dict[str, float]]


def equal(*spaces: str) -> Callable[[World, int], dict[str, float]]:
    """Return a rule that gives the same weight to every space."""
    return lambda _world, _query: dict.fromkeys(spaces, 1.0 / len(spaces))


SINGLE = ("labels-lite0", "labels-lite2", "ridge", "towers")
PAIR = ("bridge", "labels")
SETTINGS = (
    Setting("four single embedders, equal weights", SINGLE, equal(*SINGLE)),
    Setting("bridge and labels, equal weights", PAIR, equal(*PAIR)),
    Setting(
        "bridge and labels, fitted weights (profile embedded)",
        PAIR,
        lambda world, query: dict(zip(PAIR, world.fitted[query].tolist(), strict=True)),
    ),
)


def make_world(data: Path, cache: Path, *, which: str, bridge: Path | None) -> World:
    """Embed (or read from the cache), train the bridge, and score all queries against all pictures."""
    context = ModelContext(cache=ModelCache(ModelSettings().cache), threads=2)
    rows = read_table(data / "flickr8k-train" / "captions.tsv", "caption")
    split = split_by_hash(name for name, _ in rows)
    files = split.train + split.validation + split.test
    collection = load(context, cache, "captions", rows=rows, folder=data / "flickr8k-train" / "images", names=files)
    chosen = set(getattr(split, which))
    photos = part(collection, np.array([row for row, name in enumerate(files) if name in chosen]))
    named = [(file, TEMPLATES[1].format(name)) for file, name in read_table(data / "object-names" / "names.tsv", "name")]
    folder = data / "object-names" / "images"
    objects = load(context, cache, "names", rows=named, folder=folder, names=[file for file, _ in named])
    if bridge is None:
        bridge = cache / "trained-on-train.safetensors"
        if not bridge.exists():
            train = part(collection, np.arange(len(split.train)))
            train_bridge(train.outputs, train.texts, train.owner)[0].save_as(bridge)
    return _scored(context, photos, objects, BridgeWeights.load(bridge))


def _scored(context: ModelContext, photos: Collection, objects: Collection, bridge: BridgeWeights) -> World:
    outputs = BackboneOutputs({key: np.concatenate([photos.outputs[key], objects.outputs[key]]) for key in photos.outputs})
    texts = np.concatenate([photos.texts, objects.texts])
    pictures, words = bridge.picture_parts(bridge.components(outputs)), bridge.text_parts(texts)
    scores = {
        "ridge": words[0] @ pictures[0].T,
        "towers": words[1] @ pictures[1].T,
        "bridge": bridge.texts(texts) @ bridge.pictures(outputs).T,
    }
    for name, backbones in {"labels-lite0": BACKBONES[:1], "labels-lite2": BACKBONES[1:], "labels": BACKBONES}.items():
        labels = LabelSpace(context, backbones=backbones)
        labels.warm_up()
        scores[name] = labels.project_texts(texts) @ labels.project(outputs).T
    rule = SpaceWeights.from_header(BridgeWeights.shipped().query_weights)
    signs = zip(labels.label_similarity(texts), bridge.familiarity(texts), scores["labels"].max(1), strict=True)
    trust = np.array([rule.label_trust(float(near), float(known), float(best)) for near, known, best in signs])
    return World(
        scores={space: values.astype(np.float32) for space, values in scores.items()},
        scales={space: values.std(1) for space, values in scores.items()},
        texts=texts,
        truth=np.concatenate([photos.owner, objects.owner + photos.outputs.rows]),
        kind=np.repeat([CAPTION, NAME], [len(photos.texts), len(objects.texts)]),
        fitted=np.stack([1 - trust, trust], 1),
    )


def stream(world: World, seed: int) -> np.ndarray:
    """Return (QUERIES,) queries in random order: as many of either kind, each about another picture."""
    rng = np.random.default_rng(seed)
    chosen = []
    for kind in (CAPTION, NAME):
        asked = rng.permutation(np.flatnonzero(world.kind == kind))
        _, first = np.unique(world.truth[asked], return_index=True)
        chosen.append(asked[np.sort(first)][: QUERIES // 2])
    return rng.permutation(np.concatenate(chosen))


def answer(world: World, query: int, weights: Mapping[str, float]) -> tuple[tuple[RankedList, ...], FusedList]:
    """Return the lists that the engine fuses, over the candidates of all spaces, and its answer."""
    tops = [np.argpartition(-world.scores[space][query], DEPTH)[:DEPTH] for space in weights]
    candidates = np.unique(np.concatenate(tops))
    lists = []
    for space, weight in weights.items():
        scores = world.scores[space][query][candidates] / np.float32(world.scales[space][query])
        order = np.argsort(-scores, kind="stable")
        lists.append(RankedList(ALL_GUIDES, space, weight, tuple(f"{row:05d}" for row in candidates[order]), scores[order]))
    return tuple(lists), mean_distance(lists)


def average_precision(world: World, query: int, ranking: FusedList) -> float:
    """Return 1 / rank of the one right picture; 0 if it is not among the candidates."""
    right = f"{world.truth[query]:05d}"
    return 1.0 / (ranking.ids.index(right) + 1) if right in ranking.ids else 0.0


def uniform(world: World, setting: Setting, asked: np.ndarray) -> np.ndarray:
    """Return (queries,) average precision without trust."""
    answers = ((query, answer(world, query, setting.weights(world, query))[1]) for query in asked.tolist())
    return np.array([average_precision(world, query, ranking) for query, ranking in answers])


def oracle(world: World, setting: Setting, asked: np.ndarray) -> np.ndarray:
    """Return (queries,) average precision with the best fixed trust for each kind, chosen on a grid with hindsight."""
    best = np.zeros(len(asked))
    options = {tuple(np.round(np.array(trust) / max(trust), 6)) for trust in product(GRID, repeat=len(setting.spaces))}
    for kind in (CAPTION, NAME):
        places = np.flatnonzero(world.kind[asked] == kind)
        queries = asked[places]
        before = np.array([list(setting.weights(world, query).values()) for query in queries.tolist()])
        scaled = np.stack([world.scores[s][queries] / world.scales[s][queries][:, None] for s in setting.spaces], 1)
        tried = []
        for trust in sorted(options):
            fused = np.einsum("qs,qsp->qp", before * np.array(trust), scaled)
            tried.append(1.0 / first_ranks(fused.astype(np.float32), world.truth[queries]))
        best[places] = max(tried, key=lambda values: float(values.mean()))
    return best


def learning(world: World, setting: Setting, asked: np.ndarray, book: TrustService, catalog: Catalog) -> Iterator[float]:
    """Yield the average precision of each query, with the trust learnt from the feedback on all earlier ones."""
    for query in asked.tolist():
        assigned = book.assign(world.texts[query], encoder="minilm", topic=None, spaces=setting.spaces)
        weights = apply_trust(setting.weights(world, query), assigned.weights)
        lists, ranking = answer(world, query, weights)
        yield average_precision(world, query, ranking)
        hits = ranking.ids[:SHOWN]
        trace = Trace(
            query_id=f"q{query}",
            created_at=datetime.now(UTC),
            kind="words",
            text=f"query {query}",
            request={},
            plan={},
            fusion="mean_distance",
            depths=(DEPTH,),
            space_weights=weights,
            ranking=ranking,
            text_vectors={"minilm": world.texts[query]},
            lists=lists,
            completed=lists,
            hits=hits,
        )
        record = QueryRecord(trace.query_id, trace.created_at, trace.kind, trace.text, assigned.topic, {}, trace.to_bytes())
        catalog.add_query(record, keep=1_000)
        right = f"{world.truth[query]:05d}"
        book.learn(
            FeedbackRequest(
                query_id=trace.query_id,
                relevant=[hit for hit in hits if hit == right],
                irrelevant=[hit for hit in hits if hit != right],
            )
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """(seeds, QUERIES) average precision of each arm, in one setting."""

    setting: Setting
    asked: np.ndarray
    uniform: np.ndarray
    learnt: np.ndarray
    oracle: np.ndarray
    topics: list[int]


def run(world: World, setting: Setting, *, seeds: int, eta: float) -> Outcome:
    """Run all arms over the same streams; undoing is checked in the first."""
    asked = np.stack([stream(world, seed) for seed in range(seeds)])
    learnt, topics = [], []
    for seed, queries in enumerate(asked):
        with tempfile.TemporaryDirectory() as folder, Catalog.open(Path(folder) / "catalog.sqlite") as catalog:
            book = TrustService(catalog, TrustSettings(eta=eta))
            arm = learning(world, setting, queries, book, catalog)
            precisions = [next(arm) for _ in range(QUERIES - UNDONE + 1)]  # (the last one's feedback is not given yet)
            before = book.export()
            precisions += list(arm)
            topics.append(len(book.show().topics))
            if seed == 0:
                _check_undo(book, before)
        learnt.append(precisions)
    plain = np.stack([uniform(world, setting, queries) for queries in asked])
    best = np.stack([oracle(world, setting, queries) for queries in asked])
    return Outcome(setting, asked, plain, np.array(learnt), best, topics)


def _check_undo(book: TrustService, before: Mapping[str, Any]) -> None:
    if book.replay() != book.show():
        raise AssertionError("the events do not add up to the present weights")
    for event in book.events(limit=UNDONE):
        book.undo(event.event_id)
    if book.export() != before:
        raise AssertionError("undoing did not restore the former weights")


def figures(world: World, outcomes: Sequence[Outcome], report: Report) -> str:
    """Record the figures; return them as a Markdown table."""
    rows = [("spaces", "queries", "MAP uniform", "MAP learnt", "learnt - uniform", "p (Wilcoxon)", "oracle")]
    for outcome in outcomes:
        kind = world.kind[outcome.asked]
        late = np.broadcast_to(np.arange(QUERIES) >= QUERIES - 100, kind.shape)
        for name, mask in {
            "all": np.ones_like(late),
            "last 100": late,
            "captions": kind == CAPTION,
            "names": kind == NAME,
        }.items():
            groups = [str(picture) for picture in world.truth[outcome.asked[mask]]]
            paired = compare_paired(outcome.uniform[mask], outcome.learnt[mask], groups)
            difference = paired.difference
            report.record("MAP gained by learnt trust", difference.mean, case=f"{outcome.setting.title}, {name}")
            rows.append(
                (
                    outcome.setting.title if name == "all" else "",
                    name,
                    str(estimate(outcome.uniform[mask], groups)),
                    str(estimate(outcome.learnt[mask], groups)),
                    f"{difference.mean:+.4f} [{difference.low:+.4f}, {difference.high:+.4f}]",
                    f"{paired.p_wilcoxon:.1g}",
                    f"{outcome.oracle[mask].mean():.3f}",
                )
            )
    return table(rows)


def plot(outcomes: Sequence[Outcome], path: Path, *, title: str) -> None:
    """Plot MAP over the last `WINDOW` queries of all streams, with 95 % intervals of the difference to no trust."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, len(outcomes), figsize=(5.2 * len(outcomes), 7), sharex=True, squeeze=False)
    for (top, bottom), outcome in zip(axes.T, outcomes, strict=True):
        for values, label, colour in (
            (outcome.uniform, "no trust", "tab:grey"),
            (outcome.learnt, "learnt trust", "tab:blue"),
            (outcome.oracle, "best fixed trust a kind (hindsight)", "tab:green"),
        ):
            top.plot(*_rolling(values), label=label, color=colour)
        top.set_title(outcome.setting.title, fontsize=10)
        top.set_ylabel(f"MAP of the last {WINDOW} queries")
        top.legend(fontsize=8)
        gains = outcome.learnt - outcome.uniform
        place, mean = _rolling(gains)
        rng = np.random.default_rng(0)
        drawn = np.stack([_rolling(gains[rng.integers(0, len(gains), len(gains))])[1] for _ in range(1_000)])
        low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
        bottom.fill_between(place, low, high, alpha=0.25, color="tab:blue", linewidth=0)
        bottom.plot(place, mean, color="tab:blue")
        bottom.axhline(0, color="black", linewidth=0.8)
        bottom.set_ylabel("gain of learnt trust (95 % over streams)")
        bottom.set_xlabel("queries with feedback so far")
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _rolling(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    means = np.convolve(values.mean(0), np.ones(WINDOW) / WINDOW, mode="valid")
    return np.arange(WINDOW, values.shape[1] + 1), means


def measure(options: argparse.Namespace, report: Report) -> None:
    """Embed, ask, learn, and plot."""
    cache = options.cache or Path(tempfile.mkdtemp())
    cache.mkdir(parents=True, exist_ok=True)
    world = make_world(options.data, cache, which=options.part, bridge=options.bridge)
    outcomes = [run(world, setting, seeds=options.seeds, eta=options.eta) for setting in SETTINGS]
    report.text(figures(world, outcomes, report))
    title = f"{QUERIES} queries, {options.seeds} streams, {options.part} photos and named objects, eta {options.eta:g}"
    plot(outcomes, options.out, title=title)
    topics = [count for outcome in outcomes for count in outcome.topics]
    pictures = len(next(iter(world.scores.values()))[0])
    report.text(f"{title}; {pictures} pictures; {min(topics)} to {max(topics)} topics found.")
    report.text(f"Undoing the last {UNDONE} feedbacks restored the former weights exactly; replay equals the state.")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="the plot, a PNG")
    parser.add_argument("--part", choices=("validation", "test"), default="validation")
    parser.add_argument("--seeds", type=int, default=10, help="streams of queries")
    parser.add_argument("--eta", type=float, default=TrustSettings().eta)
    parser.add_argument("--cache", type=Path, help="keeps vectors and the trained bridge between runs")
    parser.add_argument("--bridge", type=Path, help="a bridge trained on the training part")


BENCHMARK = Benchmark(
    name="trust",
    about=__doc__,
    figures=(Figure("MAP gained by learnt trust", "MAP", peer="the same spaces without trust"),),
    options=add_options,
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
