"""Progress is told of an index run that is alive, and nothing of one that has ended or was lost."""

from __future__ import annotations

import os
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.cli import run_here
from tests.support.home import settings_for

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import Run, RunState
from lodestone.catalog.work.going_on import ALIVE, indexing_words, newest_indexing
from lodestone.home.runtime import Runtime
from lodestone.services.local import LocalClient
from lodestone_schemas.api import SearchRequest

NOW = datetime.now(UTC)
HERE = f"{socket.gethostname()}:{os.getpid()}"


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        ({"stage": "discover"}, "indexing, looking for pictures"),
        ({"stage": "discover", "done": 1200}, "indexing, 1,200 pictures found so far"),
        ({"stage": "embed"}, "indexing"),
        ({"stage": "embed", "done": 0, "total": 800}, "indexing, 0 %"),
        ({"stage": "embed", "done": 472, "total": 800, "seconds_left": 56.2}, "indexing, 59 %, about 0:56"),
        ({"stage": "embed", "done": 472, "total": 800, "seconds_left": 0.2}, "indexing, 59 %, about 0:01"),
        ({"stage": "embed", "done": 799, "total": 800, "seconds_left": 3725}, "indexing, 99 %, about 1:02:05"),
        ({"stage": "load", "done": 9999, "total": 10000, "seconds_left": None}, "indexing, 99 %"),
        ({"stage": "embed", "done": 800, "total": 800, "seconds_left": 5}, "indexing, 100 %"),
    ],
)
def test_progress_in_words(progress: dict[str, object], words: str) -> None:
    assert indexing_words(progress) == words


def a_run(**changed: object) -> Run:
    facts = {
        "run_id": "r", "kind": "index", "corpus_id": "c", "state": RunState.RUNNING, "stage": "embed", "started_at": NOW,
        "finished_at": None, "counts": {}, "worker": HERE, "heartbeat_at": NOW,
        "progress": {"stage": "embed", "done": 1, "total": 4, "seconds_left": 9.0},
    }  # fmt: skip
    late = datetime.now(UTC) - NOW  # the suite may have loaded this module long ago
    now = {name: value + late if isinstance(value, datetime) else value for name, value in {**facts, **changed}.items()}
    return Run(**now)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "goes_on"),
    [
        ({}, True),
        ({"kind": "train-bridge"}, False),
        ({"state": RunState.DONE}, False),
        ({"worker": f"{socket.gethostname()}:999999999"}, False),  # its process has ended
        ({"worker": "elsewhere:1"}, True),
        ({"worker": "elsewhere:1", "heartbeat_at": NOW - ALIVE - timedelta(seconds=5)}, False),
        ({"worker": "elsewhere:1", "heartbeat_at": NOW - ALIVE + timedelta(seconds=30)}, True),
        ({"worker": "elsewhere:1", "heartbeat_at": None}, True),
    ],
)
def test_only_a_run_that_is_alive_goes_on(changed: dict[str, object], goes_on: bool) -> None:
    found = newest_indexing([a_run(**changed)])
    assert (str(found) if found else None) == ("indexing, 25 %, about 0:09" if goes_on else None)


def test_the_newest_run_of_the_corpora_counts() -> None:
    runs = [a_run(run_id="gone", state=RunState.FAILED), a_run(run_id="a"), a_run(run_id="b", corpus_id="d")]
    assert [getattr(newest_indexing(runs, corpus_ids=ids), "run_id", None) for ids in (None, {"d"}, set())] == ["a", "b", None]


def test_progress_of_a_former_stage_is_not_told_while_pictures_are_looked_for() -> None:
    assert str(newest_indexing([a_run(stage="discover")])) == "indexing, looking for pictures"


def _begin(catalog: Catalog, **progress: object) -> None:
    corpus = catalog.ensure_corpus("default")
    run = catalog.start_run("index", corpus.corpus_id, worker=HERE)
    catalog.update_run(run.run_id, stage="embed")
    catalog.beat(run.run_id, progress={"stage": "embed", **progress})


def test_search_and_status_say_how_far_a_first_run_is(tmp_path: Path) -> None:
    settings = settings_for(tmp_path)
    with Runtime.open(settings) as runtime:
        runtime.home.prepare()
        _begin(runtime.catalog, done=472, total=800, seconds_left=56.0)
        with LocalClient.over(runtime) as client:
            (warning, *_) = client.search(SearchRequest(query="dots", guides=0)).warnings
    assert warning.startswith("indexing, 59 %, about 0:56: ")
    assert "interrupted" not in warning
    told = run_here("status", home=settings.home)
    assert "indexing, 59 %, about 0:56" in told.out
    assert "out of date" not in told.out
    assert run_here("status", "-o", "json", home=settings.home).json["indexing"] == "indexing, 59 %, about 0:56"
    found = run_here("search", "dots", home=settings.home)
    assert "note: indexing, 59 %, about 0:56: not all pictures can be found yet" in found.err


def test_without_a_run_nothing_is_said(tmp_path: Path) -> None:
    settings = settings_for(tmp_path)
    with Runtime.open(settings) as runtime:
        runtime.home.prepare()
        runtime.catalog.ensure_corpus("default")
        with LocalClient.over(runtime) as client:
            (warning, *_) = client.search(SearchRequest(query="dots", guides=0)).warnings
    assert "--resume" in warning
    assert "indexing," not in run_here("status", home=settings.home).out
    assert "not all pictures" not in run_here("search", "dots", home=settings.home).err


def test_a_search_beside_the_process_that_indexes_says_how_far_it_is(tmp_path: Path) -> None:
    settings = settings_for(tmp_path)
    with Runtime.open(settings) as runtime:
        runtime.home.prepare()
        _begin(runtime.catalog, done=1, total=4, seconds_left=9.0)
        runtime.store.collections()  # this process owns the store
        for words in (("search", "dots"), ("similar", "00000000-0000-5000-8000-000000000000")):
            done = run_here(*words, home=settings.home, LODESTONE_STORE__LOCK_TIMEOUT_S="0.1")
            assert (done.code, "indexing, 25 %, about 0:09" in done.err) == (6, True), done.err
            assert "lodestone serve" in done.err
