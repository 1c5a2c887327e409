"""Methods that answer queries of two modalities: one fused graph, and what it is compared with."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import qdrant_edge as qe
from numpy.typing import NDArray

from benchmarks.query.composed_data import Composed, Rows
from lodestone.composed.abandon import AbandoningScorer
from lodestone.composed.joint import JointPart
from lodestone.store.base import PointBatch, VectorQuery, VectorStore
from lodestone_schemas.collections import CollectionSpec, HnswSpec

K: Final = 10
_BATCH: Final = 2_048
_MODALITIES: Final = (0, 1)

Answer = Callable[[int, int], Sequence[int]]
"""Answers the query of a row with a parameter: rows of objects, best first."""


class Indexes:
    """The indexes that the methods search, in one embedded store.

    Args:
        store: The store, empty.
        folder: Its folder, whose growth is an index's size.
        data: What is indexed.
    """

    def __init__(self, store: VectorStore, folder: Path, data: Composed) -> None:
        self._store, self._folder, self.data = store, folder, data
        self._ids = [str(uuid.UUID(int=row + 1)) for row in range(len(data.parts[0]))]
        self.seconds: dict[str, float] = {}
        self.bytes: dict[str, int] = {}

    def add(self, name: str, vectors: Rows, graph: HnswSpec) -> None:
        """Load a collection and build its graph."""
        before, started = _size(self._folder), time.perf_counter()
        self._store.create(CollectionSpec(name, vectors.shape[1], hnsw=graph))
        for start in range(0, len(vectors), _BATCH):
            some = self._ids[start : start + _BATCH]
            self._store.upsert(name, PointBatch(some, vectors[start : start + _BATCH], [{"corpus": "bench"}] * len(some)))
        self._store.build(name)
        while self._store.info(name).building:
            time.sleep(0.1)
        self.seconds[name] = time.perf_counter() - started
        self.bytes[name] = _size(self._folder) - before

    def search(self, name: str, vector: Rows, limit: int, ef: int) -> list[int]:
        """Return the rows that a graph finds, best first."""
        return list(self.scored(name, vector, limit, ef))

    def scored(self, name: str, vector: Rows, limit: int, ef: int) -> dict[int, float]:
        """Return the rows that a graph finds with their similarities, best first."""
        (answer,) = self._store.search(name, [VectorQuery(vector, limit, ef=max(ef, limit))])
        return {int(point_id[-12:], 16) - 1: score for point_id, score in zip(answer.ids, answer.scores.tolist(), strict=True)}


def fused(data: Composed, roots: Sequence[float]) -> Rows:
    """Return the fused vectors for an index: each modality times the root of its weight there."""
    return np.hstack([np.float32(np.sqrt(root)) * rows for root, rows in zip(roots, data.parts, strict=True)])


def asked(data: Composed, weight: float, roots: Sequence[float]) -> Rows:
    """Return the query vectors, (q, dim), whose inner products with `fused` are the joint similarities under any weight."""
    shares = [share / np.sqrt(root) for share, root in zip((weight, 1 - weight), roots, strict=True)]
    return np.hstack([np.float32(share) * rows for share, rows in zip(shares, data.queries, strict=True)])


def fused_search(indexes: Indexes, name: str, weight: float, roots: Sequence[float]) -> Answer:
    """Return the search of one fused graph."""
    vectors = asked(indexes.data, weight, roots)
    return lambda row, ef: indexes.search(name, vectors[row], K, ef)


def intersected(indexes: Indexes, target: Rows, *, by_similarity: bool = False) -> Answer:
    """Return the paper's MR: the intersection of the candidates, in the order of the sum of their ranks or similarities."""
    words = indexes.data.queries[1]

    def answer(row: int, candidates: int) -> Sequence[int]:
        first = indexes.scored("part0", target[row], candidates, candidates)
        second = indexes.scored("part1", words[row], candidates, candidates)
        if by_similarity:
            return sorted(first.keys() & second.keys(), key=lambda other: -first[other] - second[other])[:K]
        return by_ranks([list(first), list(second)])

    return answer


def by_ranks(lists: Sequence[Sequence[int]]) -> list[int]:
    """Return at most 10 objects that all lists have, in the order of the sum of their ranks."""
    ranks = [{row: rank for rank, row in enumerate(found)} for found in lists]
    common = set(ranks[0]).intersection(*ranks[1:])
    return sorted(common, key=lambda row: (sum(one[row] for one in ranks), row))[:K]


