"""Conversion of an engine's records to points in column form, the same for every adapter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from lodestone.store.base import Payload, PointBatch


class Record(Protocol):
    """Record of a point; each engine has a class of its own for it."""

    @property
    def id(self) -> Any:  # noqa: ANN401 - a UUID or its string
        """Return the identifier of the point."""

    @property
    def vector(self) -> Any:  # noqa: ANN401 - floats in a sequence, where it was asked for
        """Return the vector of the point."""

    @property
    def payload(self) -> Any:  # noqa: ANN401 - a dict, or None
        """Return the payload of the point."""


def as_batch(records: Sequence[Record], *, dim: int) -> PointBatch:
    """Return engine records in column form, in their order. Sparse vectors (`dim` 0) are left out."""
    rows = [record.vector for record in records] if dim else []
    vectors = np.array(rows, dtype=np.float32).reshape(len(records), dim)
    payloads: list[Payload] = [record.payload or {} for record in records]
    return PointBatch([str(record.id) for record in records], vectors, payloads)
