"""Who runs the embedding tasks? The contract of executors, and the one that needs no cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from lodestone.config.profiles import Profile
from lodestone.config.settings import Settings
from lodestone.files.area import FileArea
from lodestone.imaging.thumbnails import ThumbnailStore
from lodestone.indexing.tasks import EmbedSettings, SliceReceipt, SliceTask
from lodestone.models.hardware import cores, gpus

if TYPE_CHECKING:
    from lodestone.indexing.embed.slice_embedder import EmbedSlice

POOL_PAYS_SLICES: Final = 2  # below, starting workers takes longer than they save


class EmbedExecutor(Protocol):
    """Runs tasks and yields one receipt for each, in any order. Used for the waves of one run, then closed.

    A worker that died (killed, out of memory, its node lost) answers too:
    `SliceReceipt(slice_id, (), error=WorkerDiedError(…))`. The run tries the slice again.
    """

    def start(self) -> None:
        """Begin to get ready in the background, if that takes long. May be left out."""

    def run(self, tasks: Iterable[SliceTask]) -> Iterator[SliceReceipt]:
        """Yield receipts as tasks finish. `tasks` is read lazily. Called once a wave.

        Raises:
            RunFailedError: workers died again and again; finished slices stay finished.
        """

    def close(self) -> None:
        """Stop the workers. Idempotent."""


ExecutorFactory = Callable[[EmbedSettings, int], EmbedExecutor]
"""Makes an executor for some settings and a number of workers."""


class InlineExecutor:
    """Embeds in this process, one slice after the other; the models may use all cores.

    Args:
        settings: What workers need to know.
    """

    def __init__(self, settings: EmbedSettings) -> None:
        self._settings = settings
        self._embed: EmbedSlice | None = None

    def start(self) -> None:
        """See `EmbedExecutor.start`: nothing takes long here."""

    def run(self, tasks: Iterable[SliceTask]) -> Iterator[SliceReceipt]:
        """See `EmbedExecutor.run`."""
        from lodestone.indexing.embed.slice_embedder import EmbedSlice

        for task in tasks:
            if self._embed is None:
                self._embed = EmbedSlice(self._settings)
                self._embed.warm_up()
            yield self._embed(task)

    def close(self) -> None:
        """See `EmbedExecutor.close`."""
        if self._embed is not None:
            self._embed.close()
            self._embed = None


def worker_count(settings: Settings) -> int:
    """How many workers share the embedding: `index.workers`, or one a core."""
    return settings.index.workers or cores()


def choose_executor(settings: Settings, slices: int) -> str:
    """Who embeds so many slices: `inline`, `processes` or `ray`, as `index.executor` says; `auto` looks at the machine.

    With GPUs, Ray deals them out to the workers. Without, processes of our own start in a tenth of the time.
    """
    wanted = settings.index.executor
    if wanted != "auto":
        return wanted
    if settings.cluster.address is not None:
        return "ray"
    if slices < POOL_PAYS_SLICES:
        return "inline"
    if gpus():
        return "ray"
    return "processes" if worker_count(settings) > 1 and os.name == "posix" else "inline"


def make_executor(
    kind: str, settings: Settings, embed: EmbedSettings, pool: ExecutorFactory | None
) -> tuple[str, EmbedExecutor]:
    """The executor that `choose_executor` names, not started, and what it is in the end.

    Args:
        kind: `inline`, `processes` or `ray`.
        settings: The home's.
        embed: What a worker needs to know, with one thread a model pass; alone, this process uses `models.threads`.
        pool: Makes the executor for `ray`; None: processes take its place.
    """
    if kind == "inline":
        return kind, InlineExecutor(replace(embed, model_threads=settings.models.threads))
    if kind == "ray" and pool is not None:
        return kind, pool(embed, worker_count(settings))
    from lodestone.indexing.embed.worker_pool import ProcessExecutor

    return "processes", ProcessExecutor(embed, worker_count(settings))


def embed_settings(
    settings: Settings,
    profile: Profile,
    *,
    embeddings: FileArea,
    thumbnails: ThumbnailStore,
    model_threads: int,
    decode_threads: int,
    extra: Sequence[str] = (),
) -> EmbedSettings:
    """What a worker needs to know, out of a home's settings.

    Args:
        settings: The home's.
        profile: Names the models.
        embeddings: Where the slices go.
        thumbnails: Where the thumbnails go.
        model_threads: Threads of one model pass; 0 for the runtime's choice.
        decode_threads: Pictures decoded at once.
        extra: Backbones besides the profile's, for a model swap.
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
    )
