"""The catalog keeps its promises on every database: one suite, one URL a database."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.catalogs import embed_slice, make_root, picture, plan_slice, receipt

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import CaptionRecord, Failure, ImageState, RunState
from lodestone.errors import CatalogError, NotFoundError, UnknownNameError

# Corpora and roots


def load(catalog: Catalog, collection: str, slice_ids: list[str]) -> None:
    catalog.begin_loading(collection, slice_ids)
    catalog.mark_loaded(collection, slice_ids)


def test_a_corpus_is_made_once_and_found_by_name(catalog: Catalog) -> None:
    first = catalog.ensure_corpus("Ferien")
    assert catalog.ensure_corpus("Ferien") == first == catalog.corpus("Ferien")
    assert first.created_at.utcoffset() == timedelta(0)
    assert catalog.ensure_corpus("ferien") != first


def test_an_unknown_corpus_lists_the_known_ones(catalog: Catalog) -> None:
    catalog.ensure_corpus("cats")
    with pytest.raises(UnknownNameError, match="'dogs'") as caught:
        catalog.corpus("dogs")
    assert "cats" in caught.value.hint


def test_corpora_come_in_pages_by_name(catalog: Catalog) -> None:
    for name in ("c", "a", "b"):
        catalog.ensure_corpus(name)
    assert [corpus.name for corpus in catalog.corpora(offset=1, limit=1)] == ["b"]


def test_roots_with_the_same_base_name_get_different_names(catalog: Catalog) -> None:
    corpus, first = make_root(catalog, path="/disk1/pictures")
    second = catalog.ensure_root(corpus.corpus_id, "/disk2/pictures")
    third = catalog.ensure_root(corpus.corpus_id, "/disk3/pictures")
    assert [first.name, second.name, third.name] == ["pictures", "pictures-2", "pictures-3"]
    assert catalog.ensure_root(corpus.corpus_id, "/disk2/pictures") == second == catalog.root(second.root_id)
    assert catalog.ensure_root(corpus.corpus_id, "/").name == "root"


def test_the_same_folder_may_be_a_root_of_two_corpora(catalog: Catalog) -> None:
    _, one = make_root(catalog, "one")
    _, two = make_root(catalog, "two")
    assert one.name == two.name
    assert one.root_id != two.root_id
    assert catalog.roots(one.corpus_id) == [one]
    assert len(catalog.roots()) == 2
    assert picture(one, "a.jpg").image_id != picture(two, "a.jpg").image_id


def test_a_root_needs_an_existing_corpus(catalog: Catalog) -> None:
    with pytest.raises(NotFoundError):
        catalog.ensure_root("00000000-0000-0000-0000-000000000000", "/x")


def test_removing_a_corpus_leaves_nothing_of_it_and_all_of_others(catalog: Catalog) -> None:
    corpus, root = make_root(catalog, "doomed")
    _, other_root = make_root(catalog, "kept")
    shared, own = picture(root, "shared.jpg", hash="aa"), picture(root, "own.jpg", hash="bb")
    twin = picture(other_root, "twin.jpg", hash="aa")
    catalog.add_images([shared, own, twin])
    doomed = embed_slice(catalog, [shared, own])
    embed_slice(catalog, [twin])
    load(catalog, "bridge-1", [doomed.slice_id])
    catalog.mark_gone([shared.image_id])
    catalog.set_captions({own.image_id: [CaptionRecord(own.image_id, "table", "a dog")]})
    run = catalog.start_run("index", corpus.corpus_id)
    catalog.add_failures([Failure(run.run_id, root.root_id, "bad.jpg", "truncated", "…")])
    assert catalog.living_hashes(["aa", "bb", "cc"]) == {"aa", "bb"}
    assert catalog.living_hashes(["aa", "bb"], except_corpus=corpus.corpus_id) == {"aa"}

    catalog.remove_corpus(corpus.corpus_id)
    catalog.remove_corpus(corpus.corpus_id)

    assert [c.name for c in catalog.corpora()] == ["kept"]
    assert catalog.roots() == [other_root]
    assert catalog.count_images() == 1
    assert len(list(catalog.slices())) == 1
    assert catalog.receipts(doomed.slice_id) == {}
    assert list(catalog.tombstones("bridge-1")) == []
    assert list(catalog.captioned_images()) == []
    assert list(catalog.failures()) == []
    assert catalog.runs() == []
    assert catalog.count_loaded("bridge-1") == 0


# Pictures


def test_a_picture_comes_back_as_it_was_added(catalog: Catalog) -> None:
    _, root = make_root(catalog)
    full = picture(
        root, "a.jpg", size=2**40, width=5, height=6, format="JPEG", taken_at=-5_000_000_000, latitude=47.5, longitude=-8.25
    )
    assert catalog.add_images([full, picture(root, "b.jpg")]) == 2
    assert catalog.images([full.image_id, "unknown"]) == {full.image_id: full}
    assert catalog.images_by_uri(root.root_id, ["a.jpg", "none.jpg"]) == {"a.jpg": full}


def test_file_names_of_any_script_stay_apart(catalog: Catalog) -> None:
    _, root = make_root(catalog)
    composed = unicodedata.normalize("NFC", "Zürich/é.jpg")
    uris = [composed, unicodedata.normalize("NFD", composed), "ZÜRICH/É.jpg", "写真/猫.png", "صورة.jpg", "😀 'x\"%_\n.jpg"]
    catalog.add_images([picture(root, uri) for uri in uris])
    assert set(catalog.images_by_uri(root.root_id, uris)) == set(uris)
    assert [image.uri for image in catalog.images_of_root(root.root_id)] == sorted(uris)


def test_two_roots_may_hold_the_same_names(catalog: Catalog) -> None:
    corpus, first = make_root(catalog)
    second = catalog.ensure_root(corpus.corpus_id, "/backup/holidays")
    assert catalog.add_images([picture(first, "a.jpg"), picture(second, "a.jpg")]) == 2


def test_adding_a_known_picture_again_changes_nothing(catalog: Catalog) -> None:
    _, root = make_root(catalog)
    first = picture(root, "a.jpg")
    catalog.add_images([first])
    assert catalog.add_images([replace(first, size=5), picture(root, "b.jpg")]) == 1
    assert catalog.images([first.image_id])[first.image_id] == first


def test_thousands_of_pictures_are_read_in_order_while_the_reader_writes(catalog: Catalog) -> None:
    _, root = make_root(catalog)
    catalog.add_images([picture(root, f"{number:05}.jpg") for number in range(4_500)])
    seen = []
    for image in catalog.images_of_root(root.root_id):
        seen.append(image.uri)
        if len(seen) % 1_000 == 0:
            catalog.mark_gone([image.image_id])
    assert seen == [f"{number:05}.jpg" for number in range(4_500)]
    assert catalog.count_images(root.corpus_id, ImageState.GONE) == 4
    assert catalog.count_images() == 4_500
    assert len(catalog.images_by_uri(root.root_id, seen)) == 4_500


def test_pictures_of_a_content_are_told_apart_by_when_they_went_and_whether_they_were_ever_embedded(catalog: Catalog) -> None:
    corpus, root = make_root(catalog)
    content = "5" * 64
    gone, waiting, planned = (replace(picture(root, f"{name}.jpg"), hash=content) for name in ("gone", "waiting", "planned"))
    catalog.add_images([gone, waiting, planned])
    embed_slice(catalog, [gone])
    plan_slice(catalog, [planned])
    before = datetime.now(UTC)
    catalog.update_images([], gone=[gone.image_id])
    ids = {
        since: [one.image_id for one in catalog.gone_by_hash(corpus.corpus_id, [content], since=since).get(content, ())]
        for since in (None, before - timedelta(hours=1), before + timedelta(hours=1))
    }
    assert list(ids.values()) == [[gone.image_id], [gone.image_id], []]
    assert catalog.entered_by_hash(corpus.corpus_id, [content, "unknown"]) == {content: [waiting]}


def test_a_moved_picture_is_found_by_its_content_and_keeps_its_id(catalog: Catalog) -> None:
    corpus, root = make_root(catalog)
    old = picture(root, "old/a.jpg")
    catalog.add_images([old, picture(root, "b.jpg")])
    catalog.mark_gone([old.image_id])
    (candidate,) = catalog.gone_by_hash(corpus.corpus_id, [old.hash, "unknown"])[old.hash]
    catalog.update_images([replace(candidate, uri="new/a.jpg", state=ImageState.PENDING)])
    assert catalog.images_by_uri(root.root_id, ["new/a.jpg"])["new/a.jpg"].image_id == old.image_id
    assert catalog.gone_by_hash(corpus.corpus_id, [old.hash]) == {}
    minted = catalog.mint_image_ids(corpus.corpus_id, root.name, ["old/a.jpg", "c.jpg"])
    assert minted["old/a.jpg"] != old.image_id
    assert minted["c.jpg"] == picture(root, "c.jpg").image_id


def test_living_pictures_are_no_candidates_of_a_move(catalog: Catalog) -> None:
    corpus, root = make_root(catalog)
    image = picture(root, "a.jpg")
    catalog.add_images([image])
    assert catalog.gone_by_hash(corpus.corpus_id, [image.hash]) == {}


def test_a_picture_that_went_from_one_corpus_is_no_candidate_of_a_move_in_another(catalog: Catalog) -> None:
    corpus, root = make_root(catalog)
    other, elsewhere = make_root(catalog, "other", "/pictures/other")
    gone, copy = picture(root, "a.jpg"), picture(elsewhere, "a.jpg")
    catalog.add_images([gone, copy])
    assert gone.hash == copy.hash
    catalog.mark_gone([gone.image_id, copy.image_id])
    for of, found in ((corpus, gone), (other, copy)):
        candidates = catalog.gone_by_hash(of.corpus_id, [gone.hash])[gone.hash]
        assert [candidate.image_id for candidate in candidates] == [found.image_id]


def test_two_pictures_may_swap_their_names(catalog: Catalog) -> None:
    _, root = make_root(catalog)
    a, b = picture(root, "a.jpg"), picture(root, "b.jpg")
    catalog.add_images([a, b])
    catalog.update_images([replace(a, uri="b.jpg"), replace(b, uri="a.jpg")])
    found = catalog.images_by_uri(root.root_id, ["a.jpg", "b.jpg"])
    assert (found["a.jpg"].image_id, found["b.jpg"].image_id) == (b.image_id, a.image_id)


def test_a_picture_may_move_onto_the_name_of_a_gone_one_whose_deletion_is_still_owed(catalog: Catalog) -> None:
    _, root = make_root(catalog)
    gone, mover = picture(root, "a.jpg"), picture(root, "b.jpg")
    catalog.add_images([gone, mover])
    embed_slice(catalog, [gone, mover])
    catalog.mark_gone([gone.image_id])
    catalog.update_images([replace(catalog.images([mover.image_id])[mover.image_id], uri="a.jpg")])
    assert catalog.images([gone.image_id]) == {}
    assert list(catalog.tombstones("bridge-1")) == [gone.image_id]


def test_a_picture_cannot_take_the_name_of_a_living_one(catalog: Catalog) -> None:
    _, root = make_root(catalog)
    a, b = picture(root, "a.jpg"), picture(root, "b.jpg")
    catalog.add_images([a, b])
    with pytest.raises(CatalogError):
        catalog.update_images([replace(a, uri="b.jpg")])
    assert catalog.images([a.image_id, b.image_id]) == {a.image_id: a, b.image_id: b}


def test_updating_an_unknown_picture_changes_nothing(catalog: Catalog) -> None:
    _, root = make_root(catalog)
    known = picture(root, "a.jpg")
    catalog.add_images([known])
    with pytest.raises(NotFoundError, match=r"b\.jpg"):
        catalog.update_images([replace(known, size=9), picture(root, "b.jpg")])
    assert catalog.images([known.image_id])[known.image_id].size == known.size


def test_empty_batches_are_no_work(catalog: Catalog) -> None:
    assert catalog.add_images([]) == 0
    catalog.update_images([])
    catalog.mark_gone([])
    catalog.add_slices([])
    catalog.record_receipts([])
    catalog.mark_loaded("bridge-1", [])
    catalog.mark_deleted("bridge-1", [])
    catalog.add_failures([])
    catalog.set_captions({})
    assert catalog.images([]) == {}


# Captions


def test_captions_of_one_source_are_replaced_and_others_kept(catalog: Catalog) -> None:
    _, root = make_root(catalog)
    image = picture(root, "a.jpg")
    catalog.add_images([image])

    def caption(source: str, text: str) -> CaptionRecord:
        return CaptionRecord(image.image_id, source, text)

    catalog.set_captions({image.image_id: [caption("table", "zebra"), caption("table", "ape"), caption("table", "zebra")]})
    catalog.set_captions({image.image_id: [caption("sidecar", "old")]})
    catalog.set_captions({image.image_id: [caption("sidecar", "ape")]}, sources=["sidecar"])
    assert catalog.captions([image.image_id])[image.image_id] == [
        caption("sidecar", "ape"),
        caption("table", "zebra"),
        caption("table", "ape"),
    ]
    assert list(catalog.captioned_images(root.corpus_id)) == [(image.image_id, ["ape", "zebra"])]
    assert catalog.has_captions()
    catalog.set_captions({image.image_id: []}, sources=["sidecar", "table"])
    assert catalog.captions([image.image_id]) == {}
    assert not catalog.has_captions()


def test_gone_pictures_and_other_corpora_are_not_among_the_captioned(catalog: Catalog) -> None:
    _, root = make_root(catalog)
    _, elsewhere = make_root(catalog, "other")
    images = [picture(root, "a.jpg"), picture(root, "b.jpg"), picture(elsewhere, "c.jpg")]
    catalog.add_images(images)
    catalog.set_captions({i.image_id: [CaptionRecord(i.image_id, "table", i.uri)] for i in images})
    catalog.mark_gone([images[0].image_id])
    assert list(catalog.captioned_images(root.corpus_id)) == [(images[1].image_id, ["b.jpg"])]
    assert len(list(catalog.captioned_images())) == 2


# Slices, receipts, loads


def test_a_slice_is_unfinished_until_it_has_the_parts_receipt(catalog: Catalog) -> None:
    corpus, root = make_root(catalog)
    images = [picture(root, name) for name in ("c.jpg", "a.jpg", "b.jpg")]
    catalog.add_images(images)
    first, second = plan_slice(catalog, images[:2]), plan_slice(catalog, images[2:], minute=1)
    assert list(catalog.unfinished_slices(["meta"], corpus.corpus_id)) == [first, second]
    assert [image.uri for image in catalog.slice_images(first.slice_id)] == ["c.jpg", "a.jpg"]
    done = receipt(first)
    catalog.record_receipts([done, receipt(first, "lite0-v1")])
    assert list(catalog.unfinished_slices(["meta"], corpus.corpus_id)) == [second]
    assert catalog.receipts(first.slice_id)["meta"] == done
    catalog.record_receipts([replace(done, checksum="1" * 64)])
    assert catalog.receipts(first.slice_id)["meta"].checksum == "1" * 64
    catalog.forget_receipts(first.slice_id, ["meta"])
    assert list(catalog.unfinished_slices(["meta"])) == [first, second]
    assert set(catalog.receipts(first.slice_id)) == {"lite0-v1"}


def test_slices_are_added_together_or_not_at_all(catalog: Catalog) -> None:
    _, root = make_root(catalog)
    image = picture(root, "a.jpg")
    catalog.add_images([image])
    with pytest.raises(CatalogError):
        plan_slice(catalog, [image, picture(root, "unknown.jpg")])
    assert list(catalog.slices()) == []
    assert catalog.images([image.image_id])[image.image_id].slice_id is None


def test_a_superseded_slice_needs_no_work(catalog: Catalog) -> None:
    corpus, root = make_root(catalog)
    a, b = picture(root, "a.jpg"), picture(root, "b.jpg")
    catalog.add_images([a, b])
    old = plan_slice(catalog, [a, b])
    new = plan_slice(catalog, [a, b], minute=1)
    assert list(catalog.unfinished_slices(["meta"], corpus.corpus_id)) == [new]
    assert catalog.slice_images(old.slice_id) == []
    assert catalog.slice_members(old.slice_id) == [a.image_id, b.image_id]
    assert list(catalog.slices(corpus.corpus_id)) == [old, new]
    catalog.mark_gone([a.image_id, b.image_id])
    assert list(catalog.unfinished_slices(["meta"], corpus.corpus_id)) == []


def test_each_collection_loads_a_finished_slice_once(catalog: Catalog) -> None:
    _, root = make_root(catalog)
    images = [picture(root, "a.jpg"), picture(root, "b.jpg")]
    catalog.add_images(images)
    plan_slice(catalog, images[:1])
    done = embed_slice(catalog, images[1:], minute=1)
    assert list(catalog.unloaded_slices("bridge-1")) == [done]
    assert list(catalog.unloaded_slices("bridge-1", parts=("meta", "lite0-v1"))) == []
    load(catalog, "bridge-1", [done.slice_id])
    load(catalog, "bridge-1", [done.slice_id])
    assert list(catalog.unloaded_slices("bridge-1")) == []
    assert catalog.count_loaded("bridge-1") == 1
    assert list(catalog.unloaded_slices("bridge-2")) == [done]
    catalog.forget_loads("bridge-1")
    assert list(catalog.unloaded_slices("bridge-1")) == [done]


@pytest.mark.parametrize("change", [{"uri": "moved/a.jpg"}, {"taken_at": 5}])
def test_a_slice_is_loaded_again_when_a_members_payload_changed(catalog: Catalog, change: dict[str, object]) -> None:
    _, root = make_root(catalog)
    image = picture(root, "a.jpg")
    catalog.add_images([image])
    done = embed_slice(catalog, [image])
    load(catalog, "bridge-1", [done.slice_id])
    embedded = catalog.images([image.image_id])[image.image_id]
    catalog.update_images([replace(embedded, mtime_ns=5)])
    assert list(catalog.unloaded_slices("bridge-1")) == []
    catalog.update_images([replace(embedded, **change)])  # type: ignore[arg-type]  # (fields of different types)
    assert list(catalog.unloaded_slices("bridge-1")) == [done]


def test_a_slice_that_changed_while_it_was_loaded_does_not_count_as_loaded(catalog: Catalog) -> None:
    _, root = make_root(catalog)
    moved, recaptioned, same = (picture(root, name) for name in ("a.jpg", "b.jpg", "c.jpg"))
    catalog.add_images([moved, recaptioned, same])
    first, second, third = (embed_slice(catalog, [one], minute=n) for n, one in enumerate((moved, recaptioned, same)))
    ids = [record.slice_id for record in (first, second, third)]
    catalog.begin_loading("bridge-1", ids)
    embedded = catalog.images([moved.image_id])[moved.image_id]
    catalog.update_images([replace(embedded, uri="moved/a.jpg")])
    catalog.forget_receipts(second.slice_id, ["captions"])
    catalog.mark_loaded("bridge-1", ids)
    assert list(catalog.unloaded_slices("bridge-1")) == [first, second]
    assert catalog.count_loaded("bridge-1") == 1
    load(catalog, "bridge-1", ids)
    assert list(catalog.unloaded_slices("bridge-1")) == []


def test_a_collection_that_is_dropped_while_it_is_loaded_holds_nothing(catalog: Catalog) -> None:
    _, root = make_root(catalog)
    image = picture(root, "a.jpg")
    catalog.add_images([image])
    done = embed_slice(catalog, [image])
    catalog.begin_loading("bridge-1", [done.slice_id])
    catalog.forget_loads("bridge-1")
    catalog.mark_loaded("bridge-1", [done.slice_id])
    assert list(catalog.unloaded_slices("bridge-1")) == [done]


# Tombstones


def test_each_collection_learns_of_a_deletion_once(catalog: Catalog) -> None:
    _, root = make_root(catalog)
    images = [picture(root, f"{number}.jpg") for number in range(3)]
    catalog.add_images(images)
    embed_slice(catalog, images[:2])
    catalog.mark_gone([image.image_id for image in images])  # the third was never embedded
    owed = sorted(image.image_id for image in images[:2])
    assert list(catalog.tombstones("bridge-1")) == owed
    catalog.mark_deleted("bridge-1", owed[:1])
    assert list(catalog.tombstones("bridge-1")) == owed[1:]
    catalog.mark_deleted("bridge-1", owed)
    catalog.mark_gone(owed)
    assert list(catalog.tombstones("bridge-1")) == []
    assert list(catalog.tombstones("bridge-2")) == owed


def test_tombstones_may_be_marked_while_they_are_listed(catalog: Catalog) -> None:
    _, root = make_root(catalog)
    images = [picture(root, f"{number}.jpg") for number in range(4_100)]
    catalog.add_images(images)
    embed_slice(catalog, images)
    catalog.mark_gone([image.image_id for image in images])
    seen = []
    for image_id in catalog.tombstones("bridge-1"):
        seen.append(image_id)
        if len(seen) % 100 == 0:
            catalog.mark_deleted("bridge-1", seen[-100:])
    assert len(set(seen)) == 4_100
    assert list(catalog.tombstones("bridge-1")) == []


def test_a_picture_that_comes_back_is_not_deleted_but_loaded_again(catalog: Catalog) -> None:
    _, root = make_root(catalog)
    image = picture(root, "a.jpg")
    catalog.add_images([image])
    done = embed_slice(catalog, [image])
    load(catalog, "bridge-1", [done.slice_id])
    embedded = catalog.images([image.image_id])[image.image_id]
    catalog.mark_gone([image.image_id])
    catalog.mark_deleted("bridge-1", [image.image_id])
    catalog.update_images([embedded])
    assert list(catalog.tombstones("bridge-2")) == []
    assert list(catalog.unloaded_slices("bridge-1")) == [done]
    catalog.mark_deleted("bridge-2", [image.image_id])  # a late word about the old tombstone
    catalog.mark_gone([image.image_id])
    assert list(catalog.tombstones("bridge-1")) == list(catalog.tombstones("bridge-2")) == [image.image_id]


def test_a_tombstone_rests_while_the_picture_waits_to_be_embedded_again(catalog: Catalog) -> None:
    _, root = make_root(catalog)
    image = picture(root, "a.jpg")
    catalog.add_images([image])
    embed_slice(catalog, [image])
    catalog.mark_gone([image.image_id])
    waiting = replace(image, state=ImageState.PENDING, hash="new")
    catalog.update_images([waiting])
    assert list(catalog.tombstones("bridge-1")) == []
    catalog.update_images([replace(waiting, state=ImageState.FAILED)])
    assert list(catalog.tombstones("bridge-1")) == [image.image_id]


def test_a_picture_that_was_found_and_now_fails_to_decode_is_deleted(catalog: Catalog) -> None:
    _, root = make_root(catalog)
    known, never = picture(root, "known.jpg"), picture(root, "never.jpg")
    catalog.add_images([known, never])
    embed_slice(catalog, [known])
    catalog.update_images([replace(known, hash="new", state=ImageState.PENDING)])  # content changed, waits
    plan_slice(catalog, [known], minute=1)
    assert list(catalog.tombstones("bridge-1")) == []
    catalog.update_images([replace(image, state=ImageState.FAILED) for image in (known, never)])
    assert list(catalog.tombstones("bridge-1")) == [known.image_id]


# Runs and failures


def test_a_run_is_recorded_from_start_to_end(catalog: Catalog) -> None:
    corpus, _ = make_root(catalog)
    run = catalog.start_run("index", corpus.corpus_id)
    catalog.update_run(run.run_id, stage="embed", counts={"images": 5})
    catalog.update_run(run.run_id, stage="load")
    (found,) = catalog.runs()
    assert (found.state, found.stage, found.counts, found.finished_at) == (RunState.RUNNING, "load", {"images": 5}, None)
    catalog.finish_run(run.run_id, RunState.FAILED, "no space left")
    ended = catalog.run(run.run_id)
    assert (ended.state, ended.error) == (RunState.FAILED, "no space left")
    assert ended.finished_at is not None and ended.finished_at >= ended.started_at
    later = catalog.start_run("train-bridge")
    assert [r.run_id for r in catalog.runs(limit=1)] == [later.run_id]


def test_runs_whose_process_died_can_be_declared_interrupted(catalog: Catalog) -> None:
    corpus, _ = make_root(catalog)
    dead, other = catalog.start_run("index", corpus.corpus_id), catalog.start_run("train-bridge", corpus.corpus_id)
    assert catalog.interrupt_runs("index", corpus.corpus_id) == 1
    assert catalog.run(dead.run_id).state is RunState.INTERRUPTED
    assert catalog.run(other.run_id).state is RunState.RUNNING


def test_an_unknown_run_cannot_be_updated(catalog: Catalog) -> None:
    with pytest.raises(NotFoundError):
        catalog.update_run("nobody", stage="x")


def test_failures_stand_until_the_file_succeeds(catalog: Catalog) -> None:
    corpus, root = make_root(catalog)
    first, second = catalog.start_run("index", corpus.corpus_id), catalog.start_run("index", corpus.corpus_id)
    catalog.add_failures([Failure(first.run_id, root.root_id, uri, "truncated", "cut short") for uri in ("b.jpg", "a.jpg")])
    again = Failure(second.run_id, root.root_id, "a.jpg", "truncated", "still cut short", "some-id")
    catalog.add_failures([again])
    assert [f.uri for f in catalog.failures(corpus_id=corpus.corpus_id)] == ["a.jpg", "b.jpg"]
    assert list(catalog.failures(run_id=second.run_id)) == [again]
    assert catalog.count_failures(corpus_id=corpus.corpus_id) == 2
    catalog.clear_failures(root.root_id, ["a.jpg"])
    assert [f.uri for f in catalog.failures()] == ["b.jpg"]


# Artifacts and aliases


def test_at_most_one_artifact_of_a_kind_is_active(catalog: Catalog) -> None:
    assert catalog.active_artifact("bridge") is None
    for version in ("v1", "v2"):
        catalog.add_artifact("bridge", version, f"bridge/{version}", {"recall": 0.7})
    catalog.add_artifact("weights", "w1", "weights/w1", {})
    catalog.activate_artifact("weights", "w1")
    catalog.activate_artifact("bridge", "v1")
    catalog.activate_artifact("bridge", "v2")
    active = catalog.active_artifact("bridge")
    assert active is not None
    assert (active.version, active.metrics, active.active) == ("v2", {"recall": 0.7}, True)
    assert sorted((a.version, a.active) for a in catalog.artifacts("bridge")) == [("v1", False), ("v2", True)]
    assert catalog.add_artifact("bridge", "v2", "elsewhere", {}).active
    with pytest.raises(UnknownNameError):
        catalog.activate_artifact("bridge", "v3")
    catalog.deactivate_artifacts("bridge")
    assert catalog.active_artifact("bridge") is None
    assert catalog.active_artifact("weights") is not None


def test_aliases_point_at_one_collection(catalog: Catalog) -> None:
    aliases = catalog.alias_table()
    assert aliases.get("bridge") is None
    aliases.set("bridge", "bridge-1")
    aliases.set("bridge", "bridge-2")
    aliases.set("labels", "labels-1")
    assert aliases.get("bridge") == "bridge-2"
    aliases.delete("labels")
    aliases.delete("labels")
    assert catalog.alias_table().all() == {"bridge": "bridge-2"}


def test_only_the_columns_that_are_named_are_written(catalog: Catalog) -> None:
    _, root = make_root(catalog)
    image = picture(root, "a.jpg")
    catalog.add_images([image])
    seen = replace(image, state=ImageState.ACTIVE, width=640, size=image.size + 1)
    catalog.update_images([seen], columns=("state", "width"))
    assert catalog.images([image.image_id]) == {image.image_id: replace(seen, size=image.size)}
