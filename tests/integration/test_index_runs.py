"""Runs that are disturbed: workers die, pictures kill, sources fail, people cancel. What is finished stays and is resumed."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.cli import lodestone, run_here
from tests.support.home import image_ids, open_runtime, vectors_of
from tests.support.pictures import write_photos

from lodestone.access.caller import LOCAL_CALLER
from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import AttemptState, RunState
from lodestone.errors import (
    InvalidRequestError,
    LodestoneError,
    NotFoundError,
    RunCancelledError,
    RunFailedError,
    SourceError,
    WorkerDiedError,
)
from lodestone.home.runtime import Runtime
from lodestone.indexing.embed.executors import EmbedExecutor, InlineExecutor
from lodestone.indexing.faults import VARIABLE
from lodestone.indexing.heartbeat import Heartbeat
from lodestone.indexing.progress import Progress, ProgressEvent, RunStage
from lodestone.indexing.run import index_run
from lodestone.indexing.run.history import find_run
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexReport, IndexRequest
from lodestone.indexing.tasks import EmbedSettings, SliceProgressCallback, SliceReceipt, SliceTask, ignore_progress
from lodestone.paging import PageRequest
from lodestone.services.runs import RunFilters, RunUseCases
from lodestone.services.sessions.in_process import InProcessSession


class Disturbed:
    """An executor in this process whose tasks fail as `trouble` says: None lets one through.

    The pool of a run whose `index.executor` is `ray`, so that no Ray is started.
    """

    def __init__(self, trouble: Callable[[SliceTask], LodestoneError | None]) -> None:
        self.trouble = trouble
        self.tasks: list[SliceTask] = []
        self.calls: list[int] = []

    def __call__(self, settings: EmbedSettings, _workers: int) -> EmbedExecutor:
        self._inline = InlineExecutor(settings)
        return self

    def start(self) -> None:
        return

    def run(
        self, tasks: Iterable[SliceTask], report_progress: SliceProgressCallback = ignore_progress
    ) -> Iterator[SliceReceipt]:
        self.calls.append(0)
        for task in tasks:
            self.tasks.append(task)
            self.calls[-1] += 1
            error = self.trouble(task)
            if error is not None:
                yield SliceReceipt(task.slice_id, (), error=error, worker="elsewhere:1")
            else:
                yield from self._inline.run([task], report_progress)

    def close(self) -> None:
        self._inline.close()


def disturbed(folder: Path, pool: Disturbed, **index: object) -> tuple[Runtime, Callable[[], IndexReport]]:
    runtime = open_runtime(folder, executor="ray", backoff_s=0, **index)
    return runtime, lambda: index_paths(runtime, IndexRequest((folder / "photos",)), pool=pool)


def test_processes_give_what_this_process_gives(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 24)
    found = {}
    for executor in ("inline", "processes"):
        with open_runtime(tmp_path / executor, executor=executor, workers=2) as runtime:
            report = index_paths(runtime, IndexRequest((tmp_path / "photos",)))
            assert (report.executor, report.images, report.deaths) == (executor, 24, 0)
            uris = {image_id: uri for uri, image_id in image_ids(runtime).items()}
            found[executor] = {uris[key]: vector for key, vector in vectors_of(runtime, "bridge").items()}
    assert found["inline"].keys() == found["processes"].keys()
    assert all(float(vector @ found["processes"][uri]) >= 0.99999 for uri, vector in found["inline"].items())


def test_a_worker_that_is_killed_costs_nothing_and_leaves_a_trace(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 48)
    killed: list[int] = []

    def kill_one(event: ProgressEvent) -> None:
        if event.stage is RunStage.EMBED and event.done and not killed:
            workers = [p for p in psutil.Process().children() if "lodestone.indexing.embed.worker_process" in p.cmdline()]
            killed.append(workers[0].pid)
            os.kill(workers[0].pid, signal.SIGKILL)

    with open_runtime(tmp_path, executor="processes", workers=2) as runtime:
        report = index_paths(runtime, IndexRequest((tmp_path / "photos",)), progress=kill_one)
        assert report.images == len(vectors_of(runtime, "bridge")) == 48
        died = [one for one in runtime.catalog.attempts() if one.state is AttemptState.DIED]
        assert (report.deaths, report.retries) == (1, len(died))  # a worker holds up to two slices
        assert {one.worker.rpartition(":")[2] for one in died} == {str(pid) for pid in killed}
        for one in died:
            assert [tried.state for tried in runtime.catalog.attempts(slice_id=one.slice_id)] == ["died", "done"]
    assert not [p for p in psutil.Process().children() if "lodestone.indexing.embed.worker_process" in p.cmdline()]


def test_a_picture_that_kills_its_workers_becomes_a_failure_and_its_neighbours_are_embedded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_photos(tmp_path / "photos", 24)
    monkeypatch.setenv(VARIABLE, "picture:000013.jpg")
    with open_runtime(tmp_path, executor="processes", workers=2) as runtime:
        report = index_paths(runtime, IndexRequest((tmp_path / "photos",)))
        assert report.images == 23
        assert [(f.uri, f.code) for f in runtime.catalog.failures()] == [("000013.jpg", "kills_worker")]
        monkeypatch.delenv(VARIABLE)
        assert index_paths(runtime, IndexRequest((tmp_path / "photos",))).images == 23  # not tried again by itself
        mended = index_paths(runtime, IndexRequest((tmp_path / "photos",), retry_failed=True))
        assert mended.images == 24
        assert runtime.catalog.count_failures() == 0


def test_workers_that_cannot_start_end_the_run_with_what_they_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_photos(tmp_path / "photos", 16)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "sitecustomize.py").write_text(
        "import os, sys\nsys.stderr.write('no such luck\\n')\nsys.stderr.flush()\nos._exit(3)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(broken))
    with open_runtime(tmp_path, executor="processes", workers=1) as runtime:
        with pytest.raises(RunFailedError, match=r"3 workers died.*status 3.*no such luck"):
            index_paths(runtime, IndexRequest((tmp_path / "photos",)))
        assert runtime.catalog.runs(1)[0].state is RunState.FAILED


def test_slices_whose_worker_died_beside_others_are_tried_alone_before_any_is_isolated(tmp_path: Path) -> None:
    """Only the killer dies again, and only it is isolated; the worker that had all three died once."""
    write_photos(tmp_path / "photos", 24)

    def trouble(task: SliceTask) -> LodestoneError | None:
        if task.attempt == 1:
            return WorkerDiedError("gone", beside=2)
        return WorkerDiedError("gone", beside=0) if task.attempt == 2 and "000008.jpg" in task.rows[0].uri else None

    pool = Disturbed(trouble)
    runtime, index = disturbed(tmp_path, pool)
    with runtime:
        report = index()
        assert (report.images, report.deaths, report.retries) == (24, 2, 4)
    tried = {first: [] for first in ("000000.jpg", "000008.jpg", "000016.jpg")}
    for task in pool.tasks:
        tried[task.rows[0].uri].append((task.alone, task.isolate))
    assert tried["000000.jpg"] == tried["000016.jpg"] == [(False, False), (True, False)]
    assert tried["000008.jpg"] == [(False, False), (True, False), (True, True)]


def test_the_last_attempt_at_a_slice_is_isolated_even_if_it_never_was_alone(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 8)
    pool = Disturbed(lambda task: WorkerDiedError("gone", beside=1) if task.attempt == 1 else None)
    runtime, index = disturbed(tmp_path, pool, attempts=2)
    with runtime:
        assert index().images == 8
    assert [(task.alone, task.isolate) for task in pool.tasks] == [(False, False), (True, True)]


def test_a_slice_whose_worker_died_is_tried_again_with_its_pictures_isolated(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 16)
    pool = Disturbed(lambda task: WorkerDiedError("gone") if "000000.jpg" in task.rows[0].uri and task.attempt == 1 else None)
    runtime, index = disturbed(tmp_path, pool)
    with runtime:
        assert index().images == 16
    tried = [(task.attempt, task.isolate) for task in pool.tasks if "000000.jpg" in task.rows[0].uri]
    assert tried == [(1, False), (2, True)]
    assert not any(task.isolate for task in pool.tasks if "000008.jpg" in task.rows[0].uri)


@pytest.mark.slow
def test_a_slice_that_kills_to_the_end_is_given_up_and_all_others_can_be_found(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 24)
    pool = Disturbed(lambda task: WorkerDiedError("gone") if "000008.jpg" in task.rows[0].uri else None)
    runtime, index = disturbed(tmp_path, pool, attempts=3)
    with runtime:
        with pytest.raises(RunFailedError, match="1 slices could not be embedded: gone"):
            index()
        assert len(vectors_of(runtime, "bridge")) == 16
        assert [task.attempt for task in pool.tasks if "000008.jpg" in task.rows[0].uri] == [1, 2, 3]
        assert runtime.catalog.runs(1)[0].state is RunState.FAILED
        pool.trouble = lambda _: None
        report = index_paths(runtime, IndexRequest(resume=""), pool=pool)
        assert (report.images, report.counts["embedded"]) == (24, 8)


@pytest.mark.parametrize(("failures", "images"), [(2, 16), (4, None)])
def test_a_source_that_stays_away_for_a_while_is_waited_for(tmp_path: Path, failures: int, images: int | None) -> None:
    write_photos(tmp_path / "photos", 16)
    pool = Disturbed(lambda task: SourceError("the bucket is away") if task.attempt <= failures else None)
    runtime, index = disturbed(tmp_path, pool, attempts=4)
    with runtime:
        if images is None:
            with pytest.raises(SourceError):
                index()
            return
        report = index()
        assert (report.images, report.retries) == (images, 2 * failures)
        states = [one.state.value for one in runtime.catalog.attempts()]
        assert sorted(states) == ["done"] * 2 + ["failed"] * 4


def test_each_batch_can_be_found_before_the_next_is_embedded(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 48)
    pool = Disturbed(lambda _: None)
    synced: list[tuple[str, bool]] = []

    def synchronise(run_id: str, _: Progress, *, build: bool = True) -> None:
        synced.append((run_id, build))

    with open_runtime(tmp_path, executor="ray", batch_slices=2) as runtime:
        report = index_paths(runtime, IndexRequest((tmp_path / "photos",)), pool=pool, synchronise=synchronise)
    assert pool.calls == [6]  # the workers do not notice where a batch ends
    assert len(synced) >= 2
    assert {run_id for run_id, _ in synced} == {report.run_id}
    builds = [build for _, build in synced]
    assert builds == [False] * (len(synced) - 1) + [True]  # graphs are made once all is loaded


@pytest.fixture
def pulses(monkeypatch: pytest.MonkeyPatch) -> list[Heartbeat]:
    """Of the runs of the test, beating quickly."""
    made: list[Heartbeat] = []

    def pulse(catalog: Catalog, run_id: str) -> Heartbeat:
        made.append(Heartbeat(catalog, run_id, seconds=0.02))
        return made[-1]

    monkeypatch.setattr(index_run, "Heartbeat", pulse)
    return made


def cancel_at(runtime: Runtime, pulses: list[Heartbeat], stage: RunStage, *, after: int = 0) -> Progress:
    def report(event: ProgressEvent) -> None:
        if event.stage is stage and event.done > after:
            runtime.catalog.request_cancel(runtime.catalog.runs(1)[0].run_id)
            pulses[-1].wait(180)

    return report


def slices_with_outputs(folder: Path) -> int:
    """The number of slices whose files with the outputs of both models are there."""
    files = (path.name.split(".")[:2] for path in (folder / "home" / "embeddings").rglob("*.parquet"))
    models = Counter(slice_id for slice_id, part in files if part.startswith("efficientnet"))
    return sum(count == 2 for count in models.values())


def test_a_cancelled_run_keeps_what_it_finished_and_is_resumed_without_looking_for_files(
    tmp_path: Path, pulses: list[Heartbeat], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_photos(tmp_path / "photos", 24)
    with open_runtime(tmp_path, slices_in_flight=1) as runtime:
        progress = cancel_at(runtime, pulses, RunStage.EMBED, after=8)  # the first slice of eight is recorded then
        with pytest.raises(RunCancelledError, match="was cancelled"):
            index_paths(runtime, IndexRequest((tmp_path / "photos",)), progress=progress)
        cut = runtime.catalog.runs(1)[0]
        assert (cut.state, cut.stage) == (RunState.CANCELLED, "embed")
        assert cut.heartbeat_at is not None
        whole = slices_with_outputs(tmp_path)  # the second slice may have come to its end, recorded or not
        monkeypatch.setattr(index_run, "examine", lambda *_, **__: pytest.fail("looked for files again"))
        report = index_paths(runtime, IndexRequest(resume=cut.run_id))
        assert (report.images, report.resumed) == (24, cut.run_id)
        assert cut.counts["embedded"] in {8, 16}
        assert whole in {1, 2}
        assert report.counts["embedded"] == 24 - 8 * whole
        assert runtime.catalog.runs(1)[0].request["paths"] == [str(tmp_path / "photos")]


def test_a_run_cut_short_while_it_looked_for_files_looks_again(tmp_path: Path, pulses: list[Heartbeat]) -> None:
    write_photos(tmp_path / "photos", 8)
    with open_runtime(tmp_path) as runtime:
        with pytest.raises(RunCancelledError):
            index_paths(runtime, IndexRequest((tmp_path / "photos",)), progress=cancel_at(runtime, pulses, RunStage.DISCOVER))
        report = index_paths(runtime, IndexRequest(resume=""))
        assert (report.images, report.counts["found"]) == (8, 8)


def test_what_cannot_be_resumed_says_so(tmp_path: Path) -> None:
    with open_runtime(tmp_path) as runtime:
        catalog = runtime.catalog
        with pytest.raises(NotFoundError, match="nothing was ever indexed here"):
            index_paths(runtime, IndexRequest(resume=""))
        catalog.ensure_corpus("default")
        with pytest.raises(NotFoundError, match="never indexed"):
            index_paths(runtime, IndexRequest(resume=""))
        with pytest.raises(NotFoundError, match="no run 'abcdef'"):
            index_paths(runtime, IndexRequest(resume="abcdef"))
        training = catalog.start_run("train-bridge")
        with pytest.raises(InvalidRequestError, match="cannot be resumed"):
            index_paths(runtime, IndexRequest(resume=training.run_id))
        assert find_run(catalog, training.run_id[:8]).run_id == training.run_id


def test_a_picture_that_kills_this_very_process_is_isolated_by_the_third_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_photos(tmp_path / "photos", 8)

    def die(_: SliceTask) -> None:
        raise KeyboardInterrupt  # leaves behind what a driver does that is killed

    runtime, index = disturbed(tmp_path, Disturbed(die))
    with runtime:
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                index()
    monkeypatch.setenv(VARIABLE, "picture:000003.jpg")
    with open_runtime(tmp_path) as runtime:
        assert index_paths(runtime, IndexRequest((tmp_path / "photos",))).images == 7
        assert [f.code for f in runtime.catalog.failures()] == ["kills_worker"]


def test_commands_list_show_cancel_and_export(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 3)
    (tmp_path / "photos" / "broken.jpg").write_bytes(b"no picture")
    home = tmp_path / "home"
    done = run_here("index", tmp_path / "photos", "-o", "json", home=home)
    assert done.code == 0, done.err
    run_id = done.json["run_id"]
    listed = run_here("runs", "list", "-o", "json", home=home).json
    assert [(run["run_id"], run["state"], run["corpus"]) for run in listed] == [(run_id, "done", "default")]
    shown = run_here("runs", "show", run_id[:8], "-o", "json", home=home).json
    assert shown["failures"] == 1
    assert [one["state"] for one in shown["attempts"]] == ["done"]
    assert shown["request"]["paths"] == [str(tmp_path / "photos")]
    assert "ended already" in run_here("runs", "cancel", run_id, home=home).out
    assert run_here("runs", "cancel", home=home).code == NotFoundError.exit_code  # none is going on
    assert "4 characters" in run_here("runs", "show", run_id[:3], home=home).err
    assert f"lodestone runs retry-failed {run_id[:8]}" in run_here("runs", "show", home=home).out
    for name in ("failures.csv", "failures.jsonl"):
        exported = run_here("runs", "export-failures", tmp_path / name, "-o", "json", home=home)
        assert exported.json["failures"] == 1
        assert "broken.jpg" in (tmp_path / name).read_text()
    assert run_here("runs", "export-failures", tmp_path / "failures.xls", home=home).code == 2
    again = run_here("runs", "retry-failed", "-o", "json", home=home)
    assert again.json["counts"]["retried"] == 1
    resumed = run_here("index", "--resume", "-o", "json", home=home)
    assert (resumed.code, resumed.json["nothing_left"], resumed.json["run_id"]) == (0, True, again.json["run_id"])
    assert run_here("index", home=home).code == 2
    assert run_here("index", "--resume", "a", "b", home=home).code == 2


@pytest.mark.slow
def test_a_run_killed_with_its_driver_is_told_with_what_it_finished_and_so_is_the_one_that_resumes_it(
    tmp_path: Path,
) -> None:
    """Four files a slice: the kill falls into the third, of which the files of the two image models are complete."""
    write_photos(tmp_path / "photos", 40)
    home = tmp_path / "home"
    one_by_one = {"LODESTONE_INDEX__SLICE_SIZE": "8", "LODESTONE_INDEX__SLICES_IN_FLIGHT": "1"}
    options: dict[str, Any] = {**one_by_one, "OMP_NUM_THREADS": "1"}
    dying: dict[str, Any] = {**options, VARIABLE: "after-rename:10"}
    killed = lodestone("index", tmp_path / "photos", "--executor", "inline", home=home, **dying)
    assert killed.code == -signal.SIGKILL, killed.err

    with open_runtime(tmp_path) as runtime:
        runs = RunUseCases(InProcessSession(runtime))
        (info,) = runs.page(RunFilters(), PageRequest(10), LOCAL_CALLER).runs
        assert (info.state, info.counts) == ("running", {**info.counts, "found": 40, "new": 40, "embedded": 16})
        assert runs.get(info.run_id, LOCAL_CALLER).counts == info.counts
    (run,) = run_here("runs", "list", "--output", "json", home=home).json
    (told,) = run_here("status", "--output", "json", home=home).json["runs"]
    assert (
        run["counts"] == told["counts"] == run_here("runs", "show", "--output", "json", home=home).json["counts"] == info.counts
    )
    assert "16 embedded" in run_here("runs", "list", home=home).out
    assert "16 embedded" in run_here("runs", "show", home=home).out

    resumed = run_here("index", "--resume", "--executor", "inline", "--local", home=home, **options)
    assert "40 pictures can be found in default  (24 of them since)" in resumed.out
    assert f"finished what run {run['run_id'][:8]} left" in resumed.out
    later, before = run_here("runs", "list", "--output", "json", home=home).json
    assert (later["counts"]["embedded"], later["state"]) == (16, "done")
    assert (before["counts"], before["state"]) == (info.counts, "interrupted")
    nothing = run_here("index", "--resume", "--executor", "inline", "--local", home=home, **options)
    assert "nothing to resume: the last run of default is complete\n40 pictures can be found" in nothing.out


def test_pictures_are_counted_as_they_are_done(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 4)
    events: list[ProgressEvent] = []
    with open_runtime(tmp_path, executor="inline", slice_size=2) as runtime:
        index_paths(runtime, IndexRequest((tmp_path / "photos",)), progress=events.append)
    embedding = [event for event in events if event.stage is RunStage.EMBED]
    counts = [event.done for event in embedding]
    assert (counts[0], counts[-1]) == (0, 4)
    assert counts == sorted(counts)  # how many there are between depends on time: pictures are counted, not slices
    assert {event.total for event in embedding} == {4}
    assert embedding[-1].rate > 0  # over all the time, where there was too little for another
