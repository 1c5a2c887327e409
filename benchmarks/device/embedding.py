"""Ways from JPEG files to float16 vectors: the product's pipeline of one worker, and a bare loop beside it.

The pipeline is the product's (`SlicePipeline`): it reads and verifies files, decodes them, makes thumbnails, embeds them in
batches that fill across slices, and writes Parquet. The vectors are read from the Parquet files that it wrote. The bare loop is
what clip-retrieval and most scripts do: a DataLoader whose processes decode by Pillow and open_clip's own
transformation, and a model in half precision. It checks, keeps and writes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lodestone.backbones.open_clip import OpenClipBackbone, clip_checkpoint, load_model
from lodestone.embeddings.slices import read_part
from lodestone.files.opening import open_area
from lodestone.files.tokens import hash_bytes
from lodestone.imaging.gpu_jpeg import GpuJpegs
from lodestone.indexing.slices.pipeline import SlicePipeline
from lodestone.indexing.slices.work import SliceWork
from lodestone.indexing.stage_stats import EmbedStage
from lodestone.indexing.tasks import EmbedSettings, SliceRow, SliceTask
from lodestone.models.cache import ModelCache
from lodestone.models.context import ModelContext
from lodestone.models.hardware import cores

if TYPE_CHECKING:
    import torch
    from torch import nn

_SLICE: Final = 256
_PASS: Final = 256
"""Pictures of a pass of the bare loop on a GPU."""
_PASS_ON_CPU: Final = 4


@dataclass(frozen=True, slots=True)
class Embedded:
    """What one way made of the pictures.

    Attributes:
        vectors: (n, dim) float16, in the order of the files.
        seconds: From the first file to the last vector; models and processes were ready before.
        pass_seconds: Seconds of it in model passes.
    """

    vectors: NDArray[np.float16]
    seconds: float
    pass_seconds: float

    @property
    def rate(self) -> float:
        """Return pictures a second."""
        return len(self.vectors) / self.seconds

    @property
    def pass_share(self) -> float:
        """Return the share of the time in which a model pass ran."""
        return self.pass_seconds / self.seconds


def random_backbone(checkpoint: Path, models: Path, *, compiled: bool = False) -> OpenClipBackbone:
    """Return the product's backbone of a checkpoint; it is not loaded.

    Args:
        checkpoint: A directory in open_clip's layout.
        models: Directory of the model cache.
        compiled: Whether it is compiled when it is loaded.
    """
    return OpenClipBackbone(f"open_clip:{checkpoint}", ModelContext(ModelCache(models), compiled=compiled, fetch=False))


def image_tower(backbone: OpenClipBackbone, models: Path) -> nn.Module:
    """Return another copy of a backbone's image tower, on the CPU, in single precision and evaluation mode."""
    tower: nn.Module = load_model(clip_checkpoint(backbone.source, ModelContext(ModelCache(models), fetch=False))).visual
    return tower.eval().requires_grad_(requires_grad=False)


