"""Evaluation over vectors (`lodestone eval ann`): MUST's tables and curves for joint search, merged streams, joint embedding.

One run measures all methods on the same queries: recall against queries per second for a sweep of candidates (figures 6 and
8), queries of one modality alone (table X), the first m modalities (table VIII), mean similarity in each modality against
weights (table IX), and weights that were chosen on another set (table XXI). Weights that are not given are chosen by grid
search on queries that are not measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone import __version__
from lodestone.errors import InvalidRequestError
from lodestone.store.base import VectorStore
from lodestone_eval.compare import bootstrap
from lodestone_eval.composed.ann_report import AnnOptions, AnnReport, AnnRow, Table
from lodestone_eval.composed.exact_methods import AbandoningJoint
from lodestone_eval.composed.metrics import recall_at, similarity_error
from lodestone_eval.composed.modalities import VectorModality
from lodestone_eval.composed.vector_search import (
    ExactEmbedding,
    ExactJoint,
    ExactStreams,
    StoreEmbedding,
    StoreJoint,
    StoreStreams,
    VectorSearch,
    best,
    joint_scores,
)
from lodestone_eval.composed.vector_sets import VectorSet, weights_of
from lodestone_eval.composed.weight_choice import choose_weights, halves

_USER_WEIGHTS: Final = (0.5, 0.6, 0.7, 0.8, 0.9)  # table IX

OpenStore = Callable[[], VectorStore]


def evaluate_vectors(
    vectors: VectorSet,
    options: AnnOptions,
    *,
    open_store: OpenStore | None = None,
    other: VectorSet | None = None,
    report_progress: Callable[[str], None] | None = None,
) -> AnnReport:
    """Measure all methods on a vector set, and return the report.

    Args:
        vectors: The set.
        options: Options of the evaluation.
        open_store: Opens an empty store for the methods that search graphs; None for exact methods alone.
        other: Set of another category, to which the weights are moved (table XXI).
        report_progress: Gets what is measured next.

    Raises:
        InvalidRequestError: weights or modalities do not fit, or no query has a right object.
    """
    notes: list[str] = []
    asked = _askable(vectors, notes)
    chosen = options.weights is None
    if chosen:
        if vectors.truths is None:
            raise InvalidRequestError(
                "weights are chosen by right objects, and there is no _gt.ivecs", hint="give --weights, such as .5,.5"
            )
        choosing, asked = halves(asked, seed=options.seed)
        if report_progress is not None:
            report_progress("weights")
        weights = choose_weights(vectors, choosing, k=options.ks[0], wanted=_wanted(vectors, options, options.ks[0]))
    else:
        weights = weights_of(vectors, options.weights or ())
    asked = _drawn(asked, options.sample, options.seed)
    if vectors.truths is None:
        notes.append("there is no _gt.ivecs: right objects are those of the highest joint similarity, found by brute force")
        vectors = with_joint_truth(vectors, weights, asked, max(options.ks))
    bench = _Bench(options, asked, report_progress or (lambda _: None), notes)
    rows = [
        *bench.curves(vectors, weights, open_store),
        *bench.single_modalities(vectors),
        *bench.modality_counts(vectors, weights),
        *bench.user_weights(vectors),
        *(bench.moved_weights(other, weights) if other is not None else ()),
    ]
    return AnnReport(
        created_at=datetime.now(UTC),
        lodestone=__version__,
        vectors=vectors.name,
        objects=vectors.objects,
        queries=len(asked),
        modalities=list(vectors.names),
        store="exact" if open_store is None else bench.store,
        weights=[round(float(weight), 6) for weight in weights],
        chosen=chosen,
        rows=rows,
        notes=notes,
    )


def with_joint_truth(vectors: VectorSet, weights: NDArray[np.float64], asked: Sequence[int], k: int) -> VectorSet:
    """Return the set with the k objects of the highest joint similarity as the right ones of these queries."""
    truths = [np.empty(0, np.int32)] * vectors.queries
    for query in asked:
        found = best(joint_scores(vectors, weights, query), k, vectors.left_out(query))
        truths[query] = found.astype(np.int32)
    return replace(vectors, truths=tuple(truths))


@dataclass(slots=True)
class _Bench:
    options: AnnOptions
    asked: Sequence[int]
    report_progress: Callable[[str], None]
    notes: list[str]
    store: str = "exact"

    def curves(self, vectors: VectorSet, weights: NDArray[np.float64], open_store: OpenStore | None) -> Iterator[AnnRow]:
        """Measure each method for each number of candidates and of results."""
        with self._methods(vectors, weights, open_store) as methods:
            for method in methods:
                for k in self.options.ks:
                    efforts = [effort for effort in self.options.efforts if effort >= k] or [k]
                    for effort in efforts if method.has_effort else [0]:
                        yield self._measure("curve", method, vectors, weights, k=k, effort=effort)

    def single_modalities(self, vectors: VectorSet) -> Iterator[AnnRow]:
        """Measure queries of one modality alone (t = 1; table X)."""
        for number, name in enumerate(vectors.names):
            weights = np.eye(len(vectors.modalities))[number]
            yield self.exact("single modality", vectors, weights, about=f"{name} alone")

    def modality_counts(self, vectors: VectorSet, weights: NDArray[np.float64]) -> Iterator[AnnRow]:
        """Measure the first m modalities, for each m, by joint search and by merged streams (table VIII)."""
        for count in range(2, len(vectors.modalities) + 1):
            if weights[:count].sum() == 0:
                continue
            kept = weights[:count] / weights[:count].sum()
            part = vectors.of_modalities(count)
            yield self.exact("modalities", part, kept, about=f"m = {count}")
            streams = ExactStreams(part)
            yield self._measure(
                "modalities", streams, part, kept, k=self.options.ks[0], effort=self.options.efforts[-1], about=f"m = {count}"
            )

    def user_weights(self, vectors: VectorSet) -> Iterator[AnnRow]:
        """Measure weights that a user may set: the target's share, and equal shares of the rest (table IX)."""
        others = len(vectors.modalities) - 1
        for share in _USER_WEIGHTS if others else ():
            yield self.exact("weights", vectors, np.array([share, *[(1 - share) / others] * others]))

    def moved_weights(self, other: VectorSet, weights: NDArray[np.float64]) -> Iterator[AnnRow]:
        """Measure another set with these weights, with equal ones, and with those chosen on its own queries (table XXI)."""
        count = len(other.modalities)
        if count != len(weights) or other.truths is None:
            raise InvalidRequestError(
                f"weights of {len(weights)} modalities cannot be moved to {other.name!r}",
                hint="give a set with as many modalities, and with _gt.ivecs",
            )
        k = self.options.ks[0]
        choosing, asked = halves(_askable(other, []), seed=self.options.seed)
        own = choose_weights(other, choosing, k=k, wanted=_wanted(other, self.options, k))
        bench = replace(self, asked=_drawn(asked, self.options.sample, self.options.seed))
        for about, moved in (("moved", weights), ("equal", np.full(count, 1 / count)), ("own", own)):
            yield bench.exact("moved weights", other, moved, about=f"{about}, on {other.name}")

    @contextmanager
    def _methods(
        self, vectors: VectorSet, weights: NDArray[np.float64], open_store: OpenStore | None
    ) -> Iterator[list[VectorSearch]]:
        composed = vectors.composition is not None
        methods: list[VectorSearch] = [ExactJoint(vectors, weights)]
        try:
            methods.append(AbandoningJoint(vectors, weights))
        except InvalidRequestError as error:  # attributes of more values than columns are held for
            self.notes.append(f"early abandoning is not measured: {error.message}")
        methods.append(ExactStreams(vectors))
        if composed:
            methods.append(ExactEmbedding(vectors))
        if open_store is None:
            yield methods
            return
        store = open_store()
        try:
            self.store = store.capabilities().engine
            self.report_progress("building graphs")
            hnsw = self.options.hnsw
            methods += [StoreJoint(store, vectors, weights, hnsw=hnsw), StoreStreams(store, vectors, hnsw=hnsw)]
            if composed:
                methods.append(StoreStreams(store, vectors, hnsw=hnsw, composed=True))
                methods.append(StoreEmbedding(store, vectors, hnsw=hnsw))
            yield methods
        finally:
            for name in store.collections():
                if name.startswith("eval-"):
                    store.drop(name)
            store.close()

    def exact(self, table: Table, vectors: VectorSet, weights: NDArray[np.float64], *, about: str = "") -> AnnRow:
        """Measure joint search by brute force."""
        method = ExactJoint(vectors, weights)
        return self._measure(table, method, vectors, weights, k=self.options.ks[0], effort=0, about=about)

    def _measure(
        self,
        table: Table,
        method: VectorSearch,
        vectors: VectorSet,
        weights: NDArray[np.float64],
        *,
        k: int,
        effort: int,
        about: str = "",
    ) -> AnnRow:
        self.report_progress(f"{method.name} {about}".strip())
        wanted = _wanted(vectors, self.options, k)
        begun = time.perf_counter()
        answers = [method.search(query, k, effort) for query in self.asked]
        seconds = time.perf_counter() - begun
        recalls, errors = [], []
        similar = np.full((len(self.asked), len(vectors.modalities)), np.nan)
        for row, (query, found) in enumerate(zip(self.asked, answers, strict=True)):
            truth = vectors.right(query, wanted)
            recalls.append(recall_at(found.tolist(), truth, k, wanted=wanted))
            if len(found):
                errors += _error(vectors, truth, int(found[0]))
                similar[row] = _similarity(vectors, query, int(found[0]))
        known = [column[~np.isnan(column)] for column in similar.T]
        return AnnRow(
            table=table,
            method=method.name,
            about=about,
            weights=[round(float(weight), 6) for weight in weights],
            k=k,
            wanted=wanted,
            effort=effort if method.has_effort else None,
            recall=bootstrap(np.array(recalls)),
            error=bootstrap(np.array(errors)) if errors else None,
            similarity=[round(float(column.mean()), 6) if len(column) else None for column in known],
            queries_per_second=round(len(answers) / max(seconds, 1e-9), 3),
        )


