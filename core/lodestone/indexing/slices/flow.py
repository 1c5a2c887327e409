"""Flow of slices through the stages, several at once: what starts when, how much is held, and how each slice ends.

All decisions are made under one lock, by the thread whose piece of work has just ended; the work itself runs in the pools of
the stages without the lock. A stage starts work only where the next ones have room, so a slow stage makes those before it wait:

- fetch starts while the files that are read or wait to be decoded take less than `fetched_bytes`,
- decode starts while the model inputs of all slices take less than `decoded_bytes`, and single thumbnails that wait to be
  written less than `thumbnail_bytes`; those of a pack wait for the end of their slice,
- embed takes full batches across slices, and a smaller one when the models are idle and a slice waits for its last pictures,
- write takes slices whose pictures are done; who admits slices limits how many there are.

A slice that fails ends alone: what is under way of it is dropped, and the others go on.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from lodestone.errors import LodestoneError, RunFailedError
from lodestone.indexing.slices.isolation import DecodingChild
from lodestone.indexing.slices.limits import PipelineLimits
from lodestone.indexing.slices.model_pass import SliceResults, process_batch
from lodestone.indexing.slices.picture_inputs import DecodedPicture, PreparedPicture
from lodestone.indexing.slices.picture_queues import PictureQueues, QueuedPicture, ReadJob
from lodestone.indexing.slices.pools import Pool, StagePools
from lodestone.indexing.slices.preparing import Content
from lodestone.indexing.slices.state import SlicePlan, SliceState, slice_error
from lodestone.indexing.slices.work import SliceWork
from lodestone.indexing.stage_stats import EmbedStage, StageStats
from lodestone.indexing.tasks import Advance, RowFailure, SliceReceipt, SliceTask

_BATCHES_WAITING: Final = 2  # one in the models, one that waits for them
_THUMBNAILS_A_WRITE: Final = 64  # on a disk, where a write takes less time than to hand it to another thread
_FEEDING: Final = (Pool.PLAN, Pool.REMOTE, Pool.LOCAL, Pool.DECODE)


class SliceFlow:
    """Takes tasks and gives receipts, in any order. `admit` and `take` may be called from different threads.

    Args:
        work: Does the work.
        limits: Sizes of the stages.
        pools: Threads of the stages.
        stats: Counters, shared by all flows of a worker.
    """

    def __init__(self, work: SliceWork, limits: PipelineLimits, pools: StagePools, stats: StageStats) -> None:
        self._work = work
        self._limits = limits
        self._pools = pools
        self._stats = stats
        self._queues = PictureQueues(limits)
        self._lock = threading.Condition()
        self._events: queue.SimpleQueue[SliceReceipt | Advance | Exception | None] = queue.SimpleQueue()
        self._stopped = False
        self._running: Counter[Pool] = Counter()
        self._children: dict[SliceState, DecodingChild] = {}

    def admit(self, task: SliceTask) -> None:
        """Start on a task."""
        with self._lock:
            self._stats.begin()
            self._start(Pool.PLAN, lambda: self._work.plan(task), partial(self._planned, SliceState(task)))

    def take(self) -> SliceReceipt | Advance | None:
        """Wait for the next receipt or progress; None says that `finish` was called.

        Raises:
            Exception: the flow itself failed.
        """
        event = self._events.get()
        if isinstance(event, Exception):
            raise event
        return event

    def finish(self) -> None:
        """Make `take` return None once."""
        self._events.put(None)

    def stop(self) -> None:
        """Drop everything that is under way, and wait for the pieces of work that have begun, but not for object stores.

        Files that are being written are finished or absent. Idempotent.
        """
        with self._lock:
            self._stopped = True
            self._queues.clear()
            self._lock.wait_for(lambda: not any(count for pool, count in self._running.items() if pool is not Pool.REMOTE))
            children, self._children = self._children, {}
        for child in children.values():
            child.close()

    # Work

    def _start(
        self,
        pool: Pool,
        work: Callable[[], Any],
        done: Callable[[Any], None],
        *,
        stage: EmbedStage | None = None,
        pictures: int = 0,
    ) -> None:
        """Run `work` in a pool, and `done` with its result or its exception under the lock, which is held here too."""
        self._running[pool] += 1
        self._pools.submit(pool, partial(self._run, pool, work, done, stage, pictures))

    def _run(
        self, pool: Pool, work: Callable[[], Any], done: Callable[[Any], None], stage: EmbedStage | None, pictures: int
    ) -> None:
        started = time.perf_counter()
        outcome: Any = None
        if not self._stopped:
            try:
                outcome = work()
            except Exception as error:  # noqa: BLE001 - it ends the slice, with its receipt
                outcome = error
        seconds = time.perf_counter() - started
        with self._lock:
            self._running[pool] -= 1
            if self._stopped:
                self._lock.notify_all()
                return
            if stage is not None:
                self._stats.add(stage, seconds, pictures=pictures)
            try:
                done(outcome)
                self._advance()
            except Exception as error:  # noqa: BLE001 - raised again by `take`
                self._events.put(error)

    def _advance(self) -> None:
        """Start whatever can start now."""
        running = self._running
        while (job := self._queues.next_read(remote=running[Pool.REMOTE], local=running[Pool.LOCAL])) is not None:
            slots = self._limits.remote_reads if job.remote else self._limits.local_reads
            self._stats.slots[EmbedStage.FETCH] = max(self._stats.slots[EmbedStage.FETCH], slots)
            self._start(
                Pool.REMOTE if job.remote else Pool.LOCAL,
                partial(self._fetch, job),
                partial(self._fetched, job),
                stage=EmbedStage.FETCH,
                pictures=len(job.places),
            )
        while (place := self._queues.next_decode(decoding=running[Pool.DECODE])) is not None:
            content, place.content = place.content, None
            decode = partial(place.decode, place.row, content)
            self._start(Pool.DECODE, decode, partial(self._decoded, place), stage=EmbedStage.DECODE, pictures=1)
        while running[Pool.MODELS] < _BATCHES_WAITING:
            idle = not running[Pool.MODELS]
            batch = self._queues.next_batch(idle=idle, starved=idle and not any(running[pool] for pool in _FEEDING))
            if batch is None:
                break
            names, places = batch
            embed = partial(process_batch, self._work, names, places, self._count_pass)
            self._start(Pool.MODELS, embed, partial(self._embedded, places))

    # Plan

    def _planned(self, state: SliceState, plan: SlicePlan | Exception) -> None:
        if isinstance(plan, Exception):
            self._fail(state, plan)
            return
        state.begin(plan)
        if plan.opens and plan.rows:
            decode = self._work.decoder(plan)
            if state.task.isolate:
                child = self._children[state] = self._work.isolated()
                decode = partial(child.decode, parts=plan.names)
            self._queues.add_reads(state, plan, decode)
        self._settle(state)

    # Fetch

    def _fetch(self, job: ReadJob) -> list[Content | RowFailure]:
        return list(self._work.fetch([place.row for place in job.places]))

    def _fetched(self, job: ReadJob, contents: Sequence[Content | RowFailure] | Exception) -> None:
        state = job.places[0].state
        if isinstance(contents, Exception):
            self._queues.fetched_bytes -= job.fetched
            self._fail(state, contents)
            return
        for place, content in zip(job.places, contents, strict=True):
            if isinstance(content, RowFailure):
                self._queues.fetched_bytes -= place.fetched
                state.fail(place.number, content)
            else:
                self._queues.add_content(place, content)
        self._settle(state)

    # Decode

    def _decoded(self, place: QueuedPicture, result: DecodedPicture | RowFailure | Exception) -> None:
        self._queues.fetched_bytes -= place.fetched
        state = place.state
        if isinstance(result, DecodedPicture) and state.plan is not None and not state.ended:
            if result.thumbnail is not None:
                self._take_thumbnail(state, place.row.hash, result.thumbnail)
            self._take_picture(place, state.plan, result.picture)
        else:
            self._queues.decoded_bytes -= place.decoded
            if isinstance(result, Exception):
                self._fail(state, result)
            elif isinstance(result, RowFailure):
                state.fail(place.number, result)
        self._settle(state)

    def _take_picture(self, place: QueuedPicture, plan: SlicePlan, picture: PreparedPicture) -> None:
        place.state.take(place.number, picture)
        if plan.batched:
            self._queues.add_inputs(plan.batch_names, place)

    # Thumbnails

    def _take_thumbnail(self, state: SliceState, content_hash: str, data: bytes) -> None:
        if self._work.packs_thumbnails:
            if state.plan is not None and state.plan.makes_meta:  # else another model reads the pictures again
                state.packed[content_hash] = data  # the number of slices in flight limits them
            return
        state.thumbnails += 1
        state.waiting.append((content_hash, data))
        self._queues.thumbnail_bytes += len(data)
        if len(state.waiting) >= _THUMBNAILS_A_WRITE:
            self._write_thumbnails(state)

    def _write_thumbnails(self, state: SliceState) -> None:
        batch, state.waiting = state.waiting, []
        work = partial(self._work.put_thumbnails, batch)
        self._start(Pool.THUMBNAILS, work, partial(self._thumbnails_written, state, batch), stage=EmbedStage.WRITE)

    def _thumbnails_written(self, state: SliceState, batch: Sequence[tuple[str, bytes]], error: Exception | None) -> None:
        self._queues.thumbnail_bytes -= sum(len(data) for _, data in batch)
        state.thumbnails -= len(batch)
        if error is not None:
            self._fail(state, error)
        self._settle(state)

    # Embed

    def _count_pass(self, seconds: float, pictures: int) -> None:
        with self._lock:
            self._stats.add(EmbedStage.EMBED, seconds, pictures=pictures)

    def _embedded(self, batch: Sequence[QueuedPicture], results: list[SliceResults] | Exception) -> None:
        self._queues.decoded_bytes -= sum(place.decoded for place in batch)
        if isinstance(results, Exception):
            for state in {place.state for place in batch}:
                self._fail(state, results)
            return
        for result in results:
            if isinstance(result.results, Exception):
                self._fail(result.state, result.results)
            elif not result.state.ended:
                result.state.settle(result.numbers, result.results)
                self._tell(result.state)
                self._settle(result.state)

    # Parts of a slice at once, and files

    def _settle(self, state: SliceState) -> None:
        """Go on to the parts of a slice at once, and to the files, of a slice whose pictures are done."""
        plan = state.plan
        if plan is None or state.ended or state.is_written:
            return
        if state.waiting and state.settled == len(state.results):
            self._write_thumbnails(state)
        if not state.pixels_done:
            return
        state.is_written = True
        self._close_child(state)
        try:
            if plan.opens:
                self._work.require_readable(state)
        except LodestoneError as error:
            self._fail(state, error)
            return
        if plan.by_slice:
            self._start(Pool.MODELS, partial(self._process, state), partial(self._processed, state), stage=EmbedStage.EMBED)
        else:
            self._start_write(state)

    def _process(self, state: SliceState) -> Any:  # noqa: ANN401 - results by part
        def tell(work: float) -> None:
            if self._stopped:
                raise RunFailedError("the run was stopped")
            with self._lock:
                self._tell(state, work=work)

        return self._work.process_slice(state, tell)

    def _processed(self, state: SliceState, outcome: Any) -> None:  # noqa: ANN401 - results by part, or an exception
        if isinstance(outcome, Exception):
            self._fail(state, outcome)
            return
        for name, results in outcome.items():
            if isinstance(results, LodestoneError):
                state.unmade[name] = results
            else:
                state.made[name] = results
        self._start_write(state)

    def _start_write(self, state: SliceState) -> None:
        done = partial(self._written, state)
        self._start(Pool.WRITE, partial(self._write, state), done, stage=EmbedStage.WRITE, pictures=len(state.results))

    def _write(self, state: SliceState) -> None:
        for receipt in self._work.write(state):
            state.receipts.append(receipt)
            if self._stopped:
                return

    def _written(self, state: SliceState, error: Exception | None) -> None:
        if error is not None:
            state.error = slice_error(state.task, error)
        self._end(state)

    # Ends

    def _fail(self, state: SliceState, error: Exception) -> None:
        """End a slice with an error; what waits of it is dropped."""
        if state.ended:
            return
        state.error = slice_error(state.task, error)
        self._close_child(state)
        self._queues.drop(state)
        self._queues.thumbnail_bytes -= sum(len(data) for _, data in state.waiting)
        state.waiting = []
        self._end(state)

    def _end(self, state: SliceState) -> None:
        state.ended = True
        state.packed.clear()
        self._stats.waiting = self._queues.waiting()
        self._events.put(state.receipt(self._stats.shares(), most_in_pass=self._work.memory.most))

    def _close_child(self, state: SliceState) -> None:
        child = self._children.pop(state, None)
        if child is not None:
            self._start(Pool.PLAN, child.close, lambda _: None)

    def _tell(self, state: SliceState, *, work: float = 0.0) -> None:
        pictures = state.done(work=work)
        if pictures is not None and not state.ended:
            self._events.put(Advance(state.task.slice_id, pictures))
