"""Precision and recall of the outlier filter on planted guides, and its duration.

    python -m benchmarks.query.outliers --data DIR [--part validation] [--trials 200] [--thresholds 0.9 0.935 1.0]

In a trial a caption is drawn as the query. The guides are the pictures with the nearest captions (cosine >= .5 for the last of
them); 1 to 3 of them are replaced by pictures of other topics (no caption above .2). The first caption's own picture is among
them. Guides are judged as in the engine: in the embedded profile's spaces with the query's own weights, beside a sample of the
collection. Thresholds are chosen on `--part validation`; `--part test` is for the published figure. Without `--data` the
benchmark measures speed alone.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.data.captioned import Captioned, load
from benchmarks.harness import Benchmark, Figure, Report
from benchmarks.harness.tables import spread
from lodestone.query.guides.outliers import THRESHOLD, judge_guides, local_outlier_factors, warm_up
from lodestone.retrieval.fusion import FUSIONS, RankedList
from lodestone_eval.compare import Estimate

ON_TOPIC: Final = 0.5  # least cosine of the last real guide's best caption with the query
OFF_TOPIC: Final = 0.2  # most cosine of a planted guide's best caption
SAMPLE: Final = 256  # pictures, as many as `Calibration` keeps of a collection
SETTINGS: Final = ((6, 1), (9, 2), (12, 2), (16, 3), (20, 3))  # guides, planted at most
Judge = Callable[[Mapping[str, NDArray[np.float32]], Mapping[str, float]], NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Trial:
    """One query and its guides.

    Attributes:
        rows: Rows of the collection that are the guides.
        planted: (guides,) which of them were planted.
        caption: Row of the query's caption.
    """

    rows: NDArray[np.intp]
    planted: NDArray[np.bool_]
    caption: int


def draw(collection: Captioned, guides: int, most: int, seed: int) -> Trial:
    """Draw one trial from a seed.

    Raises:
        SystemExit: no caption has enough pictures of its topic.
    """
    rng = np.random.default_rng(seed)
    for _ in range(100_000):
        caption = int(rng.integers(len(collection.words)))
        likeness = collection.likeness(caption)
        planted = int(rng.integers(1, most + 1))
        real = np.argsort(-likeness, kind="stable")[: guides - planted]
        others = np.flatnonzero(likeness < OFF_TOPIC)
        if likeness[real[-1]] >= ON_TOPIC and len(others) >= planted:
            rows = np.concatenate([real, rng.choice(others, planted, replace=False)])
            order = rng.permutation(guides)
            return Trial(rows[order], (np.arange(guides) >= len(real))[order], caption)
    raise SystemExit(f"no caption has {guides} pictures of its topic: give a larger part")


def judge_trials(collection: Captioned, trials: Sequence[Trial], judge: Judge) -> tuple[list[NDArray[np.float64]], list[float]]:
    """Return the scores of each trial and the seconds that they took."""
    scores, seconds = [], []
    for trial in trials:
        vectors = {space: rows[trial.rows] for space, rows in collection.images.items()}
        weights = {space: float(values[trial.caption]) for space, values in collection.weights.items()}
        started = time.perf_counter()
        scores.append(judge(vectors, weights))
        seconds.append(time.perf_counter() - started)
    return scores, seconds


def precision_recall(trials: Sequence[Trial], rejected: Sequence[NDArray[np.bool_]]) -> tuple[Estimate, Estimate]:
    """Return precision and recall over all guides of all trials, with intervals by bootstrap over trials."""
    counts = np.array([[(r & t.planted).sum(), r.sum(), t.planted.sum()] for r, t in zip(rejected, trials, strict=True)], float)
    drawn = np.random.default_rng(0).integers(len(counts), size=(2000, len(counts)))
    hits, given, right = counts.sum(0)
    sums = counts[drawn].sum(1)
    return _estimate(hits / max(given, 1), sums[:, 0] / np.maximum(sums[:, 1], 1)), _estimate(
        hits / right, sums[:, 0] / sums[:, 2]
    )


def _estimate(value: float, samples: NDArray[np.float64]) -> Estimate:
    low, high = np.quantile(samples, [0.025, 0.975])
    return Estimate(float(value), float(low), float(high))


def _precision_at(trials: Sequence[Trial], scores: Sequence[NDArray[np.float64]], recall: float) -> float:
    """Return the precision at the threshold that just reaches this recall, for scores without a threshold of their own."""
    planted, values = np.concatenate([trial.planted for trial in trials]), np.concatenate(scores)
    right = planted[np.argsort(-values, kind="stable")].cumsum()
    place = int(np.searchsorted(right, recall * planted.sum()))
    return float(right[place] / (place + 1))


def quality(collection: Captioned, trials: int, thresholds: Sequence[float], report: Report) -> None:
    """Measure precision and recall of each rule, and beside it what UMAP and LOF give on the guides alone."""
    rows: list[Sequence[str]] = [("rule", "guides", "threshold", "precision", "recall", "precision at recall .8", "ms")]
    sample = np.random.default_rng(0).permutation(len(collection.names))[:SAMPLE]
    background = {space: rows[sample] for space, rows in collection.images.items()}
    for guides, most in SETTINGS:
        drawn = [draw(collection, guides, most, seed) for seed in range(trials)]
        for around in (background, None):
            names: set[str] = set()

            def judge(
                vectors: Mapping[str, NDArray[np.float32]],
                weights: Mapping[str, float],
                around: Mapping[str, NDArray[np.float32]] | None = around,
                names: set[str] = names,
            ) -> NDArray[np.float64]:
                report = judge_guides(vectors, weights, background=around)
                names.add(report.rule)
                return np.where(report.rejected, report.scores, np.minimum(report.scores, 1.0))

            scores, seconds = judge_trials(collection, drawn, judge)
            for threshold in thresholds:
                precision, recall = precision_recall(drawn, [values * THRESHOLD > threshold for values in scores])
                rule = f"{'/'.join(sorted(names))}{'' if around else ', no background'}"
                case = f"{rule}, {guides} guides, threshold {threshold:g}"
                report.record("precision", precision.mean, case=case)
                report.record("recall", recall.mean, case=case)
                rows.append(
                    (rule, str(guides), f"{threshold:g}", str(precision), str(recall),
                     f"{_precision_at(drawn, scores, 0.8):.2f}", spread([value * 1000 for value in seconds]))
                )  # fmt: skip
        if guides >= 15:
            scores, seconds = judge_trials(collection, drawn, lambda vectors, _: local_outlier_factors(
                vectors["bridge"], np.empty((0, vectors["bridge"].shape[1]), np.float32)))  # fmt: skip
            at = f"{_precision_at(drawn, scores, 0.8):.2f}"
            rows.append(("UMAP + LOF of the guides alone", str(guides), "-", "-", "-", at, spread([s * 1000 for s in seconds])))
    report.table(rows)
    report.text(f"{len(collection.names)} pictures, {trials} trials a row, 1 to 3 planted; milliseconds for 2 spaces.")


def speed(repeats: int, report: Report) -> None:
    """Measure judging 9, 14, 16 and 32 guides in 6 spaces of 512, and fusing 9 guides x 6 embedders x 60 results."""
    rng = np.random.default_rng(0)
    spaces = [f"space-{number}" for number in range(6)]
    background = {space: rng.standard_normal((SAMPLE, 512)).astype(np.float32) for space in spaces}
    for guides in (9, 14, 16, 32):
        vectors = {space: rng.standard_normal((guides, 512)).astype(np.float32) + 1 for space in spaces}
        taken = _times(partial(judge_guides, vectors, dict.fromkeys(spaces, 1.0), background=background), repeats)
        report.record("outlier filter", taken, case=f"{guides} guides x 6 spaces")
    ids = [f"{number:032x}" for number in rng.integers(2**62, size=600)]
    lists = [
        RankedList(f"prior/{guide}", space, 1 / 6, tuple(ids[row] for row in rng.permutation(600)[:60]),
                   np.sort(rng.random(60).astype(np.float32))[::-1])
        for guide in range(9)
        for space in spaces
    ]  # fmt: skip
    for name, fusion in FUSIONS.items():
        report.record("fusion of 9 guides x 6 embedders x 60", _times(partial(fusion, lists), repeats * 5), case=name)


def _times(work: Callable[[], object], repeats: int) -> list[float]:
    taken = []
    for _ in range(repeats + 3):
        started = time.perf_counter()
        work()
        taken.append((time.perf_counter() - started) * 1000)
    return taken[3:]


def measure(options: argparse.Namespace, report: Report) -> None:
    """Measure quality where a collection is given, then speed."""
    warm_up()
    if options.data:
        quality(load(options.data, options.part), options.trials, options.thresholds, report)
    speed(options.repeats, report)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--data", type=Path, help="folder with captions.tsv and images/; without it, only speed")
    parser.add_argument("--part", default="validation", choices=["train", "validation", "test"])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--thresholds", type=float, nargs="+", default=[THRESHOLD])
    parser.add_argument("--repeats", type=int, default=30)


BENCHMARK = Benchmark(
    name="outliers",
    about=__doc__,
    figures=(
        Figure("precision", "share"),
        Figure("recall", "share"),
        Figure("outlier filter", "ms"),
        Figure("fusion of 9 guides x 6 embedders x 60", "ms"),
    ),
    options=add_options,
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
