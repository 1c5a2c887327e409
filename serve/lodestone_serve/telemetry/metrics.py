"""Metrics of one service process: its instruments, under the names by which the rest of the service uses them.

Their meanings are in metric_table.py. `Metrics` is made once per process; a replica on Ray gives it a mirror (ray_metrics.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest

from lodestone.errors import LodestoneError
from lodestone_schemas.api import SearchResponse
from lodestone_serve.telemetry import metric_table as table
from lodestone_serve.telemetry.instruments import OTHER, Maker, Mirror

if TYPE_CHECKING:
    from lodestone_serve.telemetry.instruments import Counter, Gauge

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_BREAKER: Final = {"closed": 0, "half_open": 1, "open": 2}
_OUT_OF_TIME: Final = "out of time"  # ending of every entry that an answer left out for lack of time
_STABLE: Final = "more guides: stable"


class Metrics:
    """Counters, gauges and histograms of one process. Label values come from the code, never from users.

    Args:
        mirror: A second exporter; None for none.
        registry: Read at /metrics; a new one by default, with the process metrics of Python and the operating system.
    """

    def __init__(self, mirror: Mirror | None = None, *, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or _with_process(CollectorRegistry())
        make = Maker(self.registry, mirror)
        self.requests = make.counter(table.HTTP_REQUESTS)
        self.request_seconds = make.histogram(table.HTTP_REQUEST_SECONDS)
        self.errors = make.counter(table.ERRORS)
        self.shed = make.counter(table.SHED)
        self.rates_local = make.gauge(table.RATES_LOCAL)
        self.idempotent_replays = make.counter(table.IDEMPOTENT_REPLAYS)

        self.in_flight = make.gauge(table.IN_FLIGHT)
        self.slots = make.gauge(table.SLOTS)
        self.waiting = make.gauge(table.WAITING)
        self.wait_seconds = make.histogram(table.WAIT_SECONDS)
        self.stage_seconds = make.histogram(table.STAGE_SECONDS)
        self.text_pass_seconds = make.histogram(table.TEXT_PASS_SECONDS)
        self.answers = make.counter(table.ANSWERS)
        self.answers_late = make.counter(table.ANSWERS_LATE)
        self.answers_empty = make.counter(table.ANSWERS_EMPTY)
        self.verdicts = make.counter(table.VERDICTS)
        self.guides = make.counter(table.GUIDES)
        self.guides_saved = make.counter(table.GUIDES_SAVED)
        self.text_batch = make.histogram(table.TEXT_BATCH)
        self.picture_batch = make.histogram(table.PICTURE_BATCH)
        self.judged = make.counter(table.JUDGED)

        self.streams_open = make.gauge(table.STREAMS_OPEN)
        self.streams_resumed = make.counter(table.STREAMS_RESUMED)
        self.streams_cancelled = make.counter(table.STREAMS_CANCELLED)
        self.records_waiting = make.gauge(table.RECORDS_WAITING)
        self.records_lost = make.counter(table.RECORDS_LOST)
        self.answering = make.gauge(table.ANSWERING)
        self.answering_ended = make.counter(table.ANSWERING_ENDED)

        self.engines = EngineMetrics(make)
        self.home = HomeMetrics(make)
        self._begin()

    def observe_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        self.requests.labels(method if method in _METHODS else OTHER, route, str(status)).inc()
        self.request_seconds.labels(route).observe(seconds)

    def observe_error(self, code: str, status: int) -> None:
        """Count a problem that was sent to a client, as an answer or inside a stream."""
        self.errors.labels(code, str(status)).inc()

    def observe_stages(self, timings_ms: Mapping[str, float]) -> None:
        """Record the durations (milliseconds) of a query's stages."""
        for stage, milliseconds in timings_ms.items():
            self.stage_seconds.labels(stage).observe(milliseconds / 1000)

    def observe_answer(self, response: SearchResponse) -> None:
        """Record an answered query: its stages, the gate's verdict, the status of its guides, and what it lacks."""
        self.observe_stages(response.timings_ms)
        self.answers.labels(response.stage).inc()
        if not response.hits:
            self.answers_empty.inc()
        if any(omission.endswith(_OUT_OF_TIME) for omission in response.dropped):
            self.answers_late.inc()
        if response.gate is not None:
            self.verdicts.labels(response.gate.verdict).inc()
        for guide in response.guides:
            self.guides.labels(guide.status).inc()

    def observe_saved(self, response: SearchResponse, *, guides: int) -> None:
        """Record how many fewer guides an answer needed than the `guides` it was allowed."""
        saved = float(guides - len(response.guides))
        if saved <= 0:
            return
        if response.gate is not None and response.gate.verdict == "simple":
            self.guides_saved.labels("gate").inc(saved)
        elif any(omission.startswith(_STABLE) for omission in response.dropped):
            self.guides_saved.labels("stable").inc(saved)

    def _begin(self) -> None:
        """Create the series whose growth alerts watch: a rate does not see the growth from nothing to 1."""
        for code, status in sorted(_codes(LodestoneError)):
            self.errors.labels(code, str(status))
        known = {
            self.shed: ("overloaded", "rate_limited", "deadline", "text_only"),
            self.answers: ("text", "guides", "picture"),
            self.verdicts: ("simple", "complex"),
            self.guides: ("used", "rejected", "dropped"),
            self.guides_saved: ("gate", "stable"),
            self.judged: ("relevant", "irrelevant"),
        }
        for counter, values in known.items():
            for value in values:
                counter.labels(value)

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)


