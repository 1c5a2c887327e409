"""Check of one CLIP model on a device: the product's pipeline, the model alone and a bare loop, and vectors beside the CPU's.

The reference vectors are the product's own on the CPU, in single precision: the same files go through the same pipeline in a
process that sees no GPU.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.device.cases import Case, compare
from benchmarks.device.embedding import BareLoop, Embedded, PipelineWay, image_tower, pipeline_vectors, random_backbone
from benchmarks.device.meters import busy_while, counted_flops, passes_a_second
from benchmarks.device.random_models import ClipShape
from lodestone.backbones import torch_backbone
from lodestone.imaging.gpu_jpeg import GpuJpegs

if TYPE_CHECKING:
    import torch

    from lodestone.backbones.open_clip import OpenClipBackbone

HALF_PRECISION: Final = 0.999
"""Least cosine of vectors that differ by half precision alone."""
OTHER_DECODER: Final = 0.99
"""Least cosine of vectors whose pictures another decoder decoded."""
BARE: Final = "bare loop"
PIPELINE: Final = "product, decoding on the CPU"
ON_GPU: Final = "product, decoding by nvJPEG"
_GPU_BATCH: Final = 256
_CPU_BATCH: Final = 4


@dataclass(frozen=True, slots=True)
class Amounts:
    """Numbers of pictures of one model, all different files.

    Attributes:
        warm: Pictures that come first and are not timed.
        timed: Pictures whose time is taken.
        recorded: Pictures during which kernels are recorded; 0: none are.
        compared: Pictures of the timed ones whose vectors are compared with the CPU's.
    """

    warm: int
    timed: int
    recorded: int
    compared: int

    @property
    def total(self) -> int:
        """Return the number of files."""
        return self.warm + self.timed + self.recorded


class ClipCheck:
    """Check of one model.

    Args:
        shape: The model.
        checkpoint: Its directory.
        files: `amounts.total` pictures.
        amounts: How they are used.
        device: The device.
        scratch: Folder for the model cache and for what the pipeline writes.
        reference: (amounts.compared, dim): the CPU's vectors of the first timed pictures.

    Attributes:
        flops: Operations of one picture in the image tower.
    """

    def __init__(
        self,
        shape: ClipShape,
        checkpoint: Path,
        *,
        files: Sequence[Path],
        amounts: Amounts,
        device: torch.device,
        scratch: Path,
        reference: NDArray[np.float16],
    ) -> None:
        import torch

        self.shape = shape
        self._checkpoint, self._files, self._amounts, self._device = checkpoint, files, amounts, device
        self._scratch, self._models = scratch, scratch / "models"
        self._reference = reference
        self._folders = 0
        self._backbone = random_backbone(checkpoint, self._models)
        tower = image_tower(self._backbone, self._models)
        one = torch.zeros((1, 3, self._backbone.input_size, self._backbone.input_size))
        self.flops = counted_flops(lambda: tower(one))

    def cases(self, jpegs: GpuJpegs | None) -> Iterator[Case]:
        """Yield all cases that take seconds; `jpegs` decodes on the GPU where there is one."""
        yield self._piped(self._backbone, PIPELINE)
        if jpegs is not None:
            yield self._piped(self._backbone, ON_GPU, jpegs)
        yield self._case("product's model alone", self._passes(self._backbone))
        yield self._contiguous()
        yield self._bare()

    def compiled(self) -> Iterator[Case]:
        """Yield the cases of the compiled model, which takes a minute or more to compile."""
        problems = _Warnings()
        logger = logging.getLogger(torch_backbone.__name__)
        logger.addHandler(problems)
        backbone = random_backbone(self._checkpoint, self._models, compiled=True)
        try:
            backbone.warm_up()
        finally:
            logger.removeHandler(problems)
        way = "compiled" if not problems.messages else "not compiled, because that failed"
        yield self._piped(backbone, f"{PIPELINE}, {way}", facts={"warnings": problems.messages})
        yield self._case(f"product's model alone, {way}", self._passes(backbone))

    def _case(self, way: str, rate: float, **more: Any) -> Case:  # noqa: ANN401 - fields of a case
        published = self.shape.published if self._device.type == "cuda" else None
        return Case(self.shape.name, way, rate, self.flops, published=published, **more)

    def _contiguous(self) -> Case:
        """Run the model alone with filters and pictures in torch's usual layout, not in `channels_last`."""
        import torch

        from lodestone.models.torch_device import inference, place_module

        tower = image_tower(self._backbone, self._models)
        place_module(tower, self._device)
        tower.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]  # as in place_module
        planes = torch.zeros((self._batch, 3, self._backbone.input_size, self._backbone.input_size), device=self._device)

        def run() -> object:
            with inference(self._device):
                return tower(planes).float().cpu()

        return self._case("model alone, not channels_last", self._batch * passes_a_second(run, self._device))

    def _bare(self) -> Case:
        tower = image_tower(self._backbone, self._models)
        with closing(BareLoop(tower, self._backbone, self._device, self._files)) as loop:
            warm, timed = self._amounts.warm, self._amounts.warm + self._amounts.timed
            loop.embed(range(warm))
            made = loop.embed(range(warm, timed))
            busy = self._busy(made, lambda: loop.embed(range(timed, self._amounts.total)))
        return self._case(BARE, made.rate, busy=busy)

    @property
    def _batch(self) -> int:
        return _GPU_BATCH if self._device.type == "cuda" else _CPU_BATCH

    def _piped(
        self, backbone: OpenClipBackbone, way: str, jpegs: GpuJpegs | None = None, facts: Mapping[str, Any] | None = None
    ) -> Case:
        self._folders += 1
        folder = self._scratch / f"{self.shape.name}-{self._folders}"
        warm, timed = self._amounts.warm, self._amounts.warm + self._amounts.timed
        before = (jpegs.decoded, jpegs.declined) if jpegs is not None else (0, 0)
        with closing(PipelineWay(folder, backbone, self._models, jpegs=jpegs)) as pipeline:
            pipeline.embed(self._files[:warm])
            made = pipeline.embed(self._files[warm:timed])
            busy = self._busy(made, lambda: pipeline.embed(self._files[timed:]))
        found = {**(facts or {}), "decoders": pipeline.decoders}
        if jpegs is not None:
            found |= {"decoded on the GPU": jpegs.decoded - before[0], "left to the CPU": jpegs.declined - before[1]}
        comparison = compare(made.vectors, self._reference, HALF_PRECISION if jpegs is None else OTHER_DECODER)
        found["strays"] = comparison.strays
        return self._case(way, made.rate, busy=busy, cosine=comparison.cosine, fault=comparison.fault, facts=found)

    def _busy(self, made: Embedded, again: Callable[[], object]) -> float | None:
        """Return the busy share: of kernels while `again` runs, or on a CPU that of the passes that made `made`."""
        return busy_while(again, self._device) if self._device.type == "cuda" else made.pass_share

    def _passes(self, backbone: OpenClipBackbone) -> float:
        """Return pictures a second of the model alone, over a batch that is on the device already."""
        backbone.warm_up()
        side = backbone.input_size
        pixels = np.random.default_rng(0).integers(0, 256, (self._batch, side, side, 3), dtype=np.uint8)
        uploaded = backbone.upload(pixels)
        return self._batch * passes_a_second(lambda: backbone.embed(uploaded), self._device)