def _askable(vectors: VectorSet, notes: list[str]) -> list[int]:
    """Return the queries that have a right object, or all where none are known."""
    if vectors.truths is None:
        return list(range(vectors.queries))
    asked = [
        query
        for query, truth in enumerate(vectors.truths)
        if not set(truth.tolist()).issubset(vectors.left_out(query).tolist())
    ]
    if not asked:
        raise InvalidRequestError(f"no query of {vectors.name!r} has a right object", hint="look at PREFIX_gt.ivecs")
    if len(asked) < vectors.queries:
        notes.append(f"left out: {vectors.queries - len(asked):,} queries without a right object")
    return asked


def _drawn(asked: list[int], count: int | None, seed: int) -> list[int]:
    if count is None or count >= len(asked):
        return asked
    return sorted(np.random.default_rng(seed).permutation(np.array(asked))[:count].tolist())


def _wanted(vectors: VectorSet, options: AnnOptions, k: int) -> int:
    return options.wanted or (1 if vectors.equally_right else k)


def _error(vectors: VectorSet, truth: frozenset[int], found: int) -> list[float]:
    target = vectors.modalities[0]
    if not isinstance(target, VectorModality) or not truth or not target.base[found].any():
        return []
    return [similarity_error(target.base[sorted(truth)], target.base[found])]


def _similarity(vectors: VectorSet, query: int, found: int) -> list[float]:
    values = []
    for modality in vectors.modalities:
        part = modality.of_object(found)
        similarities = part.similarities(query)
        values.append(float("nan") if similarities is None else float(similarities[0]))
    return values
