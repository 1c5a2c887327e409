"""Gauges of running runs: rates and busy shares by stage, what limits, time left and GPUs, gone when no run tells of them."""

from __future__ import annotations

from lodestone.services.sessions.home_facts import RunningRuns
from lodestone_schemas.runs import GpuUse, RunProgress, StageProgress
from lodestone_serve.telemetry.metrics import Metrics
from lodestone_serve.telemetry.sampling import set_run_progress


def running(**changed: object) -> RunningRuns:
    stages = [
        StageProgress(stage="fetch", pictures=500, rate=50.0, busy=0.97, waiting=12),
        StageProgress(stage="embed", pictures=400, rate=40.0, busy=0.3),
    ]
    given = {"stage": "embed", "done": 400, "total": 1000, "rate": 44.0, "seconds_left": 15.0, "limited_by": "fetch"}
    return RunningRuns(1, 0.0, (RunProgress.model_validate({**given, "stages": stages, **changed}),))


def test_runs_are_told_by_stage() -> None:
    metrics = Metrics()
    gpus = [GpuUse(gpu=0, busy=0.9, memory_used=5, memory_size=20)]
    set_run_progress(metrics.home, {"index": running(gpus=gpus)})

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"lodestone_{name}", labels)

    assert value("run_rate", stage="fetch") == 50.0
    assert value("run_rate", stage="embed") == 40.0
    assert value("run_stage_busy", stage="fetch") == 0.97
    assert value("run_stage_waiting", stage="fetch") == 12.0
    assert (value("run_limited", stage="fetch"), value("run_limited", stage="embed")) == (1.0, 0.0)
    assert value("run_left_seconds", kind="index") == 15.0
    assert value("run_gpu_busy", gpu="0") == 0.9
    assert (value("run_gpu_memory_bytes", gpu="0"), value("run_gpu_memory_size_bytes", gpu="0")) == (5.0, 20.0)
    set_run_progress(metrics.home, {"index": running(stage="load", stages=[], rate=900.0, limited_by="load")})
    assert value("run_rate", stage="load") == 900.0
    assert value("run_limited", stage="load") == 1.0
    assert value("run_stage_busy", stage="fetch") is None
    assert value("run_gpu_busy", gpu="0") is None
    set_run_progress(metrics.home, {})
    assert value("run_rate", stage="load") is None
