"""Trust state in memory: the topics, read again when any process has changed them."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lodestone.trust.topics import Topic, TopicIndex, Topics

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog

_REFRESH_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class TrustState:
    """Holds the topics and their index after the event with number `seq`."""

    seq: int
    topics: Topics
    index: TopicIndex


class StateReader:
    """Keeps the newest state that was read; thread-safe, blocking.

    Args:
        catalog: The catalog that holds the topics.
        most: Highest number of topics (see `TopicIndex`).
    """

    def __init__(self, catalog: Catalog, *, most: int) -> None:
        self._catalog = catalog
        self._most = most
        self._lock = threading.Lock()
        self._known: TrustState | None = None
        self._looked_at = 0.0

    @property
    def is_recent(self) -> bool:
        """Whether the state in memory was the newest within the last second."""
        return self._known is not None and time.monotonic() - self._looked_at < _REFRESH_S

    def recent(self) -> TrustState:
        """Return a state that was the newest within the last second, usually from memory."""
        state = self._known
        return state if state is not None and self.is_recent else self.newest()

    def newest(self) -> TrustState:
        """Return the state as the catalog has it now."""
        with self._lock:
            looked_at = time.monotonic()
            if self._known is None or self._catalog.trust_seq() != self._known.seq:
                seq, records = self._catalog.trust_topics()
                topics = {record.topic: Topic.from_record(record) for record in records}
                self._known = TrustState(seq, topics, TopicIndex(topics, most=self._most))
            self._looked_at = looked_at
            return self._known
