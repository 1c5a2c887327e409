"""Bulk work by Ray Data: exports give the same files as without Ray, also when an actor is killed, and who kills is named."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.exports import files_of, make_home
from tests.support.home import open_runtime
from tests.support.home_copies import IndexedHomes

from lodestone.errors import InvalidRequestError, LodestoneError, WorkerDiedError
from lodestone.export.request import ExportFormat, ExportRequest, FileSize
from lodestone.export.run import area_of, run_export
from lodestone.home.runtime import Runtime
from lodestone.indexing.bulk_work import BulkHost, BulkWork, Done, in_threads
from lodestone_jobs.bulk import on_ray
from lodestone_jobs.slice_stream import RunWords

pytestmark = pytest.mark.ray

WORDS = RunWords("export worker", "the same command goes on")
TITLE = "MapWorker(MapBatches(DoBulkWork))"  # of Ray Data's own actors


@dataclass(frozen=True)
class Watched:
    """Work that notes the title of each process that does it, and ends the process that first begins one task.

    Attributes:
        work: The work.
        notes: Folder for the titles.
        killer: Key of the task.
        always: Whether the task ends every process that begins it.
    """

    work: BulkWork[Any, Any]
    notes: Path
    killer: str = ""
    always: bool = False

    def prepare(self) -> Callable[[Any], Any]:
        (self.notes / f"{os.getpid()}").write_text(" ".join(psutil.Process().cmdline()), encoding="utf-8")
        do = self.work.prepare()

        def watched(task: Any) -> Any:
            if task.key == self.killer:
                begun = self.notes / f"begun-{task.key}"
                if self.always or not begun.exists():
                    begun.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
            return do(task)

        return watched


@dataclass(frozen=True)
class Number:
    """A task of its own kind."""

    key: str


@dataclass(frozen=True)
class Squares:
    """Work that has nothing to do with exports."""

    def prepare(self) -> Callable[[Number], int]:
        def square(task: Number) -> int:
            if task.key == "3":
                raise InvalidRequestError("no square of 3", hint="ask for another")
            return int(task.key) ** 2

        return square


@pytest.fixture
def runtime(tmp_path: Path, indexed_homes: IndexedHomes) -> Iterator[Runtime]:
    indexed_homes.put(tmp_path, "exported", make_home)
    with open_runtime(tmp_path, slice_size=4) as opened:
        yield opened


def test_ray_data_writes_the_files_that_threads_write_also_when_an_actor_is_killed(
    ray_cluster: None, runtime: Runtime, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    request = ExportRequest(format=ExportFormat.WEBDATASET, size=FileSize(pictures=4))
    run_export(runtime, request, area_of(runtime, str(tmp_path / "threads")), host=in_threads(1))
    with on_ray(runtime, workers=2, words=WORDS) as ray:

        def host(work: BulkWork[Any, Any], tasks: Any, /) -> Iterator[Done[Any, Any]]:
            yield from ray(Watched(work, notes, killer="00001.tar"), tasks)

        report = run_export(runtime, request, area_of(runtime, str(tmp_path / "ray")), host=host)
    assert (report.pictures, report.written) == (12, 3)
    assert files_of(tmp_path / "ray") == files_of(tmp_path / "threads")
    assert (notes / "begun-00001.tar").exists(), "nothing was killed"
    titles = [path.read_text("utf-8") for path in notes.iterdir() if path.name.isdigit()]
    assert len(titles) >= 2
    assert all(TITLE in title for title in titles)


def outcomes_of(host: BulkHost, work: BulkWork[Any, Any], count: int) -> dict[str, int | LodestoneError | None]:
    return {task.key: error or result for task, result, error in host(work, (Number(str(n)) for n in range(count)))}


@pytest.mark.nightly
@pytest.mark.slow
def test_any_work_goes_by_ray_data_and_a_task_that_kills_its_workers_is_named_alone(
    ray_cluster: None, runtime: Runtime, tmp_path: Path
) -> None:
    with on_ray(runtime, workers=2, words=WORDS) as ray:
        found = outcomes_of(ray, Watched(Squares(), tmp_path, killer="5", always=True), 8)
    died, refused = found.pop("5"), found.pop("3")
    assert isinstance(died, WorkerDiedError)
    assert "died with 1 slice in flight" in str(died)
    assert isinstance(refused, InvalidRequestError)
    assert found == {str(n): n**2 for n in (0, 1, 2, 4, 6, 7)}
