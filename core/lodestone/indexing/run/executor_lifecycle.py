"""Who embeds a run's slices, and from when on? One executor at a time, chosen anew for every amount of work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from lodestone.indexing.embed.executors import (
    POOL_PAYS_SLICES,
    EmbedExecutor,
    ExecutorFactory,
    choose_executor,
    embed_settings,
    make_executor,
)
from lodestone.indexing.sync.collections import SyncResources

if TYPE_CHECKING:
    from lodestone.config.profiles import Profile


class IndexResources(SyncResources, Protocol):
    """What an index run works on; a `Runtime` has it all."""

    @property
    def profile(self) -> Profile:
        """Names the models."""


class ExecutorLifecycle:
    """The executors of one run.

    Args:
        resources: The opened home.
        pool: Makes the executor where `index.executor` comes to `ray`; None: this machine's processes instead.

    Attributes:
        kind: `inline`, `processes` or `ray`: the last that was started; `none` before.
    """

    def __init__(self, resources: IndexResources, pool: ExecutorFactory | None) -> None:
        self.kind = "none"
        self._resources = resources
        self._pool = pool
        self._started: EmbedExecutor | None = None

    def expect(self, pictures: int) -> None:
        """Have the workers get ready in the background once it is clear that there is work for them."""
        settings = self._resources.settings
        slices = pictures // settings.index.slice_size
        chosen = choose_executor(settings, slices) if slices >= POOL_PAYS_SLICES else "inline"
        if self._started is None and chosen != "inline":
            self._start(chosen).start()

    def executor(self, slices: int) -> EmbedExecutor:
        """The executor for so many slices; what was started already is used where there is enough to do."""
        chosen = choose_executor(self._resources.settings, slices)
        if self._started is None or chosen == "inline":
            return self._start(chosen)
        return self._started

    def close(self) -> None:
        """Stop the workers. Idempotent."""
        if self._started is not None:
            self._started.close()

    def _start(self, chosen: str) -> EmbedExecutor:
        resources = self._resources
        embed = embed_settings(
            resources.settings,
            resources.profile,
            embeddings=resources.embeddings,
            thumbnails=resources.thumbnails,
            model_threads=1,
            decode_threads=1,
            extra=[backbone.name for backbone in resources.extra_backbones()],
        )
        self.close()
        self.kind, self._started = make_executor(chosen, resources.settings, embed, self._pool)
        return self._started
