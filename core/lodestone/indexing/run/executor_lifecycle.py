"""Lifecycle of a run's executors: one at a time, chosen anew for each amount of work."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from lodestone.indexing.embed.executors import (
    POOL_PAYS_SLICES,
    EmbedExecutor,
    ExecutorFactory,
    choose_executor,
    embed_settings,
    make_executor,
)
from lodestone.indexing.embed.slicing import SMALL_SLICE
from lodestone.indexing.sync.collections import SyncResources

if TYPE_CHECKING:
    from lodestone.config.profiles import Profile


class IndexResources(SyncResources, Protocol):
    """Resources that an index run works on; a `Runtime` provides all of them."""

    @property
    def profile(self) -> Profile:
        """Return the profile, which names the models."""


class ExecutorLifecycle:
    """Starts, reuses and stops the executors of one run.

    Args:
        resources: The opened home.
        pool: Makes the executor for `ray`; None to use processes of this machine instead.

    Attributes:
        kind: `inline`, `processes` or `ray`: the executor started last; `none` before the first.
    """

    def __init__(self, resources: IndexResources, pool: ExecutorFactory | None) -> None:
        self.kind = "none"
        self._resources = resources
        self._pool = pool
        self._started: EmbedExecutor | None = None

    def expect(self, pictures: int) -> None:
        """Start workers in the background as soon as enough pictures are known to keep them busy."""
        settings = self._resources.settings
        slices = pictures // (settings.index.slice_size or SMALL_SLICE)
        chosen = choose_executor(settings, slices) if slices >= POOL_PAYS_SLICES else "inline"
        if self._started is None and chosen != "inline":
            self._start(chosen).start()

    def executor(self, pictures: int, *, eager: bool = True) -> EmbedExecutor:
        """Return an executor for this many pictures; one that is started already is reused where there is enough work.

        Args:
            pictures: Pictures in all unfinished slices.
            eager: Whether its workers load all models at once, because pictures are to be embedded.
        """
        settings = self._resources.settings
        chosen = choose_executor(settings, math.ceil(pictures / (settings.index.slice_size or SMALL_SLICE)))
        if self._started is None or chosen == "inline":
            return self._start(chosen, eager=eager)
        return self._started

    def close(self) -> None:
        """Stop the workers of the run. Idempotent."""
        if self._started is not None:
            self._started.close()

    def _start(self, chosen: str, *, eager: bool = True) -> EmbedExecutor:
        resources = self._resources
        embed = embed_settings(
            resources.settings,
            resources.profile,
            embeddings=resources.embeddings,
            thumbnails=resources.thumbnails,
            model_threads=1,
            decode_threads=1,
            extra=[backbone.name for backbone in resources.extra_backbones()],
            eager=eager,
        )
        self.close()
        self.kind, self._started = make_executor(chosen, resources.settings, embed, self._pool)
        return self._started
