"""Pipeline that embeds slices in one process, several at once: fetch, decode, embed and write overlap across slices.

A worker that took one slice after the other would let its models wait for the slowest of everything: the latency of an object
store, the end of a slice, its files. See docs/adr/0013-slices-in-flight.md.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from lodestone.files.filesystems import allow_requests
from lodestone.indexing.slices.flow import SliceFlow
from lodestone.indexing.slices.limits import PipelineLimits
from lodestone.indexing.slices.pools import StagePools
from lodestone.indexing.slices.work import SliceWork
from lodestone.indexing.stage_stats import EmbedStage, StageShare, StageStats
from lodestone.indexing.tasks import (
    Advance,
    EmbedSettings,
    SliceProgressCallback,
    SliceReceipt,
    SliceTask,
    ignore_progress,
)


class SlicePipeline:
    """Embeds slices. Light to construct; `warm_up` loads the models once.

    Args:
        settings: Models, folders and sizes.
        work: Does the work; None for that of the settings.
        limits: Sizes of the stages; None for those of the settings on this machine.
    """

    def __init__(self, settings: EmbedSettings, *, work: SliceWork | None = None, limits: PipelineLimits | None = None) -> None:
        self.work = work or SliceWork(settings)
        self.limits = limits or PipelineLimits.of(settings, self.work.parts)
        if self.limits.decode_processes:
            self.work.decode_in_children(self.limits.decoders)
        allow_requests(self.limits.remote_reads)
        self._pools = StagePools(self.limits)
        self._stats = StageStats(
            {
                EmbedStage.FETCH: self.limits.local_reads,
                EmbedStage.DECODE: self.limits.decoders,
                EmbedStage.EMBED: 1,
                EmbedStage.WRITE: self.limits.writers + (0 if self.work.packs_thumbnails else 1),
            }
        )
        self._flows: set[SliceFlow] = set()
        self._lock = threading.Lock()

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the names of the files that a complete slice has."""
        return tuple(part.file for part in self.work.parts)

    def warm_up(self) -> None:
        """Load the models of the parts that read pixels. The text encoder is loaded at the first caption.

        Raises:
            ModelUnavailableError: a model's package is not installed.
        """
        self.work.warm_up()

    def shares(self) -> tuple[StageShare, ...]:
        """Return the work of each stage since the first task."""
        return self._stats.shares()

    def close(self) -> None:
        """Stop what is under way, and all threads. Idempotent."""
        with self._lock:
            flows, self._flows = self._flows, set()
        for flow in flows:
            flow.stop()
        self._pools.close()
        self.work.close()

    @contextmanager
    def flow(self) -> Iterator[SliceFlow]:
        """Open a flow that tasks are given to one by one; at the end, what is still under way is stopped."""
        flow = SliceFlow(self.work, self.limits, self._pools, self._stats)
        with self._lock:
            self._flows.add(flow)
        try:
            yield flow
        finally:
            flow.stop()
            with self._lock:
                self._flows.discard(flow)

    def run(
        self, tasks: Iterable[SliceTask], report_progress: SliceProgressCallback = ignore_progress
    ) -> Iterator[SliceReceipt]:
        """Yield a receipt for each task, in any order.

        Tasks are pulled while fewer than `limits.slices` are in flight. A slice is in flight until its receipt was taken. A
        task that needs the worker for itself waits until no other is in flight.

        Args:
            tasks: What to embed; pulled in the caller's thread.
            report_progress: Called in the caller's thread as pictures are done.
        """
        remaining = iter(tasks)
        following: SliceTask | None = None
        in_flight, is_alone, is_over = 0, False, False
        with self.flow() as flow:
            while True:
                while not is_over and not is_alone and in_flight < self.limits.slices:
                    following = following or next(remaining, None)
                    if following is None:
                        is_over = True
                    elif following.needs_a_worker and in_flight:
                        break
                    else:
                        flow.admit(following)
                        in_flight, is_alone, following = in_flight + 1, following.needs_a_worker, None
                if not in_flight:
                    return
                event = flow.take()
                if isinstance(event, Advance):
                    report_progress(event.slice_id, event.pictures)
                elif event is not None:
                    yield event
                    in_flight, is_alone = in_flight - 1, False
