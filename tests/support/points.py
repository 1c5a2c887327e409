"""Seeded points for tests of vector stores."""

from __future__ import annotations

import uuid

import numpy as np

from lodestone.store.base import PointBatch, SparseBatch, SparseVector


def point_id(number: int, *, seed: int = 0) -> str:
    """A UUID that says nothing about the number's order."""
    return str(uuid.uuid5(uuid.UUID(int=seed), str(number)))


def clustered(count: int, dim: int, *, seed: int, clusters: int = 50, spread: float = 0.35) -> np.ndarray:
    """(count, dim) float32, L2-normalised, around `clusters` centres: what embeddings look like."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((clusters, dim)) / np.sqrt(dim)
    points = centres[rng.integers(clusters, size=count)] + spread * rng.standard_normal((count, dim)) / np.sqrt(dim)
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)


def make_points(count: int, dim: int, *, seed: int = 0, first: int = 0) -> PointBatch:
    """Points with every filter field; `taken_at` is missing from each seventh, and `taken_utc` is in each third alone."""
    numbers = range(first, first + count)
    payloads = []
    for number in numbers:
        folder = f"year{number % 5}"
        payload = {
            "corpus": f"corpus{number % 3}",
            "root": f"root{number % 2}",
            "folders": ["", folder, f"{folder}/month{number % 4}"],
        }
        if number % 7:
            payload["taken_at"] = 1_000_000_000 + number
        if not number % 3:
            payload["taken_utc"] = 1_000_000_000 + number - 100
        payloads.append(payload)
    return PointBatch([point_id(number) for number in numbers], clustered(count, dim, seed=seed), payloads)


def make_sparse_points(count: int, *, seed: int = 0, first: int = 0, terms: int = 400, longest: int = 8) -> SparseBatch:
    """The points of `make_points`, with 1 to `longest` of `terms` terms all over uint32 each, and weights in (0, 1]."""
    rng = np.random.default_rng(seed)
    vectors = []
    for _ in range(count):
        chosen = np.sort(rng.choice(terms, size=rng.integers(1, longest + 1), replace=False))
        indices = (chosen * ((2**32 - 1) // (terms - 1))).astype(np.uint32)
        vectors.append(SparseVector(indices, (1 - rng.random(len(chosen))).astype(np.float32)))
    dense = make_points(count, 1, first=first)
    return SparseBatch(dense.ids, vectors, dense.payloads)


def sparse_products(points: SparseBatch, vector: SparseVector) -> np.ndarray:
    """(n,) float64 inner products of the points with the vector."""
    weights = dict(zip(vector.indices.tolist(), vector.values.tolist(), strict=True))
    return np.array(
        [
            sum(value * weights.get(index, 0.0) for index, value in zip(p.indices.tolist(), p.values.tolist(), strict=True))
            for p in points.vectors
        ]
    )
