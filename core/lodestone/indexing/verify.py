"""Does a collection hold what catalog and Parquet files say? Counts, and sampled vectors projected once more."""

from __future__ import annotations

import random
from typing import Final

import numpy as np

from lodestone.catalog.records import SliceRecord
from lodestone.errors import StoreError
from lodestone.indexing.load import Target
from lodestone.indexing.progress import Progress, ProgressEvent, Stage
from lodestone.store.base import VectorStore

LEAST_COSINE: Final = 0.99999
_SLICES: Final = 3
_ROWS: Final = 8  # of each sampled slice


def verify(store: VectorStore, target: Target, *, progress: Progress) -> StoreError | None:
    """Compare the collection with the truth; returns what is wrong as the error to raise, or None.

    Raises:
        EmbeddingsDamagedError: a sampled slice's file is missing or damaged.
    """
    progress(ProgressEvent(Stage.VERIFY, detail=target.collection))
    least, most = target.expected()
    points = store.count(target.collection)
    if not least <= points <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        return _differs(target, f"holds {points} points; the catalog has {wanted}")
    for record in _sample(target):
        wrong = _compare(store, target, record)
        if wrong:
            return _differs(target, wrong)
    return None


def _sample(target: Target) -> list[SliceRecord]:
    """A few slices that should be loaded, chosen evenly by one pass over their records."""
    draw = random.Random(target.collection)  # noqa: S311 - a sample, not a secret
    chosen: list[SliceRecord] = []
    for number, record in enumerate(target.catalog.slices()):
        if len(chosen) < _SLICES:
            chosen.append(record)
        elif (place := draw.randrange(number + 1)) < _SLICES:
            chosen[place] = record
    return [record for record in chosen if set(target.required) <= target.catalog.receipts(record.slice_id).keys()]


def _compare(store: VectorStore, target: Target, record: SliceRecord) -> str:
    batch = target.points([record])
    rows = sorted(random.Random(record.slice_id).sample(range(len(batch)), min(_ROWS, len(batch))))  # noqa: S311
    if not rows:
        return ""
    found = store.retrieve(target.collection, [batch.ids[row] for row in rows])
    if len(found) < len(rows):
        return f"lacks {len(rows) - len(found)} of {len(rows)} sampled points"
    cosines = np.einsum("ij,ij->i", batch.vectors[rows], found.vectors)
    worst = float(cosines.min())
    return "" if worst >= LEAST_COSINE else f"holds a vector that differs from its projection (cosine {worst:.5f})"


def _differs(target: Target, how: str) -> StoreError:
    return StoreError(
        f"the collection {target.collection!r} {how}",
        hint="run the same command again when no other index run is going on; if it persists, stop the service, delete the "
        "home's store folder (on a server: the collection) and index again: stored outputs are loaded, no picture is read",
        collection=target.collection,
    )
