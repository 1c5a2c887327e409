"""The consistency check finds what does not fit, names the right remedy, and changes nothing by looking."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text
from tests.support.home import image_ids, open_runtime
from tests.support.pictures import write_photo, write_photos
from tests.support.upkeep import copied

from lodestone.directories.upkeep import repair_orders
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.indexing.sync import repair
from lodestone.indexing.sync.collections import sync
from lodestone.indexing.sync.repair import Consistency, examine_home, forget_damaged, make_missing_collections


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("indexed")
    write_photos(folder / "pictures", 12)
    with open_runtime(folder) as runtime:
        index_paths(runtime, IndexRequest((folder / "pictures",)))
    return folder


@pytest.fixture
def runtime(indexed: Path, tmp_path: Path) -> Iterator[Runtime]:
    with Runtime.open(copied(indexed, tmp_path)) as opened:
        yield opened


def told(found: Consistency) -> set[tuple[str, str]]:
    return {(one.part, one.remedy) for one in found.findings}


def test_a_sound_home_fits(runtime: Runtime) -> None:
    found = examine_home(runtime)
    assert found.ok
    assert repair_orders(runtime.catalog, found) == []


def test_a_lost_store_is_loaded_again_by_a_sync(runtime: Runtime, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "home" / "store")
    found = examine_home(runtime)
    assert told(found) == {("store", "sync")}
    assert "12 pictures to load" in found.findings[0].what
    lost = make_missing_collections(runtime)
    assert set(lost) <= set(runtime.store.collections())
    assert lost
    assert told(examine_home(runtime)) == {("store", "sync")}
    sync(runtime)
    assert examine_home(runtime).ok
    assert make_missing_collections(runtime) == []


def test_points_that_somebody_deleted_or_added_are_found(runtime: Runtime) -> None:
    collection = runtime.store.aliases()["bridge"]
    runtime.store.delete(collection, list(image_ids(runtime).values())[:2])
    assert told(examine_home(runtime)) == {("store", "sync")}
    sync(runtime)
    assert examine_home(runtime).ok


def test_stored_files_that_are_cut_or_gone_are_embedded_again(runtime: Runtime, tmp_path: Path) -> None:
    first, second, *_ = sorted((tmp_path / "home" / "embeddings").rglob("*efficientnet*.parquet"))
    first.unlink()
    with second.open("r+b") as file:
        file.truncate(100)
    found = examine_home(runtime)
    assert ("embeddings", "index") in told(found)
    assert len(found.damaged) == 2
    forget_damaged(runtime, found)
    (order,) = repair_orders(runtime.catalog, found)
    assert order.paths == (str(tmp_path / "pictures"),)
    index_paths(runtime, IndexRequest(order.paths))
    assert examine_home(runtime).ok


def test_files_that_changed_or_vanished_are_found_and_an_absent_folder_is_only_reported(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "pictures"
    files = sorted(folder.iterdir())
    files[0].unlink()
    write_photo(files[1], seed=77)
    found = examine_home(runtime, store=False)
    assert told(found) == {("files", "index")}
    assert "1 of 12 files of the directory 'pictures' are gone, 1 have changed" in found.findings[0].what
    monkeypatch.setattr(repair, "_STATS_A_ROOT", 5)  # a sample says so
    assert "of 12 files looked at" in examine_home(runtime, store=False).findings[0].what

    folder.rename(tmp_path / "unplugged")
    away = examine_home(runtime, store=False)
    assert told(away) == {("files", "none")}
    folder.mkdir()
    assert "is a disk missing?" in examine_home(runtime, store=False).findings[0].what
    assert repair_orders(runtime.catalog, examine_home(runtime, store=False)) == []


def test_a_run_that_was_cut_short_is_finished_without_looking_for_files(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_photos(tmp_path / "pictures" / "more", 8)
    with monkeypatch.context() as patched:
        patched.setattr("lodestone.indexing.run.executor_lifecycle.ExecutorLifecycle.executor", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            index_paths(runtime, IndexRequest((tmp_path / "pictures",)))
    found = examine_home(runtime)
    assert told(found) == {("work", "resume")}
    (order,) = repair_orders(runtime.catalog, found)
    assert (order.resume, order.paths) == (True, ())
    report = index_paths(runtime, IndexRequest((), resume=""))
    assert report.counts["embedded"] == 8
    assert examine_home(runtime).ok


def test_receipts_that_an_older_version_deleted_are_missed_and_made_again(runtime: Runtime, tmp_path: Path) -> None:
    """It had the catalog open while `slices.parts` came in, and does not keep it."""
    runtime.catalog._write(lambda connection: connection.execute(text("DELETE FROM receipts WHERE part = 'meta'")))
    found = examine_home(runtime, store=False)
    assert ("work", "index") in told(found)
    (order,) = repair_orders(runtime.catalog, found)
    assert not order.resume
    assert index_paths(runtime, IndexRequest(order.paths)).completed > 0
    assert examine_home(runtime).ok


def test_a_check_that_is_stopped_says_no_more(runtime: Runtime, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "pictures")
    shutil.rmtree(tmp_path / "home" / "store")
    assert examine_home(runtime, stopped=lambda: True).damaged == ()


def _interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt
