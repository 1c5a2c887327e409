"""Methods of MUST's comparison over a set of vectors: joint search, merged streams and joint embedding, exact or in a store.

A method is a `VectorSearch`. Exact methods score all objects (MUST-- and MR-- in the paper). Those of a store search graphs:
one over fused vectors (composed/fused.py) for joint search, whatever the weights, one a modality for the others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from lodestone.composed.fused import FusedLayout, FusedSpace, narrowed
from lodestone.composed.joint import JointPart
from lodestone.store.base import PointBatch, VectorQuery, VectorStore
from lodestone_eval.composed.modalities import Floats, VectorModality
from lodestone_eval.composed.vector_sets import VectorSet
from lodestone_schemas.collections import FUSED_FIELDS, HOLDS, CollectionSpec, HnswSpec

Places = NDArray[np.int64]
_BATCH: Final = 2_000  # points of one upsert


class VectorSearch(ABC):
    """Ranks the objects of a vector set for its queries; `name` is shown in reports."""

    name: str
    has_effort: bool = True  # whether `effort` changes the answer

    @abstractmethod
    def search(self, query: int, k: int, effort: int) -> Places:
        """Return at most k objects, best first, without those that the query leaves out.

        Args:
            query: Number of the query.
            k: Most objects to return.
            effort: The paper's l: candidates of a graph search, or of each stream.
        """


def best(scores: NDArray[np.floating], k: int, left_out: Sequence[int] | NDArray[np.int32] = ()) -> Places:
    """Return the places of the k highest scores, equal ones by place; NaN scores and `left_out` are not among them."""
    usable = np.where(np.isnan(scores), -np.inf, scores).astype(np.float64)
    usable[np.asarray(left_out, np.int64)] = -np.inf
    k = min(k, int((usable > -np.inf).sum()))
    if k == 0:
        return np.empty(0, np.int64)
    least = np.partition(usable, len(usable) - k)[len(usable) - k]
    places = np.flatnonzero(usable >= least)
    return places[np.lexsort((places, -usable[places]))][:k]


def joint_scores(vectors: VectorSet, weights: NDArray[np.float64], query: int) -> NDArray[np.float64]:
    """Return the joint similarity of a query with each object: `lodestone.composed.joint.scores` over a vector set.

    Args:
        vectors: The set.
        weights: (modalities,) squares.
        query: Number of the query.

    Returns:
        (objects,) float64; NaN where object and query share no modality of weight above 0.
    """
    return joined(similarities_of(vectors, query), weights, vectors.objects)


def similarities_of(vectors: VectorSet, query: int) -> list[Floats | None]:
    """Return the similarities of a query with the objects in each modality; None where it lacks the modality."""
    return [modality.similarities(query) for modality in vectors.modalities]


def joined(similarities: Sequence[Floats | None], weights: NDArray[np.float64], objects: int) -> NDArray[np.float64]:
    """Return (objects,) the weighted mean of similarities over the modalities that an object has; NaN where it has none."""
    weighted = np.zeros(objects)
    total = np.zeros(objects)
    for column, weight in zip(similarities, weights, strict=True):
        if column is not None and weight > 0:
            lacking = np.isnan(column)
            weighted += np.where(lacking, 0.0, column) * weight
            total += np.where(lacking, 0.0, weight)
    scores: NDArray[np.float64] = np.divide(weighted, total, out=np.full(objects, np.nan), where=total > 0)
    return scores


class ExactJoint(VectorSearch):
    """Joint search by brute force (MUST-- in the paper)."""

    name = "MUST, exact"
    has_effort = False

    def __init__(self, vectors: VectorSet, weights: NDArray[np.float64]) -> None:
        self._vectors = vectors
        self._weights = weights

    def search(self, query: int, k: int, effort: int) -> Places:  # noqa: ARG002 - all objects are scored
        """Return the objects of the highest joint similarity."""
        return best(joint_scores(self._vectors, self._weights, query), k, self._vectors.left_out(query))


class ExactStreams(VectorSearch):
    """Multi-streamed retrieval by brute force (MR-- in the paper)."""

    name = "MR, exact"

    def __init__(self, vectors: VectorSet) -> None:
        self._vectors = vectors

    def search(self, query: int, k: int, effort: int) -> Places:
        """Return the merged results of one exact search in each modality of the query."""
        left_out = self._vectors.left_out(query)
        streams = [
            best(similarities, max(effort, k), left_out)
            for modality in self._vectors.modalities
            if (similarities := modality.similarities(query)) is not None
        ]
        return merge_streams(streams, k)


class ExactEmbedding(VectorSearch):
    """Joint embedding by brute force (JE): the composition vector among the target vectors."""

    name = "JE, exact"
    has_effort = False

    def __init__(self, vectors: VectorSet) -> None:
        self._vectors = vectors
        self._composed = composed_target(vectors)

    def search(self, query: int, k: int, effort: int) -> Places:  # noqa: ARG002 - all objects are scored
        """Return the objects whose target vector is nearest to the composition vector."""
        similarities = self._composed.similarities(query)
        if similarities is None:
            return np.empty(0, np.int64)
        return best(similarities, k, self._vectors.left_out(query))


def composed_target(vectors: VectorSet) -> VectorModality:
    """Return the target modality with the composition vectors as its queries.

    Raises:
        ValueError: the set has no composition vectors.
    """
    target = vectors.modalities[0]
    if vectors.composition is None or not isinstance(target, VectorModality):
        raise ValueError(f"{vectors.name} has no composition vectors")
    return VectorModality(target.name, target.base, vectors.composition)


def merge_streams(streams: Sequence[Places], k: int) -> Places:
    """Return the intersection of the streams in the order of the first, filled up with the first stream's best.

    This is the published code's merge. It keeps the intersection as a set, so that its order is undefined there, and the paper
    defines none; the first modality is the target, whose order is kept here.

    Args:
        streams: Results of each modality, best first.
        k: Most objects to return.
    """
    if not streams:
        return np.empty(0, np.int64)
    first, *others = streams
    shared = np.ones(len(first), bool)
    for stream in others:
        shared &= np.isin(first, stream)
    return np.concatenate([first[shared][:k], first[~shared]])[:k]


class StoreJoint(VectorSearch):
    """Joint search in a store: one graph over fused vectors, as composed queries are searched (composed/fused.py).

    Args:
        store: The store to fill.
        vectors: The set.
        weights: (modalities,) squares of the queries.
        hnsw: Parameters of the graph.
    """

    name = "MUST"

    def __init__(self, store: VectorStore, vectors: VectorSet, weights: NDArray[np.float64], *, hnsw: HnswSpec) -> None:
        self._store = store
        self._vectors = vectors
        self._collection = "eval-joint"
        bases: dict[str, NDArray[np.float32]] = {}
        self._asked: dict[str, NDArray[np.float32]] = {}
        spaces = []
        for modality in vectors.modalities:
            base, self._asked[modality.name] = modality.columns()
            has = base.any(axis=1, keepdims=True)
            bases[modality.name] = np.where(has, base, np.float32(np.nan))
            spaces.append(FusedSpace(modality.name, modality.name, base.shape[1], optional=not has.all()))
        self._layout = FusedLayout("eval", tuple(spaces))
        fill(store, self._collection, self._layout.join(bases), hnsw, holds=self._layout.holds(bases))
        self.weights = weights

    def search(self, query: int, k: int, effort: int) -> Places:
        """Return the objects of the highest joint similarity that the graph search finds."""
        parts = [
            JointPart(name, name, asked[query], float(weight))
            for (name, asked), weight in zip(self._asked.items(), self.weights, strict=True)
            if weight > 0 and asked[query].any()
        ]
        if not parts:
            return np.empty(0, np.int64)
        left_out = self._vectors.left_out(query)
        limit = k + len(left_out)
        presences = list(self._layout.presences(parts))
        vector = self._layout.asked(parts)
        queries = [
            VectorQuery(vector, limit=limit, filter=narrowed(None, presence.condition), ef=max(effort, limit))
            for presence in presences
        ]
        answers = self._store.search(self._collection, queries)
        found = np.array([UUID(point).int for answer in answers for point in answer.ids], np.int64)
        scores = np.concatenate([answer.scores / one.weight for one, answer in zip(presences, answers, strict=True)])
        found = found[np.lexsort((found, -scores))]
        return found[~np.isin(found, left_out)][:k]


class StoreStreams(VectorSearch):
    """Multi-streamed retrieval in a store: one graph a modality, and merged results.

    Args:
        store: The store to fill.
        vectors: The set.
        hnsw: Parameters of the graphs.
        composed: Whether the first stream searches for the composition vector (MR with JE in the paper).
    """

    name = "MR"

    def __init__(self, store: VectorStore, vectors: VectorSet, *, hnsw: HnswSpec, composed: bool = False) -> None:
        self._store = store
        self._vectors = vectors
        columns = [modality.columns() for modality in vectors.modalities]
        if composed:
            self.name = "MR with JE"
            columns[0] = composed_target(vectors).columns()
        self._collections = [f"eval-{modality.name}" for modality in vectors.modalities]
        for collection, (base, _) in zip(self._collections, columns, strict=True):
            if collection not in store.collections():
                fill(store, collection, base, hnsw)
        self._asked = [asked for _, asked in columns]

    def search(self, query: int, k: int, effort: int) -> Places:
        """Return the merged results of one graph search in each modality of the query."""
        left_out = self._vectors.left_out(query)
        streams = []
        for collection, asked in zip(self._collections, self._asked, strict=True):
            if asked[query].any():
                found = nearest(self._store, collection, asked[query], max(effort, k) + len(left_out), effort)
                streams.append(found[~np.isin(found, left_out)])
        return merge_streams(streams, k)


class StoreEmbedding(VectorSearch):
    """Joint embedding in a store: the composition vector in the graph of the target modality."""

    name = "JE"

    def __init__(self, store: VectorStore, vectors: VectorSet, *, hnsw: HnswSpec) -> None:
        self._store = store
        self._vectors = vectors
        base, self._asked = composed_target(vectors).columns()
        self._collection = f"eval-{vectors.modalities[0].name}"
        if self._collection not in store.collections():
            fill(store, self._collection, base, hnsw)

    def search(self, query: int, k: int, effort: int) -> Places:
        """Return the objects whose target vector the graph search finds nearest to the composition vector."""
        left_out = self._vectors.left_out(query)
        found = nearest(self._store, self._collection, self._asked[query], k + len(left_out), effort)
        return found[~np.isin(found, left_out)][:k]


def fill(
    store: VectorStore, name: str, vectors: NDArray[np.float32], hnsw: HnswSpec, *, holds: Sequence[Sequence[str]] | None = None
) -> None:
    """Create a collection of these vectors, by number, and build its graph.

    Args:
        store: The store.
        name: Name of the collection.
        vectors: (n, dim) float32.
        hnsw: Parameters of the graph.
        holds: The field `holds` of each of the fused vectors; None for others.
    """
    store.create(CollectionSpec(name, vectors.shape[1], fields=() if holds is None else FUSED_FIELDS[:1], hnsw=hnsw))
    for first in range(0, len(vectors), _BATCH):
        rows = np.ascontiguousarray(vectors[first : first + _BATCH])
        ids = [str(UUID(int=first + number)) for number in range(len(rows))]
        payloads = [{} if holds is None else {HOLDS: list(holds[first + number])} for number in range(len(rows))]
        store.upsert(name, PointBatch(ids, rows, payloads))
    store.build(name)


def nearest(store: VectorStore, name: str, vector: NDArray[np.float32], limit: int, ef: int) -> Places:
    """Return the numbers of the nearest points, best first."""
    (found,) = store.search(name, [VectorQuery(vector, limit=limit, ef=max(ef, limit))])
    return np.array([UUID(point).int for point in found.ids], np.int64)
