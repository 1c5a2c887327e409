"""What does the service count? Prometheus metrics of one app, in a registry of its own."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.06, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_BATCHES = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """Counters and histograms of one service. Label values come from the code (route templates, stages), never from users."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "lodestone_http_requests", "Answered requests.", ("method", "route", "status"), registry=self.registry
        )
        self.request_seconds = Histogram(
            "lodestone_http_request_seconds",
            "From the first byte of a request to the last of its answer.",
            ("route",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.stage_seconds = Histogram(
            "lodestone_query_stage_seconds",
            "Time of each stage of a query, as the engine measured it.",
            ("stage",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.in_flight = Gauge("lodestone_queries_in_flight", "Queries worked on.", registry=self.registry)
        self.waiting = Gauge("lodestone_queries_waiting", "Queries admitted and waiting for a slot.", registry=self.registry)
        self.shed = Counter("lodestone_queries_shed", "Queries refused because the queue was full.", registry=self.registry)
        self.text_batch = Histogram(
            "lodestone_text_batch_size", "Texts encoded in one pass.", buckets=_BATCHES, registry=self.registry
        )

    def observe_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        self.requests.labels(method, route, str(status)).inc()
        self.request_seconds.labels(route).observe(seconds)

    def observe_stages(self, timings_ms: Mapping[str, float]) -> None:
        """Record the milliseconds of a query's stages."""
        for stage, milliseconds in timings_ms.items():
            self.stage_seconds.labels(stage).observe(milliseconds / 1000)

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry)
