"""Ctrl-C in an index run: what is kept, what commands say about it, and how the work goes on."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import command, environment, run_here
from tests.support.home import image_ids, open_runtime, vectors_of
from tests.support.pictures import write_photos
from tests.support.terminal import in_terminal

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import RunState
from lodestone.home.runtime import Runtime
from lodestone.indexing.progress import Progress, ProgressEvent, RunStage
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.indexing.run.unfinished import unfinished_run
from lodestone.indexing.stop_request import StopRequest
from lodestone.indexing.tasks import this_worker

PICTURES = 72  # three slices of 24, for one worker
ONE_BY_ONE = {
    "LODESTONE_INDEX__EXECUTOR": "inline",
    "LODESTONE_INDEX__WORKERS": "1",
    "LODESTONE_INDEX__SLICES_IN_FLIGHT": "1",
    "OMP_NUM_THREADS": "1",
}


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos") / "photos"
    write_photos(folder, PICTURES)
    return folder


def stop_at(stop: StopRequest, pictures: int, *, times: int = 1) -> Progress:
    """Press Ctrl-C as soon as so many pictures are looked at, as `stopped_by_signals` does."""
    pressed: list[ProgressEvent] = []

    def report(event: ProgressEvent) -> None:
        if event.stage is RunStage.EMBED and event.done >= pictures and len(pressed) < times:
            pressed.append(event)
            if not stop.ask(KeyboardInterrupt()):
                raise KeyboardInterrupt

    return report


def run_cut_short(folder: Path, photos: Path, *, at: int, times: int = 1, executor: str = "inline") -> None:
    """Index with the slices that a home has without settings, and press Ctrl-C."""
    stop = StopRequest()
    options: dict[str, Any] = {"slice_size": 0, "slices_in_flight": 1}
    with open_runtime(folder, executor=executor, **options) as runtime, pytest.raises(KeyboardInterrupt):
        index_paths(runtime, IndexRequest((photos,)), progress=stop_at(stop, at, times=times), stop=stop)


def require_all_once(runtime: Runtime, pictures: int) -> None:
    """Every picture is in the catalog, in one slice, and in the collection once."""
    ids = image_ids(runtime)
    members = [image_id for record in runtime.catalog.slices() for image_id in runtime.catalog.slice_members(record.slice_id)]
    assert len(ids) == pictures
    assert sorted(members) == sorted(ids.values())
    assert vectors_of(runtime, "bridge").keys() == set(ids.values())


@pytest.mark.nightly_beyond(1)
@pytest.mark.parametrize(("at", "kept"), [(4, 24), (28, 48)])
def test_pictures_that_were_looked_at_are_kept_after_ctrl_c(tmp_path: Path, photos: Path, at: int, kept: int) -> None:
    run_cut_short(tmp_path, photos, at=at)
    with open_runtime(tmp_path) as runtime:
        left = unfinished_run(runtime.catalog, runtime.catalog.corpus("default"))
        assert left is not None
        assert (left.state, left.kept, left.waiting) == (RunState.INTERRUPTED, kept, PICTURES - kept)
        assert left.progress == f"{kept} of {PICTURES} pictures are kept"
        report = index_paths(runtime, IndexRequest(resume=""))
        assert (report.images, report.counts["embedded"]) == (PICTURES, PICTURES - kept)
        require_all_once(runtime, PICTURES)
        assert unfinished_run(runtime.catalog, runtime.catalog.corpus("default")) is None


def test_a_second_ctrl_c_keeps_what_was_finished_before_the_first(tmp_path: Path, photos: Path) -> None:
    run_cut_short(tmp_path, photos, at=28, times=2)
    with open_runtime(tmp_path) as runtime:
        assert runtime.catalog.runs(1)[0].counts["embedded"] == 24
        index_paths(runtime, IndexRequest(resume=""))
        require_all_once(runtime, PICTURES)


def test_worker_processes_finish_what_they_have_begun(tmp_path: Path, photos: Path) -> None:
    run_cut_short(tmp_path, photos, at=4, executor="processes")
    with open_runtime(tmp_path) as runtime:
        assert runtime.catalog.runs(1)[0].counts["embedded"] == 24
        assert index_paths(runtime, IndexRequest((photos,))).images == PICTURES
        require_all_once(runtime, PICTURES)


@pytest.fixture
def cut(tmp_path: Path, photos: Path) -> Path:
    """A home whose only run was interrupted."""
    run_cut_short(tmp_path, photos, at=4)
    return tmp_path / "home"


def test_status_and_search_name_the_command_that_goes_on_with_an_interrupted_run(cut: Path) -> None:
    status = run_here("status", home=cut)
    line = f"the last run of default was interrupted: 24 of {PICTURES} pictures are kept; `lodestone index --resume` goes on"
    assert line in status.out
    assert "out of date" not in status.out
    (told,) = run_here("status", "-o", "json", home=cut).json["unfinished"]
    assert (told["corpus"], told["kept"], told["waiting"]) == ("default", 24, PICTURES - 24)
    assert told["resume"] == "lodestone index --resume"
    named = run_here("status", "--home", str(cut), home=cut)
    assert f"lodestone index --resume --home {cut}" in named.out
    searched = run_here("search", "a dog", "--local", home=cut)
    assert "no index run has finished yet; `lodestone index --resume` goes on" in " ".join(
        (searched.out + searched.err).split()
    )
    run_here("index", "--resume", "--local", home=cut, **ONE_BY_ONE)
    assert "the last run of" not in run_here("status", home=cut).out


def test_with_nothing_left_a_resumption_says_so_and_makes_no_run(cut: Path) -> None:
    assert "finished what run" in run_here("index", "--resume", "--local", home=cut, **ONE_BY_ONE).out
    runs = run_here("runs", "list", "-o", "json", home=cut).json
    idle = run_here("index", "--resume", "--local", home=cut, **ONE_BY_ONE)
    assert idle.code == 0
    assert f"nothing to resume: the last run of default is complete\n{PICTURES} pictures can be found" in idle.out
    assert "finished what run" not in idle.out
    assert run_here("index", "--resume", runs[-1]["run_id"], "--local", home=cut, **ONE_BY_ONE).out == idle.out
    assert run_here("runs", "list", "-o", "json", home=cut).json == runs


@pytest.mark.nightly_beyond(1)
@pytest.mark.parametrize("loss", ["collection", "alias", "load"])
def test_a_resumption_mends_collections_even_if_every_picture_is_embedded(cut: Path, loss: str) -> None:
    run_here("index", "--resume", "--local", home=cut, **ONE_BY_ONE)
    with open_runtime(cut.parent) as runtime:
        collection = runtime.store.aliases()["bridge"]
        if loss == "collection":
            runtime.store.drop(collection)
        elif loss == "alias":
            runtime.store.drop_alias("bridge")
        else:
            runtime.catalog.forget_loads(collection)
    again = run_here("index", "--resume", "-o", "json", "--local", home=cut, **ONE_BY_ONE).json
    assert not again["nothing_left"]
    with open_runtime(cut.parent) as runtime:
        require_all_once(runtime, PICTURES)


def test_a_run_that_goes_on_is_not_called_interrupted_and_one_whose_process_ended_is(tmp_path: Path) -> None:
    with Catalog.open(tmp_path / "catalog.sqlite") as catalog:
        corpus = catalog.ensure_corpus("default")
        assert unfinished_run(catalog, corpus) is None
        catalog.start_run("index", corpus.corpus_id, worker=this_worker())
        assert unfinished_run(catalog, corpus) is None
        host = this_worker().rpartition(":")[0]
        killed = catalog.start_run("index", corpus.corpus_id, worker=f"{host}:999999999")
        left = unfinished_run(catalog, corpus)
        assert left is not None
        assert (left.run_id, left.state) == (killed.run_id, RunState.INTERRUPTED)
        assert left.progress == "the run was still looking for pictures"
        catalog.start_run("index", corpus.corpus_id, worker="elsewhere:1")  # heard of just now
        assert unfinished_run(catalog, corpus) is None


@pytest.mark.parametrize(("presses", "kept"), [(1, 48), (2, 24)])
def test_the_command_finishes_what_is_under_way_at_the_first_ctrl_c_alone(
    tmp_path: Path, photos: Path, monkeypatch: pytest.MonkeyPatch, presses: int, kept: int
) -> None:
    pressed: list[int] = []

    @contextmanager
    def pressing(_: object) -> Iterator[Progress]:
        def report(event: ProgressEvent) -> None:
            if event.stage is RunStage.EMBED and event.done >= 28 and len(pressed) < presses:
                pressed.append(event.done)
                os.kill(os.getpid(), signal.SIGINT)

        yield report

    monkeypatch.setattr("lodestone_cli.progress.shown_progress", pressing)
    cut = run_here("index", photos, "--local", home=tmp_path / "home", **ONE_BY_ONE)
    assert cut.code == 128 + signal.SIGINT
    assert f"{kept} of {PICTURES} pictures are kept; `lodestone index --resume` goes on\n" in cut.err


@pytest.mark.slow
def test_ctrl_c_in_a_terminal_says_how_many_pictures_are_kept(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 160)
    home = tmp_path / "home"
    shown = in_terminal(
        command("index", str(tmp_path / "photos"), "--local"),
        environment(home, **ONE_BY_ONE),
        size=(140, 40),
        interrupt_at=b"limited by",  # from the first slice on
    )
    assert shown.code == 128 + signal.SIGINT
    kept = re.search(r"(\d+) of 160 pictures are kept; `lodestone index --resume` goes on", shown.text)
    assert kept is not None
    assert int(kept[1]) in {32, 64, 112}
    assert run_here("runs", "list", "-o", "json", home=home).json[0]["counts"]["embedded"] == int(kept[1])
