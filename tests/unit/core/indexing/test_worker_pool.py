"""Which worker gets which slice: the one with the fewest, and no company for a slice that needs a worker."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.support.pipelines import MeanBackbone

from lodestone.config.settings import IndexSettings, Settings
from lodestone.files.opening import open_area
from lodestone.indexing.embed import executors
from lodestone.indexing.embed.worker_pool import ProcessExecutor, _Worker
from lodestone.indexing.parts.outputs import OutputsPart
from lodestone.indexing.slices.limits import PipelineLimits, slices_in_flight
from lodestone.indexing.tasks import EmbedSettings, SliceTask
from lodestone.models import hardware


@dataclass
class _Channel:
    sent: list[SliceTask] = field(default_factory=list)

    def send(self, task: SliceTask) -> None:
        self.sent.append(task)


def task(name: str, *, alone: bool = False, isolate: bool = False) -> SliceTask:
    return SliceTask(name, "corpus", name, (), ("meta",), alone=alone, isolate=isolate)


@pytest.fixture
def executor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProcessExecutor:
    """Two workers that hold up to two slices each, and have no process."""
    area = open_area(tmp_path)
    made = ProcessExecutor(EmbedSettings((), "", tmp_path, area, area, slices_in_flight=2), 2)
    monkeypatch.setattr(made, "_spawn", lambda: _Worker(None, _Channel(), None))  # type: ignore[arg-type]
    return made


def handed_out(executor: ProcessExecutor, tasks: list[SliceTask]) -> list[list[str]]:
    executor._waiting = iter(tasks)
    executor._hand_out()
    return [list(worker.tasks) for worker in executor._workers]


def test_slices_are_spread_before_any_worker_gets_a_second_one(executor: ProcessExecutor) -> None:
    left = iter([task(name) for name in "abcdefg"])
    assert handed_out(executor, left) == [["a", "c"], ["b", "d"]]  # type: ignore[arg-type]
    assert next(left).slice_id == "e"  # nothing is pulled that cannot be sent


def test_a_slice_that_needs_a_worker_waits_for_an_empty_one_and_keeps_it(executor: ProcessExecutor) -> None:
    assert handed_out(executor, [task("a"), task("b"), task("c"), task("x", alone=True), task("d")]) == [["a", "c"], ["b"]]
    executor._workers[1].tasks.clear()
    executor._hand_out()
    assert [list(worker.tasks) for worker in executor._workers] == [["a", "c"], ["x"]]
    executor._workers[0].tasks.clear()
    executor._hand_out()
    assert [list(worker.tasks) for worker in executor._workers] == [["d"], ["x"]]


def test_a_fast_machine_gets_larger_batches_and_more_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lodestone.indexing.slices import limits as pipeline_limits

    area = open_area(tmp_path)
    settings = EmbedSettings((), "", tmp_path, area, area)
    model = MeanBackbone()
    monkeypatch.setattr(model, "on_gpu", lambda: True)
    there, not_there = OutputsPart(model), OutputsPart(MeanBackbone("other"))
    small = PipelineLimits.of(settings, [there, not_there])  # a batch for a GPU would need gigabytes on the CPU
    monkeypatch.setattr(pipeline_limits, "gpus", lambda: 1)
    large = PipelineLimits.of(settings, [there])
    assert (small.slices, small.batch_size) == (2, 4)
    assert (large.slices, large.batch_size) == (16, 256)
    assert large.decoded_bytes >= 3 * 256 * 3 * 8 * 8
    chosen = PipelineLimits.of(EmbedSettings((), "", tmp_path, area, area, batch_size=32, slices_in_flight=3, reads=9), [])
    assert (chosen.slices, chosen.batch_size, chosen.remote_reads) == (3, 32, 9)
    assert slices_in_flight(settings) == 16


@pytest.mark.parametrize(("cards", "kind", "decoders"), [(0, "inline", 1), (1, "inline", 8), (1, "processes", 4)])
def test_beside_a_gpu_all_cores_decode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cards: int, kind: str, decoders: int
) -> None:
    area = open_area(tmp_path)
    monkeypatch.setattr(executors, "gpus", lambda: cards)
    monkeypatch.setattr(executors, "cores", lambda: 8)
    settings = Settings(home=tmp_path, index=IndexSettings(workers=2))
    _, made = executors.make_executor(kind, settings, EmbedSettings((), "", tmp_path, area, area), None)
    assert made._settings.decode_threads == decoders  # type: ignore[attr-defined]


def test_each_worker_sees_a_gpu_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The GPUs are made up, and so are the models on them."""
    area = open_area(tmp_path)
    monkeypatch.setattr(executors, "uses_gpus", lambda _: True)
    monkeypatch.setattr(executors, "gpus", lambda: 3)
    monkeypatch.setattr(executors, "gpu_names", lambda: ("0", "GPU-7", "2"))
    embed = EmbedSettings((), "", tmp_path, area, area)
    _, made = executors.make_executor("processes", Settings(home=tmp_path), embed, None)
    assert isinstance(made, ProcessExecutor)
    started: list[str] = []

    class Ended:
        def __init__(self, *_: object, env: dict[str, str], **__: object) -> None:
            started.append(env["CUDA_VISIBLE_DEVICES"])

        def kill(self) -> None: ...

        def wait(self) -> int:
            return 0

    monkeypatch.setattr("lodestone.indexing.embed.worker_pool.subprocess.Popen", Ended)
    made.start()
    assert started == ["0", "GPU-7", "2"]
    made._workers.pop(1).stop()  # it crashed
    made.start()
    assert started[3:] == ["GPU-7"]
    made.close()


@pytest.mark.parametrize(
    ("visible", "names"),
    [(None, ("0", "1", "2")), ("", ()), ("-1", ()), ("1", ("1",)), ("2,GPU-a", ("2", "GPU-a")), ("0,-1,2", ("0",))],
)
def test_gpus_that_the_environment_hides_are_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: str | None, names: tuple[str, ...]
) -> None:
    for number in range(3):
        (tmp_path / f"0000:{number}").mkdir()
    monkeypatch.setattr(hardware, "_NVIDIA", tmp_path)
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert (hardware.gpu_names(), hardware.gpus()) == (names, len(names))