def rescored(indexes: Indexes, weight: float) -> Answer:
    """Return a strong MR: the union of the candidates, in the order of their exact joint similarities."""
    data, shares = indexes.data, (weight, 1 - weight)

    def answer(row: int, candidates: int) -> Sequence[int]:
        union: set[int] = set()
        for part in _MODALITIES:
            if shares[part] > 0:
                union.update(indexes.search(f"part{part}", data.queries[part][row], candidates, candidates))
        rows = np.fromiter(union, np.intp, len(union))
        joint = sum(shares[part] * (data.parts[part][rows] @ data.queries[part][row]) for part in _MODALITIES)
        order: list[int] = rows[np.argsort(-np.asarray(joint))[:K]].tolist()
        return order

    return answer


def exact(data: Composed, weight: float) -> Answer:
    """Return the exact joint search over one matrix (MUST--)."""
    matrix, vectors = fused(data, (0.5, 0.5)), asked(data, weight, (0.5, 0.5))
    return lambda row, _: best(matrix @ vectors[row], K)


def exact_intersected(data: Composed) -> Answer:
    """Return the intersection of exact candidates (MR--)."""
    return lambda row, candidates: by_ranks([best(data.parts[p] @ data.queries[p][row], candidates) for p in _MODALITIES])


def abandoning(data: Composed, weight: float) -> Answer:
    """Return the library's exact scan that stops comparing objects which cannot be among the best 10 any more."""
    scorer = AbandoningScorer({f"part{part}": data.parts[part] for part in _MODALITIES})

    def answer(row: int, _: int) -> Sequence[int]:
        parts = [
            JointPart(f"part{part}", f"part{part}", data.queries[part][row], share)
            for part, share in zip(_MODALITIES, (weight, 1 - weight), strict=True)
        ]
        nearest: list[int] = scorer.search(parts, K).rows.tolist()
        return nearest

    return answer


@contextmanager
def formula(data: Composed, weight: float, folder: Path, graph: HnswSpec) -> Iterator[Answer]:
    """Yield the engine's formula query over one prefetch a modality, on a shard of named vectors."""
    names = ("part0", "part1")
    params = {
        name: qe.EdgeVectorParams(size=rows.shape[1], distance=qe.Distance.Dot)
        for name, rows in zip(names, data.parts, strict=True)
    }
    folder.mkdir()
    optimizers = qe.EdgeOptimizersConfig(indexing_threshold=1)
    hnsw = qe.HnswIndexConfig(m=graph.m, ef_construct=graph.ef_construct, full_scan_threshold=10)
    shard: Any = qe.EdgeShard.create(
        str(folder), qe.EdgeConfig(vectors=params, hnsw_config=hnsw, optimizers=optimizers, wal_enabled=False)
    )
    for start in range(0, len(data.parts[0]), _BATCH):
        points = [
            qe.Point(row + 1, {name: rows[row].tolist() for name, rows in zip(names, data.parts, strict=True)}, {})
            for row in range(start, min(start + _BATCH, len(data.parts[0])))
        ]
        shard.update(qe.UpdateOperation.upsert_points(points))
    shard.optimize()
    shares = (weight, 1 - weight)
    terms = [
        qe.Expression.Mult([qe.Expression.Constant(share), qe.Expression.Variable(f"$score[{part}]")])
        for part, share in enumerate(shares)
    ]
    joined = qe.Formula(qe.Expression.Sum(terms), {f"$score[{part}]": 0.0 for part in _MODALITIES})

    def answer(row: int, candidates: int) -> Sequence[int]:
        prefetches = [
            qe.Prefetch(
                limit=candidates,
                query=qe.Query.Nearest(rows[row].tolist(), using=name),
                params=qe.SearchParams(hnsw_ef=candidates),
            )
            for name, rows in zip(names, data.queries, strict=True)
        ]
        return [int(hit.id) - 1 for hit in shard.query(qe.QueryRequest(limit=K, query=joined, prefetches=prefetches))]

    yield answer
    shard.close()


def best(scores: NDArray[np.floating], count: int) -> list[int]:
    """Return the rows of the highest scores, best first."""
    count = min(count, len(scores))
    some = np.argpartition(-scores, count - 1)[:count]
    order: list[int] = some[np.argsort(-scores[some])].tolist()
    return order


def _size(folder: Path) -> int:
    """Return the bytes on disk without the write-ahead logs, which have one size whatever they hold."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file() and "wal" not in path.parts)
