"""Sampling of the home's state for monitoring: every few seconds a thread reads it and sets gauges.

A failed sample is counted and logged; the gauges then keep their last values, and `lodestone_sampled_timestamp_seconds` tells
how old these are. However slow the catalog is, sampling takes at most a tenth of the time.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

import structlog

from lodestone.catalog.records import ImageState, RunState
from lodestone.errors import LodestoneError
from lodestone_schemas.directories import JobInfo
from lodestone_schemas.learning import TrustInfo
from lodestone_schemas.service import ServiceStatus
from lodestone_serve.tasks import stop
from lodestone_serve.telemetry.metrics import HomeMetrics

if TYPE_CHECKING:
    from lodestone.home.runtime import Runtime

EVERY_S: Final = 15.0
_REST: Final = 9.0  # pause at least this many times as long as the last sample took
_RUNS: Final = 1_000
_REMEMBERED_JOBS: Final = 1_000
_log = structlog.get_logger("lodestone.serve")


@dataclass(frozen=True, slots=True)
class RunningRuns:
    """Runs of one kind that count as running: their number, and the oldest of their latest heartbeats (Unix seconds)."""

    count: int
    oldest_heartbeat: float


@dataclass(frozen=True, slots=True)
class HomeFacts:
    """State of a home at one moment.

    Attributes:
        images: State -> number of pictures.
        points: Space -> points of the collection that it is searched in.
        unloaded: Space -> slices that are embedded and not in that collection.
        outbox: Pictures whose tags wait for delivery.
        failures: Files that could not be used.
        trust: Space -> learned trust, 1 being neutral: the mean over topics, each weighted by its queries.
        topics: Number of topics with learned trust.
        runs: Kind -> runs that count as running.
        jobs: Background jobs of this process.
        disk_free: Free bytes on the home's disk.
        disk_size: Size of the home's disk, bytes.
        synced_at: Unix seconds of this process's last synchronisation of the collections; None before the first.
    """

    images: Mapping[str, int]
    points: Mapping[str, int]
    unloaded: Mapping[str, int]
    outbox: int
    failures: int
    trust: Mapping[str, float]
    topics: int
    runs: Mapping[str, RunningRuns]
    jobs: Sequence[JobInfo]
    disk_free: int
    disk_size: int
    synced_at: float | None = None


@runtime_checkable
class Measurable(Protocol):
    """Services whose home can be sampled."""

    async def measured(self) -> HomeFacts:
        """Return the home's present state."""

    async def status(self) -> ServiceStatus:
        """Return which parts answer right now."""


def look_at(
    runtime: Runtime, *, collections: Mapping[str, str], jobs: Sequence[JobInfo], synced_at: float | None = None
) -> HomeFacts:
    """Read the state of an opened home. Blocks.

    Args:
        runtime: The home.
        collections: Space -> the collection that it is searched in.
        jobs: Background jobs of the process.
        synced_at: As in `HomeFacts`.

    Raises:
        CatalogError, StoreError: the state cannot be read.
    """
    catalog, store = runtime.catalog, runtime.store
    existing = set(store.collections())
    topics = runtime.trust.show().topics
    disk = shutil.disk_usage(runtime.home.path)
    return HomeFacts(
        images={state.value: catalog.count_images(None, state) for state in ImageState},
        points={space: store.count(name) if name in existing else 0 for space, name in collections.items()},
        unloaded={space: catalog.count_unloaded(name)[0] for space, name in collections.items()},
        outbox=catalog.count_tag_outbox(),
        failures=catalog.count_failures(),
        trust=_mean_trust(topics),
        topics=len(topics),
        runs=_running(runtime),
        jobs=list(jobs),
        disk_free=disk.free,
        disk_size=disk.total,
        synced_at=synced_at,
    )


