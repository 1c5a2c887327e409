"""Definitions of all metrics, in one table for the service's own registry and for Ray's alike.

Names are without the `_total` that counters end with when they are exported. Label values come from the code (route templates,
stages, codes of errors) or from the settings (engines, spaces), never from users.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["counter", "gauge", "histogram"]

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.06, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
LONG_SECONDS: Final = (*SECONDS, 30.0, 60.0, 120.0, 300.0)
BATCHES: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


@dataclass(frozen=True, slots=True)
class Definition:
    """Definition of one metric.

    Attributes:
        name: Exported name, a counter's without `_total`.
        kind: Counter, gauge or histogram.
        help: One sentence for people.
        labels: Names of labels.
        buckets: Upper bounds of a histogram's buckets, all above 0.
        shared: True for a fact of the whole home, which every replica reports alike: take the maximum, not the sum.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    shared: bool = False

    def series(self) -> tuple[str, ...]:
        """Return the names under which Prometheus finds it."""
        if self.kind == "counter":
            return (f"{self.name}_total",)
        if self.kind == "histogram":
            return (f"{self.name}_bucket", f"{self.name}_sum", f"{self.name}_count")
        return (self.name,)


def _counter(name: str, help_: str, *labels: str) -> Definition:
    return Definition(f"lodestone_{name}", "counter", help_, labels)


def _gauge(name: str, help_: str, *labels: str, shared: bool = False) -> Definition:
    return Definition(f"lodestone_{name}", "gauge", help_, labels, shared=shared)


def _histogram(name: str, help_: str, *labels: str, buckets: tuple[float, ...] = SECONDS) -> Definition:
    return Definition(f"lodestone_{name}", "histogram", help_, labels, buckets)


# -- requests ----------------------------------------------------------------------------------------------------------------

HTTP_REQUESTS = _counter("http_requests", "Answered requests.", "method", "route", "status")
HTTP_REQUEST_SECONDS = _histogram(
    "http_request_seconds", "From the first byte of a request to the last of its answer.", "route", buckets=LONG_SECONDS
)
ERRORS = _counter("errors", "Problems that clients were told, inside streams too, by code and HTTP status.", "code", "status")
SHED = _counter(
    "queries_shed",
    "Queries refused (overloaded, rate_limited), expired while waiting (deadline), or answered without guides (text_only).",
    "reason",
)
RATES_LOCAL = _gauge("rates_local", "1 while replicas count rates alone, because the shared counter does not answer; else 0.")
IDEMPOTENT_REPLAYS = _counter("idempotent_replays", "Writes that were answered from their first answer.")

# -- queries -----------------------------------------------------------------------------------------------------------------

IN_FLIGHT = _gauge("queries_in_flight", "Queries worked on.")
SLOTS = _gauge("queries_slots", "Queries that may be worked on at once, as the service finds out.")
WAITING = _gauge("queries_waiting", "Queries admitted and waiting for a slot.")
WAIT_SECONDS = _histogram("query_wait_seconds", "Time from a query's arrival to its slot, by priority.", "priority")
STAGE_SECONDS = _histogram("query_stage_seconds", "Time of each stage of a query, as the engine measured it.", "stage")
TEXT_PASS_SECONDS = _histogram("text_pass_seconds", "From the arrival of a query in words to the answer of its text pass.")
ANSWERS = _counter("answers", "Answered queries, by the stage that their answer comes from.", "stage")
ANSWERS_LATE = _counter("answers_late", "Answers that left something out for want of time.")
ANSWERS_EMPTY = _counter("answers_empty", "Answers without a picture.")
VERDICTS = _counter("gate_verdicts", "What the complexity gate made of queries.", "verdict")
GUIDES = _counter("guides", "Guides of answered queries, by what became of them.", "status")
GUIDES_SAVED = _counter("guides_saved", "Guides that were allowed and not needed: the gate, or stable results.", "reason")
TEXT_BATCH = _histogram("text_batch_size", "Texts encoded in one pass.", buckets=BATCHES)
PICTURE_BATCH = _histogram("picture_batch_size", "Pictures embedded in one pass.", buckets=BATCHES)
JUDGED = _counter("judged_hits", "Hits that people called right or wrong.", "judgement")

# -- streams and work after the answer ---------------------------------------------------------------------------------------

STREAMS_OPEN = _gauge("streams_open", "Streams that somebody reads.")
STREAMS_RESUMED = _counter("streams_resumed", "Streams taken up again after a break.")
STREAMS_CANCELLED = _counter("streams_cancelled", "Streamed queries given up because their reader went away.")
RECORDS_WAITING = _gauge("records_waiting", "Answered queries that are still to be recorded.")
RECORDS_LOST = _counter("records_lost", "Answered queries that were not recorded.")
ANSWERING = _gauge("answering_processes", "Processes of this service that answer searches now, on one machine.")
ANSWERING_ENDED = _counter("answering_processes_ended", "Further processes that ended by themselves or were killed.")

# -- guide engines -----------------------------------------------------------------------------------------------------------