class EngineMetrics:
    """Implements `engine_call.HubObserver`. Engine names come from the settings of the service, never from queries."""

    def __init__(self, make: Maker) -> None:
        self._calls = make.counter(table.ENGINE_CALLS)
        self._seconds = make.histogram(table.ENGINE_SECONDS)
        self._guides = make.counter(table.ENGINE_GUIDES)
        self._cost = make.counter(table.ENGINE_COST)
        self._breaker = make.gauge(table.ENGINE_BREAKER)
        self._cache = make.counter(table.GUIDE_CACHE)

    def asked(self, engine: str, outcome: str, seconds: float, guides: int, cost: float) -> None:
        """Count one call, its guides, its cost and its duration."""
        self._calls.labels(engine, outcome).inc()
        self._guides.labels(engine).inc(guides)
        self._cost.labels(engine).inc(cost)
        if outcome not in {"refused", "unpaid"}:  # these calls never started
            self._seconds.labels(engine).observe(seconds)

    def breaker(self, engine: str, state: str) -> None:
        """Set the gauge of the engine's breaker."""
        self._breaker.labels(engine).set(_BREAKER[state])

    def cache(self, kind: str) -> None:
        """Count one lookup of a guide in the cache."""
        self._cache.labels(kind).inc()


class HomeMetrics:
    """Gauges of the home's state, which sampling.py sets from time to time."""

    def __init__(self, make: Maker) -> None:
        self.info = make.gauge(table.INFO)
        self.part_up = make.gauge(table.PART_UP)
        self.images = make.gauge(table.IMAGES)
        self.points = make.gauge(table.POINTS)
        self.unloaded = make.gauge(table.UNLOADED)
        self.outbox = make.gauge(table.OUTBOX)
        self.last_sync = make.gauge(table.LAST_SYNC)
        self.failures = make.gauge(table.FAILURES)
        self.trust = make.gauge(table.TRUST)
        self.trust_topics = make.gauge(table.TRUST_TOPICS)
        self.runs = make.gauge(table.RUNS)
        self.run_heartbeat = make.gauge(table.RUN_HEARTBEAT)
        self.run_rate = make.gauge(table.RUN_RATE)
        self.run_busy = make.gauge(table.RUN_BUSY)
        self.run_waiting = make.gauge(table.RUN_WAITING)
        self.run_limit = make.gauge(table.RUN_LIMIT)
        self.run_left = make.gauge(table.RUN_LEFT)
        self.gpu_busy = make.gauge(table.GPU_BUSY)
        self.gpu_memory = make.gauge(table.GPU_MEMORY)
        self.gpu_size = make.gauge(table.GPU_SIZE)
        self.jobs = make.gauge(table.JOBS)
        self.job_steps = make.counter(table.JOB_PROGRESS)
        self.job_failures = make.counter(table.JOB_FAILURES)
        self.disk_free = make.gauge(table.DISK_FREE)
        self.disk_size = make.gauge(table.DISK_SIZE)
        self.sampled = make.gauge(table.SAMPLED)
        self.sampling_failures = make.counter(table.SAMPLING_FAILURES)


def _codes(error: type[LodestoneError]) -> set[tuple[str, int]]:
    """Return (code, HTTP status) of a class of errors and of its subclasses."""
    return {(error.code, error.status)}.union(*(_codes(below) for below in error.__subclasses__()))


def _with_process(registry: CollectorRegistry) -> CollectorRegistry:
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    return registry


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
