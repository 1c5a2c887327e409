"""Indexing real pictures in this process: what is found, skipped, moved, changed, forgotten and reported."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from tests.support.home import image_ids, open_runtime, vectors_of
from tests.support.home_copies import IndexedHomes
from tests.support.pictures import (
    write_bad_files,
    write_every_format,
    write_photo,
    write_photos,
    write_strange_names,
    write_symlink_loops,
)

from lodestone.catalog.records import ImageState
from lodestone.errors import ImageError, InvalidRequestError, NotFoundError, OutOfSpaceError, StoreLockedError
from lodestone.home.runtime import Runtime
from lodestone.indexing.parts.outputs import OutputsPart
from lodestone.indexing.progress import CAPTIONS_ALONE, ProgressEvent, RunStage
from lodestone.indexing.run.corpus_changes import remove_corpus
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexReport, IndexRequest
from lodestone.indexing.sync.collections import sync


@pytest.fixture
def runtime(tmp_path: Path):
    with open_runtime(tmp_path) as opened:
        yield opened


@pytest.fixture
def indexed(indexed_homes: IndexedHomes, tmp_path: Path):
    """A runtime of a home in which the ten pictures of `photos` are indexed."""
    indexed_homes.put_photos(tmp_path, 10)
    with open_runtime(tmp_path) as opened:
        yield opened


@pytest.fixture
def stepwise(tmp_path: Path):
    """A runtime that embeds one slice after the other, so that a test knows what is done when it interferes."""
    with open_runtime(tmp_path, slices_in_flight=1) as opened:
        yield opened


def index(runtime: Runtime, *paths: Path, **options: object) -> IndexReport:
    return index_paths(runtime, IndexRequest(tuple(paths), **options))  # type: ignore[arg-type]


def test_pictures_become_points_in_every_space_with_thumbnails(runtime: Runtime, tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 20)
    events: list[ProgressEvent] = []
    report = index_paths(runtime, IndexRequest((tmp_path / "photos",)), progress=events.append)
    assert report.images == report.counts["embedded"] == report.counts["new"] == 20
    aliases = runtime.store.aliases()
    assert {"bridge", "labels", "captions"} <= aliases.keys()
    for space in ("bridge", "labels"):
        vectors = vectors_of(runtime, space)
        assert vectors.keys() == set(image_ids(runtime).values())
        assert all(np.isclose(np.linalg.norm(v), 1, atol=1e-4) for v in vectors.values())
    assert len(list(runtime.home.thumbnails.glob("*/*.jpg"))) == 20
    stages = [event.stage.value for event in events]
    assert list(dict.fromkeys(stages)) == ["discover", "start", "embed", "load", "verify", "promote", "done"]


@pytest.mark.nightly_beyond(1)
@pytest.mark.parametrize("executor", ["inline", "processes"])
def test_progress_counts_pictures_and_not_slices_and_captions_by_their_name(tmp_path: Path, executor: str) -> None:
    photos, events = tmp_path / "photos", list[ProgressEvent]()
    paths = write_photos(photos, 12)
    table = tmp_path / "captions.tsv"
    with open_runtime(tmp_path, executor=executor, slice_size=12, batch_size=4) as runtime:
        index_paths(runtime, IndexRequest((photos,)), progress=events.append)
        looked = [event for event in events if event.stage is RunStage.EMBED]
        assert {0, 4, 8, 12} == {event.done for event in looked}
        assert {event.total for event in looked} == {12}
        assert not any(event.detail for event in looked)

        events.clear()
        table.write_text("file\tcaption\n" + "".join(f"{path.name}\ta caption of {path.name}\n" for path in paths))
        index_paths(runtime, IndexRequest((photos,), captions=table), progress=events.append)
        assert [event.detail for event in events if event.stage is RunStage.EMBED][-1] == CAPTIONS_ALONE


def test_a_second_run_embeds_nothing(indexed: Runtime, tmp_path: Path) -> None:
    before = vectors_of(indexed, "bridge")
    again = index(indexed, tmp_path / "photos")
    assert again.counts["unchanged"] == 10
    assert again.counts.get("embedded", 0) == 0
    assert again.executor == "none"
    assert all(np.array_equal(vector, before[key]) for key, vector in vectors_of(indexed, "bridge").items())


def test_only_new_and_changed_pictures_are_embedded(indexed: Runtime, tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    paths = sorted(photos.iterdir())
    ids, before = image_ids(indexed), vectors_of(indexed, "bridge")
    write_photo(paths[3], seed=1003)
    write_photo(photos / "more" / "extra.jpg", seed=1004)
    os.utime(paths[5], ns=(1, 1))  # touched: same content
    report = index(indexed, photos)
    counts = report.counts
    assert (counts["new"], counts["changed"], counts["touched"], counts["embedded"]) == (1, 1, 1, 2)
    after = image_ids(indexed)
    assert {uri: after[uri] for uri in ids} == ids
    vectors = vectors_of(indexed, "bridge")
    changed = [image_id for image_id in before if not np.allclose(vectors[image_id], before[image_id])]
    assert changed == [ids["photos/000003.jpg"]]


def test_a_moved_picture_keeps_its_id_and_is_not_embedded_again(indexed: Runtime, tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    paths = sorted(photos.iterdir())
    ids = image_ids(indexed)
    (photos / "album").mkdir()
    paths[0].rename(photos / "album" / "renamed.jpg")
    report = index(indexed, photos)
    assert report.counts["moved"] == 1
    assert report.counts.get("embedded", 0) == 0
    write_photo(paths[0], seed=77)  # another picture takes the old name
    report = index(indexed, photos)
    assert report.counts["embedded"] == report.counts["new"] == 1
    after = image_ids(indexed)
    assert after["photos/album/renamed.jpg"] == ids["photos/000000.jpg"]
    assert after["photos/000000.jpg"] not in ids.values()
    points = indexed.store.retrieve(indexed.store.aliases()["bridge"], [ids["photos/000000.jpg"]])
    assert list(points.payloads[0]["folders"]) == ["", "album"]


def test_vanished_pictures_leave_the_store_and_come_back_without_embedding(indexed: Runtime, tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    paths = sorted(photos.iterdir())
    content, gone = paths[2].read_bytes(), image_ids(indexed)["photos/000002.jpg"]
    paths[2].unlink()
    report = index(indexed, photos)
    assert report.counts["gone"] == 1
    assert report.images == 9
    assert gone not in vectors_of(indexed, "bridge")
    assert gone not in vectors_of(indexed, "labels")
    paths[2].write_bytes(content)
    report = index(indexed, photos)
    assert report.counts["back"] == 1
    assert report.counts.get("embedded", 0) == 0
    assert gone in vectors_of(indexed, "bridge")


def test_what_lies_outside_the_given_path_is_left_alone(runtime: Runtime, tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    write_photos(photos / "a", 3)
    write_photos(photos / "b", 3)
    index(runtime, photos)
    ids = image_ids(runtime)
    (photos / "a" / "000000.jpg").unlink()
    (photos / "b" / "000000.jpg").unlink()
    report = index(runtime, photos / "a")  # inside the root: no root of its own
    assert report.counts["gone"] == 1
    assert image_ids(runtime) == {uri: i for uri, i in ids.items() if uri != "photos/a/000000.jpg"}


def test_a_single_file_can_be_indexed(runtime: Runtime, tmp_path: Path) -> None:
    paths = write_photos(tmp_path / "photos", 3)
    report = index(runtime, paths[1])
    assert report.images == 1
    report = index(runtime, tmp_path / "photos")
    assert (report.counts["new"], report.counts["unchanged"]) == (2, 1)


def test_two_roots_with_the_same_names_do_not_meet(runtime: Runtime, tmp_path: Path) -> None:
    for number, folder in enumerate((tmp_path / "x" / "photos", tmp_path / "y" / "photos")):
        for name in range(3):
            write_photo(folder / f"{name}.jpg", seed=10 * number + name)
    report = index(runtime, tmp_path / "x" / "photos", tmp_path / "y" / "photos")
    assert report.images == 6
    assert {root.name for root in runtime.catalog.roots()} == {"photos", "photos-2"}
    assert len(vectors_of(runtime, "bridge")) == 6


def test_bad_files_become_failure_rows_and_the_rest_is_indexed(runtime: Runtime, tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    good = write_every_format(folder / "good")
    bad = {kind: found for kind, found in write_bad_files(folder / "bad").items() if found[0].exists()}
    report = index(runtime, folder)
    assert report.images == len(good)
    assert report.counts["failed"] == len(bad)
    corpus = runtime.catalog.corpus("default")
    found = {failure.uri: failure.code for failure in runtime.catalog.failures(corpus_id=corpus.corpus_id)}
    assert found == {str(path.relative_to(folder)): reason for path, reason in bad.values()}
    again = index(runtime, folder)
    assert again.counts.get("embedded", 0) == again.counts.get("failed", 0) == 0  # not tried again unchanged
    retried = index(runtime, folder, retry_failed=True)
    assert retried.counts["retried"] == retried.counts["failed"] == len(bad)
    assert retried.images == len(good)


def test_a_failure_is_forgotten_once_its_file_is_mended(runtime: Runtime, tmp_path: Path) -> None:
    paths = write_photos(tmp_path / "photos", 3)
    whole = paths[0].read_bytes()
    paths[0].write_bytes(whole[:300])
    index(runtime, tmp_path / "photos")
    corpus_id = runtime.catalog.corpus("default").corpus_id
    assert runtime.catalog.count_failures(corpus_id=corpus_id) == 1
    paths[0].write_bytes(whole)
    report = index(runtime, tmp_path / "photos")
    assert report.images == 3
    assert runtime.catalog.count_failures(corpus_id=corpus_id) == 0


def test_a_picture_that_breaks_leaves_the_store(indexed: Runtime, tmp_path: Path) -> None:
    paths = sorted((tmp_path / "photos").iterdir())
    broken = image_ids(indexed)["photos/000000.jpg"]
    paths[0].write_bytes(paths[0].read_bytes()[:300])
    report = index(indexed, tmp_path / "photos")
    assert report.images == 9
    assert broken not in vectors_of(indexed, "bridge")


def test_missing_and_empty_folders_do_not_cost_the_others(runtime: Runtime, tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 2)
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFoundError, match="nowhere"):
        index(runtime, tmp_path / "nowhere")
    with pytest.raises(InvalidRequestError, match="no pictures"):
        index(runtime, tmp_path / "empty")
    report = index(runtime, tmp_path / "nowhere", tmp_path / "empty", tmp_path / "photos")
    assert report.images == 2
    assert {problem.code for problem in report.problems} == {"not_found", "invalid_request"}


def test_an_emptied_folder_costs_nothing(indexed: Runtime, tmp_path: Path) -> None:
    """A disk that is not mounted today looks like this."""
    shutil.rmtree(tmp_path / "photos")
    (tmp_path / "photos").mkdir()
    with pytest.raises(InvalidRequestError, match="nothing to index"):
        index(indexed, tmp_path / "photos")
    assert len(vectors_of(indexed, "bridge")) == 10


def test_names_in_any_script_and_symlink_loops(runtime: Runtime, tmp_path: Path) -> None:
    names = write_strange_names(tmp_path / "strange")
    write_symlink_loops(tmp_path / "loops")
    report = index(runtime, tmp_path / "strange", tmp_path / "loops")
    assert report.images == len(names) + 1
    assert report.counts.get("failed", 0) == 0


def test_captions_beside_the_pictures_are_followed_without_reading_pixels(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # what changed is loaded because it changed, not because a check happened to find a difference
    monkeypatch.setattr(
        "lodestone.indexing.sync.collections._repair", lambda *_: pytest.fail("the collection had to be repaired")
    )
    photos = tmp_path / "photos"
    paths = write_photos(photos, 10)
    paths[0].with_suffix(".txt").write_text("a dog on the beach\nwaves\n", encoding="utf-8")
    index(runtime, photos)
    captions = runtime.store.aliases()["captions"]
    assert runtime.store.count(captions) == 2
    paths[0].with_suffix(".txt").write_text("a cat on the roof\n", encoding="utf-8")
    paths[9].with_suffix(".txt").write_text("two boats\n", encoding="utf-8")
    loaded: list[str] = []
    monkeypatch.setattr(OutputsPart, "setup", lambda part, _: loaded.append(part.name))
    report = index(runtime, photos)
    assert report.counts["recaptioned"] == 2
    assert loaded == [], "no image model is needed"
    assert report.counts.get("embedded", 0) == 0
    ids = image_ids(runtime)
    stored = [payload for batch in runtime.store.scroll(captions) for payload in batch.payloads]
    assert {p["image"] for p in stored} == {ids["photos/000000.jpg"], ids["photos/000009.jpg"]}
    assert len(stored) == 2
    assert {p["source"] for p in stored} == {"sidecar"}
    encoder = runtime.text_encoder
    encoder.warm_up(threads=1)
    wanted = encoder.encode(["a cat on the roof"])[0]
    best = max(float(vector @ wanted) for vector in vectors_of(runtime, "captions").values())
    assert best > 0.999
    paths[0].with_suffix(".txt").unlink()
    index(runtime, photos)
    assert runtime.store.count(captions) == 1


def test_a_table_brings_captions_and_names_what_it_cannot_match(runtime: Runtime, tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 3)
    table = tmp_path / "captions.tsv"
    table.write_text("file\tcaption\n000001.jpg\ta red kite\nnot-there.jpg\tnothing\n", encoding="utf-8")
    report = index(runtime, tmp_path / "photos", captions=table)
    assert runtime.store.count(runtime.store.aliases()["captions"]) == 1
    assert "not-there.jpg" in report.warnings[0]


def test_a_file_that_changes_under_the_run_is_a_failure_and_found_next_time(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = write_photos(tmp_path / "photos", 3)
    plan = "lodestone.indexing.run.index_run.plan_slices"
    from lodestone.indexing.embed.slicing import plan_slices

    def overtaken(*arguments: object, **options: object) -> int:
        write_photo(paths[1], seed=99)
        return plan_slices(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(plan, overtaken)
    report = index(runtime, tmp_path / "photos")
    monkeypatch.undo()
    assert report.images == 2
    corpus_id = runtime.catalog.corpus("default").corpus_id
    assert [failure.code for failure in runtime.catalog.failures(corpus_id=corpus_id)] == ["file_changed"]
    assert index(runtime, tmp_path / "photos").images == 3
    assert runtime.catalog.count_failures(corpus_id=corpus_id) == 0


@pytest.mark.parametrize("after", [0, 5])
def test_no_space_left_ends_the_run_cleanly_and_the_next_one_goes_on(
    stepwise: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    write_photos(tmp_path / "photos", 24)
    from lodestone.embeddings.slices import write_part

    written = 0

    def full(*arguments: object) -> object:
        nonlocal written
        written += 1
        if written > after:
            raise OutOfSpaceError("no space left for embeddings", hint="free some space")
        return write_part(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("lodestone.indexing.slices.files.write_part", full)
    with pytest.raises(OutOfSpaceError):
        index(stepwise, tmp_path / "photos")
    assert stepwise.catalog.runs(1)[0].state == "failed"
    monkeypatch.undo()
    report = index(stepwise, tmp_path / "photos")
    assert report.images == 24
    assert report.counts["embedded"] == (24 if after == 0 else 16)  # the first slice has four parts
    assert len(vectors_of(stepwise, "bridge")) == 24


@pytest.mark.parametrize("end", [KeyboardInterrupt(), SystemExit(143)], ids=["Ctrl-C", "SIGTERM"])
def test_an_interrupted_run_is_recorded_and_continued(
    stepwise: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: BaseException
) -> None:
    write_photos(tmp_path / "photos", 24)
    from lodestone.indexing.embed import slice_batches

    recorded = 0
    original = slice_batches.record_slice

    def interrupted(*arguments: object, **options: object) -> object:
        nonlocal recorded
        recorded += 1
        if recorded == 2:
            raise end
        return original(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(slice_batches, "record_slice", interrupted)
    with pytest.raises(type(end)):
        index(stepwise, tmp_path / "photos")
    assert stepwise.catalog.runs(1)[0].state == "interrupted"
    monkeypatch.undo()
    report = index(stepwise, tmp_path / "photos")
    assert report.images == 24
    assert report.counts["embedded"] == 8  # one slice was recorded, one is adopted from its files, one is left
    assert report.adopted == 4


def test_a_lost_store_is_rebuilt_without_models(indexed: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = vectors_of(indexed, "bridge")
    indexed.close()
    shutil.rmtree(indexed.home.store)
    shutil.rmtree(tmp_path / "photos")  # no picture can be read either
    with open_runtime(tmp_path) as again:
        report = sync(again)
        assert {c.loaded for c in report.collections if c.alias == "bridge"} == {10}
        after = vectors_of(again, "bridge")
    assert after.keys() == before.keys()
    assert all(np.allclose(after[key], before[key], atol=1e-6) for key in before)


def test_a_store_that_differs_is_repaired(indexed: Runtime, tmp_path: Path) -> None:
    collection = indexed.store.aliases()["bridge"]
    indexed.store.delete(collection, list(image_ids(indexed).values())[:4])
    sync(indexed)
    assert len(vectors_of(indexed, "bridge")) == 10


def test_a_damaged_file_is_named_and_made_again(indexed: Runtime, tmp_path: Path) -> None:
    from lodestone.errors import EmbeddingsDamagedError

    indexed.catalog.forget_loads(indexed.store.aliases()["bridge"])
    victim = next(indexed.home.embeddings.rglob("*.efficientnet-lite0-*.parquet"))
    victim.write_bytes(victim.read_bytes()[:-100])
    with pytest.raises(EmbeddingsDamagedError, match=victim.name):
        sync(indexed)
    report = index(indexed, tmp_path / "photos")
    assert 0 < report.counts["embedded"] <= 8
    assert len(vectors_of(indexed, "bridge")) == 10


def test_a_second_index_of_the_same_corpus_is_told_to_wait(runtime: Runtime, tmp_path: Path) -> None:
    from lodestone.indexing.locking import corpus_lock

    write_photos(tmp_path / "photos", 2)
    corpus = runtime.catalog.ensure_corpus("default")
    with corpus_lock(runtime.home, corpus), pytest.raises(StoreLockedError, match="being indexed"):
        index(runtime, tmp_path / "photos")
    assert index(runtime, tmp_path / "photos").images == 2


def test_while_another_process_owns_the_store_embedding_is_kept(runtime: Runtime, tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 4)
    runtime.store.ping()
    with open_runtime(tmp_path) as second, pytest.raises(StoreLockedError):
        index(second, tmp_path / "photos")
    report = index(runtime, tmp_path / "photos")
    assert report.counts.get("embedded", 0) == 0
    assert len(vectors_of(runtime, "bridge")) == 4


def test_a_new_projection_is_loaded_from_stored_outputs(
    indexed: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lodestone.spaces.labels import LabelSpace

    old = indexed.store.aliases()["labels"]
    shutil.rmtree(tmp_path / "photos")
    retrained = {**indexed.projections(), "labels": LabelSpace(indexed.models(), top=5)}
    monkeypatch.setattr(indexed, "projections", lambda: retrained)
    report = sync(indexed)
    new = indexed.store.aliases()["labels"]
    assert new != old
    assert indexed.store.count(new) == 10
    assert old in indexed.store.collections()  # for queries that began before
    assert old not in report.dropped
    assert sync(indexed).dropped == (old,)


def test_removing_a_corpus_removes_it_everywhere_and_nothing_else(runtime: Runtime, tmp_path: Path) -> None:
    shared = write_photo(tmp_path / "a" / "shared.jpg", seed=1)
    write_photo(tmp_path / "a" / "own.jpg", seed=2)
    (tmp_path / "b").mkdir()
    shutil.copy(shared, tmp_path / "b" / "copy.jpg")
    index(runtime, tmp_path / "a", corpus="a")
    index(runtime, tmp_path / "b", corpus="b")
    kept = set(image_ids(runtime, "b").values())
    corpus_id = runtime.catalog.corpus("a").corpus_id
    report = remove_corpus(runtime, "a")
    assert (report.images, report.thumbnails) == (2, 1)
    assert set(vectors_of(runtime, "bridge")) == kept
    assert not (runtime.home.embeddings / corpus_id).exists()
    assert len(list(runtime.home.thumbnails.glob("*/*.jpg"))) == 1
    assert [corpus.name for corpus in runtime.catalog.corpora()] == ["b"]
    assert runtime.catalog.count_images(state=ImageState.ACTIVE) == 1
    sync(runtime)


def test_a_large_collection_gets_a_graph(tmp_path: Path) -> None:
    from lodestone.config.settings import StoreSettings

    write_photos(tmp_path / "photos", 12)
    with open_runtime(tmp_path) as runtime:
        runtime.settings = runtime.settings.model_copy(update={"store": StoreSettings(build_threshold=10)})
        report = index(runtime, tmp_path / "photos")
        assert report.sync is not None
        assert {c.alias for c in report.sync.collections if c.built} == {"bridge", "labels"}


# Roots inside roots

Families = Callable[..., Runtime]


def family_of(folder: Path) -> Path:
    """Four pictures: two in the folder, two in its folder `album`."""
    write_photos(folder, 2)
    for number in (2, 3):
        write_photo(folder / "album" / f"{number}.jpg", seed=number)
    return folder


@pytest.fixture
def indexed_family(indexed_homes: IndexedHomes, tmp_path: Path):
    """Open a home in which folders of `family_of(tmp_path / "photos")` are indexed one after the other."""
    with ExitStack() as opened:

        def open_with(*folders: str) -> Runtime:
            def make(place: Path) -> None:
                family_of(place / "photos")
                with open_runtime(place) as runtime:
                    for folder in folders:
                        index(runtime, place / folder)

            indexed_homes.put(tmp_path, f"family: {', '.join(folders)}", make)
            return opened.enter_context(open_runtime(tmp_path))

        yield open_with


def test_a_folder_around_a_root_leaves_that_root_its_pictures(runtime: Runtime, tmp_path: Path) -> None:
    photos = family_of(tmp_path / "photos")
    index(runtime, photos / "album")
    ids = image_ids(runtime)
    write_photo(photos / "album" / "new.jpg", seed=9)
    (photos / "link").symlink_to(photos / "album")
    report = index(runtime, photos)
    assert (report.counts["new"], report.counts["unchanged"], report.images) == (3, 2, 5)
    after = image_ids(runtime)
    assert {uri: after[uri] for uri in ids} == ids
    assert set(after) == {"photos/000000.jpg", "photos/000001.jpg", "album/2.jpg", "album/3.jpg", "album/new.jpg"}
    assert vectors_of(runtime, "bridge").keys() == set(after.values())


def test_a_folder_inside_a_root_is_a_part_of_it(indexed_family: Families, tmp_path: Path) -> None:
    photos, runtime = tmp_path / "photos", indexed_family("photos")
    ids = image_ids(runtime)
    write_photo(photos / "album" / "new.jpg", seed=9)
    report = index(runtime, photos / "album")
    assert (report.counts["new"], report.images) == (1, 5)
    assert image_ids(runtime) == {**ids, "photos/album/new.jpg": image_ids(runtime)["photos/album/new.jpg"]}


def test_what_moves_between_a_root_and_one_inside_it_keeps_its_id(indexed_family: Families, tmp_path: Path) -> None:
    photos, runtime = tmp_path / "photos", indexed_family("photos/album", "photos")
    ids = image_ids(runtime)
    (photos / "album" / "2.jpg").rename(photos / "2.jpg")
    (photos / "000000.jpg").rename(photos / "album" / "000000.jpg")
    report = index(runtime, photos)
    assert (report.counts["moved"], report.images) == (2, 4)
    after = image_ids(runtime)
    assert after["photos/2.jpg"] == ids["album/2.jpg"]
    assert after["album/000000.jpg"] == ids["photos/000000.jpg"]


def test_a_root_inside_a_folder_is_forgotten_when_it_is_deleted_and_kept_when_it_is_empty(
    indexed_family: Families, tmp_path: Path
) -> None:
    photos, runtime = tmp_path / "photos", indexed_family("photos/album", "photos")
    for path in (photos / "album").iterdir():
        path.unlink()
    report = index(runtime, photos)  # as when a disk is not mounted
    assert report.images == 4
    assert [problem.code for problem in report.problems] == ["invalid_request"]
    (photos / "album").rmdir()
    report = index(runtime, photos)
    assert (report.counts["gone"], report.images, report.problems) == (2, 2, ())


def test_pictures_that_were_indexed_twice_are_left_to_the_inner_root(indexed_family: Families, tmp_path: Path) -> None:
    """A home of before: both roots have the inner one's pictures."""
    photos, runtime = tmp_path / "photos", indexed_family("photos")
    corpus = runtime.catalog.corpus("default")
    inner = runtime.catalog.ensure_root(corpus.corpus_id, str(photos / "album"))
    report = index(runtime, photos)
    assert report.images == 4
    assert runtime.catalog.count_by_root(corpus.corpus_id)[inner.root_id] == 2
    assert vectors_of(runtime, "bridge").keys() == set(image_ids(runtime).values())


# A file that is named itself


def test_a_picture_under_another_extension_is_indexed_when_it_is_named_itself(runtime: Runtime, tmp_path: Path) -> None:
    write_photo(tmp_path / "a.jpg").rename(tmp_path / "a.backup")
    assert index(runtime, tmp_path / "a.backup").images == 1


@pytest.mark.parametrize("content", [b"words, and no picture", b"", b"%PDF-1.7"], ids=["text", "empty", "PDF"])
def test_a_named_file_that_is_no_picture_by_name_or_content_is_refused(
    runtime: Runtime, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "notes.md").write_bytes(content)
    with pytest.raises(ImageError, match="notes"):
        index(runtime, tmp_path / "notes.md")
    assert runtime.catalog.corpora() == []
    write_photo(tmp_path / "a.jpg")
    report = index(runtime, tmp_path / "notes.md", tmp_path / "a.jpg")
    assert report.images == 1
    assert [problem.code for problem in report.problems] == ["bad_image"]