ENGINE_CALLS = _counter("generator_calls", "Calls of guide engines, by how they ended.", "engine", "outcome")
ENGINE_SECONDS = _histogram("generator_seconds", "Time of one call of a guide engine.", "engine", buckets=LONG_SECONDS)
ENGINE_GUIDES = _counter("generator_guides", "Guides that engines gave.", "engine")
ENGINE_COST = _counter("generator_cost", "What engines charged.", "engine")
ENGINE_BREAKER = _gauge("generator_breaker", "Breaker of an engine: 0 closed, 1 half open, 2 open.", "engine")
GUIDE_CACHE = _counter("guide_cache", "Look-ups of the guide cache, by result.", "result")

# -- the home, sampled from time to time -------------------------------------------------------------------------------------

INFO = _gauge("service_info", "1; its labels say what runs.", "version", "profile")
PART_UP = _gauge("part_up", "Whether a part (models, store, catalog) answers.", "part")
IMAGES = _gauge("images", "Pictures of the catalog, by state.", "state", shared=True)
POINTS = _gauge("collection_points", "Points of the collection that a space is searched in.", "space", shared=True)
UNLOADED = _gauge("slices_unloaded", "Embedded slices that a space's collection does not hold yet.", "space", shared=True)
OUTBOX = _gauge("tag_outbox", "Pictures whose tags the collection does not know yet.", shared=True)
LAST_SYNC = _gauge("last_sync_timestamp_seconds", "When collections were last brought in line by this service.", shared=True)
FAILURES = _gauge("standing_failures", "Files that could not be used.", shared=True)
TRUST = _gauge("space_trust", "Learnt trust of a space over all topics, by their queries; 1 is neutral.", "space", shared=True)
TRUST_TOPICS = _gauge("trust_topics", "Topics that trust was learnt for.", shared=True)
RUNS = _gauge("runs_running", "Runs that count as running.", "kind", shared=True)
RUN_HEARTBEAT = _gauge("run_heartbeat_timestamp_seconds", "The oldest sign of life among running runs.", "kind", shared=True)
RUN_RATE = _gauge("run_rate", "Pictures (load: points) a second of running runs, by stage.", "stage", shared=True)
RUN_BUSY = _gauge("run_stage_busy", "Share of its time that a stage of running runs worked, 0 to 1.", "stage", shared=True)
RUN_WAITING = _gauge("run_stage_waiting", "Pictures that wait for a stage of running runs.", "stage", shared=True)
RUN_LIMIT = _gauge("run_limited", "1 for the stage that the others of a running run wait for, else 0.", "stage", shared=True)
RUN_LEFT = _gauge("run_left_seconds", "Time left of the stage that running runs are in, the longest.", "kind", shared=True)
GPU_BUSY = _gauge("run_gpu_busy", "Share of its time that a GPU of a running run's driver worked.", "gpu", shared=True)
GPU_MEMORY = _gauge("run_gpu_memory_bytes", "Memory used of a GPU of a running run's driver.", "gpu", shared=True)
GPU_SIZE = _gauge("run_gpu_memory_size_bytes", "Memory of a GPU of a running run's driver.", "gpu", shared=True)
JOBS = _gauge("jobs", "Background jobs of this service, by state (waiting, running).", "state")
JOB_PROGRESS = _counter("job_steps", "Steps of background jobs: stands still when a running job does.")
JOB_FAILURES = _counter("job_failures", "Background jobs that failed.")
DISK_FREE = _gauge("disk_free_bytes", "Free space where the home lies.", shared=True)
DISK_SIZE = _gauge("disk_size_bytes", "Size of the disk where the home lies.", shared=True)
SAMPLED = _gauge("sampled_timestamp_seconds", "When the home was last looked at for these metrics.")
SAMPLING_FAILURES = _counter("sampling_failures", "Looks at the home that failed.")

TABLE: Final[tuple[Definition, ...]] = (
    HTTP_REQUESTS, HTTP_REQUEST_SECONDS, ERRORS, SHED, RATES_LOCAL, IDEMPOTENT_REPLAYS,
    IN_FLIGHT, SLOTS, WAITING, WAIT_SECONDS, STAGE_SECONDS, TEXT_PASS_SECONDS, ANSWERS, ANSWERS_LATE, ANSWERS_EMPTY, VERDICTS,
    GUIDES, GUIDES_SAVED, TEXT_BATCH, PICTURE_BATCH, JUDGED,
    STREAMS_OPEN, STREAMS_RESUMED, STREAMS_CANCELLED, RECORDS_WAITING, RECORDS_LOST, ANSWERING, ANSWERING_ENDED,
    ENGINE_CALLS, ENGINE_SECONDS, ENGINE_GUIDES, ENGINE_COST, ENGINE_BREAKER, GUIDE_CACHE,
    INFO, PART_UP, IMAGES, POINTS, UNLOADED, OUTBOX, LAST_SYNC, FAILURES, TRUST, TRUST_TOPICS, RUNS, RUN_HEARTBEAT,
    RUN_RATE, RUN_BUSY, RUN_WAITING, RUN_LIMIT, RUN_LEFT, GPU_BUSY, GPU_MEMORY, GPU_SIZE,
    JOBS, JOB_PROGRESS, JOB_FAILURES, DISK_FREE, DISK_SIZE, SAMPLED, SAMPLING_FAILURES,
)  # fmt: skip
"""All definitions of this module."""
