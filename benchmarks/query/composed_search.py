"""Joint search for composed queries beside its rivals: queries a second against recall of 10, with one search thread.

    python -m benchmarks.query.composed_search [--objects 100000] [--dim 128] [--vectors FILE.npz] [--server] [--plot FILE.png]

All methods search the same vectors by the same engine, one query a call: the embedded one without its matrices, or a server
(formula: always embedded). What has to be rescored is rescored from arrays in this process, which is faster than any store.
True neighbours are those of the exact joint similarity. Each method's own parameter is swept: the candidates of a graph
(`ef`), or those of each modality (`l`).

- fused: one graph over equal roots, the weights in the query.
- fused, learnt roots: the paper's index: the learnt weights in the graph.
- MR: the paper's multi-streamed retrieval: l candidates of each modality, intersected. MR knows no weights, so an intersection
  of more than 10 is ordered by the sum of the ranks (MR) or of the similarities (MR, by similarity). MR, composed has the
  composition vector as its target.
- strong MR: the union of the candidates, rescored by the exact joint similarity.
- JE: the composition vector alone, in the space of the target.
- formula: the engine's own formula over one prefetch a modality.
- MUST--, MR--: exact search instead of graphs. Abandoning: an exact scan that stops early.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from scripts.fetch_qdrant import fetch
from tests.support.qdrant_server import run_qdrant

from benchmarks.harness import Benchmark, Figure, Report
from benchmarks.query.composed_data import Composed, Rows, joint_scores, made, real
from benchmarks.query.composed_methods import (
    Answer,
    Indexes,
    K,
    abandoning,
    best,
    exact,
    exact_intersected,
    formula,
    fused,
    fused_search,
    intersected,
    rescored,
)
from lodestone.composed.search import FUSED_EF
from lodestone.store.base import VectorStore
from lodestone.store.factory import open_store
from lodestone_schemas.collections import FUSED_GRAPH, HnswSpec

EFS: Final = (16, 32, 64, 128, 256, 512)
LS: Final = (10, 30, 100, 300, 1_000, 3_000)
WEIGHTS: Final = (1.0, 0.9, 0.8, 0.7, 0.5, 0.3, 0.2, 0.1, 0.0)
WANTED: Final = 0.98
_HELD_OUT: Final = 20  # queries that warm an index up


@dataclass(frozen=True, slots=True)
class Point:
    """One setting of a method: its parameter, the recall of 10, and queries a second."""

    parameter: int
    recall: float
    rate: float


def curve(answer: Answer, truth: Sequence[set[int]], parameters: Sequence[int], *, seconds: float) -> list[Point]:
    """Return recall and rate of a method for each parameter; a slow one is asked for `seconds` at most."""
    points = []
    for parameter in parameters:
        for row in range(min(_HELD_OUT, len(truth))):
            answer(row, parameter)
        shares, started = [], time.perf_counter()
        for row, wanted in enumerate(truth):
            shares.append(len(wanted.intersection(answer(row, parameter))) / K)
            if time.perf_counter() - started > seconds:
                break
        points.append(Point(parameter, float(np.mean(shares)), len(shares) / (time.perf_counter() - started)))
    return points


def truth_of(data: Composed, weight: float) -> list[set[int]]:
    """Return the ten best objects of each query."""
    return [set(best(row, K)) for row in joint_scores(data, weight)]


def rate_at(points: Sequence[Point], recall: float) -> float:
    """Return the highest rate of a method at this recall or a better one; 0 if it never has it."""
    return max((point.rate for point in points if point.recall >= recall), default=0.0)


def measure(options: argparse.Namespace, report: Report) -> None:
    """Build the indexes, sweep every method, and compare."""
    if options.vectors is None:
        data = made(options.objects, options.queries, dim=options.dim, strength=options.strength)
    else:
        data = real(options.vectors, options.objects, options.queries)
    graph, weight = HnswSpec(m=options.m, ef_construct=options.ef_construct), options.learnt
    fused_graph = HnswSpec(m=options.fused_m, ef_construct=options.fused_ef_construct)
    report.text(
        f"{data.about}. Learnt weights {weight:g} and {1 - weight:g}; fused graphs of m {fused_graph.m} and ef_construct "
        f"{fused_graph.ef_construct}, those of one modality of {graph.m} and {graph.ef_construct}."
    )
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch, _store(Path(scratch) / "store", options) as store:
        indexes = Indexes(store, Path(scratch) / "store", data)
        for name, vectors in _collections(data, weight).items():
            report.progress(f"building {name}")
            indexes.add(name, vectors, graph if name.startswith("part") else fused_graph)
        report.progress("building the shard of named vectors")
        with formula(data, weight, Path(scratch) / "named", graph) as by_formula:
            curves = _sweep(indexes, weight, by_formula, options, report)
        _report_curves(curves, report)
        _report_weights(indexes, options, report)
        _report_sizes(indexes, report)
    if options.write and not options.plot:
        options.plot = options.write.parent / "composed-search.png"
        report.text(f"![Queries a second against recall]({options.plot.name})")
    if options.plot:
        plot(curves, options.plot, title=data.about)


@contextmanager
def _store(folder: Path, options: argparse.Namespace) -> Iterator[VectorStore]:
    """Yield an empty store that searches with one thread: the embedded engine, or a Qdrant server of its own."""
    if not options.server:
        store = open_store("edge", root=folder, matrix_points=0)
        yield store
        store.close()
        return
    os.environ["QDRANT__STORAGE__PERFORMANCE__MAX_SEARCH_THREADS"] = "1"
    folder.mkdir()
    with run_qdrant(fetch(), folder) as server:
        store = open_store("server", url=server.url, grpc_port=server.grpc_port, timeout=600)
        yield store
        store.close()


def _collections(data: Composed, weight: float) -> dict[str, Rows]:
    return {
        "fused": fused(data, (0.5, 0.5)),
        "learnt": fused(data, (weight, 1 - weight)),
        "part0": data.parts[0],
        "part1": data.parts[1],
    }


def _sweep(
    indexes: Indexes, weight: float, by_formula: Answer, options: argparse.Namespace, report: Report
) -> dict[str, list[Point]]:
    data = indexes.data
    lists = [size for size in LS if size < len(data.parts[0])]
    methods: Mapping[str, tuple[Answer, Sequence[int]]] = {
        "fused": (fused_search(indexes, "fused", weight, (0.5, 0.5)), EFS),
        "fused, learnt roots": (fused_search(indexes, "learnt", weight, (weight, 1 - weight)), EFS),
        "strong MR": (rescored(indexes, weight), lists),
        "MR": (intersected(indexes, data.queries[0]), lists),
        "MR, by similarity": (intersected(indexes, data.queries[0], by_similarity=True), lists),
        "MR, composed": (intersected(indexes, data.composition), lists),
        "JE": (lambda row, ef: indexes.search("part0", data.composition[row], K, ef), EFS),
        "formula": (by_formula, lists),
        "MUST--": (exact(data, weight), (0,)),
        "MR--": (exact_intersected(data), lists),
        "abandoning": (abandoning(data, weight), (0,)),
    }
    truth, curves = truth_of(data, weight), dict[str, list[Point]]()
    for name, (answer, parameters) in methods.items():
        report.progress(f"asking {name}")
        curves[name] = curve(answer, truth, parameters, seconds=options.seconds)
    return curves


def _report_curves(curves: Mapping[str, list[Point]], report: Report) -> None:
    report.table(
        [
            ("method", "recall of 10 / queries a second, for each parameter", f"queries/s at {WANTED}"),
            *(
                (
                    name,
                    ", ".join(f"{one.parameter or 'all'}: {one.recall:.3f} / {one.rate:,.0f}" for one in points),
                    f"{rate_at(points, WANTED):,.0f}" if rate_at(points, WANTED) else "never",
                )
                for name, points in curves.items()
            ),
        ]
    )
    for name in ("MR", "MR, by similarity", "MR, composed"):
        highest = max(point.recall for point in curves[name])
        report.record("highest recall", highest, case=name)
        report.record(
            "fused / MR, rate at its highest recall",
            rate_at(curves["fused"], highest) / rate_at(curves[name], highest),
            case=name,
        )
    for name in ("strong MR", "formula", "MUST--", "abandoning"):
        common = min(WANTED, *(max(point.recall for point in curves[one]) for one in ("fused", name)))
        report.record(
            "fused / peer, rate at one recall",
            rate_at(curves["fused"], common) / rate_at(curves[name], common),
            case=name,
        )
    report.detail(
        "curves", {name: [(one.parameter, one.recall, one.rate) for one in points] for name, points in curves.items()}
    )


def _report_weights(indexes: Indexes, options: argparse.Namespace, report: Report) -> None:
    data = indexes.data
    rows: list[Sequence[str]] = [("weights", "fused", "fused, learnt roots", "strong MR")]
    least: dict[str, float] = {}
    for weight in WEIGHTS:
        truth = truth_of(data, weight)
        methods = {
            "fused": (fused_search(indexes, "fused", weight, (0.5, 0.5)), options.ef),
            "learnt": (fused_search(indexes, "learnt", weight, (options.learnt, 1 - options.learnt)), options.ef),
            "strong": (rescored(indexes, weight), options.ef),
        }
        points = {
            name: curve(answer, truth, (parameter,), seconds=options.seconds)[0]
            for name, (answer, parameter) in methods.items()
        }
        for name, point in points.items():
            least[name] = min(least.get(name, 1.0), point.recall)
        rows.append((f"{weight:g}, {1 - weight:g}", *(f"{one.recall:.3f} / {one.rate:,.0f}" for one in points.values())))
    report.text(f"Weights of the query, with {options.ef} candidates: recall of 10 / queries a second.")
    report.table(rows)
    for name, case in {"fused": "fused", "learnt": "fused, learnt roots", "strong": "strong MR"}.items():
        report.record("least recall of any weights", least[name], case=case)


def _report_sizes(indexes: Indexes, report: Report) -> None:
    apart = ("part0", "part1")
    report.record("size, fused / one index a modality", indexes.bytes["fused"] / sum(indexes.bytes[name] for name in apart))
    report.record(
        "build, fused / one index a modality", indexes.seconds["fused"] / sum(indexes.seconds[name] for name in apart)
    )
    report.text(
        "Sizes and build times: "
        + ", ".join(f"{name} {indexes.bytes[name] / 2**20:,.0f} MiB, {indexes.seconds[name]:.0f} s" for name in indexes.seconds)
        + "."
    )


def plot(curves: Mapping[str, list[Point]], path: Path, *, title: str) -> None:
    """Plot queries a second over recall, one line a method."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 5.5))
    axes.set_prop_cycle(color=[*mpl.color_sequences["tab10"], "black"])
    for name, points in curves.items():
        heavy = name == "fused"
        axes.plot(
            [one.recall for one in points],
            [one.rate for one in points],
            marker="o",
            label=name,
            linewidth=2.5 if heavy else 1.2,
            zorder=3 if heavy else 2,
        )
    axes.set(xlabel="recall of 10", ylabel="queries a second, one thread", yscale="log", title=title)
    axes.title.set_fontsize(9)
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--objects", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=128, help="numbers of each modality of made-up objects")
    parser.add_argument("--strength", type=float, default=1.0, help="of the clusters of made-up objects")
    parser.add_argument("--vectors", type=Path, help="embeddings of real pictures (see benchmarks/query/composed_data.py)")
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--learnt", type=float, default=0.2, help="learnt weight of the target")
    parser.add_argument("--m", type=int, default=16, help="edges of a node in the graph of one modality")
    parser.add_argument("--ef-construct", type=int, default=128)
    parser.add_argument("--fused-m", type=int, default=FUSED_GRAPH.m, help="edges of a node in fused graphs")
    parser.add_argument("--fused-ef-construct", type=int, default=FUSED_GRAPH.ef_construct)
    parser.add_argument("--ef", type=int, default=FUSED_EF, help="candidates while the weights are swept")
    parser.add_argument("--seconds", type=float, default=3.0, help="a method is asked for so long with each parameter, at most")
    parser.add_argument("--server", action="store_true", help="search a Qdrant server instead of the embedded engine")
    parser.add_argument("--plot", type=Path, help="a picture of the curves is written there")
    parser.add_argument("--scratch", type=Path)


BENCHMARK = Benchmark(
    name="composed_search",
    about=__doc__,
    figures=(
        Figure("highest recall", "share"),
        Figure("fused / MR, rate at its highest recall", "ratio", peer="multi-streamed retrieval as in the paper"),
        Figure("fused / peer, rate at one recall", "ratio", peer="the method of the case"),
        Figure("least recall of any weights", "share", peer="the graph of learnt roots, and the union of candidates"),
        Figure("size, fused / one index a modality", "ratio", peer="one index a modality"),
        Figure("build, fused / one index a modality", "ratio", peer="one index a modality"),
    ),
    options=add_options,
    measure=measure,
    section="composed-search",
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