class Sampler:
    """Samples a home from `start` to `close` and sets its gauges.

    Args:
        services: The home's services; ones that are not `Measurable` are ignored.
        metrics: The gauges to set.
        every_s: Least number of seconds between two samples.
    """

    def __init__(self, services: object, metrics: HomeMetrics, *, every_s: float = EVERY_S) -> None:
        self._services = services if isinstance(services, Measurable) else None
        self._metrics = metrics
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None
        self._step: object = None
        self._failed: deque[str] = deque(maxlen=_REMEMBERED_JOBS)

    def start(self) -> None:
        """Start sampling in the background; returns at once."""
        if self._services is not None and self._task is None:
            self._task = asyncio.create_task(self._run(), name="sample the home")

    async def close(self) -> None:
        """Stop sampling the home. Idempotent."""
        task, self._task = self._task, None
        await stop(task)

    async def look(self) -> None:
        """Take one sample now."""
        if self._services is None:
            return
        try:
            self._set_status(await self._services.status())
            self._set(await self._services.measured())
        except LodestoneError as error:
            self._metrics.sampling_failures.inc()
            _log.warning("the home cannot be looked at", code=error.code, detail=error.message)
        except Exception:  # noqa: BLE001 - monitoring must survive every error; it is counted and logged
            self._metrics.sampling_failures.inc()
            _log.exception("the home cannot be looked at")

    async def _run(self) -> None:
        while True:
            started = time.monotonic()
            await self.look()
            await asyncio.sleep(max(self._every_s, _REST * (time.monotonic() - started)))

    def _set_status(self, status: ServiceStatus) -> None:
        self._metrics.info.labels(status.version, status.profile).set(1)
        for part, check in status.checks.items():
            self._metrics.part_up.labels(part).set(1.0 if check.ok else 0.0)

    def _set(self, facts: HomeFacts) -> None:
        metrics = self._metrics
        for state, count in facts.images.items():
            metrics.images.labels(state).set(count)
        for gauge, by_space in (
            (metrics.points, facts.points),
            (metrics.unloaded, facts.unloaded),
            (metrics.trust, facts.trust),
        ):
            for space, value in by_space.items():
                gauge.labels(space).set(value)
            gauge.forget(besides={(space,) for space in by_space})
        for kind, running in facts.runs.items():
            metrics.runs.labels(kind).set(running.count)
            metrics.run_heartbeat.labels(kind).set(running.oldest_heartbeat)
        for gauge in (metrics.runs, metrics.run_heartbeat):
            gauge.forget(besides={(kind,) for kind in facts.runs})
        metrics.trust_topics.set(facts.topics)
        metrics.outbox.set(facts.outbox)
        metrics.failures.set(facts.failures)
        metrics.disk_free.set(facts.disk_free)
        metrics.disk_size.set(facts.disk_size)
        if facts.synced_at is not None:
            metrics.last_sync.set(facts.synced_at)
        self._set_jobs(facts.jobs)
        metrics.sampled.set(time.time())

    def _set_jobs(self, jobs: Sequence[JobInfo]) -> None:
        for state in ("waiting", "running"):
            self._metrics.jobs.labels(state).set(sum(job.state == state for job in jobs))
        step = [(job.job_id, job.stage, job.done) for job in jobs if job.state == "running"]
        if step != self._step:
            self._metrics.job_steps.inc()
        self._step = step
        for job in jobs:
            if job.state == "failed" and job.job_id not in self._failed:
                self._failed.append(job.job_id)
                self._metrics.job_failures.inc()


def _mean_trust(topics: Sequence[TrustInfo]) -> dict[str, float]:
    sums: dict[str, float] = {}
    counts: dict[str, float] = {}
    for topic in topics:
        for space, weight in topic.weights.items():
            sums[space] = sums.get(space, 0.0) + weight * max(1, topic.queries)
            counts[space] = counts.get(space, 0.0) + max(1, topic.queries)
    return {space: sums[space] / counts[space] for space in sums}


def _running(runtime: Runtime) -> dict[str, RunningRuns]:
    by_kind: dict[str, RunningRuns] = {}
    for run in runtime.catalog.runs(_RUNS, state=RunState.RUNNING):
        alive = (run.heartbeat_at or run.started_at).timestamp()
        before = by_kind.get(run.kind, RunningRuns(0, alive))
        by_kind[run.kind] = RunningRuns(before.count + 1, min(before.oldest_heartbeat, alive))
    return by_kind