class PipelineWay:
    """The product's pipeline with one image model. `close` ends it.

    Args:
        folder: An empty folder for embeddings and thumbnails.
        backbone: The model; it is loaded unless it is already.
        models: Directory of the model cache.
        jpegs: Decodes JPEGs on the GPU; None for the CPU.

    Raises:
        LodestoneError: the model cannot be loaded.
    """

    def __init__(self, folder: Path, backbone: OpenClipBackbone, models: Path, *, jpegs: GpuJpegs | None = None) -> None:
        self._backbone = backbone
        self._settings = EmbedSettings(
            backbones=(backbone.name,),
            text_encoder=backbone.name,
            models=models,
            embeddings=open_area(folder / "embeddings"),
            thumbnails=open_area(folder / "thumbnails"),
            model_threads=0,  # as many as torch has in this process
            decode_threads=cores(),
            gpu_decode=jpegs is not None,
        )
        self._pipeline = SlicePipeline(self._settings, work=SliceWork(self._settings, backbones=[backbone], jpegs=jpegs))
        self._pipeline.warm_up()

    @property
    def decoders(self) -> str:
        """Return what decodes pictures, in words."""
        limits = self._pipeline.limits
        return f"{limits.decoders} {'processes' if limits.decode_processes else 'threads'}"

    def close(self) -> None:
        """Stop threads and processes. Idempotent."""
        self._pipeline.close()

    def embed(self, files: Sequence[Path]) -> Embedded:
        """Embed pictures.

        Raises:
            LodestoneError: a slice failed.
            ValueError: a picture was left out.
        """
        tasks = list(self._tasks(files))
        before = self._pass_seconds()
        started = time.perf_counter()
        receipts = list(self._pipeline.run(tasks))
        seconds = time.perf_counter() - started
        parts = []
        for receipt in receipts:
            if receipt.error is not None:
                raise receipt.error
            parts += [part for part in receipt.receipts if part.part == self._pipeline.parts[0]]
        vectors: dict[str, NDArray[np.float16]] = {}
        for part in parts:
            table = read_part(self._settings.embeddings, part)
            rows = table.column(self._backbone.outputs[0].name).combine_chunks()
            values = rows.flatten().to_numpy().reshape(len(rows), -1)
            vectors.update(zip(table.column("image_id").to_pylist(), values, strict=True))
        missing = [row.uri for task in tasks for row in task.rows if row.image_id not in vectors]
        if missing:
            raise ValueError(f"{len(missing)} pictures have no vector, the first of which is {missing[0]}")
        ordered = np.stack([vectors[row.image_id] for task in tasks for row in task.rows])
        return Embedded(ordered, seconds, self._pass_seconds() - before)

    def _pass_seconds(self) -> float:
        return sum(share.busy_seconds for share in self._pipeline.shares() if share.stage is EmbedStage.EMBED)

    def _tasks(self, files: Sequence[Path]) -> Iterator[SliceTask]:
        for start in range(0, len(files), _SLICE):
            rows = []
            for path in files[start : start + _SLICE]:
                status = path.stat()
                rows.append(
                    SliceRow(
                        uuid4().hex, hash_bytes(path.read_bytes()), str(path), path.name, status.st_size, status.st_mtime_ns
                    )
                )
            yield SliceTask(uuid4().hex, "check", uuid4().hex, tuple(rows), self._pipeline.parts)


class _Files:
    """Dataset of a DataLoader: transformed pictures. It is sent to the loader's processes."""

    def __init__(self, files: Sequence[Path], transform: Any) -> None:  # noqa: ANN401 - torchvision's
        self._files = files
        self._transform = transform

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, number: int) -> Any:  # noqa: ANN401 - a tensor
        with Image.open(self._files[number]) as image:
            return self._transform(image)


class BareLoop:
    """A DataLoader and a model in half precision, as in most scripts. `close` ends its processes.

    Args:
        tower: The image tower, on the CPU; it is moved and changed.
        backbone: The product's backbone of the same weights, for its preprocessing.
        device: Where the tower runs.
        files: All pictures.
    """

    def __init__(self, tower: nn.Module, backbone: OpenClipBackbone, device: torch.device, files: Sequence[Path]) -> None:
        import open_clip
        from torch.utils.data import DataLoader

        from lodestone.models.torch_device import half_precision

        self._device, self._dtype = device, half_precision(device)
        self._tower = tower.to(device, self._dtype)
        shape = backbone.preprocessing
        transform = open_clip.image_transform(shape.size, is_train=False, mean=shape.mean, std=shape.std)
        on_gpu = device.type == "cuda"
        self._order: list[int] = []  # what the next epoch goes through, while the processes stay
        self._loader: DataLoader[Any] | None = DataLoader(
            _Files(files, transform),  # type: ignore[arg-type]  # any object with a length and items
            batch_size=_PASS if on_gpu else _PASS_ON_CPU,
            sampler=self._order,
            num_workers=cores() if on_gpu else 0,
            persistent_workers=on_gpu,
            pin_memory=on_gpu,
        )

    def embed(self, numbers: range) -> Embedded:
        """Embed the pictures of these numbers. The first call starts the processes."""
        import torch

        self._order[:] = numbers
        rows: list[NDArray[np.float16]] = []
        pass_seconds = 0.0
        started = time.perf_counter()
        with torch.inference_mode():
            for batch in self._loader or ():
                began = time.perf_counter()
                pictures = batch.to(self._device, non_blocking=True).to(self._dtype)
                rows.append(self._tower(pictures).to(torch.float16).cpu().numpy())
                pass_seconds += time.perf_counter() - began
        return Embedded(np.concatenate(rows), time.perf_counter() - started, pass_seconds)

    def close(self) -> None:
        """End the processes. Idempotent."""
        self._loader = None


def pipeline_vectors(files: Sequence[Path], folder: Path, checkpoint: Path, models: Path) -> NDArray[np.float16]:
    """Return the vectors that the product's pipeline makes in this process, (n, dim)."""
    with closing(PipelineWay(folder, random_backbone(checkpoint, models), models)) as way:
        return way.embed(files).vectors
