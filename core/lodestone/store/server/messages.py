"""Conversion of points to a gRPC message without a detour through Python floats and one object for each field.

The bytes of the points are written here, by the tables of Qdrant's `points.proto`, and parsed once by the protobuf library. A
vector's float32 values are copied as bytes; through lists, the client needs two to three times the processor time. Filter
fields repeat from point to point (corpus, root, folders), so each different value is converted once per message.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from qdrant_client import grpc, models
from qdrant_client.conversions.conversion import RestToGrpc, json_to_value

from lodestone.store.base import PointBatch

# Tags of fields that hold bytes: number of the field, times 8, plus 2.
_POINTS: Final = b"\x1a"  # UpsertPoints.points = 3
_PAYLOAD, _VECTORS = b"\x1a", b"\x22"  # PointStruct.payload = 3, .vectors = 4
# PointStruct.id = 1 with PointId.uuid = 2 inside, by the length of the id.
_UUID_HEADS: Final = [bytes([0x0A, length + 2, 0x12, length]) for length in range(64)]
_KEY, _VALUE = b"\x0a", b"\x12"  # of an entry of a map
_VECTOR: Final = b"\x0a"  # Vectors.vector = 1
_DENSE: Final = b"\xaa\x06"  # Vector.dense = 101
_INTEGER: Final = b"\x18"  # Value.integer_value = 3
_MASK: Final = 2**64 - 1  # negative numbers are written as the unsigned ones of the same bits
_ONE_BYTE: Final = [bytes([number]) for number in range(0x80)]
_TEXTS: Final = {str}
_DATA: Final = b"\x0a"  # DenseVector.data = 1, packed: the floats, little-endian


def upsert_message(collection: str, points: PointBatch, *, ordering: models.WriteOrdering | None) -> grpc.UpsertPoints:
    """Return the request that inserts or replaces points; the server answers it when they are durable.

    Args:
        collection: Its name on the server.
        points: Points with (n, dim) float32 vectors of at least one dimension.
        ordering: Order among the writes of several writers; None for none.
    """
    rows = np.ascontiguousarray(points.vectors, dtype="<f4")
    head = _vector_head(rows.shape[1] * rows.itemsize)
    fields = _PayloadFields()
    pieces: list[bytes] = []
    for point_id, row, payload in zip(points.ids, rows, points.payloads, strict=True):
        identifier = point_id.encode()
        content = [
            _UUID_HEADS[len(identifier)],
            identifier,
            *map(fields.encoded, payload, payload.values()),
            head,
            row.tobytes(),
        ]
        pieces += (_POINTS, _varint(sum(map(len, content))), *content)
    message: grpc.UpsertPoints = grpc.UpsertPoints.FromString(b"".join(pieces))
    message.collection_name = collection
    message.wait = True
    if ordering:
        message.ordering.CopyFrom(RestToGrpc.convert_write_ordering(ordering))
    return message


def _vector_head(size: int) -> bytes:
    """Return what stands between the other fields of a point and the `size` bytes of its vector."""
    head = _DATA + _varint(size)
    for tag in (_DENSE, _VECTOR, _VECTORS):
        head = tag + _varint(len(head) + size) + head
    return head


class _PayloadFields:
    """Encoder of payload fields that remembers those of texts and of lists of texts."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], bytes] = {}
        self._lists: dict[tuple[str, ...], bytes] = {}

    def encoded(self, key: str, value: Any) -> bytes:  # noqa: ANN401 - any JSON
        """Return the bytes of one field."""
        kind = type(value)
        if kind is str:
            entry = self._texts.get((key, value))
            if entry is None:
                entry = self._texts[key, value] = _entry(key, value)
            return entry
        if kind is list and set(map(type, value)) == _TEXTS:  # no other types: as a key, 1 is the same as True
            known = (key, *value)
            entry = self._lists.get(known)
            if entry is None:
                entry = self._lists[known] = _entry(key, value)
            return entry
        if kind is int:  # times, which differ from point to point
            return _as_entry(key, _INTEGER + _varint(value & _MASK))
        return _entry(key, value)


def _entry(key: str, value: Any) -> bytes:  # noqa: ANN401 - any JSON
    return _as_entry(key, json_to_value(value).SerializeToString())


def _as_entry(key: str, value: bytes) -> bytes:
    return _field(_PAYLOAD, _field(_KEY, key.encode()) + _field(_VALUE, value))


def _field(tag: bytes, content: bytes) -> bytes:
    return tag + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    if number < len(_ONE_BYTE):
        return _ONE_BYTE[number]
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])
