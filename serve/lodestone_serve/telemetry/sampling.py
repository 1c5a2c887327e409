"""Gauges of the home, set from a look at it every few seconds.

A failed sample is counted and logged; the gauges then keep their last values, and `lodestone_sampled_timestamp_seconds` tells
how old these are. However slow the catalog is, sampling takes at most a tenth of the time.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, runtime_checkable

import structlog

from lodestone.access.caller import LOCAL_CALLER, Caller
from lodestone.errors import LodestoneError
from lodestone.services.sessions.home_facts import HomeFacts, RunningRuns
from lodestone.services.sessions.serving import stop
from lodestone_schemas.directories import JobInfo
from lodestone_schemas.runs import GpuUse, StageProgress
from lodestone_schemas.service import ServiceStatus
from lodestone_serve.telemetry.metrics import HomeMetrics

EVERY_S: Final = 15.0
_REST: Final = 9.0  # rest at least this many times as long as the last look took
_REMEMBERED_JOBS: Final = 1_000
_log = structlog.get_logger("lodestone.serve")


@runtime_checkable
class Measurable(Protocol):
    """Whatever tells the facts of a home: `services.operations.OperationUseCases`."""

    async def facts(self, caller: Caller) -> HomeFacts:
        """Return the facts of the home."""

    async def status(self, caller: Caller) -> ServiceStatus:
        """Return what answers right now."""


class Sampler:
    """Samples a home from `start` to `close` and sets its gauges.

    Args:
        home: Tells its facts; what is not `Measurable` is left alone.
        metrics: What is set.
        every_s: Seconds between two looks, at least.
    """

    def __init__(self, home: object, metrics: HomeMetrics, *, every_s: float = EVERY_S) -> None:
        self._home = home if isinstance(home, Measurable) else None
        self._metrics = metrics
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None
        self._step: object = None
        self._failed: deque[str] = deque(maxlen=_REMEMBERED_JOBS)

    def start(self) -> None:
        """Start sampling in the background, and return at once."""
        if self._home is not None and self._task is None:
            self._task = asyncio.create_task(self._run(), name="sample the home")

    async def close(self) -> None:
        """Stop sampling the home. Idempotent."""
        task, self._task = self._task, None
        await stop(task)

    async def look(self) -> None:
        """Read the home's state once and set the gauges."""
        if self._home is None:
            return
        try:
            self._set_status(await self._home.status(LOCAL_CALLER))
            self._set(await self._home.facts(LOCAL_CALLER))
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
        set_run_progress(metrics, facts.runs)
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


def set_run_progress(metrics: HomeMetrics, runs: Mapping[str, RunningRuns]) -> None:
    """Set the gauges from what running runs last told; series of stages and GPUs that no run tells of are removed."""
    rates: dict[str, float] = {}
    stages: dict[str, list[StageProgress]] = {}
    limits: dict[str, float] = {}
    left: dict[str, float] = {}
    gpus: dict[str, GpuUse] = {}
    for kind, running in runs.items():
        for progress in running.progress:
            rates[progress.stage] = rates.get(progress.stage, 0.0) + progress.rate
            for stage in progress.stages:
                stages.setdefault(stage.stage, []).append(stage)
                limits.setdefault(stage.stage, 0.0)
            if progress.limited_by is not None:
                limits[progress.limited_by] = 1.0
            if progress.seconds_left is not None:
                left[kind] = max(left.get(kind, 0.0), progress.seconds_left)
            gpus.update((str(gpu.gpu), gpu) for gpu in progress.gpus)
    for stage_name, shares in stages.items():
        rates[stage_name] = sum(share.rate for share in shares)
    for gauge, values in (
        (metrics.run_rate, rates),
        (metrics.run_busy, {stage: max(share.busy for share in shares) for stage, shares in stages.items()}),
        (metrics.run_waiting, {stage: float(sum(share.waiting for share in shares)) for stage, shares in stages.items()}),
        (metrics.run_limit, limits),
        (metrics.run_left, left),
        (metrics.gpu_busy, {number: gpu.busy for number, gpu in gpus.items()}),
        (metrics.gpu_memory, {number: float(gpu.memory_used) for number, gpu in gpus.items()}),
        (metrics.gpu_size, {number: float(gpu.memory_size) for number, gpu in gpus.items()}),
    ):
        for label, value in values.items():
            gauge.labels(label).set(value)
        gauge.forget(besides={(label,) for label in values})
