"""Gauges of running runs: rates and busy shares by stage, what limits them, the time left, and the GPUs of their drivers."""

from __future__ import annotations

from collections.abc import Mapping

from lodestone.services.sessions.home_facts import RunningRuns
from lodestone_schemas.runs import GpuUse, StageProgress
from lodestone_serve.telemetry.metrics import HomeMetrics


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
