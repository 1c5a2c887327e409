"""Who runs the embedding tasks? The contract of executors, and the one that needs no cluster."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from lodestone.config.profiles import Profile
from lodestone.config.settings import Settings
from lodestone.files.area import FileArea
from lodestone.imaging.thumbnails import ThumbnailStore
from lodestone.indexing.tasks import EmbedSettings, SliceReceipt, SliceTask


class EmbedExecutor(Protocol):
    """Runs tasks and yields one receipt for each, in any order. Used for one run, then closed."""

    def start(self) -> None:
        """Begin to get ready in the background, if that takes long. May be left out."""

    def run(self, tasks: Iterable[SliceTask]) -> Iterator[SliceReceipt]:
        """Yield receipts as tasks finish. `tasks` is read lazily.

        Raises:
            RunFailedError: workers died again and again; finished slices stay finished.
        """

    def close(self) -> None:
        """Stop the workers. Idempotent."""


class InlineExecutor:
    """Embeds in this process, one slice after the other; the models may use all cores.

    Args:
        settings: What workers need to know.
    """

    def __init__(self, settings: EmbedSettings) -> None:
        self._settings = settings

    def start(self) -> None:
        """See `EmbedExecutor.start`: nothing takes long here."""

    def run(self, tasks: Iterable[SliceTask]) -> Iterator[SliceReceipt]:
        """See `EmbedExecutor.run`."""
        from lodestone.indexing.embed import EmbedSlice

        embed: EmbedSlice | None = None
        try:
            for task in tasks:
                if embed is None:
                    embed = EmbedSlice(self._settings)
                    embed.warm_up()
                yield embed(task)
        finally:
            if embed is not None:
                embed.close()

    def close(self) -> None:
        """See `EmbedExecutor.close`."""


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def worker_count(settings: Settings) -> int:
    """How many workers share the embedding: `index.workers`, or one a core."""
    return settings.index.workers or cores()


def embed_settings(
    settings: Settings,
    profile: Profile,
    *,
    embeddings: FileArea,
    thumbnails: ThumbnailStore,
    model_threads: int,
    decode_threads: int,
) -> EmbedSettings:
    """What a worker needs to know, out of a home's settings.

    Args:
        settings: The home's.
        profile: Names the models.
        embeddings: Where the slices go.
        thumbnails: Where the thumbnails go.
        model_threads: Threads of one model pass; 0 for the runtime's choice.
        decode_threads: Pictures decoded at once.
    """
    return EmbedSettings(
        backbones=profile.backbones,
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
