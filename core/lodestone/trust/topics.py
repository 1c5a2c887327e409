"""Topics of queries: a query belongs to the nearest topic by its text vector, if that is near enough.

A topic's centre is the sum of its queries' vectors. Sums of many vectors keep what the queries have in common, so a query that
resembles no single earlier one is still near the topic of its kind.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.catalog.use_records import TopicRecord

NEAR: Final = 0.15  # cosine of a query to a topic's centre from which it belongs to it; fitted on validation data (MiniLM)
WORDS: Final = 5  # queries shown with a topic


@dataclass(frozen=True, slots=True)
class Topic:
    """Holds the trust in one topic; immutable.

    Attributes:
        name: Name given by the client, or made from the topic's first query (`new_name`).
        encoder: Text encoder of `centre`.
        centre: (d,) float64, sum of the queries' unit vectors; None while none of its queries had one.
        queries: Number of feedbacks that count.
        weights: Space -> weight, > 0; only their ratios matter.
        words: Texts of its latest queries.
    """

    name: str
    encoder: str | None = None
    centre: NDArray[np.float64] | None = None
    queries: int = 0
    weights: Mapping[str, float] | None = None
    words: tuple[str, ...] = ()

    def to_record(self) -> TopicRecord:
        """Return the catalog's record of this topic; numbers are kept bit for bit."""
        centre = None if self.centre is None else self.centre.tobytes()
        return TopicRecord(self.name, self.encoder, centre, self.queries, dict(self.weights or {}), list(self.words))

    @classmethod
    def from_record(cls, record: TopicRecord) -> Topic:
        """Return the topic of a record that `to_record` made."""
        centre = None if record.centre is None else np.frombuffer(record.centre, np.float64)
        return cls(record.topic, record.encoder, centre, record.queries, dict(record.weights), tuple(record.words))


Topics = Mapping[str, Topic]


def new_name(text: str, vector: NDArray[np.float32] | None) -> str:
    """Return the name of the topic that a query begins: the same in every home for the same query, else another."""
    content = text.encode("utf-8", "surrogatepass") + (b"" if vector is None else vector.tobytes())
    return f"topic-{hashlib.sha256(content).hexdigest()[:8]}"


class TopicIndex:
    """Finds the nearest topic by the centres of all topics; immutable.

    Args:
        topics: Topics by name.
        most: Highest number of topics. Once it is reached no topic is added, and every query gets the nearest one.
    """

    def __init__(self, topics: Topics, *, most: int) -> None:
        self._full = len(topics) >= most
        groups: dict[tuple[str, int], list[Topic]] = {}
        for name in sorted(topics):
            topic = topics[name]
            if topic.centre is not None and topic.encoder is not None:
                groups.setdefault((topic.encoder, len(topic.centre)), []).append(topic)
        self._names = {key: [topic.name for topic in group] for key, group in groups.items()}
        self._centres = {key: _units(group) for key, group in groups.items()}

    def nearest(self, vector: NDArray[np.float32], encoder: str) -> str | None:
        """Return the name of the topic for a query, or None when the query begins a new one.

        Args:
            vector: (d,) float32 vector of the query's text.
            encoder: Text encoder that made it.
        """
        key = (encoder, len(vector))
        if key not in self._names:
            return None
        cosines = self._centres[key] @ vector
        best = int(cosines.argmax())
        return self._names[key][best] if self._full or cosines[best] >= NEAR else None


def _units(topics: list[Topic]) -> NDArray[np.float64]:
    centres = np.stack([topic.centre for topic in topics if topic.centre is not None])
    units: NDArray[np.float64] = centres / np.maximum(np.linalg.norm(centres, axis=1, keepdims=True), 1e-12)
    return units
