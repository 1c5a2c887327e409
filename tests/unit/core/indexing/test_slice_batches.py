"""Slices are handed out in one stream: batches end and failed slices come again while others are in flight."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.identity import mint_image_id
from lodestone.catalog.records import ImageRecord, ImageState
from lodestone.errors import SourceError, WorkerDiedError
from lodestone.files.opening import open_area
from lodestone.indexing.embed import slice_batches
from lodestone.indexing.embed.slice_batches import SliceBatches, SliceBatchLimits
from lodestone.indexing.embed.slicing import plan_slices
from lodestone.indexing.heartbeat import Heartbeat
from lodestone.indexing.parts.registry import SliceParts
from lodestone.indexing.progress import STOPPING, Progress, ProgressEvent, silent
from lodestone.indexing.stop_request import StopRequest
from lodestone.indexing.tasks import SliceProgressCallback, SliceReceipt, SliceTask, ignore_progress

SLICES, IN_FLIGHT = 12, 3


class Workers:
    """Has three slices in flight, and ends the oldest of them when the next one is asked for."""

    def __init__(self, errors: dict[int, Exception] | None = None, most_in_pass: int = 0) -> None:
        self.calls = 0
        self.begun: list[SliceTask] = []
        self.in_flight: deque[SliceTask] = deque()
        self._errors = errors or {}
        self._most_in_pass = most_in_pass

    def start(self) -> None: ...

    def close(self) -> None: ...

    def run(
        self, tasks: Iterable[SliceTask], report_progress: SliceProgressCallback = ignore_progress
    ) -> Iterator[SliceReceipt]:
        self.calls += 1
        for task in tasks:
            self.begun.append(task)
            self.in_flight.append(task)
            if len(self.in_flight) == IN_FLIGHT:
                yield self._receipt()
        while self.in_flight:
            yield self._receipt()

    def _receipt(self) -> SliceReceipt:
        task = self.in_flight.popleft()
        error = self._errors.pop(self.begun.index(task), None)
        return SliceReceipt(task.slice_id, (), error=error, worker="w:1", most_in_pass=self._most_in_pass)  # type: ignore[arg-type]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    """Twelve slices of two pictures each that wait to be embedded."""
    with Catalog.open(tmp_path / "catalog.sqlite") as catalog:
        corpus = catalog.ensure_corpus("default")
        root = catalog.ensure_root(corpus.corpus_id, "s3://bucket/pictures", kind="object")
        catalog.add_images(
            [
                ImageRecord(
                    image_id=mint_image_id(corpus.corpus_id, root.name, f"{number}.jpg"),
                    corpus_id=corpus.corpus_id,
                    root_id=root.root_id,
                    uri=f"{number}.jpg",
                    hash="0" * 64,
                    size=1,
                    mtime_ns=1,
                    state=ImageState.PENDING,
                )
                for number in range(2 * SLICES)
            ]
        )
        plan_slices(catalog, corpus.corpus_id, size=2, workers=1, again=(), run_id="")
        yield catalog


def embed(
    catalog: Catalog,
    folder: Path,
    workers: Workers,
    in_flight: list[int],
    *,
    stop: StopRequest | None = None,
    progress: Progress = silent,
    **limits: float,
) -> SliceBatches:
    corpus = catalog.ensure_corpus("default")
    run = catalog.start_run("index", corpus.corpus_id)
    given = SliceBatchLimits(**{"backoff": 0.0, **limits})  # type: ignore[arg-type]
    with Heartbeat(catalog, run.run_id) as heartbeat:
        batches = SliceBatches(
            catalog,
            open_area(folder),
            corpus.corpus_id,
            run.run_id,
            SliceParts("captions"),
            heartbeat,
            progress,
            given,
            stop=stop or StopRequest(),
        )
        batches.run(workers, rows=2 * SLICES, after_batch=lambda: in_flight.append(len(workers.in_flight)))
    return batches


def test_workers_are_full_when_a_batch_ends(catalog: Catalog, tmp_path: Path) -> None:
    workers, in_flight = Workers(), []  # type: ignore[var-annotated]
    embed(catalog, tmp_path, workers, in_flight, slices=4)
    assert len(workers.begun) == SLICES
    assert workers.calls == 1
    assert in_flight == [IN_FLIGHT - 1] * 2  # between three batches, and none after the last


def test_a_slice_that_failed_comes_again_before_the_others_are_done(catalog: Catalog, tmp_path: Path) -> None:
    workers = Workers({1: SourceError("no answer"), 2: WorkerDiedError("it died", beside=1)})
    batches = embed(catalog, tmp_path, workers, [])
    assert workers.calls == 1
    assert len(workers.begun) == SLICES + 2
    again = [task for task in workers.begun if task.attempt == 2]
    assert [task.slice_id for task in again] == [workers.begun[1].slice_id, workers.begun[2].slice_id]
    assert [task.alone for task in again] == [False, True]
    assert max(workers.begun.index(task) for task in again) < SLICES
    assert (batches.retries, batches.deaths) == (2, 1)


def test_the_last_slice_that_fails_is_tried_again_after_its_pause(catalog: Catalog, tmp_path: Path) -> None:
    workers = Workers({SLICES - 1: SourceError("no answer"), SLICES: SourceError("no answer")})
    batches = embed(catalog, tmp_path, workers, [], backoff=0.01)
    assert [task.attempt for task in workers.begun[SLICES - 1 :]] == [1, 2, 3]
    assert batches.retries == 2


def test_the_smallest_pass_that_a_gpu_had_memory_for_is_known(catalog: Catalog, tmp_path: Path) -> None:
    assert embed(catalog, tmp_path, Workers(most_in_pass=64), []).most_in_pass == 64


@pytest.mark.parametrize(("many", "frozen"), [(1, True), (1_000_000, False)])
def test_the_heap_is_frozen_during_a_large_run_alone(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int, *, frozen: bool
) -> None:
    monkeypatch.setattr(slice_batches, "_MANY_ROWS", many)
    counts: list[int] = []

    class Noting(Workers):
        def _receipt(self) -> SliceReceipt:
            counts.append(gc.get_freeze_count())
            return super()._receipt()

    gc.unfreeze()
    embed(catalog, tmp_path, Noting(), [])
    assert all(count > 0 for count in counts) is frozen
    assert gc.get_freeze_count() == 0


class Interrupted(Workers):
    """Is asked to stop when one picture of the fourth slice is done, which is in flight with two others."""

    def __init__(self, stop: StopRequest, errors: dict[int, Exception] | None = None) -> None:
        super().__init__(errors)
        self.stop = stop
        self.answers: list[bool] = []
        self.given: list[SliceReceipt] = []

    def run(
        self, tasks: Iterable[SliceTask], report_progress: SliceProgressCallback = ignore_progress
    ) -> Iterator[SliceReceipt]:
        for receipt in super().run(tasks, report_progress):
            self.given.append(receipt)
            yield receipt
            if len(self.given) == 3:
                report_progress(self.in_flight[0].slice_id, 1)
                self.answers = [self.stop.ask(KeyboardInterrupt()), self.stop.ask(KeyboardInterrupt())]


def test_a_run_that_is_asked_to_stop_finishes_the_slices_that_are_begun_and_no_other(catalog: Catalog, tmp_path: Path) -> None:
    stop, events = StopRequest(), list[ProgressEvent]()
    workers = Interrupted(stop)
    with pytest.raises(KeyboardInterrupt):
        embed(catalog, tmp_path, workers, [], stop=stop, progress=events.append)
    assert workers.answers == [True, False]  # whoever asks twice does not want to wait
    assert [receipt.slice_id for receipt in workers.given] == [task.slice_id for task in workers.begun[:4]]
    assert len(workers.begun) == 5  # in flight, without a picture that is done
    assert (events[-1].detail, events[-1].done, events[-1].total) == (STOPPING, 8, 8)
    assert not stop.is_asked


def test_a_slice_that_fails_while_the_run_stops_is_not_tried_again(catalog: Catalog, tmp_path: Path) -> None:
    stop = StopRequest()
    workers = Interrupted(stop, {3: WorkerDiedError("it died")})
    with pytest.raises(KeyboardInterrupt):
        embed(catalog, tmp_path, workers, [], stop=stop)
    assert len(workers.given) == 4
    assert len(workers.begun) == 5


def test_nothing_is_waited_for_where_nothing_would_be_lost(catalog: Catalog, tmp_path: Path) -> None:
    """Models are still being loaded, or no slice was handed out."""
    stop, answers = StopRequest(), list[bool]()

    class Loading(Workers):
        def _receipt(self) -> SliceReceipt:
            answers.append(stop.ask(KeyboardInterrupt()))
            return super()._receipt()

    assert not stop.ask(KeyboardInterrupt())
    embed(catalog, tmp_path, Loading(), [], stop=stop)
    assert answers == [False] * SLICES


@pytest.mark.parametrize(
    ("deaths", "isolated"),
    [([None], [True]), ([1], [False]), ([1, 1], [False, True]), ([1, None], [False, True])],
    ids=["alone", "beside others", "beside others twice", "beside others and then alone"],
)
def test_a_slice_whose_worker_died_is_isolated_unless_another_may_be_to_blame(
    catalog: Catalog, tmp_path: Path, deaths: list[int | None], isolated: list[bool]
) -> None:
    """A slice that was in flight with others is tried once more as it is; its last try is isolated in any case."""

    class Dying(Workers):
        def _receipt(self) -> SliceReceipt:
            task = self.in_flight.popleft()
            error = None
            if task.slice_id == self.begun[1].slice_id and task.attempt <= len(deaths):
                beside = deaths[task.attempt - 1]
                error = WorkerDiedError("it died") if beside is None else WorkerDiedError("it died", beside=beside)
            return SliceReceipt(task.slice_id, (), error=error, worker="w:1")

    workers = Dying()
    embed(catalog, tmp_path, workers, [], attempts=3)
    tries = [task for task in workers.begun if task.slice_id == workers.begun[1].slice_id]
    assert [task.isolate for task in tries] == [False, *isolated]


def test_while_a_run_stops_only_the_pictures_of_slices_that_it_finishes_are_counted(catalog: Catalog, tmp_path: Path) -> None:
    stop, events = StopRequest(), list[ProgressEvent]()

    class Late(Workers):
        def run(
            self, tasks: Iterable[SliceTask], report_progress: SliceProgressCallback = ignore_progress
        ) -> Iterator[SliceReceipt]:
            for number, receipt in enumerate(super().run(tasks, report_progress), 1):
                yield receipt
                if number == 3:
                    report_progress(self.in_flight[0].slice_id, 1)
                    counted.append(events[-1].done)
                    assert stop.ask(KeyboardInterrupt())
                    report_progress(self.in_flight[1].slice_id, 1)  # which nobody waits for
                    counted.append(events[-1].done)
                    report_progress(self.in_flight[0].slice_id, 2)
                    counted.append(events[-1].done)

    counted: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        embed(catalog, tmp_path, Late(), [], stop=stop, progress=events.append)
    assert counted == [7, 7, 8]


def test_the_first_batches_are_short_and_each_takes_twice_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now, ends = 0.0, []
    monkeypatch.setattr(slice_batches.time, "monotonic", lambda: now)
    batches = slice_batches._Batches(SliceBatchLimits(slices=10_000, seconds=20.0), lambda: ends.append(now))
    while now < 100:
        batches.count()
        now += 0.5
    lengths = [later - before for before, later in zip([0.0, *ends], ends, strict=False)]
    assert lengths == [3.5, 6.5, 12.5, 20.5, 20.5, 20.5]


def test_a_shorter_limit_holds_for_the_first_batch_too(monkeypatch: pytest.MonkeyPatch) -> None:
    now, ends = 0.0, []
    monkeypatch.setattr(slice_batches.time, "monotonic", lambda: now)
    batches = slice_batches._Batches(SliceBatchLimits(slices=10_000, seconds=1.0), lambda: ends.append(now))
    while now < 4:
        batches.count()
        now += 0.5
    assert ends == [1.5, 3.0]
