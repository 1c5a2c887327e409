"""Records of queries, feedback and trust that the catalog returns: plain frozen dataclasses."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class QueryRecord:
    """Record of one answered query; `summary` is JSON for lists, `trace` is `Trace.to_bytes` (empty in lists)."""

    query_id: str
    created_at: datetime
    kind: str
    text: str
    topic: str | None
    summary: dict[str, Any]
    trace: bytes = b""
    owner: str = ""


@dataclass(frozen=True, slots=True)
class FeedbackRecord:
    """Record of which pictures of an answer were relevant (image ids, ascending).

    `active` is True if trust counts it, so that it is neither undone nor reset.
    """

    query_id: str
    relevant: tuple[str, ...]
    irrelevant: tuple[str, ...]
    eta: float
    created_at: datetime
    event_id: str | None = None
    active: bool = False

    @classmethod
    def of(cls, query_id: str, relevant: Iterable[str], irrelevant: Iterable[str], eta: float) -> Self:
        """Create feedback given now in canonical form: ids without repeats, ascending."""
        return cls(query_id, tuple(sorted(set(relevant))), tuple(sorted(set(irrelevant))), eta, datetime.now(UTC))

    @property
    def digest(self) -> str:
        """Return a digest that is the same for the same judgement, whatever its rate and time: SHA-256 hex."""
        return hashlib.sha256(json.dumps([self.relevant, self.irrelevant]).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """Current trust of one topic; `centre` is the sum of its queries' vectors, (d,) float64 bytes, made by `encoder`."""

    topic: str
    encoder: str | None
    centre: bytes | None
    queries: int
    weights: dict[str, float]
    words: list[str]


@dataclass(frozen=True, slots=True)
class TrustEvent:
    """One change of trust; `seq` counts from 1 without a gap, `cause` is a query id or the id of the event it undoes."""

    seq: int
    event_id: str
    created_at: datetime
    kind: str  # feedback, reset, import, undo
    topic: str | None
    cause: str
    before: dict[str, float]
    after: dict[str, float]
    details: dict[str, Any]
    vector: bytes | None = None  # (d,) float32 bytes
