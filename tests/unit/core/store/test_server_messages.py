"""Messages whose bytes are written by hand are those that qdrant-client makes of the same points."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid5

import numpy as np
import pytest
from qdrant_client import grpc, models
from qdrant_client.conversions.conversion import RestToGrpc

from lodestone.store.base import PointBatch
from lodestone.store.server.messages import upsert_message

PAYLOADS: list[dict[str, Any]] = [
    {},
    {"corpus": "a", "root": "", "folders": ["", "x", "x/ü" * 50], "taken_at": 1_600_000_000},
    {"corpus": "a", "root": "a", "folders": [], "taken_at": -5},
    {"number": 1, "truth": True, "real": 1.0, "none": None, "zero": 0, "large": 2**62, "small": -(2**62)},
    {"mixed": ["1", 1, True, 1.5, None], "ones": [1], "truths": [True], "texts": ["1"], "text": "1"},
    *({"same": [value]} for value in (1, True, 1.0, "1")),  # the first three are one key of a dictionary
    {"nested": {"a": {"b": [1, {"c": "d"}]}}, "x" * 200: "y" * 20_000},
]


@pytest.mark.parametrize("dim", [1, 40, 512, 5000])
@pytest.mark.parametrize("ordering", [None, models.WriteOrdering.MEDIUM])
def test_a_message_is_what_the_client_would_send(dim: int, ordering: models.WriteOrdering | None) -> None:
    payloads = PAYLOADS * 2  # the second time, texts and lists are known
    ids = [str(uuid5(UUID(int=0), str(row))) for row in range(len(payloads))]
    vectors = np.random.default_rng(0).normal(size=(len(payloads), dim)).astype(np.float32)
    message = upsert_message("a.b", PointBatch(ids, vectors, payloads), ordering=ordering)
    structs = [
        RestToGrpc.convert_point_struct(models.PointStruct(id=point_id, vector=row.tolist(), payload=payload))
        for point_id, row, payload in zip(ids, vectors, payloads, strict=True)
    ]
    wanted = grpc.UpsertPoints(collection_name="a.b", wait=True, points=structs)
    if ordering:
        wanted.ordering.CopyFrom(RestToGrpc.convert_write_ordering(ordering))
    assert [_dense(point) for point in message.points] == [_dense(point) for point in wanted.points]
    for point in (*message.points, *wanted.points):
        point.ClearField("vectors")
    assert message == wanted


def test_no_points_are_a_message_too() -> None:
    message = upsert_message("a", PointBatch([], np.empty((0, 4), np.float32), []), ordering=None)
    assert message == grpc.UpsertPoints(collection_name="a", wait=True)


def _dense(point: grpc.PointStruct) -> list[float]:
    vector = point.vectors.vector
    return list(vector.dense.data) or list(vector.data)  # clients before 1.17 filled the second
