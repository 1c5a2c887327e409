"""What does the service count? Prometheus metrics of one app, in a registry of its own."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from lodestone_schemas.api import SearchResponse

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.06, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_BREAKER = {"closed": 0, "half_open": 1, "open": 2}
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

        self.engines = EngineMetrics(self.registry)
        self.verdicts = Counter(
            "lodestone_gate_verdicts", "What the complexity gate made of queries.", ("verdict",), registry=self.registry
        )
        self.guides = Counter(
            "lodestone_guides", "Guides of answered queries, by what became of them.", ("status",), registry=self.registry
        )

    def observe_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        self.requests.labels(method, route, str(status)).inc()
        self.request_seconds.labels(route).observe(seconds)

    def observe_stages(self, timings_ms: Mapping[str, float]) -> None:
        """Record the milliseconds of a query's stages."""
        for stage, milliseconds in timings_ms.items():
            self.stage_seconds.labels(stage).observe(milliseconds / 1000)

    def observe_answer(self, response: SearchResponse) -> None:
        """Record the stages of an answered query, the gate's verdict and what became of its guides."""
        self.observe_stages(response.timings_ms)
        if response.gate is not None:
            self.verdicts.labels(response.gate.verdict).inc()
        for guide in response.guides:
            self.guides.labels(guide.status).inc()

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry)


class EngineMetrics:
    """Meets `generators.asking.HubObserver`. Engine names come from the settings of the service, never from queries."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._calls = Counter(
            "lodestone_generator_calls", "Calls of guide engines, by how they ended.", ("engine", "outcome"), registry=registry
        )
        self._seconds = Histogram(
            "lodestone_generator_seconds",
            "Time of one call of a guide engine.",
            ("engine",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._guides = Counter("lodestone_generator_guides", "Guides that engines gave.", ("engine",), registry=registry)
        self._cost = Counter("lodestone_generator_cost", "What engines charged.", ("engine",), registry=registry)
        self._breaker = Gauge(
            "lodestone_generator_breaker",
            "Breaker of an engine: 0 closed, 1 half open, 2 open.",
            ("engine",),
            registry=registry,
        )
        self._cache = Counter(
            "lodestone_guide_cache", "Look-ups of the guide cache, by result.", ("result",), registry=registry
        )

    def asked(self, engine: str, outcome: str, seconds: float, guides: int, cost: float) -> None:
        """One call ended."""
        self._calls.labels(engine, outcome).inc()
        self._guides.labels(engine).inc(guides)
        self._cost.labels(engine).inc(cost)
        if outcome not in {"refused", "unpaid"}:  # these never began
            self._seconds.labels(engine).observe(seconds)

    def breaker(self, engine: str, state: str) -> None:
        """A breaker changed."""
        self._breaker.labels(engine).set(_BREAKER[state])

    def cache(self, kind: str) -> None:
        """A guide was looked for."""
        self._cache.labels(kind).inc()
