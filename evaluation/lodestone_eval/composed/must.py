"""Evaluation of composed queries over a benchmark's pictures (`lodestone eval must`): MUST, its parts and its baselines.

Each modality alone, equal weights, weights that were chosen on other queries, other rules than the sum, joint embedding and
merged streams answer the same queries by exact search, and are measured by the metrics that the benchmark publishes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from lodestone.errors import InvalidRequestError
from lodestone_eval.composed.answers import ComposedReport, evaluate_composed, rank_all
from lodestone_eval.composed.exact_methods import RankedByRule
from lodestone_eval.composed.pictures import EmbeddedSet, ExcludedPlaces
from lodestone_eval.composed.vector_search import ExactEmbedding, ExactJoint, ExactStreams, VectorSearch
from lodestone_eval.composed.vector_sets import weights_of
from lodestone_eval.composed.weight_choice import choose_weights, halves

CANDIDATES: Final = 1_000  # of each stream
_K: Final = 10  # results that choose weights
_RULES: Final = ("product", "harris", "basic")


@dataclass(frozen=True, slots=True)
class MustOptions:
    """Holds the options of an evaluation of composed queries.

    Attributes:
        weights: Weight (square) of each modality; None to choose them on half of the queries and to measure the other half.
        metrics: Names of metrics; empty for those of the benchmark.
        candidates: Candidates of each of the merged streams, and of joint search that a rule ranks again.
        seed: Seed of the halves.
    """

    weights: tuple[float, ...] | None = None
    metrics: tuple[str, ...] = ()
    candidates: int = CANDIDATES
    seed: int = 0


def evaluate_must(
    embedded: EmbeddedSet, options: MustOptions, *, report_progress: Callable[[str, int, int], None] | None = None
) -> list[ComposedReport]:
    """Measure all methods on the same queries of a benchmark, and return their reports.

    Args:
        embedded: The benchmark with its vectors.
        options: Options of the evaluation.
        report_progress: Gets the method, the number of queries done and of all.

    Raises:
        InvalidRequestError: the truth is not published, or the weights do not fit the modalities.
        UnknownNameError: there is no such metric.
    """
    if embedded.vectors.truths is None:
        raise InvalidRequestError(
            f"the truth of {embedded.composed.name} {embedded.composed.split or ''} is not published",
            hint="write answers for its server with --submission FOLDER",
        )
    if options.weights is not None:
        weights, about = weights_of(embedded.vectors, options.weights), "given weights"
    elif len(embedded.composed.queries) > 1:
        choosing, measured = halves(range(len(embedded.composed.queries)), seed=options.seed)
        weights, about = choose_weights(embedded.vectors, choosing, k=_K, wanted=1), "chosen weights"
        embedded = part_of(embedded, measured)
    else:
        weights, about = np.full(len(embedded.vectors.modalities), 1 / len(embedded.vectors.modalities)), "one query"
    vectors = embedded.vectors
    count = len(vectors.modalities)
    methods: list[tuple[str, VectorSearch, Sequence[float]]] = [
        (f"{name} alone", ExactJoint(vectors, np.eye(count)[number]), np.eye(count)[number].tolist())
        for number, name in enumerate(vectors.names)
    ]
    if vectors.composition is not None:
        methods.append(("JE", ExactEmbedding(vectors), []))
    methods.append(("MR", ExactStreams(vectors), []))
    equal = np.full(count, 1 / count)
    methods.append(("MUST, equal weights", ExactJoint(vectors, equal), equal.tolist()))
    for rule in _RULES:  # as published, without weights
        by_rule = RankedByRule(vectors, equal, rule, seed=options.seed)
        methods.append((by_rule.name, by_rule, equal.tolist()))
    methods.append((f"MUST, {about}", ExactJoint(vectors, weights), weights.tolist()))
    reports = []
    for name, method, squares in methods:
        reports.append(
            evaluate_composed(
                embedded.composed,
                embedded.answer_by(method, effort=options.candidates),
                method=name,
                metrics=options.metrics,
                settings={
                    "weights": dict(zip(vectors.names, (round(value, 6) for value in squares), strict=False)),
                    "models": embedded.models,
                    "candidates": options.candidates if method.has_effort else None,
                    "seed": options.seed,
                },
                report_progress=_progress_of(name, len(embedded.composed.queries), report_progress),
            )
        )
    return reports


def submitted_rankings(
    embedded: EmbeddedSet, options: MustOptions, *, report_progress: Callable[[str, int, int], None] | None = None
) -> list[list[str] | None]:
    """Return the ranking of every query, of all pictures, by joint search with the given weights, or with equal ones."""
    vectors = embedded.vectors
    count = len(vectors.modalities)
    weights = np.full(count, 1 / count) if options.weights is None else weights_of(vectors, options.weights)
    answer = embedded.answer_by(ExactJoint(vectors, weights), effort=0)
    progress = _progress_of("ranking", len(embedded.composed.queries), report_progress)
    return rank_all(embedded.composed, answer, depth=None, report_progress=progress)[0]


def part_of(embedded: EmbeddedSet, queries: Sequence[int]) -> EmbeddedSet:
    """Return the benchmark with some of its queries, by number."""
    kept = list(queries)
    vectors = embedded.vectors

    composed = replace(embedded.composed, queries=tuple(embedded.composed.queries[number] for number in kept))
    part = replace(
        vectors,
        modalities=tuple(modality.of_queries(kept) for modality in vectors.modalities),
        composition=None if vectors.composition is None else vectors.composition[kept],
        truths=None if vectors.truths is None else tuple(vectors.truths[number] for number in kept),
        excluded=ExcludedPlaces(composed.queries, {name: place for place, name in enumerate(embedded.names)}),
    )
    return replace(embedded, composed=composed, vectors=part)


def _progress_of(
    name: str, total: int, report_progress: Callable[[str, int, int], None] | None
) -> Callable[[int], None] | None:
    return None if report_progress is None else (lambda done: report_progress(name, done, total))
