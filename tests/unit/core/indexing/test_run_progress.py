"""What a run tells of its progress: the stage that limits it, rates, the time left, and the GPUs of its machine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lodestone.indexing.heartbeat import gpu_use
from lodestone.indexing.progress import ProgressEvent, RunStage
from lodestone.indexing.run_progress import limited_by, run_progress
from lodestone.indexing.stage_stats import EmbedStage, StageShare, StageStats
from lodestone_cli.progress import _note, progress_lines, short_progress


def shares(**busy: float) -> tuple[StageShare, ...]:
    """Work of ten seconds on 100 pictures, with these busy shares."""
    return tuple(StageShare(EmbedStage(stage), 100, share * 10.0, 1, 10.0) for stage, share in busy.items())


def event(**changed: Any) -> ProgressEvent:
    given = {"done": 1200, "total": 5000, "rate": 240.0, "eta": 15.0}
    return ProgressEvent(**{"stage": RunStage.EMBED, **given, **changed})


@pytest.mark.parametrize(
    ("busy", "limit", "words"),
    [
        ({"fetch": 0.97, "decode": 0.5, "embed": 0.2, "write": 0.1}, "fetch", "limited by reading"),
        ({"fetch": 0.3, "decode": 0.99, "embed": 0.4, "write": 0.1}, "decode", "limited by decoding"),
        ({"fetch": 0.3, "decode": 0.6, "embed": 0.98, "write": 0.1}, "embed", "limited by the models"),
        ({"fetch": 0.3, "decode": 0.6, "embed": 0.7, "write": 0.9}, "write", "limited by writing"),
        ({"fetch": 0.3, "decode": 0.2, "embed": 0.1, "write": 0.4}, None, ""),  # nobody knows: they all wait
        ({}, None, ""),
    ],
)
def test_the_busiest_stage_limits_the_others(busy: dict[str, float], limit: str | None, words: str) -> None:
    told = event(stages=shares(**busy))
    assert limited_by(told) == limit
    assert run_progress(told).limited_by == limit
    assert words in _note(told)
    assert ("limited" in _note(told)) == bool(words)


def test_a_run_that_only_loads_is_limited_by_the_store() -> None:
    assert limited_by(event(stage=RunStage.LOAD)) == "load"
    assert limited_by(event(stage=RunStage.BUILD)) is None


def test_progress_is_told_in_words() -> None:
    gpu = {"gpu": 0, "busy": 0.93, "memory_used": 6_200_000_000, "memory_size": 24_000_000_000}
    progress = run_progress(event(stages=shares(fetch=0.97, decode=0.5))).model_dump() | {"gpus": [gpu]}
    progress["stages"][1]["waiting"] = 1234
    assert short_progress(progress) == "1,200/5,000, 240/s, 0:15 left, limited by reading"
    assert list(progress_lines(progress, running=True)) == [
        "progress      1,200/5,000, 240/s, 0:15 left, limited by reading",
        "fetch         100 pictures, 10.0/s, 97% busy",
        "decode        100 pictures, 10.0/s, 50% busy, 1,234 waiting",
        "GPU 0         93% busy, 6.2 of 24.0 GB",
    ]
    assert list(progress_lines(progress, running=False)) == [
        "fetch         100 pictures, 10.0/s, 97% busy",
        "decode        100 pictures, 10.0/s, 50% busy",
    ]
    assert short_progress(None) == short_progress({}) == ""


def test_stages_are_remembered_when_pictures_are_embedded_no_more() -> None:
    progress = run_progress(event(stage=RunStage.LOAD, detail="bridge-1"), stages=shares(embed=0.9))
    assert [stage.stage for stage in progress.stages] == ["embed"]
    assert (progress.stage, progress.detail, progress.limited_by) == ("load", "bridge-1", "load")


def test_waiting_pictures_are_told_with_the_shares() -> None:
    stats = StageStats(dict.fromkeys(EmbedStage, 1))
    stats.waiting = {EmbedStage.DECODE: 7}
    assert [share.waiting for share in stats.shares()] == [0, 7, 0, 0]


class FakeNvml:
    """Stands in for NVML, because test machines have no GPU: two GPUs, the second of which may be lost."""

    class NVMLError(Exception):
        pass

    def __init__(self, *, lost: bool = False) -> None:
        self._lost = lost

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, number: int) -> int:
        return number

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:
        return SimpleNamespace(used=(handle + 1) * 10**9, total=24 * 10**9)

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> SimpleNamespace:
        if self._lost and handle == 1:
            raise self.NVMLError("GPU is lost")
        return SimpleNamespace(gpu=40 + handle)


def test_gpus_are_told_by_nvml() -> None:
    found = [gpu.model_dump() for gpu in gpu_use(FakeNvml)]
    assert found == [
        {"gpu": 0, "busy": 0.4, "memory_used": 10**9, "memory_size": 24 * 10**9},
        {"gpu": 1, "busy": 0.41, "memory_used": 2 * 10**9, "memory_size": 24 * 10**9},
    ]


def test_without_nvml_or_with_one_that_fails_there_are_none() -> None:
    assert gpu_use(lambda: None) == []
    assert gpu_use(lambda: FakeNvml(lost=True)) == []
