"""Contract of executors, which run the embedding tasks, and the inline executor, which needs no other process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from lodestone.config.profiles import Profile
from lodestone.config.settings import Settings
from lodestone.files.area import FileArea
from lodestone.imaging.thumbnails import ThumbnailStore
from lodestone.indexing.tasks import EmbedSettings, SliceProgressCallback, SliceReceipt, SliceTask, ignore_progress
from lodestone.models.hardware import cores, gpu_names, gpus

if TYPE_CHECKING:
    from lodestone.indexing.slices.pipeline import SlicePipeline

POOL_PAYS_SLICES: Final = 2  # with fewer slices, starting workers takes longer than they save


class EmbedExecutor(Protocol):
    """Runs tasks and yields one receipt for each, in any order. Used for all batches of one run, then closed.

    A worker that crashes (killed, out of memory, its node lost) also gives a receipt: `SliceReceipt(slice_id, (),
    error=WorkerDiedError(…))`. The run then retries the slice.
    """

    def start(self) -> None:
        """Start to get ready in the background, if that takes long. Calling it is optional."""

    def run(
        self, tasks: Iterable[SliceTask], report_progress: SliceProgressCallback = ignore_progress
    ) -> Iterator[SliceReceipt]:
        """Yield receipts as tasks finish. `tasks` is read lazily. Called once for each batch.

        Args:
            tasks: What to embed.
            report_progress: Called while a slice is embedded, by executors that hear of it.
                On a cluster nothing is reported before receipts.

        Raises:
            RunFailedError: workers crashed again and again; finished slices stay finished.
        """

    def close(self) -> None:
        """Stop the executor's workers. Idempotent."""


ExecutorFactory = Callable[[EmbedSettings, int], EmbedExecutor]
"""Function that makes an executor for some settings and a number of workers."""


class InlineExecutor:
    """Embeds in this process; the models may use all cores.

    Args:
        settings: Everything that a worker needs to know.
    """

    def __init__(self, settings: EmbedSettings) -> None:
        self._settings = settings
        self._pipeline: SlicePipeline | None = None

    def start(self) -> None:
        """Do nothing: this process needs no time to start."""

    def run(
        self, tasks: Iterable[SliceTask], report_progress: SliceProgressCallback = ignore_progress
    ) -> Iterator[SliceReceipt]:
        """Embed the tasks, the next ones while the ones before are written; models are loaded at the first, or when needed."""
        remaining = iter(tasks)
        first = next(remaining, None)
        if first is None:
            return
        if self._pipeline is None:
            from lodestone.indexing.slices.pipeline import SlicePipeline

            self._pipeline = SlicePipeline(self._settings)
            self._pipeline.warm_up()
        yield from self._pipeline.run(chain((first,), remaining), report_progress)

    def close(self) -> None:
        """Stop what is under way. Idempotent."""
        if self._pipeline is not None:
            self._pipeline.close()
            self._pipeline = None


def worker_count(settings: Settings, *, on_gpu: bool = False) -> int:
    """Return how many workers share the embedding: `index.workers`, or one per GPU where the models use them, or per core."""
    return settings.index.workers or (gpus() if on_gpu else 0) or cores()


def uses_gpus(embed: EmbedSettings) -> bool:
    """Return whether there are GPUs here and every image model runs on one."""
    if not gpus():
        return False
    from lodestone.backbones.registry import make_backbone
    from lodestone.models.cache import ModelCache
    from lodestone.models.context import ModelContext

    context = ModelContext(ModelCache(embed.models), threads=embed.model_threads)
    return bool(embed.backbones) and all(make_backbone(name, context).on_gpu() for name in embed.backbones)


def choose_executor(settings: Settings, slices: int) -> str:
    """Return the executor for this many slices: `inline`, `processes` or `ray`, as `index.executor` says.

    `auto` depends on the machine: with several GPUs or cores, our own processes, which start in a tenth of the time that Ray
    needs, and of which each gets a GPU.
    """
    wanted = settings.index.executor
    if wanted != "auto":
        return wanted
    if settings.cluster.address is not None:
        return "ray"
    if slices < POOL_PAYS_SLICES:
        return "inline"
    return "processes" if (gpus() or worker_count(settings) > 1) and os.name == "posix" else "inline"


def make_executor(
    kind: str, settings: Settings, embed: EmbedSettings, pool: ExecutorFactory | None
) -> tuple[str, EmbedExecutor]:
    """Make the executor that `choose_executor` named, without starting it; return its kind and the executor.

    Args:
        kind: `inline`, `processes` or `ray`.
        settings: The home's settings.
        embed: What a worker needs to know, with one thread per model pass; the inline executor uses `models.threads` instead.
        pool: Makes the executor for `ray`; None to use processes instead.
    """
    workers = 1 if kind == "inline" else worker_count(settings, on_gpu=uses_gpus(embed))
    if kind == "ray" and pool is not None:
        return kind, pool(embed, workers)
    if gpus():  # the models take no core, so decoding gets all of them
        embed = replace(embed, decode_threads=max(cores() // workers, 1))
    if kind == "inline":
        return kind, InlineExecutor(replace(embed, model_threads=settings.models.threads))
    from lodestone.indexing.embed.worker_pool import ProcessExecutor

    return "processes", ProcessExecutor(embed, workers, devices=gpu_names())


def embed_settings(
    settings: Settings,
    profile: Profile,
    *,
    embeddings: FileArea,
    thumbnails: ThumbnailStore,
    model_threads: int,
    decode_threads: int,
    extra: Sequence[str] = (),
    eager: bool = True,
) -> EmbedSettings:
    """Return what a worker needs to know, taken from a home's settings.

    Args:
        settings: The home's settings.
        profile: Names the models.
        embeddings: Area for the slices' files.
        thumbnails: Store for the thumbnails.
        model_threads: Threads of one model pass; 0 for the runtime's choice.
        decode_threads: Pictures decoded at once.
        extra: Backbones besides the profile's, for a model swap.
        eager: Whether workers load all models before their first slice.
    """
    return EmbedSettings(
        backbones=(*profile.backbones, *extra),
        text_encoder=profile.text_encoder,
        models=Path(settings.models.cache).expanduser(),
        embeddings=embeddings,
        thumbnails=thumbnails.area,
        thumbnail_px=thumbnails.size,
        batch_size=settings.index.batch_size,
        max_decoded_bytes=settings.index.max_decoded_mb << 20,
        model_threads=model_threads,
        decode_threads=decode_threads,
        slices_in_flight=settings.index.slices_in_flight,
        reads=settings.index.reads,
        decode_processes=settings.index.decode_processes,
        gpu_decode=settings.index.gpu_decode,
        compile_models=settings.index.compile_models,
        eager=eager,
    )
