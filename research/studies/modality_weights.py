"""Learnt weights of modalities against equal ones, single modalities and a grid search, on constructed composed queries.

    python -m research.studies.modality_weights --data DIR [--cache DIR] [--part validation] [--queries 1500] [--seeds 3]
        [--speed]

The tasks are those of research/studies/composed_tasks.py. Weights are learnt from queries about photos of the training part
(the learner holds a fifth of them out), the grid search takes the best weighting of the same queries, and figures are about
photos of another part, with 95 % bootstrap intervals over its photos. Three further tables show what learning depends on, the
rules of the final ranking under the same weights, and what early abandoning saves. `--speed` also learns from 10,000 made
queries among 100,000 made objects.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

import numpy as np
from benchmarks.harness import Benchmark, Figure, Report

from lodestone.composed.abandon import AbandoningScorer
from lodestone.composed.combining import RULES, Null, combine_values
from lodestone.composed.joint import JointPart
from lodestone.query.composing.ranking import NULL
from lodestone.query.composing.stage import SHARE
from lodestone.retrieval.calibration import SAMPLE
from lodestone.training.joint_pairs import JointPairs, ObjectVectors, PartVectors
from lodestone.training.modality_weights import LearningOptions, WeightsReport, learn_weights, search_grid
from lodestone_eval.compare import compare_paired, estimate
from research.studies.composed_tasks import TASKS, THREE, Task, make_tasks, unit

K: Final = 10
_STEPS: Final[Mapping[int, int]] = {2: 40, 3: 10}  # modalities -> steps of the grid
_VARIANTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "default: hard, 10 wrong objects, rate .05, b learnt": {},
    "random wrong objects": {"hard": False},
    "random, 100 wrong objects": {"hard": False, "negatives": 100},
    "hard, 1 wrong object": {"negatives": 1},
    "hard, 50 wrong objects": {"negatives": 50},
    "rate .01": {"learning_rate": 0.01},
    "rate .2": {"learning_rate": 0.2},
    "b fixed at 1 (equation 6, normalised squares)": {"temperature": 1.0},
    "b fixed at 20": {"temperature": 0.05},
}
CENTRES: Final = ("nothing", "half of the mean picture", "mean query")
_SHARES: Final = (0.5, 0.7, 0.9, 0.97)
_LENGTHS: Final = (1, 10, 100)
_SEARCHES: Final = 100


def recalls(pairs: JointPairs, weightings: list[list[float]]) -> np.ndarray:
    """Return (weightings, queries) recall@10."""
    return pairs.search(np.array(weightings), K).recall


def compare(task: Task, options: LearningOptions, report: Report) -> tuple[WeightsReport, list[tuple[str, ...]]]:
    """Learn one task, and return the rows of its comparison."""
    learnt = learn_weights(task.learning, options)
    names = task.learning.modalities
    grid, _ = search_grid(task.learning, _STEPS[len(names)], K)
    rivals = {"grid search": list(grid.values()), "equal weights": [1 / len(names)] * len(names)}
    rivals |= {f"{name} alone": [float(name == other) for other in names] for name in names}
    own, *others = recalls(task.asked, [list(learnt.weights.values()), *rivals.values()])
    groups = [str(rows[0]) for rows in task.asked.positives]
    shown = ", ".join(f"{name} {weight:.2f}" for name, weight in learnt.weights.items())
    rows: list[tuple[str, ...]] = [(task.name, f"learnt ({shown})", str(estimate(own, groups)), "")]
    for (name, weights), theirs in zip(rivals.items(), others, strict=True):
        difference = compare_paired(theirs, own, groups).difference
        title = f"{name} ({', '.join(f'{weight:.2f}' for weight in weights)})" if name == "grid search" else name
        gain = f"{difference.mean:+.3f} [{difference.low:+.3f}, {difference.high:+.3f}]"
        rows.append(("", title, str(estimate(theirs, groups)), gain))
        report.record("R@10 gained by learnt weights", difference.mean, case=f"{task.name}, over {name}")
    return learnt, rows


def ablations(tasks: list[Task], seeds: int) -> Iterator[tuple[str, ...]]:
    """Yield a row for each way to learn: R@10, mean and range over seeds, rounds until the choice, and seconds."""
    for title, change in _VARIANTS.items():
        cells, rounds, seconds = [], [], []
        for task in tasks:
            found = []
            for seed in range(seeds):
                learnt = learn_weights(task.learning, LearningOptions(**change, seed=seed))
                found.append(recalls(task.asked, [list(learnt.weights.values())]).mean())
                rounds.append(learnt.chosen)
                seconds.append(learnt.seconds)
            cells.append(f"{np.mean(found):.3f} ({min(found):.3f} to {max(found):.3f})")
        yield (title, *cells, f"{np.mean(rounds):.1f}", f"{np.mean(seconds):.1f}")


def rules(task: Task, weights: list[float]) -> tuple[str, ...]:
    """Return the R@10 of each rule of the final ranking, over all photos."""
    pairs, rng = task.asked, np.random.default_rng(0)
    raw, standardised = [], []
    for part, learning in zip(pairs.parts, task.learning.parts, strict=True):
        pictures = pairs.objects.vectors[part.space]
        null = Null.of(pictures[rng.choice(len(pictures), 500, replace=False)], learning.vectors[:500])
        raw.append(part.vectors @ pictures.T)
        centred = (part.vectors - null.queries) @ (pictures - null.pictures).T
        standardised.append((centred - null.low) / -null.low)  # as `Null.standardised` gives them
    values = {rule: np.stack(standardised if how.standardises else raw, axis=-1) for rule, how in RULES.items()}
    hits = dict.fromkeys(RULES, 0)
    for rule, how in RULES.items():
        for query, right in enumerate(pairs.positives):
            joined = np.maximum(values[rule][query], 0) if how.clamps else values[rule][query]
            scores = combine_values(rule, joined.astype(np.float64), weights).scores
            hits[rule] += int((scores > scores[right[0]]).sum() < K)
    return tuple(f"{hits[rule] / len(pairs):.3f}" for rule in RULES)


def standardised_rules(task: Task, weights: list[float]) -> tuple[str, ...]:
    """Return the R@10 of the product over standardised similarities, as composed queries are ranked, centred in each way.

    The weights count by cosines, as in `PartWeighing`: each is multiplied by the spread of the similarities. `CENTRES` says
    what is taken from a query: nothing, half of the mean picture from pictures, or the mean query that was learnt from.
    """
    pairs, rng = task.asked, np.random.default_rng(0)
    samples = [rng.choice(pairs.objects.count, SAMPLE, replace=False) for _ in pairs.parts]
    hits = dict.fromkeys(CENTRES, 0)
    for centre in CENTRES:
        values, spreads = [], []
        for part, learning, chosen in zip(pairs.parts, task.learning.parts, samples, strict=True):
            pictures = pairs.objects.vectors[part.space]
            sample, mean = pictures[chosen], np.zeros(pictures.shape[1], np.float32)
            if centre == "mean query":
                mean = learning.vectors.mean(axis=0)
            elif centre == "half of the mean picture" and part.modality != "words":
                mean = np.float32(SHARE) * sample.mean(axis=0)
            asked = unit(part.vectors - mean)
            usual = asked @ sample.T
            spread = usual.std(axis=1, keepdims=True)
            values.append(1 + (asked @ pictures.T - usual.mean(axis=1, keepdims=True)) / spread / NULL)
            spreads.append(spread[:, 0])
        joined, counts = np.maximum(np.stack(values, axis=-1), 0).astype(np.float64), np.stack(spreads, axis=1) * weights
        for query, right in enumerate(pairs.positives):
            scores = combine_values("product", joined[query], list(counts[query])).scores
            hits[centre] += int((scores > scores[right[0]]).sum() < K)
    return tuple(f"{hits[centre] / len(pairs):.3f}" for centre in CENTRES)


def savings(task: Task) -> Iterator[tuple[str, ...]]:
    """Yield, for each weight of the first modality, the share of multiplications saved at each length of the list."""
    pairs = task.asked
    scorer = AbandoningScorer(pairs.objects.vectors)
    first, second = pairs.parts
    for share in _SHARES:
        for heavy, light in ((first, second), (second, first)):
            cells = []
            for k in _LENGTHS:
                found = [
                    scorer.search(
                        [
                            JointPart("a", heavy.space, heavy.vectors[query], share),
                            JointPart("b", light.space, light.vectors[query], 1 - share),
                        ],
                        k,
                        order=[heavy.space, light.space],
                    ).saved
                    for query in range(_SEARCHES)
                ]
                cells.append(f"{np.mean(found):.2f}")
            yield (task.name, f"{heavy.modality} {share:g}, {light.modality} {1 - share:.2g}", *cells)


def made_pairs(queries: int, objects: int, *, dims: tuple[int, int] = (512, 384)) -> JointPairs:
    """Make queries that are an object with noise, of different strength in two modalities."""
    rng = np.random.default_rng(0)
    right = rng.integers(0, objects, queries)
    vectors, parts = {}, []
    for name, dim, noise in (("look", dims[0], 7.0), ("words", dims[1], 4.0)):
        vectors[name] = unit(rng.standard_normal((objects, dim), dtype=np.float32))
        strength = noise / np.sqrt(dim, dtype=np.float32)
        asked = vectors[name][right] + strength * rng.standard_normal((queries, dim), dtype=np.float32)
        parts.append(PartVectors(name, name, unit(asked)))
    none = [np.empty(0, np.intp)] * queries
    return JointPairs(tuple(parts), ObjectVectors(vectors), [np.array([row]) for row in right], none)


def measure(options: argparse.Namespace, report: Report) -> None:
    """Learn every task, compare, vary and time."""
    cache = options.cache or Path(mkdtemp())
    cache.mkdir(parents=True, exist_ok=True)
    tasks = make_tasks(options.data, cache, which=options.part, queries=options.queries)
    heading = ("task", "weights", f"R@{K} of {len(tasks[0].asked):,} queries", "learnt - this")
    standardised = [f"product of z, less {centre}" for centre in CENTRES]
    by_rule: list[tuple[str, ...]] = [("task", "weights", *RULES, *standardised)]
    for task in tasks:
        learnt, compared = compare(task, LearningOptions(), report)
        report.table([heading, *compared])
        count = len(learnt.weights)
        for name, weights in (("learnt", list(learnt.weights.values())), ("equal", [1 / count] * count)):
            by_rule.append((task.name, name, *rules(task, weights), *standardised_rules(task, weights)))
    report.table(by_rule)
    lengths = [f"saved, k = {k}" for k in _LENGTHS]
    report.table([("task", "weights", *lengths), *(row for task in tasks if task.name != THREE for row in savings(task))])
    if options.seeds:
        report.table([("learning", *TASKS, "rounds until the choice", "seconds"), *ablations(tasks, options.seeds)])
    if options.speed:
        pairs = made_pairs(10_000, 100_000)
        started = time.perf_counter()
        learnt = learn_weights(pairs)
        seconds = time.perf_counter() - started
        report.record("learning from 10,000 queries", seconds)
        report.text(
            f"10,000 queries among 100,000 objects of 512 and 384 numbers: {seconds:.1f} s, {len(learnt.curve) - 1} rounds, "
            f"held-out R@{K} {learnt.equal:.3f} with equal weights, {learnt.recall:.3f} with {dict(learnt.weights)}"
        )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--data", type=Path, required=True, help="holds flickr8k-train: captions.tsv and images")
    parser.add_argument("--cache", type=Path, help="keeps vectors between runs")
    parser.add_argument("--part", choices=("validation", "test"), default="validation")
    parser.add_argument("--queries", type=int, default=1_500, help="queries to learn from")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each way to learn; 0 leaves the table out")
    parser.add_argument("--speed", action="store_true", help="also learn from 10,000 made queries among 100,000 objects")


BENCHMARK = Benchmark(
    name="modality_weights",
    about=__doc__,
    figures=(
        Figure("R@10 gained by learnt weights", "share", peer="equal weights, each modality alone, grid search"),
        Figure("learning from 10,000 queries", "s"),
    ),
    options=add_options,
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
