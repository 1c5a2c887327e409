"""Metrics of the recording of queries: records that wait, and records that were lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lodestone_serve.telemetry.instruments import Counter, Gauge


class RecordMetrics:
    """Implements `recorder.RecordObserver` by a gauge and a counter."""

    def __init__(self, waiting: Gauge, lost: Counter) -> None:
        self._waiting = waiting
        self._lost = lost

    def waiting(self, records: int) -> None:
        """Set the number of records that are queued."""
        self._waiting.set(records)

    def lost(self, records: int) -> None:
        """Count records that were not written."""
        self._lost.inc(records)
