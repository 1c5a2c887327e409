"""Guides that stopping early saves and the search quality that it costs, paired over a captioned collection.

    python -m benchmarks.query.stopping --data DIR [--part validation] [--guides 10] [--round 2] [--agreements 0.9 0.95 0.98]

All pictures have all captions but their last as exemplars; every last caption is a query for its picture. Guides are drawn as
`exemplar` draws them, nearest captions first, at most `--guides` and none below its least similarity; rankings are fused as
the engine does by default (mean distance, its guide weight and scales). "Saved" is the share of all guides that was not drawn.
`shuffled` draws the same guides in random order, which is harder than any generator, whose guides are all alike. The table
puts the sequential rule beside the fixed number of guides that saves as much. Parameters are chosen on `--part validation`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.data.captioned import Captioned, load
from benchmarks.harness import Benchmark, Figure, Report
from lodestone.query.guides.search import FusionSettings
from lodestone.query.guides.stopping import AGREEMENT, LEAST, PATIENCE, StableTopK
from lodestone_eval.compare import Paired, bootstrap, compare_paired

LEAST_SIMILARITY: Final = 0.5  # least cosine of a guide's caption with the query
SAMPLE: Final = 256  # pictures, as many as `Calibration` keeps
KEPT: Final = 60


@dataclass(frozen=True, slots=True)
class Run:
    """One query after 0, 1, 2, ... guides.

    Attributes:
        rankings: The first results after each number of guides.
        ranks: The rank of the right picture after each number of guides.
    """

    rankings: list[tuple[str, ...]]
    ranks: NDArray[np.int64]

    @property
    def guides(self) -> int:
        """Return the number of guides drawn in all."""
        return len(self.rankings) - 1


def runs(collection: Captioned, most: int, *, share: float, shuffled: bool, seed: int = 0) -> list[Run]:
    """Return one run for each picture; the exemplars are the captions of a `share` of the pictures."""
    rng = np.random.default_rng(seed)
    count = len(collection.names)
    captioned = np.zeros(count, bool)
    captioned[rng.permutation(count)[: max(1, round(share * count))]] = True
    lasts = np.array([collection.captions_of(picture)[-1] for picture in range(count)])
    usable = np.repeat(captioned, [len(collection.captions_of(picture)) for picture in range(count)])
    usable[lasts] = False
    return [_run(collection, picture, usable, most, rng if shuffled else None) for picture in range(count)]


def _run(collection: Captioned, picture: int, usable: NDArray[np.bool_], most: int, rng: np.random.Generator | None) -> Run:
    query = collection.captions_of(picture)[-1]
    likeness = np.maximum.reduceat(np.where(usable, collection.words @ collection.words[query], -1.0), collection.starts)
    guides = np.argsort(-likeness, kind="stable")[:most]
    guides = guides[likeness[guides] > LEAST_SIMILARITY]
    if rng is not None:
        guides = rng.permutation(guides)
    weights = (likeness[guides] - LEAST_SIMILARITY) / (1 - LEAST_SIMILARITY)
    text: NDArray[np.float64] = np.zeros(len(collection.names))
    seen: NDArray[np.float64] = np.zeros((len(guides), len(collection.names)))
    for space, images in collection.images.items():
        weight = collection.weights[space][query]
        sample = images[np.random.default_rng(0).permutation(len(images))[:SAMPLE]]
        text += weight * _scaled(images, collection.texts[space][query], sample)
        for row, guide in enumerate(guides):
            seen[row] += weight * _scaled(images, images[guide], sample)
    rankings, ranks = [], []
    for drawn in range(len(guides) + 1):
        share = FusionSettings().guide_weight / max(1.0, float(weights[:drawn].sum()))
        scores = text + share * (weights[:drawn] @ seen[:drawn])
        order = np.argsort(-scores, kind="stable")
        rankings.append(tuple(collection.names[row] for row in order[:KEPT]))
        ranks.append(int(np.flatnonzero(order == picture)[0]) + 1)
    return Run(rankings, np.array(ranks))


def _scaled(images: NDArray[np.float32], vector: NDArray[np.float32], sample: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.asarray((images @ vector) / max(float((sample @ vector).std()), 1e-6), np.float64)


def stops(done: Sequence[Run], size: int, agreement: float) -> NDArray[np.int64]:
    """Return (queries,) guides drawn when the rule stopped, in rounds of `size`."""
    drawn = []
    for run in done:
        stable = StableTopK(agreement=agreement, bound=run.guides)
        guides = 0
        while not stable.update(run.rankings[guides], guides=guides) and guides < run.guides:
            guides = min(guides + size, run.guides)
        drawn.append(guides)
    return np.array(drawn)


def compare(done: Sequence[Run], drawn: NDArray[np.int64]) -> tuple[str, Paired, Paired]:
    """Return the share of guides saved with its interval, and MAP and R@10 against drawing all guides, paired."""
    everything = np.array([run.guides for run in done])
    rows = np.random.default_rng(0).integers(len(done), size=(2000, len(done)))
    low, high = np.quantile(1 - drawn[rows].sum(1) / np.maximum(everything[rows].sum(1), 1), [0.025, 0.975])
    ranks = np.array([[run.ranks[-1], run.ranks[at]] for run, at in zip(done, drawn, strict=True)])
    names = [str(row) for row in range(len(done))]
    saved = f"{1 - drawn.sum() / max(everything.sum(), 1):.1%} [{low:.1%}, {high:.1%}]"
    precision, recall = 1 / ranks, (ranks <= 10).astype(float)  # one right picture a query: its reciprocal rank is its AP
    return saved, compare_paired(precision[:, 0], precision[:, 1], names), compare_paired(recall[:, 0], recall[:, 1], names)


def measure(options: argparse.Namespace, report: Report) -> None:
    """Draw all guides of every query, stop early by each rule, and compare."""
    collection = load(options.data, options.part)
    rows: list[Sequence[str]] = [
        (
            "order",
            "rule",
            "guides",
            "saved",
            "MAP all",
            "MAP",
            "difference",
            "p boot/Wilcoxon",
            "R@10 all",
            "R@10",
            "difference",
        )
    ]
    for shuffled in (False, True):
        done = runs(collection, options.guides, share=options.share, shuffled=shuffled)
        everything = np.array([run.guides for run in done])
        order = "shuffled" if shuffled else "as drawn"
        text = bootstrap(1 / np.array([run.ranks[0] for run in done]))
        rows.append((order, "text pass", "0", "100%", "", str(text), *[""] * 5))
        for agreement in options.agreements:
            drawn = stops(done, options.round, agreement)
            rows.append(_row(order, f"stable {agreement:g}", done, drawn))
            case = f"{order}, agreement {agreement:g}"
            _, precision, _ = compare(done, drawn)
            report.record("guides saved", 1 - drawn.sum() / max(everything.sum(), 1), case=case)
            report.record("MAP lost", -precision.difference.mean, case=case)
            fixed = min(range(1, options.guides + 1), key=lambda n: abs(int(np.minimum(everything, n).sum() - drawn.sum())))
            rows.append(_row(order, f"always {fixed}", done, np.minimum(everything, fixed)))
    report.table(rows)
    report.text(
        f"{len(collection.names)} queries, {options.part}; rounds of {options.round}, patience {PATIENCE}, least {LEAST}."
    )


def _row(order: str, rule: str, done: Sequence[Run], drawn: NDArray[np.int64]) -> tuple[str, ...]:
    saved, precision, recall = compare(done, drawn)
    return (
        order, rule, f"{drawn.mean():.2f} of {np.mean([run.guides for run in done]):.2f}", saved,
        f"{precision.before:.3f}", f"{precision.after:.3f}", f"{precision.difference}",
        f"{precision.p_bootstrap:.2f} / {precision.p_wilcoxon:.2f}",
        f"{recall.before:.3f}", f"{recall.after:.3f}", f"{recall.difference}",
    )  # fmt: skip


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--data", type=Path, required=True, help="folder with captions.tsv and images/")
    parser.add_argument("--part", default="validation", choices=["train", "validation", "test"])
    parser.add_argument("--guides", type=int, default=10)
    parser.add_argument("--round", type=int, default=2, help="guides a round; as the engine draws them")
    parser.add_argument("--share", type=float, default=1.0, help="pictures with captions")
    parser.add_argument("--agreements", type=float, nargs="+", default=[AGREEMENT])


BENCHMARK = Benchmark(
    name="stopping",
    about=__doc__,
    figures=(
        Figure("guides saved", "share", peer="drawing all guides"),
        Figure("MAP lost", "MAP", peer="drawing all guides"),
    ),
    options=add_options,
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
