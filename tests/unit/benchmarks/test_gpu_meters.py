"""Tests of the arithmetic of the GPU check: busy shares, peaks, operations of a picture, and the comparison of vectors."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks.device import gpu, meters
from benchmarks.device.cases import Comparison, compare
from benchmarks.device.clip_check import Amounts
from benchmarks.device.meters import Peak, busy_share, cosines, kernel_intervals, known_peak, relative_difference
from benchmarks.harness import Report


def test_overlapping_kernels_count_once_and_gaps_do_not_count() -> None:
    assert busy_share([(0, 2), (1, 3), (6, 8)], 10) == pytest.approx(0.5)
    assert busy_share([(6, 8), (0, 5), (1, 2)], 10) == pytest.approx(0.7)
    assert busy_share([], 10) == 0


def test_copies_annotations_and_the_processors_events_are_no_kernels() -> None:
    def event(name: str, device: str = "gpu", *, annotation: bool = False) -> SimpleNamespace:
        times = SimpleNamespace(start=1.0, end=3.0)
        return SimpleNamespace(name=name, device_type=device, is_user_annotation=annotation, time_range=times)

    events = [event("gemm"), event("Memcpy HtoD"), event("Memset"), event("step", annotation=True), event("aten::mm", "cpu")]
    assert kernel_intervals(events, "gpu") == [(1.0, 3.0)]


def test_a_profilers_events_have_what_is_read_of_them() -> None:
    import torch
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        torch.ones(8, 8).mm(torch.ones(8, 8))
    intervals = kernel_intervals(profiler.events(), DeviceType.CPU)
    assert intervals
    assert all(end >= start for start, end in intervals)


@pytest.mark.parametrize(
    ("name", "tflops"),
    [
        ("NVIDIA H200", 989),
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA A10", 125),
        ("NVIDIA A10G", 70),
        ("NVIDIA L40S", 362),
        ("NVIDIA L4", 121),
        ("Tesla T4", 65),
    ],
)
def test_the_peak_of_a_gpu_is_found_by_its_name(name: str, tflops: float) -> None:
    peak = known_peak(name)
    assert peak is not None
    assert peak.flops == tflops * 1e12


@pytest.mark.parametrize("name", ["a CPU", "NVIDIA A100-SXM4-80GB MIG 1g.10gb", "NVIDIA GeForce RTX 4090"])
def test_other_devices_have_no_known_peak(name: str) -> None:
    assert known_peak(name) is None


def test_the_share_of_the_peak_is_operations_a_second_by_the_peak() -> None:
    assert Peak(312e12, "A100").share(312.0, 162e9) == pytest.approx(0.162)


class Clock:
    """A clock that work moves on; stands in for `time`."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    monotonic = perf_counter

    def work(self) -> None:
        self.now += 0.125


def test_passes_a_second_are_those_after_the_first_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    clock = Clock()
    monkeypatch.setattr(meters, "time", clock)
    assert meters.passes_a_second(clock.work, torch.device("cpu")) == pytest.approx(8)
    assert clock.now == pytest.approx(7 * 0.125)


