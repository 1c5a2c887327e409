"""Check of a GPU: how fast the product embeds pictures on it, what of the GPU that uses, and whether vectors are the CPU's.

Needs no Ray and no network: CLIP ViT-B/32 and L/14 and the U-Net of SD-Turbo have random weights. The product's pipeline of
one worker goes from JPEG files to float16 vectors in Parquet files, decoding on the CPU and by nvJPEG, with models compiled
and not. Beside it, in the same run: a bare loop (a DataLoader, open_clip's transformation, a model in half precision), each
model alone, and what clip-retrieval states for an A100. The run ends with status 1 when vectors differ from the CPU's.

Without a GPU it runs at toy size: tiny models over a few pictures. That shows that the check works, and nothing about speed.

    python -m benchmarks.device.gpu
    python -m benchmarks.device.gpu --json > gpu.json
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.data.pictures import generate
from benchmarks.device.cases import Case
from benchmarks.device.clip_check import (
    BARE,
    HALF_PRECISION,
    OTHER_DECODER,
    PIPELINE,
    Amounts,
    ClipCheck,
    reference_vectors,
    write_reference_vectors,
)
from benchmarks.device.meters import Peak, known_peak, measured_peak
from benchmarks.device.random_models import CLIP_SHAPES, has_diffusers, write_random_clip
from benchmarks.device.unet_check import UNET, UNET_TOLERANCE, unet_cases
from benchmarks.harness import Benchmark, Figure, Report
from benchmarks.harness.figures import written
from lodestone.errors import LodestoneError
from lodestone.imaging.gpu_jpeg import GpuJpegs, gpu_jpegs

if TYPE_CHECKING:
    import torch

_WARM, _RECORDED = 512, 2048
_TIMED: Final = {"ViT-B-32": 8192, "ViT-L-14": 4096}
_COMPARED: Final = {"ViT-B-32": 64, "ViT-L-14": 32}
_TOY = Amounts(warm=4, timed=24, recorded=0, compared=16)
_HEADING: Final = ("model", "way", "pictures/s", "GPU busy", "of its peak", "least cosine", "of clip-retrieval's A100")


@dataclass(frozen=True, slots=True)
class Bench:
    """What all parts of a run share.

    Attributes:
        device: The device.
        toy: Whether the models and numbers are those for a CPU.
        compiled: Whether models are compiled; None: on a GPU, as long as there is time.
        until: When no further compilation begins, on the clock of `time.monotonic()`.
        report: Takes the figures.
    """

    device: torch.device
    toy: bool
    compiled: bool | None
    until: float
    report: Report

    def amounts(self, model: str) -> Amounts:
        """Return the numbers of pictures of a model."""
        return _TOY if self.toy else Amounts(_WARM, _TIMED[model], _RECORDED, _COMPARED[model])

    def compiles(self, model: str) -> bool:
        """Return whether a model is compiled now."""
        if self.compiled is None and not self.toy and time.monotonic() > self.until:
            self.report.text(f"{model} is not compiled: the time for that is over (`--budget`).")
            return False
        return not self.toy if self.compiled is None else self.compiled


def measure(options: argparse.Namespace, report: Report) -> int:
    """Check both CLIP models and the U-Net; return 1 if their outputs differ from the CPU's."""
    import torch

    from lodestone.models.torch_device import choose_device, limit_threads

    device = choose_device()
    bench = Bench(device, device.type != "cuda", options.compiled, time.monotonic() + options.budget, report)
    name = "a CPU"
    if bench.toy:
        _declare_operators()
        limit_threads(1)  # tiny passes, on cores that others share
        report.text("No GPU here: TOY SIZE. Tiny models over a few pictures on a CPU; no figure says anything about a GPU.")
    else:
        name = torch.cuda.get_device_name(device)
        report.text(f"{name}, torch {torch.__version__}.")
    peak = known_peak(name) or measured_peak(device, side=512 if bench.toy else 8192)
    report.text(
        f"Peak: {peak.flops / 1e12:,.3g} TFLOPS ({peak.source}). Busy: {_busy_of(bench)}. Tolerances: a cosine of "
        f"{HALF_PRECISION:g} with the CPU's vectors, {OTHER_DECODER:g} where nvJPEG decodes; {UNET_TOLERANCE:g} relative "
        "difference of the U-Net's output."
    )
    with tempfile.TemporaryDirectory(prefix="lodestone-gpu-") as scratch:
        cases = list(_cases(bench, Path(scratch)))
    for case in cases:
        _record(report, case, peak)
    rates = {case.name: case.rate for case in cases}
    for shape in CLIP_SHAPES:
        ratio = rates[f"{shape.name}, {PIPELINE}"] / rates[f"{shape.name}, {BARE}"]
        report.record("product / bare loop", ratio, case=shape.name)
    report.table([_HEADING, *(_row(case, peak) for case in cases)])
    faults = [f"- OUTPUTS DIFFER: {case.name}: {case.fault}." for case in cases if case.fault]
    report.text("\n".join(faults) or "All outputs are the CPU's within the tolerances.")
    return 1 if faults else 0


