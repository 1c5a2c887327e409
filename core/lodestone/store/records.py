"""How do an engine's records become points in column form? The same for every adapter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from lodestone.store.base import Payload, PointBatch


class Record(Protocol):
    """What each engine has a class of its own for."""

    @property
    def id(self) -> Any:  # noqa: ANN401 - a UUID or its string
        """Of the point."""

    @property
    def vector(self) -> Any:  # noqa: ANN401 - floats in a sequence, where it was asked for
        """Of the point."""

    @property
    def payload(self) -> Any:  # noqa: ANN401 - a dict, or None
        """Of the point."""


def as_batch(records: Sequence[Record], *, dim: int) -> PointBatch:
    """Engine records in column form, in their order. Sparse vectors (`dim` 0) are left out."""
    rows = [record.vector for record in records] if dim else []
    vectors = np.array(rows, dtype=np.float32).reshape(len(records), dim)
    payloads: list[Payload] = [record.payload or {} for record in records]
    return PointBatch([str(record.id) for record in records], vectors, payloads)
