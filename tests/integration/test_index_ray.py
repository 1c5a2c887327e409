"""Indexing by actors on Ray gives what indexing in this process gives, and survives the death of workers."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import psutil
import pytest
from tests.support.home import image_ids, open_runtime, vectors_of
from tests.support.models import model_context
from tests.support.pictures import write_bad_files, write_photos

from lodestone.catalog.records import AttemptState
from lodestone.embeddings.slices import WrittenPart
from lodestone.errors import ConfigurationError, ModelUnavailableError, OutOfSpaceError, RunFailedError
from lodestone.files.area import FileArea
from lodestone.files.opening import open_area
from lodestone.indexing.faults import VARIABLE
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.indexing.slices.pipeline import SlicePipeline
from lodestone.indexing.tasks import EmbedSettings, SliceReceipt, SliceRow, SliceTask
from lodestone.sources.folders import hash_file
from lodestone_jobs.embed_slices import load_pipeline
from lodestone_jobs.embedding import RayExecutor
from lodestone_jobs.index import run_index

pytestmark = pytest.mark.ray


def test_ray_and_this_process_give_the_same_vectors(ray_cluster: None, tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 40)
    bad = [path for path, _ in write_bad_files(tmp_path / "photos" / "bad").values() if path.exists()]
    found = {}
    for executor in ("inline", "ray"):
        with open_runtime(tmp_path / executor, executor=executor, workers=2) as runtime:
            report = run_index(runtime, [tmp_path / "photos"])
            assert report.executor == executor
            assert report.images == 40
            assert report.counts["failed"] == len(bad)
            uris = {image_id: uri for uri, image_id in image_ids(runtime).items()}
            found[executor] = {uris[key]: vector for key, vector in vectors_of(runtime, "bridge").items()}
            again = run_index(runtime, [tmp_path / "photos"])
            assert again.counts.get("embedded", 0) == 0
    assert found["inline"].keys() == found["ray"].keys()
    assert all(float(np.dot(vector, found["ray"][uri])) >= 0.99999 for uri, vector in found["inline"].items())


@contextlib.contextmanager
def killed(title: str, home: Path) -> Iterator[None]:
    """Kill the first process of Ray that gets such a title, as soon as a slice is written."""
    stop = threading.Event()
    victims: list[int] = []

    def kill_one() -> None:
        found: psutil.Process | None = None
        while not stop.is_set() and not victims:
            if found is None or not found.is_running():  # looked for before it is needed: that takes a busy machine seconds
                found = next(iter(titled() - before), None)
            elif any((home / "embeddings").rglob("*.parquet")):
                found.kill()
                victims.append(found.pid)
            time.sleep(0.02)

    def titled() -> set[psutil.Process]:
        return {process for process in psutil.Process().children(recursive=True) if has_title(process)}

    def has_title(process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.Error):
            return title in " ".join(process.cmdline())
        return False

    before = titled()  # of runs that have ended a moment ago
    killer = threading.Thread(target=kill_one)
    killer.start()
    try:
        yield
    finally:
        stop.set()
        killer.join()
    assert victims, "nothing was killed"


@pytest.mark.nightly
@pytest.mark.slow
def test_a_worker_that_dies_costs_nothing(ray_cluster: None, tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 160)
    with open_runtime(tmp_path, executor="ray", workers=2) as runtime:
        with killed("EmbedSlices", tmp_path / "home"):
            report = run_index(runtime, [tmp_path / "photos"])
        vectors = vectors_of(runtime, "bridge")
    assert report.images == len(vectors) == 160


@pytest.mark.nightly
@pytest.mark.slow
def test_a_run_whose_feed_and_ledger_are_killed_ends_and_the_next_one_does_the_rest(ray_cluster: None, tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 160)
    # One slice after the other: those that are in flight already would end without a desk.
    with open_runtime(tmp_path, executor="ray", workers=2, slices_in_flight=1) as runtime:
        with killed("ray::Desk", tmp_path / "home"), pytest.raises(RunFailedError, match="embedding workers failed"):
            run_index(runtime, [tmp_path / "photos"])
        report = run_index(runtime, [tmp_path / "photos"])
        assert report.images == len(vectors_of(runtime, "bridge")) == 160


def deadly_pipeline(settings: EmbedSettings) -> SlicePipeline:
    """The pipeline of an actor in which one picture ends whichever process decodes it."""
    os.environ[VARIABLE] = "picture:000013.jpg"
    return load_pipeline(settings)


@pytest.mark.slow
def test_a_picture_that_kills_its_workers_becomes_a_failure_and_its_neighbours_are_embedded(
    ray_cluster: None, tmp_path: Path
) -> None:
    write_photos(tmp_path / "photos", 24)

    def pool(settings: EmbedSettings, workers: int) -> RayExecutor:
        return RayExecutor(settings, workers, load=deadly_pipeline)

    with open_runtime(tmp_path, executor="ray", workers=2, backoff_s=0) as runtime:
        report = index_paths(runtime, IndexRequest((tmp_path / "photos",)), pool=pool)
        assert report.images == 23
        assert [(failure.uri, failure.code) for failure in runtime.catalog.failures()] == [("000013.jpg", "kills_worker")]
        died = {attempt.slice_id for attempt in runtime.catalog.attempts() if attempt.state is AttemptState.DIED}
        isolated = [slice_id for slice_id in died if len(list(runtime.catalog.attempts(slice_id=slice_id))) > 2]
        # Its neighbours in the dead actor are embedded at their second attempt, and so is it where it had none.
        assert len(isolated) <= 1


@pytest.mark.nightly
@pytest.mark.slow
def test_what_ends_the_work_in_a_worker_ends_the_run_with_its_own_error(ray_cluster: None, tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 24)
    with open_runtime(tmp_path, executor="ray", workers=2) as runtime:
        runtime.home.prepare()
        runtime.home.thumbnails.rmdir()
        runtime.home.thumbnails.write_text("no folder")
        with pytest.raises(ConfigurationError, match="thumbnails cannot be written"):
            run_index(runtime, [tmp_path / "photos"])
        assert runtime.catalog.runs(1)[0].state == "failed"
        runtime.home.thumbnails.unlink()
        report = run_index(runtime, [tmp_path / "photos"])
        assert report.images == 24


def full_pipeline(settings: EmbedSettings) -> SlicePipeline:
    """The pipeline of an actor whose disk is full when it writes the outputs of the second model."""
    from lodestone.embeddings import slices
    from lodestone.indexing.slices import files as slice_files

    write = slices.write_part

    def full(root: FileArea, corpus_id: str, fingerprint: str, part: str, table: Any) -> WrittenPart:
        if part.startswith("efficientnet-lite2"):
            raise OutOfSpaceError("no space left", hint="free some space")
        return write(root, corpus_id, fingerprint, part, table)

    slice_files.write_part = full
    return load_pipeline(settings)


def broken_pipeline(_: EmbedSettings) -> SlicePipeline:
    """The pipeline of an actor that has no model."""
    raise ModelUnavailableError("no such model", hint="fetch it", model="lite9")


@pytest.mark.nightly_beyond(1)
@pytest.mark.parametrize(
    ("load", "error", "written"), [(full_pipeline, OutOfSpaceError, ["lite0"]), (broken_pipeline, ModelUnavailableError, [])]
)
def test_what_a_worker_could_not_do_is_told_by_the_receipt(
    ray_cluster: None, tmp_path: Path, load: Any, error: type[Exception], written: list[str]
) -> None:
    paths = write_photos(tmp_path / "photos", 3)
    rows = tuple(SliceRow(str(uuid4()), hash_file(path), str(path), path.name, path.stat().st_size, 1) for path in paths)
    settings = EmbedSettings(
        backbones=("efficientnet-lite0", "efficientnet-lite2"),
        text_encoder="minilm",
        models=model_context().cache.root,
        embeddings=open_area(tmp_path / "embeddings"),
        thumbnails=open_area(tmp_path / "thumbnails"),
    )
    parts = SlicePipeline(settings).parts
    executor = RayExecutor(settings, 1, load=load)
    try:
        (receipt,) = executor.run([SliceTask(str(uuid4()), str(uuid4()), "f" * 32, rows, parts)])
    finally:
        executor.close()
    assert isinstance(receipt.error, error)
    assert [part.part.split("-")[1] for part in receipt.receipts] == written


class CountedPipeline:
    """A pipeline without models that finishes every slice at once; a line in a file for each that is made."""

    def __init__(self, settings: EmbedSettings) -> None:
        with (settings.models / "made").open("a") as file:
            file.write(f"{os.getpid()} {psutil.Process().cmdline()[0]}\n")

    def flow(self) -> contextlib.AbstractContextManager[CountedPipeline]:
        self._done: queue.SimpleQueue[SliceReceipt] = queue.SimpleQueue()
        return contextlib.nullcontext(self)

    def admit(self, task: SliceTask) -> None:
        self._done.put(SliceReceipt(task.slice_id, ()))

    def take(self) -> SliceReceipt:
        return self._done.get()


def test_ray_data_embeds_and_loads_models_once_an_actor_in_a_run_of_three_hundred_slices(
    ray_cluster: None, tmp_path: Path
) -> None:
    settings = EmbedSettings((), "minilm", tmp_path, open_area(tmp_path / "e"), open_area(tmp_path / "t"))
    executor = RayExecutor(settings, 2, load=CountedPipeline)  # type: ignore[arg-type]
    names = [str(number) for number in range(300)]
    try:
        for part in (names[:200], names[200:]):  # as two calls, which a run makes when slices failed
            tasks = (SliceTask(name, "corpus", "f" * 32, (), ("meta",)) for name in part)
            assert sorted(receipt.slice_id for receipt in executor.run(tasks)) == sorted(part)
    finally:
        executor.close()
    made = [line.split() for line in (tmp_path / "made").read_text().splitlines()]
    assert 1 <= len(made) == len({process for process, _ in made}) <= 2  # the second may start when all is done
    assert all("MapWorker(MapBatches(EmbedSlices))" in title for _, title in made)  # Ray Data's own actors


@pytest.mark.nightly
@pytest.mark.slow
def test_a_run_of_its_own_is_quiet_and_leaves_no_process_behind(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 24)
    script = (
        "import sys; from pathlib import Path\n"
        "from tests.support.home import open_runtime\n"
        "from lodestone_jobs.index import run_index\n"
        "folder = Path(sys.argv[1])\n"
        "with open_runtime(folder, executor='ray', workers=2) as runtime:\n"
        "    print(run_index(runtime, [folder / 'photos']).images)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["24"]
    assert done.stderr.strip() == ""
    assert not [p for p in psutil.process_iter(["cmdline"]) if str(tmp_path) in " ".join(p.info["cmdline"] or [])]
