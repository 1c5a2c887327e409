"""Compaction drops what nobody needs, keeps what somebody does, and leaves searches alone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.support.home import image_ids, open_runtime, vectors_of
from tests.support.home_copies import copy_folder
from tests.support.pictures import write_photo, write_photos

from lodestone.catalog.records import ImageState, RunState
from lodestone.embeddings.slices import read_part
from lodestone.errors import LodestoneError
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.corpus_changes import compact_corpus
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexReport, IndexRequest


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    with open_runtime(tmp_path) as opened:
        yield opened


@pytest.fixture(scope="module")
def churned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a home and pictures that three runs saw; not to be changed."""
    folder = tmp_path_factory.mktemp("churned")
    with open_runtime(folder) as opened:
        _churn(opened, folder / "photos")
    return folder


@pytest.fixture
def photos(churned: Path) -> Path:
    """Its pictures."""
    return churned / "photos"


@pytest.fixture
def stale(churned: Path, tmp_path: Path) -> Iterator[Runtime]:
    """A copy of its home."""
    copy_folder(churned / "home", tmp_path / "home")
    with open_runtime(tmp_path) as opened:
        yield opened


def _index(runtime: Runtime, folder: Path) -> IndexReport:
    return index_paths(runtime, IndexRequest((folder,)))


def _corpus(runtime: Runtime) -> str:
    return runtime.catalog.corpus("default").corpus_id


def _files(runtime: Runtime) -> set[str]:
    return {stored.path for stored in runtime.embeddings.files(_corpus(runtime)) if stored.path.endswith(".parquet")}


def _named(runtime: Runtime) -> set[str]:
    slices = runtime.catalog.slices(_corpus(runtime))
    return {receipt.path for record in slices for receipt in runtime.catalog.receipts(record.slice_id).values()}


def _rows(runtime: Runtime) -> dict[str, dict[str, Any]]:
    """Image id -> part -> its row, of all receipts; a picture that has two rows in a part fails."""
    found: dict[str, dict[str, Any]] = {}
    for record in runtime.catalog.slices(_corpus(runtime)):
        for part, receipt in runtime.catalog.receipts(record.slice_id).items():
            for row in read_part(runtime.embeddings, receipt, verify=True).to_pylist():
                assert part.startswith("captions") or part not in found.setdefault(row["image_id"], {})
                found.setdefault(row["image_id"], {})[part] = row
    return found


def _churn(runtime: Runtime, folder: Path) -> None:
    """20 pictures in slices of 8; then some change, some go, one moves, one is added, in runs of their own."""
    paths = write_photos(folder, 20)
    (folder / "broken.jpg").write_bytes(b"\xff\xd8\xff no picture")
    _index(runtime, folder)
    for path in paths[:4]:
        write_photo(path, seed=1000 + int(path.stat().st_size))
        os.utime(path, (1, 1))
    _index(runtime, folder)
    for path in paths[4:9]:
        path.unlink()
    shutil.move(paths[9], folder / "moved.jpg")
    write_photo(folder / "new.jpg", seed=77)
    _index(runtime, folder)


def _same(before: dict[str, Any], after: dict[str, Any]) -> bool:
    return before.keys() == after.keys() and all(np.allclose(before[key], after[key], atol=1e-5) for key in before)


def test_small_and_stale_slices_become_few_full_ones(stale: Runtime) -> None:
    before, rows = vectors_of(stale, "bridge"), _rows_of_living(stale)
    total = sum(receipt.rows for record in stale.catalog.slices() for receipt in _meta(stale, record.slice_id))
    report = compact_corpus(stale, "default")
    assert report.replaced > report.written > 0
    assert report.rows_dropped == 5  # of gone ones; those of four edited ones went with the run that noticed
    assert (report.waiting, report.damaged) == (0, 0)
    kept = sum(receipt.rows for record in stale.catalog.slices() for receipt in _meta(stale, record.slice_id))
    assert kept == total - 5 == 17  # the broken one's row says why it is none
    assert _files(stale) == _named(stale)
    assert _rows_of_living(stale) == rows
    assert _same(vectors_of(stale, "bridge"), before)
    assert max(record.rows for record in stale.catalog.slices()) <= 8


def _meta(runtime: Runtime, slice_id: str) -> list[Any]:
    return [receipt for part, receipt in runtime.catalog.receipts(slice_id).items() if part == "meta"]


def _rows_of_living(runtime: Runtime) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for record in runtime.catalog.slices(_corpus(runtime)):
        members = {image.image_id for image in runtime.catalog.slice_images(record.slice_id)}
        for part, receipt in runtime.catalog.receipts(record.slice_id).items():
            for row in read_part(runtime.embeddings, receipt).to_pylist():
                if row["image_id"] in members:
                    kept = {name: value for name, value in row.items() if name not in {"uri", "size", "mtime_ns"}}
                    found.setdefault(row["image_id"], {})[part] = kept
    return found


def test_compaction_touches_no_collection_and_nothing_is_embedded_or_loaded_after(stale: Runtime, photos: Path) -> None:
    stale.store.close()
    del stale.__dict__["store"]
    compact_corpus(stale, "default")
    assert "store" not in stale.__dict__  # was not even opened
    report = _index(stale, photos)
    assert report.counts.get("embedded", 0) == 0
    assert report.sync is not None
    assert [(one.loaded, one.deleted) for one in report.sync.collections] == [(0, 0)] * len(report.sync.collections)
    assert compact_corpus(stale, "default").replaced == 0  # nothing is left to do


