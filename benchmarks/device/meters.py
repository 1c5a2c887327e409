"""Meters of a device: how busy it is, how many operations a pass takes, what it can do at most, and how far vectors differ.

Busy is the share of the clock in which at least one kernel ran (torch.profiler), copies left out. Operations are
counted by torch.utils.flop_counter: products and sums of matrix products, convolutions and attention, nothing else. The most
that a GPU can do is its data sheet's figure for dense float16 on tensor cores; for a device that the table does not know, the
fastest of a few large matrix products takes its place.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

Interval = tuple[float, float]
"""Start and end, in one unit of time."""

PEAK_TFLOPS: Final[Mapping[str, float]] = {
    "B200": 2250.0,
    "H200": 989.0,
    "H100 PCIe": 756.0,
    "H100 NVL": 835.0,
    "H100": 989.0,  # SXM
    "A100": 312.0,
    "A10G": 70.0,
    "A10": 125.0,
    "L40S": 362.0,
    "L4": 121.0,
    "T4": 65.0,
    "V100": 125.0,
}
"""Dense float16 on tensor cores by Nvidia's data sheets, 1e12 operations a second. The first name whose words occur counts."""

_COPIES: Final = ("Memcpy", "Memset")
_LEAST_S: Final = {"cuda": 1.0}  # device -> seconds that are timed; others run as few passes as can be
_MOST_PASSES: Final = 200


@dataclass(frozen=True, slots=True)
class Peak:
    """Most operations a second of a device.

    Attributes:
        flops: Floating-point operations a second.
        source: Where the figure is from.
    """

    flops: float
    source: str

    def share(self, rate: float, flops: float) -> float:
        """Return the share of the peak that is used by `rate` passes a second of `flops` operations each."""
        return rate * flops / self.flops


def known_peak(device_name: str) -> Peak | None:
    """Return the peak of a GPU by its name, such as `NVIDIA H100 80GB HBM3`; None for a part of a GPU, or an unknown one."""
    words = device_name.replace("-", " ").split()
    if "MIG" in words:
        return None
    for name, tflops in PEAK_TFLOPS.items():
        if all(word in words for word in name.split()):
            return Peak(tflops * 1e12, f"data sheet of {name}, dense float16")
    return None


def measured_peak(device: torch.device, *, side: int) -> Peak:
    """Return the fastest of ten products of two square matrices, in the precision that the product uses on the device."""
    import torch

    from lodestone.models.torch_device import half_precision

    left, right = (torch.ones((side, side), device=device, dtype=half_precision(device)) for _ in range(2))
    fastest = float("inf")
    for _ in range(10):
        started = time.perf_counter()
        torch.mm(left, right)
        finish(device)
        fastest = min(fastest, time.perf_counter() - started)
    return Peak(2 * side**3 / fastest, f"measured: the product of two matrices of {side} x {side} in this run")


def finish(device: torch.device) -> None:
    """Wait until the device has done everything that it was given."""
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)


def counted_flops(run: Callable[[], object]) -> float:
    """Return the floating-point operations of one call."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # fused into one operator, attention would not be counted
    try:
        # attention by matrix products: not every device's own kernel is in the counter's table
        with torch.no_grad(), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            with FlopCounterMode(display=False) as counter:
                run()
            return float(counter.get_total_flops())
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def passes_a_second(run: Callable[[], object], device: torch.device) -> float:
    """Return how many calls a second the device does, one after the other, after three that warm it up."""
    for _ in range(3):
        run()
    finish(device)
    least_s = _LEAST_S.get(device.type, 0.0)
    started = time.perf_counter()
    passes = 0
    while passes < _MOST_PASSES and (not passes or time.perf_counter() - started < least_s):
        for _ in range(4):
            run()
        passes += 4
        finish(device)
    return passes / (time.perf_counter() - started)


def busy_share(intervals: Iterable[Interval], duration: float) -> float:
    """Return the share of a duration in which at least one of several intervals runs; both have one unit."""
    busy, until = 0.0, float("-inf")
    for start, end in sorted(intervals):
        busy += max(end - max(start, until), 0.0)
        until = max(until, end)
    return busy / duration


def busy_while(run: Callable[[], object], device: torch.device) -> float | None:
    """Return the share of a call's duration in which the GPU computed; None where its kernels cannot be recorded."""
    from torch.autograd import DeviceType  # type: ignore[attr-defined]
    from torch.profiler import ProfilerActivity, profile

    if device.type != "cuda":
        return None
    finish(device)
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        started = time.perf_counter()
        run()
        finish(device)
        seconds = time.perf_counter() - started
    kernels = kernel_intervals(profiler.events() or (), DeviceType.CUDA)
    return busy_share(kernels, 1e6 * seconds) if kernels else None


def kernel_intervals(events: Iterable[Any], device_type: object) -> list[Interval]:
    """Return start and end of each kernel among a profiler's events, microseconds; copies and annotations are left out."""
    return [
        (event.time_range.start, event.time_range.end)
        for event in events
        if event.device_type == device_type and not event.is_user_annotation and not event.name.startswith(_COPIES)
    ]


def cosines(left: NDArray[np.floating], right: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the cosine of each pair of rows: (n,) of two (n, dim); 0 where a vector is zero or not finite.

    Raises:
        ValueError: the shapes differ.
    """
    if left.shape != right.shape:
        raise ValueError(f"vectors of the shapes {left.shape} and {right.shape} cannot be compared")
    one, other = left.astype(np.float64), right.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        products = (one * other).sum(1) / (np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1))
    finite: NDArray[np.float64] = np.nan_to_num(products, nan=0.0, posinf=0.0, neginf=0.0)
    return finite


def relative_difference(left: NDArray[np.floating], right: NDArray[np.floating]) -> float:
    """Return the length of the difference of two arrays, divided by the length of the second; infinite if not finite."""
    one, other = left.astype(np.float64), right.astype(np.float64)
    difference = float(np.linalg.norm(one - other) / np.linalg.norm(other))
    return difference if np.isfinite(difference) else float("inf")