class _Warnings(logging.Handler):
    """Keeps the warnings of a logger."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message of a record."""
        self.messages.append(record.getMessage())


def reference_vectors(checkpoints: Sequence[Path], files: Sequence[Sequence[Path]], scratch: Path) -> list[NDArray[np.float16]]:
    """Return the CPU's vectors of each checkpoint's files, from a process that sees no GPU.

    Raises:
        RuntimeError: the process failed; the message has the end of its output.
    """
    scratch.mkdir(parents=True)
    job = scratch / "job.json"
    pairs = [[str(checkpoint), [str(path) for path in own]] for checkpoint, own in zip(checkpoints, files, strict=True)]
    job.write_text(json.dumps(pairs), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.device.gpu", "--reference", str(job)],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the CPU's vectors were not made (exit code {done.returncode}): {done.stderr[-2000:]}")
    return [np.load(job.with_suffix(f".{number}.npy")) for number in range(len(pairs))]


def write_reference_vectors(job: Path) -> None:
    """Embed what a job file of `reference_vectors` names in this process, and write the vectors beside it."""
    for number, (checkpoint, files) in enumerate(json.loads(job.read_text(encoding="utf-8"))):
        folder = job.parent / str(number)
        vectors = pipeline_vectors([Path(path) for path in files], folder, Path(checkpoint), job.parent / "models")
        np.save(job.with_suffix(f".{number}.npy"), vectors)