def test_a_measured_peak_counts_a_product_and_a_sum_for_each_term(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    clock = Clock()
    monkeypatch.setattr(meters, "time", clock)
    monkeypatch.setattr(meters, "finish", lambda _: clock.work())
    assert meters.measured_peak(torch.device("cpu"), side=16).flops == pytest.approx(2 * 16**3 / 0.125)


@pytest.mark.parametrize(
    ("toy", "compiled", "late", "expected"),
    [
        (False, None, False, True),
        (False, None, True, False),
        (False, True, True, True),
        (False, False, False, False),
        (True, None, False, False),
        (True, True, True, True),
    ],
)
def test_models_are_compiled_on_a_gpu_while_there_is_time_or_where_asked(
    monkeypatch: pytest.MonkeyPatch, toy: bool, compiled: bool | None, late: bool, expected: bool
) -> None:
    import torch

    clock = Clock()
    clock.now = 151.0 if late else 150.0
    monkeypatch.setattr(gpu, "time", clock)
    bench = gpu.Bench(torch.device("cpu"), toy, compiled, 150.0, Report("gpu", gpu.BENCHMARK.figures))
    assert bench.compiles("ViT-L-14") is expected


def test_a_gpu_gets_more_pictures_than_a_cpu() -> None:
    import torch

    def amounts(*, toy: bool) -> Amounts:
        return gpu.Bench(torch.device("cpu"), toy, None, 0.0, Report("gpu", ())).amounts("ViT-L-14")

    assert amounts(toy=False) == Amounts(warm=512, timed=4096, recorded=2048, compared=32)
    assert amounts(toy=False).total == 512 + 4096 + 2048
    assert amounts(toy=True).total < 30


def test_operations_are_those_of_the_published_model() -> None:
    import torch
    from tests.support.tiny_models import declare_torchvision_operators

    declare_torchvision_operators()
    import open_clip
    from benchmarks.device.meters import counted_flops

    config = open_clip.get_model_config("ViT-B-32")
    text = {"context_length": 77, "vocab_size": 100, "width": 64, "heads": 2, "layers": 1}
    with torch.device("meta"):
        model = open_clip.CLIP(embed_dim=config["embed_dim"], vision_cfg=config["vision_cfg"], text_cfg=text).visual.eval()
        flops = counted_flops(lambda: model(torch.zeros(1, 3, 224, 224)))
    layer = 12 * 768**2 * 50 + 2 * 768 * 50**2  # projections and products of attention, in products
    products = 3 * 32**2 * 768 * 49 + 12 * layer + 768 * 512
    assert flops == pytest.approx(2 * products)
    assert torch.backends.mha.get_fastpath_enabled()


def _vectors() -> np.ndarray:
    draw = np.random.default_rng(3)
    return (10 * np.ones(16) + draw.normal(size=(6, 16))).astype(np.float16)  # much alike, as those of random weights


def test_rounding_passes() -> None:
    reference = _vectors()
    comparison = compare((reference.astype(np.float32) * 1.0005).astype(np.float16), reference, 0.999)
    assert comparison.fault == ""
    assert compare(np.concatenate([reference, reference[::-1]]), reference, 0.999).fault == ""  # further ones are not compared


def test_one_vector_that_turned_is_noticed() -> None:
    vectors = _vectors()
    vectors[4, :8] *= -1
    comparison = compare(vectors, _vectors(), 0.999)
    assert comparison.cosine < 0.999
    assert "the least cosine is" in comparison.fault


def test_vectors_of_other_pictures_are_noticed_though_all_are_alike() -> None:
    reference = _vectors()
    swapped = reference[[1, 0, 2, 3, 4, 5]]
    comparison = compare(swapped, reference, 0.9)
    assert comparison.cosine > 0.9
    assert comparison.strays == 2
    assert comparison.fault == "2 vectors are nearer to another picture's reference"


@pytest.mark.parametrize("broken", [np.nan, np.inf, 0.0])
def test_vectors_that_are_not_finite_or_zero_do_not_pass(broken: float) -> None:
    vectors = _vectors()
    vectors[2] = broken
    assert compare(vectors, _vectors(), 0.999).fault


def test_the_tolerance_itself_passes_and_no_number_does_not() -> None:
    assert Comparison(0.999, 0, 0.999).fault == ""
    assert Comparison(0.9989, 0, 0.999).fault
    assert Comparison(float("nan"), 0, 0.999).fault


def test_missing_vectors_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="cannot be compared"):
        cosines(_vectors()[:3], _vectors())


def test_a_relative_difference_is_measured_by_the_expected_length() -> None:
    assert relative_difference(np.array([3.0, 4.5]), np.array([3.0, 4.0])) == pytest.approx(0.1)
    assert relative_difference(np.array([np.nan, 4.0]), np.array([3.0, 4.0])) == float("inf")