def _busy_of(bench: Bench) -> str:
    return (
        "the share of the time in a model pass" if bench.toy else "the share of the time in which a kernel ran (torch.profiler)"
    )


def _declare_operators() -> None:
    """Make open_clip importable where torchvision does not belong to the CPU's torch; on a GPU it has to."""
    from tests.support.tiny_models import declare_torchvision_operators

    declare_torchvision_operators()


def _cases(bench: Bench, scratch: Path) -> Iterator[Case]:
    """Yield all cases; those that are compiled come last, because they take longest."""
    jpegs = _jpegs(bench)
    checks = list(_clip_checks(bench, scratch))
    for check in checks:
        for case in check.cases(jpegs):
            bench.report.progress(case.name)
            yield case
    if has_diffusers():
        yield from unet_cases(bench.device, toy=bench.toy, compiled=lambda: bench.compiles(UNET))
    else:
        bench.report.text(f"The {UNET} is not measured: diffusers is not installed.")
    for check in checks:
        if bench.compiles(check.shape.name):
            yield from check.compiled()


def _jpegs(bench: Bench) -> GpuJpegs | None:
    """Return the decoder on the GPU; None where there is none that can decode."""
    if bench.toy:
        return None
    try:
        return gpu_jpegs()
    except LodestoneError as error:
        bench.report.text(f"nvJPEG is not measured: {error.message}.")
        return None


def _clip_checks(bench: Bench, scratch: Path) -> Iterator[ClipCheck]:
    """Yield the check of each CLIP model, after pictures, random weights and the CPU's vectors were made."""
    bench.report.progress("pictures, random weights and the CPU's vectors are made")
    amounts = {shape.name: bench.amounts(shape.name) for shape in CLIP_SHAPES}
    files = generate(scratch / "pictures", max(each.total for each in amounts.values()))
    checkpoints = [
        write_random_clip(scratch / shape.name, shape.name, toy=bench.toy, seed=number)
        for number, shape in enumerate(CLIP_SHAPES)
    ]
    compared = [files[each.warm : each.warm + each.compared] for each in amounts.values()]
    references = reference_vectors(checkpoints, compared, scratch / "reference")
    for shape, checkpoint, reference in zip(CLIP_SHAPES, checkpoints, references, strict=True):
        own = amounts[shape.name]
        yield ClipCheck(
            shape,
            checkpoint,
            files=files[: own.total],
            amounts=own,
            device=bench.device,
            scratch=scratch,
            reference=reference,
        )


def _record(report: Report, case: Case, peak: Peak) -> None:
    report.record("steps a second" if case.is_steps else "pictures a second", case.rate, case=case.name)
    report.record("share of the peak", peak.share(case.rate, case.flops), case=case.name)
    if case.busy is not None:
        report.record("GPU busy", case.busy, case=case.name)
    if case.cosine is not None:
        report.record("least cosine", case.cosine, case=case.name)
    if case.published is not None:
        report.record("of clip-retrieval's A100", case.rate / case.published, case=case.name)
    report.detail(case.name, {"flops a picture": case.flops, "fault": case.fault, **case.facts})


def _row(case: Case, peak: Peak) -> tuple[str, ...]:
    shares = (case.busy, peak.share(case.rate, case.flops), case.cosine, case.published and case.rate / case.published)
    return (case.model, case.way, written(case.rate), *("" if value is None else f"{value:.4g}" for value in shares))


def child(options: argparse.Namespace) -> bool:
    """Make the CPU's vectors, if the options ask for it."""
    if options.reference is None:
        return False
    _declare_operators()
    write_reference_vectors(options.reference)
    return True


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument(
        "--compiled", action=argparse.BooleanOptionalAction, help="compile models; default: on a GPU, within the budget"
    )
    parser.add_argument("--budget", type=float, default=150.0, help="seconds after which no compilation begins")
    parser.add_argument("--reference", type=Path, help=argparse.SUPPRESS)


BENCHMARK = Benchmark(
    name="gpu",
    about=__doc__,
    figures=(
        Figure("pictures a second", "pictures/s", peer=BARE),
        Figure("steps a second", "picture steps/s"),
        Figure("GPU busy", "share"),
        Figure("share of the peak", "share"),
        Figure("product / bare loop", "ratio", peer=BARE),
        Figure("of clip-retrieval's A100", "ratio", peer="clip-retrieval's published figure"),
        Figure("least cosine", "cosine", peer="the CPU's vectors"),
    ),
    options=add_options,
    measure=measure,
    child=child,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
