"""Seeded points for tests of vector stores."""

from __future__ import annotations

import uuid

import numpy as np

from lodestone.store.base import PointBatch


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
    """Points with every filter field; `taken_at` is missing from each seventh."""
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
        payloads.append(payload)
    return PointBatch([point_id(number) for number in numbers], clustered(count, dim, seed=seed), payloads)
