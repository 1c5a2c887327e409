"""Metric instruments: counters, gauges and histograms that write to one or two exporters.

The first is a Prometheus registry of this process, read at /metrics. The second, a `Mirror`, is used where processes cannot be
scraped one by one: replicas on a Ray cluster report through Ray's own metrics.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Protocol, Self

from prometheus_client import CollectorRegistry
from prometheus_client import Counter as PrometheusCounter
from prometheus_client import Gauge as PrometheusGauge
from prometheus_client import Histogram as PrometheusHistogram

from lodestone_serve.telemetry.metric_table import Definition

MOST_SERIES: Final = 500
"""Label sets of one metric; further ones are counted together as `other`, so that no mistake fills the monitoring."""

OTHER: Final = "other"


class Mirror(Protocol):
    """A second exporter of metrics. Its methods must not block and must not raise."""

    def add(self, definition: Definition, labels: Mapping[str, str], amount: float) -> None:
        """Add `amount` to a counter."""

    def put(self, definition: Definition, labels: Mapping[str, str], value: float) -> None:
        """Set a gauge to `value`."""

    def observe(self, definition: Definition, labels: Mapping[str, str], value: float) -> None:
        """Add one value to a histogram."""


class _Instrument:
    def __init__(self, definition: Definition, metric: Any, mirror: Mirror | None, labels: tuple[str, ...]) -> None:  # noqa: ANN401
        self._definition = definition
        self._metric = metric
        self._mirror = mirror
        self._labels = dict(zip(definition.labels, labels, strict=False))
        self._children: dict[tuple[str, ...], Self] = {}
        self._lock = threading.Lock()

    def labels(self, *values: str) -> Self:
        """Return the series of these label values, one for each label, in the order of the definition."""
        child = self._children.get(values)
        if child is not None:
            return child
        if len(values) != len(self._definition.labels):
            raise ValueError(f"{self._definition.name} has the labels {self._definition.labels}, not {len(values)} of them")
        with self._lock:
            if len(self._children) >= MOST_SERIES and values not in self._children:
                values = (OTHER,) * len(values)
            if values not in self._children:
                self._children[values] = type(self)(self._definition, self._metric.labels(*values), self._mirror, values)
            return self._children[values]


class Counter(_Instrument):
    """A metric that only grows."""

    def inc(self, amount: float = 1.0) -> None:
        """Grow by `amount`, at least 0."""
        self._metric.inc(amount)
        if self._mirror is not None and amount > 0:
            self._mirror.add(self._definition, self._labels, amount)


class Gauge(_Instrument):
    """A metric that goes up and down."""

    def __init__(self, definition: Definition, metric: Any, mirror: Mirror | None, labels: tuple[str, ...]) -> None:  # noqa: ANN401
        super().__init__(definition, metric, mirror, labels)
        self._value = 0.0
        self._known = False  # whether the exporters have a value

    @property
    def value(self) -> float:
        """Return the value that was set last."""
        return self._value

    def set(self, value: float) -> None:
        """Set the gauge to `value`."""
        with self._lock:  # without it, the older of two changes could reach an exporter last, and stay
            self._put(value)

    def inc(self, amount: float = 1.0) -> None:
        """Increase the gauge by `amount`."""
        with self._lock:
            self._put(self._value + amount)

    def dec(self, amount: float = 1.0) -> None:
        """Decrease the gauge by `amount`."""
        self.inc(-amount)

    @contextmanager
    def track_inprogress(self) -> Iterator[None]:
        """Count one more while the block runs."""
        self.inc()
        try:
            yield
        finally:
            self.dec()

    def forget(self, *, besides: Collection[tuple[str, ...]]) -> None:
        """Remove series whose label values are not among `besides`: what they measured no longer exists."""
        with self._lock:
            for values in [key for key in self._children if key not in besides]:
                child = self._children.pop(values)
                child.set(0.0)  # Ray keeps the last value of a series for ever
                self._metric.remove(*values)

    def _put(self, value: float) -> None:
        if value == self._value and self._known:
            return
        self._value, self._known = value, True
        self._metric.set(value)
        if self._mirror is not None:
            self._mirror.put(self._definition, self._labels, value)


class Histogram(_Instrument):
    """A metric that counts how often values fall into each bucket."""

    def observe(self, value: float) -> None:
        """Add one value to the histogram."""
        self._metric.observe(value)
        if self._mirror is not None:
            self._mirror.observe(self._definition, self._labels, value)


class Maker:
    """Makes each definition's instrument, once.

    Args:
        registry: Prometheus registry for all of them.
        mirror: A second exporter; None for none.
    """

    def __init__(self, registry: CollectorRegistry, mirror: Mirror | None = None) -> None:
        self._registry = registry
        self._mirror = mirror

    def counter(self, definition: Definition) -> Counter:
        """Make a counter of this definition."""
        own = PrometheusCounter(definition.name, definition.help, definition.labels, registry=self._registry)
        return Counter(definition, own, self._mirror, ())

    def gauge(self, definition: Definition) -> Gauge:
        """Make a gauge of this definition."""
        own = PrometheusGauge(definition.name, definition.help, definition.labels, registry=self._registry)
        return Gauge(definition, own, self._mirror, ())

    def histogram(self, definition: Definition) -> Histogram:
        """Make a histogram of this definition."""
        own = PrometheusHistogram(
            definition.name, definition.help, definition.labels, buckets=definition.buckets, registry=self._registry
        )
        return Histogram(definition, own, self._mirror, ())
