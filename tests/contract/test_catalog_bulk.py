"""Every database keeps the promises about bulk indexing: roots, runs, unfinished work, tries, copies, swaps."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from uuid import uuid4

import pytest
from tests.support.catalogs import embed_slice, make_root, picture, plan_slice, receipt

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import AttemptState, ImageRecord, Root, RunState, SliceRecord, SwapState, TagRecord
from lodestone.errors import CatalogError, InvalidRequestError, NotFoundError

NOWHERE = "00000000-0000-0000-0000-000000000000"


def add(catalog: Catalog, root: Root, *uris: str) -> list[ImageRecord]:
    images = [picture(root, uri) for uri in uris]
    catalog.add_images(images)
    return images


def planned(catalog: Catalog, count: int) -> list[SliceRecord]:
    _, root = make_root(catalog)
    return [plan_slice(catalog, add(catalog, root, f"{number}.jpg"), minute=number) for number in range(count)]


# Roots


@pytest.mark.parametrize(
    ("kind", "path", "name"),
    [
        ("object", "s3://bucket/photos/2024/?endpoint_override=http://127.0.0.1:9/x", "2024"),
        ("object", "gs://bucket", "bucket"),
        ("table", "/data/photos.parquet", "photos.parquet"),
        ("tar", "s3://bucket/shard-*.tar", "shard-*.tar"),
    ],
)
def test_a_root_may_be_more_than_a_folder(catalog: Catalog, kind: str, path: str, name: str) -> None:
    corpus = catalog.ensure_corpus("c")
    root = catalog.ensure_root(corpus.corpus_id, path, kind=kind)
    assert (root.kind, root.path, root.name, root.enabled, root.watched, root.scanned_at) == (
        kind,
        path,
        name,
        True,
        False,
        None,
    )
    assert catalog.ensure_root(corpus.corpus_id, path) == root == catalog.root(root.root_id)


def test_what_is_said_of_a_root_changes_one_by_one(catalog: Catalog) -> None:
    _, root = make_root(catalog)
    now = datetime.now(UTC)
    assert catalog.set_root(root.root_id, enabled=False) == replace(root, enabled=False)
    assert catalog.set_root(root.root_id, watched=True, scanned_at=now).scanned_at == now
    assert catalog.set_root(root.root_id) == replace(root, enabled=False, watched=True, scanned_at=now)
    with pytest.raises(NotFoundError, match=NOWHERE):
        catalog.set_root(NOWHERE, enabled=True)


def test_disabled_roots_are_listed_until_they_are_enabled(catalog: Catalog) -> None:
    _, one = make_root(catalog, path="/a")
    _, two = make_root(catalog, "other", path="/b")
    assert catalog.disabled_roots() == ()
    for root in (one, two):
        catalog.set_root(root.root_id, enabled=False)
    assert catalog.disabled_roots() == tuple(sorted([one.root_id, two.root_id]))
    catalog.set_root(one.root_id, enabled=True)
    assert catalog.disabled_roots() == (two.root_id,)


def test_a_removed_root_leaves_tombstones_and_other_roots_alone(catalog: Catalog) -> None:
    corpus, root = make_root(catalog, path="/a")
    other = catalog.ensure_root(corpus.corpus_id, "/b")
    embedded, kept = add(catalog, root, "1.jpg", "2.jpg"), add(catalog, other, "1.jpg")
    add(catalog, root, "never embedded.jpg")
    mixed = embed_slice(catalog, [*embedded, *kept])
    catalog.add_tags([TagRecord.new(embedded[0].image_id, "red", "user")])
    catalog.tags_delivered(catalog.tag_outbox())

    removed = [image.image_id for image in catalog.images_of_root(root.root_id)]
    assert catalog.remove_root(root.root_id) == len(removed) == 3
    assert catalog.roots(corpus.corpus_id) == [other]
    assert sorted(catalog.tombstones("clip-1")) == sorted(image.image_id for image in embedded)
    assert {change.image_id for change in catalog.tag_outbox()} == {*removed}
    assert [image.image_id for image in catalog.slice_images(mixed.slice_id)] == [kept[0].image_id]
    assert catalog.remove_root(root.root_id) == 0


# Runs


def test_a_run_remembers_what_was_asked_for_and_by_whom(catalog: Catalog) -> None:
    corpus, _ = make_root(catalog)
    request = {"path": "/pictures", "nested": {"spaces": ["clip"]}}
    run = catalog.start_run("index", corpus.corpus_id, request=request, worker="host:17")
    assert catalog.run(run.run_id) == run
    assert (run.request, run.worker, run.cancel_requested) == (request, "host:17", False)


def test_a_beat_learns_that_the_run_is_to_be_cancelled(catalog: Catalog) -> None:
    run = catalog.start_run("index")
    assert run.heartbeat_at is not None
    assert catalog.beat(run.run_id) is False
    later = catalog.run(run.run_id).heartbeat_at
    assert later is not None
    assert later > run.heartbeat_at
    assert catalog.request_cancel(run.run_id).cancel_requested
    assert catalog.beat(run.run_id) is True
    for ask in (catalog.beat, catalog.request_cancel):
        with pytest.raises(NotFoundError, match=NOWHERE):
            ask(NOWHERE)


def test_a_run_that_another_has_declared_interrupted_learns_that_it_must_stop(catalog: Catalog) -> None:
    run = catalog.start_run("index")
    catalog.interrupt_runs("index", None)
    assert catalog.beat(run.run_id) is True


def test_a_run_that_has_ended_cannot_be_cancelled(catalog: Catalog) -> None:
    run = catalog.start_run("index")
    catalog.finish_run(run.run_id, RunState.DONE)
    found = catalog.request_cancel(run.run_id)
    assert (found.state, found.cancel_requested) == (RunState.DONE, False)


def test_runs_are_found_by_corpus_state_and_kind(catalog: Catalog) -> None:
    corpus, _ = make_root(catalog)
    other, _ = make_root(catalog, "other")
    first = catalog.start_run("index", corpus.corpus_id)
    catalog.finish_run(first.run_id, RunState.CANCELLED)
    second = catalog.start_run("index", corpus.corpus_id)
    catalog.start_run("train-bridge", corpus.corpus_id)
    third = catalog.start_run("index", other.corpus_id)

    assert [run.run_id for run in catalog.runs(corpus_id=other.corpus_id)] == [third.run_id]
    assert [run.run_id for run in catalog.runs(state=RunState.CANCELLED)] == [first.run_id]
    last = catalog.last_run("index", corpus.corpus_id)
    assert last is not None
    assert last.run_id == second.run_id
    assert catalog.last_run("index", None) is None


# Unfinished work


def test_a_slice_is_unfinished_while_any_part_is_missing(catalog: Catalog) -> None:
    one, two, three = planned(catalog, 3)
    catalog.record_receipts([receipt(one), receipt(one, "lite0-v1"), receipt(two), receipt(three, "lite0-v1")])
    parts = ("meta", "lite0-v1")
    assert list(catalog.unfinished_slices(parts, one.corpus_id)) == [two, three]
    assert catalog.count_unfinished(parts, one.corpus_id) == (2, 2)
    assert list(catalog.unfinished_slices(["meta"])) == [three]
    assert list(catalog.unfinished_slices(["meta", "meta"])) == [three]
    assert list(catalog.unfinished_slices([])) == []
    assert catalog.count_unfinished(parts, NOWHERE) == (0, 0)


def test_unfinished_slices_are_listed_while_they_are_finished(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lodestone.catalog.embeddings.slice_parts.PAGE", 2)
    records = planned(catalog, 7)
    seen = []
    for record in catalog.unfinished_slices(["meta"]):
        seen.append(record)
        catalog.record_receipts([receipt(record)])
    assert seen == records
    assert catalog.count_unfinished(["meta"]) == (0, 0)


def test_slices_are_loaded_while_they_are_listed(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lodestone.catalog.database.engine.PAGE", 2)
    records = planned(catalog, 5)
    catalog.record_receipts([receipt(record) for record in records])
    assert catalog.count_unloaded("clip-1") == (5, 5)
    seen = []
    for record in catalog.unloaded_slices("clip-1"):
        catalog.begin_loading("clip-1", [record.slice_id])
        catalog.mark_loaded("clip-1", [record.slice_id])
        seen.append(record)
    assert seen == records
    assert catalog.count_unloaded("clip-1") == (0, 0)


def test_a_clock_that_goes_backwards_loses_and_reorders_nothing(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lodestone.catalog.database.engine.PAGE", 2)
    monkeypatch.setattr("lodestone.catalog.embeddings.slice_parts.PAGE", 2)
    corpus, root = make_root(catalog)
    records = [plan_slice(catalog, add(catalog, root, f"{minute}.jpg"), minute=minute) for minute in (9, 7, 8, 1, 3)]
    assert list(catalog.slices()) == records
    seen = []
    for record in catalog.unfinished_slices(["meta"], corpus.corpus_id):
        seen.append(record)
        if len(seen) == 2:
            records.append(plan_slice(catalog, add(catalog, root, "late.jpg"), minute=0))
    assert seen == records

    first = catalog.start_run("index", corpus.corpus_id)
    monkeypatch.setattr("lodestone.catalog.work.runs.datetime", EarlierClock)
    second = catalog.start_run("index", corpus.corpus_id)
    assert second.started_at < first.started_at
    last = catalog.last_run("index", corpus.corpus_id)
    assert last == second
    assert [run.run_id for run in catalog.runs()] == [second.run_id, first.run_id]


class EarlierClock(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return datetime(2001, 1, 1, tzinfo=tz)


# Tries


def test_tries_are_numbered_over_all_runs(catalog: Catalog) -> None:
    one, two = planned(catalog, 2)
    first, second = (catalog.start_run("index", one.corpus_id).run_id for _ in range(2))
    made = catalog.start_attempt(one.slice_id, first, "host:1")
    assert (made.attempt, made.state, made.worker) == (1, AttemptState.RUNNING, "host:1")
    catalog.end_attempt(one.slice_id, 1, AttemptState.DIED, error="killed", seconds=2.5)
    assert [one.attempt for one in catalog.start_attempts([two.slice_id, one.slice_id], second)] == [1, 2]
    catalog.end_attempt(one.slice_id, 2, AttemptState.DONE, worker="host:2", embedded=7, failed=1)

    dead, done = catalog.attempts(slice_id=one.slice_id)
    assert (dead.state, dead.error, dead.seconds, dead.worker, dead.started_at) == (
        "died",
        "killed",
        2.5,
        "host:1",
        made.started_at,
    )
    assert (done.state, done.worker, done.embedded, done.failed, done.run_id) == ("done", "host:2", 7, 1, second)
    assert {(one.slice_id, one.attempt) for one in catalog.attempts(run_id=second)} == {(two.slice_id, 1), (one.slice_id, 2)}


def test_a_run_that_does_not_live_to_count_is_told_with_what_its_tries_came_to(catalog: Catalog) -> None:
    records = planned(catalog, 3)
    run = catalog.start_run("index", records[0].corpus_id)
    catalog.update_run(run.run_id, stage="embed", counts={"new": 9, "embedded": 1})
    for record, embedded, failed in zip(records, (7, 0, 0), (1, 2, 0), strict=True):
        catalog.start_attempt(record.slice_id, run.run_id)
        if embedded or failed:  # the last one is cut short
            catalog.end_attempt(record.slice_id, 1, AttemptState.DONE, embedded=embedded, failed=failed)
    counts = {"new": 9, "embedded": 7, "failed": 3}
    told = [catalog.run(run.run_id), *catalog.runs(), catalog.last_run("index", run.corpus_id), catalog.run_page()[0][1]]
    assert [one.counts for one in told if one] == [counts] * 4
    later = catalog.start_run("index", run.corpus_id)
    assert later.counts == catalog.run(later.run_id).counts == {}
    catalog.finish_run(later.run_id, RunState.DONE)
    assert catalog.interrupt_runs("index", run.corpus_id) == 1
    catalog.remove_root(catalog.roots(run.corpus_id)[0].root_id)
    catalog.drop_superseded(records[0].corpus_id)  # as a compaction does
    assert list(catalog.attempts()) == []
    assert (catalog.run(run.run_id).state, catalog.run(run.run_id).counts) == (RunState.INTERRUPTED, counts)


def test_what_a_run_counted_itself_when_it_was_done_stands(catalog: Catalog) -> None:
    (one,) = planned(catalog, 1)
    failed, done = (catalog.start_run("index", one.corpus_id).run_id for _ in range(2))
    for number, run_id in enumerate((failed, done), start=1):
        catalog.start_attempt(one.slice_id, run_id)
        catalog.end_attempt(one.slice_id, number, AttemptState.DONE, embedded=5)
    catalog.finish_run(failed, RunState.FAILED, "no space left")
    catalog.update_run(done, counts={"embedded": 4})
    catalog.finish_run(done, RunState.DONE)
    assert (catalog.run(failed).counts, catalog.run(done).counts) == ({"embedded": 5}, {"embedded": 4})


def test_the_parts_of_a_slice_are_recorded_with_the_end_of_its_try_or_not_at_all(catalog: Catalog) -> None:
    (one,) = planned(catalog, 1)
    run = catalog.start_run("index", one.corpus_id)
    proof = receipt(one)
    with pytest.raises(NotFoundError, match="try 1"):
        catalog.end_attempt(one.slice_id, 1, AttemptState.DONE, receipts=[proof])
    assert catalog.receipts(one.slice_id) == {}
    catalog.start_attempt(one.slice_id, run.run_id)
    catalog.end_attempt(one.slice_id, 1, AttemptState.DONE, embedded=3, receipts=[proof])
    assert catalog.receipts(one.slice_id) == {"meta": proof}


def test_tries_of_unknown_slices_are_refused_together(catalog: Catalog) -> None:
    (one,) = planned(catalog, 1)
    run = catalog.start_run("index", one.corpus_id)
    with pytest.raises(NotFoundError, match=NOWHERE):
        catalog.start_attempts([one.slice_id, NOWHERE], run.run_id)
    with pytest.raises(NotFoundError, match="try 1"):
        catalog.end_attempt(one.slice_id, 1, AttemptState.DONE)
    assert list(catalog.attempts()) == []
    assert catalog.start_attempts([], run.run_id) == []


# Copies


def test_equal_files_of_a_corpus_are_exact_copies(catalog: Catalog) -> None:
    corpus, root = make_root(catalog)
    other, elsewhere = make_root(catalog, "other")
    same = [picture(root, uri, hash="h1") for uri in ("a.jpg", "b.jpg", "c.jpg")]
    catalog.add_images([*same, picture(root, "alone.jpg"), picture(elsewhere, "a.jpg", hash="h1")])
    assert catalog.find_exact_duplicates(corpus.corpus_id) == 3
    assert catalog.find_exact_duplicates(other.corpus_id) == 0

    ids = sorted(image.image_id for image in same)
    found = list(catalog.duplicates(kind="exact"))
    assert [(one.image_id, one.group_id, one.distance) for one in found] == [(image_id, ids[0], 0.0) for image_id in ids]
    assert catalog.duplicate_groups([*ids, NOWHERE]) == dict.fromkeys(ids, ids[0])

    catalog.mark_gone(ids[1:])
    assert [one.image_id for one in catalog.duplicates()] == ids[:1]
    assert catalog.find_exact_duplicates(corpus.corpus_id) == 0


def test_groups_of_a_kind_are_replaced_as_a_whole(catalog: Catalog) -> None:
    corpus, root = make_root(catalog)
    a, b, c, d = (image.image_id for image in add(catalog, root, "a", "b", "c", "d"))
    assert catalog.put_duplicates("near", corpus.corpus_id, [[(a, 0.0), (b, 0.02)], [(c, 0.0), (d, 0.01)]]) == 4
    assert catalog.put_duplicates("near", corpus.corpus_id, [[(c, 0.0), (b, 0.03), (a, 0.01)]]) == 3
    assert [(one.image_id, one.distance) for one in catalog.duplicates(corpus_id=corpus.corpus_id)] == [
        (c, 0),
        (a, 0.01),
        (b, 0.03),
    ]
    with pytest.raises(CatalogError):
        catalog.put_duplicates("near", corpus.corpus_id, [[(a, 0.0), (NOWHERE, 0.1)]])
    assert set(catalog.duplicate_groups([a, b, c, d])) == {a, b, c}


def test_groups_of_both_kinds_that_share_a_picture_are_one(catalog: Catalog) -> None:
    corpus, root = make_root(catalog)
    same = sorted(image.image_id for image in (picture(root, "a", hash="h"), picture(root, "b", hash="h")))
    catalog.add_images([picture(root, "a", hash="h"), picture(root, "b", hash="h")])
    (like,) = add(catalog, root, "c")
    catalog.find_exact_duplicates(corpus.corpus_id)
    catalog.put_duplicates("near", corpus.corpus_id, [[(like.image_id, 0.0), (same[0], 0.05)]])
    assert catalog.duplicate_groups([same[1], like.image_id]) == dict.fromkeys([same[1], like.image_id], like.image_id)


def test_copies_go_with_their_pictures_and_corpora(catalog: Catalog) -> None:
    corpus, root = make_root(catalog)
    catalog.add_images([picture(root, "a", hash="h"), picture(root, "b", hash="h")])
    catalog.find_exact_duplicates(corpus.corpus_id)
    catalog.remove_corpus(corpus.corpus_id)
    assert list(catalog.duplicates()) == []


def test_copies_come_in_pages(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus, root = make_root(catalog)
    ids = [image.image_id for image in add(catalog, root, *(f"{number}.jpg" for number in range(9)))]
    catalog.put_duplicates("near", corpus.corpus_id, [[(one, 0.1 * place) for place, one in enumerate(ids)]])
    monkeypatch.setattr("lodestone.catalog.database.engine.PAGE", 2)
    assert [one.image_id for one in catalog.duplicates()] == ids


# Swaps


def test_a_swap_is_recorded_from_start_to_end(catalog: Catalog) -> None:
    swap = catalog.add_swap("clip", "clip@2", old_collection="clip-1", new_collection="clip-2")
    assert swap == catalog.swap(swap.swap_id)
    assert swap.state is SwapState.BACKFILL
    now = catalog.update_swap(swap.swap_id, counts={"slices": 3})
    assert (now.counts, now.report, now.state) == ({"slices": 3}, {}, SwapState.BACKFILL)
    now = catalog.update_swap(swap.swap_id, state=SwapState.PROMOTED, report={"overlap@10": 0.8}, error="none")
    assert (now.counts, now.report, now.error) == ({"slices": 3}, {"overlap@10": 0.8}, "none")
    assert catalog.swaps() == [now]
    for ask in (catalog.swap, catalog.update_swap):
        with pytest.raises(NotFoundError, match=NOWHERE):
            ask(NOWHERE)


def test_a_space_is_swapped_once_at_a_time(catalog: Catalog) -> None:
    first = catalog.add_swap("clip", "clip@2", old_collection="clip-1", new_collection="clip-2")
    with pytest.raises(InvalidRequestError, match=first.swap_id):
        catalog.add_swap("clip", "clip@3", old_collection="clip-1", new_collection="clip-3")
    other = catalog.add_swap("bridge", "b2", old_collection="bridge-1", new_collection="bridge-2")
    catalog.update_swap(first.swap_id, state=SwapState.CANCELLED)
    again = catalog.add_swap("clip", "clip@3", old_collection="clip-1", new_collection="clip-3")
    assert [swap.swap_id for swap in catalog.swaps()] == [again.swap_id, other.swap_id, first.swap_id]
    assert [swap.swap_id for swap in catalog.swaps(space="bridge")] == [other.swap_id]


def test_a_space_may_be_made_of_something_else_than_the_profile_says(catalog: Catalog) -> None:
    swap_id = str(uuid4())
    assert catalog.overrides() == {}
    catalog.set_override("clip", {"backbone": "vit", "layers": [1, 2]}, swap_id)
    catalog.set_override("clip", {"backbone": "lite2"}, swap_id)
    assert catalog.overrides() == {"clip": {"backbone": "lite2"}}
    catalog.clear_override("clip")
    catalog.clear_override("clip")
    assert catalog.overrides() == {}