def test_collections_are_rebuilt_from_compacted_slices(stale: Runtime, photos: Path) -> None:
    compact_corpus(stale, "default")
    before = vectors_of(stale, "bridge")
    stale.store.drop(stale.store.aliases()["bridge"])
    report = _index(stale, photos)
    assert report.counts.get("embedded", 0) == 0
    assert _same(vectors_of(stale, "bridge"), before)


def test_the_place_of_a_moved_picture_is_brought_up_to_date(stale: Runtime, photos: Path) -> None:
    moved = image_ids(stale)["photos/moved.jpg"]
    compact_corpus(stale, "default")
    assert _rows(stale)[moved]["meta"]["uri"] == "moved.jpg"


def test_a_vanished_picture_that_comes_back_is_embedded_again_with_its_id(runtime: Runtime, tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    paths = write_photos(folder, 8)
    _index(runtime, folder)
    gone = image_ids(runtime)[f"photos/{paths[0].name}"]
    kept = paths[0].read_bytes()
    for path in paths[:3]:
        path.unlink()
    _index(runtime, folder)
    assert compact_corpus(runtime, "default").rows_dropped == 3
    paths[0].write_bytes(kept)
    report = _index(runtime, folder)
    assert report.counts["embedded"] == 1
    assert image_ids(runtime)[f"photos/{paths[0].name}"] == gone
    assert len(vectors_of(runtime, "bridge")) == 6


def test_deletions_that_no_store_carried_out_yet_survive(runtime: Runtime, tmp_path: Path) -> None:
    """Everything of a slice is gone before a second collection hears of it."""
    folder = tmp_path / "photos"
    paths = write_photos(folder, 8)
    _index(runtime, folder)
    ids = set(image_ids(runtime).values())
    for path in paths:
        path.unlink()
    write_photo(folder / "last.jpg", seed=5)
    runtime.catalog.mark_gone(sorted(ids))
    compact_corpus(runtime, "default")
    assert set(runtime.catalog.tombstones("another-collection")) == ids
    runtime.catalog.mark_gone(sorted(ids))  # again: a fresh tombstone is only given to what was ever embedded
    assert set(runtime.catalog.tombstones("another-collection")) == ids
    _index(runtime, folder)
    assert len(vectors_of(runtime, "bridge")) == 1


def test_a_dry_run_changes_nothing(stale: Runtime) -> None:
    files, slices = _files(stale), list(stale.catalog.slices())
    report = compact_corpus(stale, "default", dry_run=True)
    assert report.replaced > 0
    assert (_files(stale), list(stale.catalog.slices())) == (files, slices)


@pytest.mark.nightly_beyond(1)
@pytest.mark.parametrize("place", ["write_part", "replace_slices", "drop_superseded"])
def test_killed_anywhere_the_next_compaction_finishes(
    stale: Runtime, photos: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    before, rows = vectors_of(stale, "bridge"), _rows_of_living(stale)
    calls = 0

    class Killed(BaseException):
        pass

    def dying(original: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == 2:
                raise Killed
            return original(*arguments, **options)

        return call

    with monkeypatch.context() as patch:
        if place == "write_part":
            from lodestone.embeddings import compaction

            patch.setattr(compaction, "write_part", dying(compaction.write_part))
        else:
            patch.setattr(stale.catalog, place, dying(getattr(stale.catalog, place)), raising=False)
        with pytest.raises(Killed):
            compact_corpus(stale, "default")
    assert _rows_of_living(stale) == rows
    compact_corpus(stale, "default")
    assert _files(stale) == _named(stale)
    assert _rows_of_living(stale) == rows
    assert _same(vectors_of(stale, "bridge"), before)
    assert _index(stale, photos).counts.get("embedded", 0) == 0


def test_old_files_stay_while_another_run_may_read_them(stale: Runtime) -> None:
    old = _files(stale)
    other = stale.catalog.start_run("index", stale.catalog.ensure_corpus("other").corpus_id)
    report = compact_corpus(stale, "default")
    assert report.waiting > 0
    assert old < _files(stale)
    stale.catalog.finish_run(other.run_id, RunState.DONE)
    assert compact_corpus(stale, "default").files_deleted > 0
    assert _files(stale) == _named(stale)


def test_a_damaged_slice_is_left_and_made_again_by_the_next_run(stale: Runtime, photos: Path) -> None:
    victim = max(stale.home.embeddings.rglob("*.meta.parquet"), key=lambda path: path.stat().st_mtime_ns)
    victim.write_bytes(victim.read_bytes()[:-10])
    report = compact_corpus(stale, "default")
    assert report.damaged == 1
    _index(stale, photos)
    assert compact_corpus(stale, "default").damaged == 0
    assert len(vectors_of(stale, "bridge")) == 16
    assert _files(stale) == _named(stale)


def test_pictures_that_wait_to_be_embedded_keep_their_slice(runtime: Runtime, tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 4)
    _index(runtime, tmp_path / "photos")
    images = list(runtime.catalog.images_of_root(runtime.catalog.roots(_corpus(runtime))[0].root_id))
    from dataclasses import replace

    runtime.catalog.update_images([replace(image, state=ImageState.PENDING) for image in images])
    assert compact_corpus(runtime, "default").replaced == 0


def test_an_unknown_corpus_is_refused(runtime: Runtime) -> None:
    with pytest.raises(LodestoneError, match="nowhere"):
        compact_corpus(runtime, "nowhere")


def test_rows_keep_their_types() -> None:
    from lodestone.embeddings.compaction import _joined

    one = pa.table({"v": pa.array([[1, 2]], pa.list_(pa.float16(), 2))}, metadata={"decoder": "1"})
    two = one.replace_schema_metadata({"decoder": "2"})
    joined = _joined([one, two])
    assert joined.schema.field("v").type == pa.list_(pa.float16(), 2)
    assert joined.schema.metadata == {b"decoder": b"1,2"}
