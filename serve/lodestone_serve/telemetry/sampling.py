"""How does the home fare, seen from monitoring? Looked at every few seconds, in a thread, and set as gauges.

A look that fails is counted and logged; the gauges then keep their last values, and `lodestone_sampled_timestamp_seconds` tells
how old these are. However slow the catalog is, looking takes at most a tenth of the time.
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
_REST: Final = 9.0  # rest at least this many times as long as the last look took
_RUNS: Final = 1_000
_REMEMBERED_JOBS: Final = 1_000
_log = structlog.get_logger("lodestone.serve")


@dataclass(frozen=True, slots=True)
class RunningRuns:
    """Runs of one kind that count as running: how many, and when the quietest gave its last sign of life (Unix seconds)."""

    count: int
    oldest_heartbeat: float


@dataclass(frozen=True, slots=True)
class HomeFacts:
    """What one look at a home found.

    Attributes:
        images: State -> number of pictures.
        points: Space -> points of the collection that it is searched in.
        unloaded: Space -> slices that are embedded and not in that collection.
        outbox: Pictures whose tags wait for delivery.
        failures: Files that could not be used.
        trust: Space -> learnt trust, 1 being neutral: the mean over topics, each counting by its queries.
        topics: How many topics trust was learnt for.
        runs: Kind -> those that count as running.
        jobs: Background jobs of this process.
        disk_free: Bytes, where the home lies.
        disk_size: Bytes.
        synced_at: When this process last brought the collections in line, Unix seconds; None if it did not yet.
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
    """Services whose home can be looked at."""

    async def measured(self) -> HomeFacts:
        """Look at the home."""

    async def status(self) -> ServiceStatus:
        """What answers right now."""


def look_at(
    runtime: Runtime, *, collections: Mapping[str, str], jobs: Sequence[JobInfo], synced_at: float | None = None
) -> HomeFacts:
    """Look at an opened home. Blocking.

    Args:
        runtime: The home.
        collections: Space -> the collection that it is searched in.
        jobs: Of the process.
        synced_at: As `HomeFacts` has it.

    Raises:
        CatalogError, StoreError: it cannot be read.
    """
    catalog, store = runtime.catalog, runtime.store
    there = set(store.collections())
    topics = runtime.trust.show().topics
    disk = shutil.disk_usage(runtime.home.path)
    return HomeFacts(
        images={state.value: catalog.count_images(None, state) for state in ImageState},
        points={space: store.count(name) if name in there else 0 for space, name in collections.items()},
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
    """Looks at a home from `start` to `close` and sets its gauges.

    Args:
        services: The home; services that are not `Measurable` are left alone.
        metrics: What is set.
        every_s: Seconds between two looks, at least.
    """

    def __init__(self, services: object, metrics: HomeMetrics, *, every_s: float = EVERY_S) -> None:
        self._services = services if isinstance(services, Measurable) else None
        self._metrics = metrics
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None
        self._step: object = None
        self._failed: deque[str] = deque(maxlen=_REMEMBERED_JOBS)

    def start(self) -> None:
        """Begin; returns at once."""
        if self._services is not None and self._task is None:
            self._task = asyncio.create_task(self._run(), name="sample the home")

    async def close(self) -> None:
        """Stop. Idempotent."""
        task, self._task = self._task, None
        await stop(task)

    async def look(self) -> None:
        """Look once."""
        if self._services is None:
            return
        try:
            self._set_status(await self._services.status())
            self._set(await self._services.measured())
        except LodestoneError as error:
            self._metrics.sampling_failures.inc()
            _log.warning("the home cannot be looked at", code=error.code, detail=error.message)
        except Exception:  # noqa: BLE001 - monitoring must outlast whatever it meets; counted, and the log has everything
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
    found: dict[str, RunningRuns] = {}
    for run in runtime.catalog.runs(_RUNS, state=RunState.RUNNING):
        alive = (run.heartbeat_at or run.started_at).timestamp()
        before = found.get(run.kind, RunningRuns(0, alive))
        found[run.kind] = RunningRuns(before.count + 1, min(before.oldest_heartbeat, alive))
    return found
