"""Index runs that go on at the same time, and homes on one server, leave each other's work alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.support.home import image_ids, open_runtime, settings_for, vectors_of
from tests.support.pictures import write_photo, write_photos
from tests.support.qdrant_server import QdrantServer

from lodestone.config.settings import StoreSettings
from lodestone.home.runtime import Runtime
from lodestone.indexing.progress import ProgressEvent, RunStage
from lodestone.indexing.run.corpus_changes import remove_corpus
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexReport, IndexRequest
from lodestone.indexing.sync.collections import sync
from lodestone.indexing.sync.targets import SpaceTarget
from lodestone.store.base import PointBatch


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    with open_runtime(tmp_path) as opened:
        yield opened


def index(runtime: Runtime, folder: Path, corpus: str) -> IndexReport:
    return index_paths(runtime, IndexRequest((folder,), corpus=corpus))


def record(runtime: Runtime, folder: Path, corpus: str) -> None:
    """What another process' run does before it comes to the store."""
    index_paths(runtime, IndexRequest((folder,), corpus=corpus), synchronise=lambda *_, **__: None)


def test_slices_that_other_runs_record_before_the_comparison_are_loaded_and_not_missed(
    runtime: Runtime, tmp_path: Path
) -> None:
    write_photos(tmp_path / "a", 3)
    others = [f"other{number}" for number in range(3)]
    for number, name in enumerate(others):
        write_photo(tmp_path / name / "one.jpg", seed=100 + number)
        write_photo(tmp_path / name / "two.jpg", seed=200 + number)

    def meanwhile(event: ProgressEvent) -> None:
        if event.stage is RunStage.VERIFY and others:
            name = others.pop()
            record(runtime, tmp_path / name, name)

    report = index_paths(runtime, IndexRequest((tmp_path / "a",), corpus="a"), progress=meanwhile)
    assert others == []
    assert report.sync is not None
    assert {c.alias: c.points for c in report.sync.collections if c.alias != "captions"} == {"bridge": 9, "labels": 9}
    assert all(c.loaded == c.points for c in report.sync.collections)  # nothing was loaded twice


def test_pictures_that_another_run_finds_gone_before_the_comparison_are_deleted(runtime: Runtime, tmp_path: Path) -> None:
    write_photo(tmp_path / "a" / "one.jpg", seed=100)
    paths = write_photos(tmp_path / "b", 3)
    index(runtime, tmp_path / "b", "b")

    def meanwhile(event: ProgressEvent) -> None:
        if event.stage is RunStage.VERIFY and paths[0].exists():
            paths[0].unlink()
            record(runtime, tmp_path / "b", "b")

    report = index_paths(runtime, IndexRequest((tmp_path / "a",), corpus="a"), progress=meanwhile)
    assert report.sync is not None
    assert {c.alias: (c.points, c.loaded, c.deleted) for c in report.sync.collections if c.alias != "captions"} == {
        "bridge": (3, 1, 1),
        "labels": (3, 1, 1),
    }


def test_pictures_that_move_while_their_slice_is_loaded_are_loaded_again(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos = tmp_path / "photos"
    write_photos(photos / "before", 3)
    record(runtime, photos, "a")
    points = SpaceTarget.points

    def overtaken(target: SpaceTarget, slices: object) -> PointBatch:
        batch = points(target, slices)  # type: ignore[arg-type]
        if (photos / "before").exists():
            (photos / "before").rename(photos / "after")
            record(runtime, photos, "a")
        return batch

    monkeypatch.setattr(SpaceTarget, "points", overtaken)
    sync(runtime)
    monkeypatch.undo()
    sync(runtime)
    for space in ("bridge", "labels"):
        batches = list(runtime.store.scroll(runtime.store.aliases()[space]))
        assert [payload["folders"][-1] for batch in batches for payload in batch.payloads] == ["after"] * 3


@pytest.mark.server
def test_homes_that_share_a_server_keep_their_vectors(qdrant_server: QdrantServer, tmp_path: Path) -> None:
    store = StoreSettings(kind="server", url=qdrant_server.url, grpc_port=qdrant_server.grpc_port)
    with ExitStack() as stack:
        homes = []
        for number, name in enumerate(("one", "two")):
            write_photos(tmp_path / name / "photos", 3 + number)
            settings = settings_for(tmp_path / name).model_copy(update={"store": store})
            homes.append(stack.enter_context(Runtime.open(settings)))
            index(homes[-1], tmp_path / name / "photos", "photos")
        for home in (*homes, *homes):
            assert all((c.loaded, c.deleted) == (0, 0) for c in sync(home).collections)
            assert vectors_of(home, "bridge").keys() == set(image_ids(home, "photos").values())
        remove_corpus(homes[1], "photos")
        sync(homes[1])
        assert len(vectors_of(homes[1], "bridge")) == 0
        assert len(vectors_of(homes[0], "bridge")) == 3


# Thumbnails


def thumbnails(runtime: Runtime) -> set[str]:
    return {path.stem for path in runtime.home.thumbnails.glob("*/*.jpg")}


def contents(runtime: Runtime, *corpora: str) -> set[str]:
    """Content hashes of the living pictures."""
    ids = [image_id for corpus in corpora for image_id in image_ids(runtime, corpus).values()]
    return {image.hash for image in runtime.catalog.images(ids).values()}


def test_thumbnails_of_vanished_and_changed_pictures_go_with_the_run_that_finds_out(runtime: Runtime, tmp_path: Path) -> None:
    paths = write_photos(tmp_path / "a", 5)
    for copied in (0, 2):  # of contents that a picture of another corpus keeps
        write_photo(tmp_path / "b" / f"copy{copied}.jpg", seed=copied)
    index(runtime, tmp_path / "a", "a")
    index(runtime, tmp_path / "b", "b")
    assert len(thumbnails(runtime)) == 5
    paths[0].unlink()
    paths[1].unlink()
    write_photo(paths[2], seed=102)
    write_photo(paths[3], seed=103)
    paths[4].rename(tmp_path / "a" / "moved.jpg")
    index(runtime, tmp_path / "a", "a")
    assert thumbnails(runtime) == contents(runtime, "a", "b")
    assert len(thumbnails(runtime)) == 5  # copies 0 and 2, changed 2 and 3, and the one that moved


def test_removing_a_corpus_leaves_no_thumbnail_of_earlier_contents(runtime: Runtime, tmp_path: Path) -> None:
    write_photos(tmp_path / "a", 1)
    index(runtime, tmp_path / "a", "a")
    write_photos(tmp_path / "b", 2)
    write_photo(tmp_path / "b" / "000001.jpg", seed=50)
    index(runtime, tmp_path / "b", "b")
    first = next(runtime.home.thumbnails.glob("*/*.jpg"))
    left = first.with_name(f"{first.parent.name}{'0' * 62}.jpg")  # as a killed run leaves them
    left.write_bytes(first.read_bytes())
    stray = runtime.home.thumbnails / "note.txt"
    stray.write_text("mine", encoding="utf-8")
    report = remove_corpus(runtime, "a")
    assert report.thumbnails == 1  # the one left behind; a's only content is b's as well
    assert not left.exists()
    assert stray.exists()
    assert thumbnails(runtime) == contents(runtime, "b")
