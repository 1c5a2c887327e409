"""Every database records the outcome of an attempt whole, with the consequences that each single change has."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine, event
from tests.support.catalogs import make_root, picture, plan_slice, receipt

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.database import sql
from lodestone.catalog.embeddings.outcomes import OUTCOME_COLUMNS, PictureOutcome, RecordedSlice, SliceOutcome
from lodestone.catalog.records import (
    AttemptState,
    CaptionRecord,
    Failure,
    ImageRecord,
    ImageState,
    Receipt,
    Root,
    SliceRecord,
    TagRecord,
)
from lodestone.errors import NotFoundError

SOURCES = ("xmp", "iptc")


def a_slice(catalog: Catalog, *uris: str, corpus: str = "holidays") -> tuple[Root, SliceRecord, list[ImageRecord], str]:
    _, root = make_root(catalog, corpus)
    images = [picture(root, uri) for uri in uris]
    catalog.add_images(images)
    record = plan_slice(catalog, images)
    run = catalog.start_run("index", root.corpus_id)
    catalog.start_attempt(record.slice_id, run.run_id)
    return root, record, images, run.run_id


def fine(image: ImageRecord, **facts: Any) -> PictureOutcome:
    return PictureOutcome(image.image_id, 640, 480, "JPEG", metadata_version=3)._replace(**facts)


def bad(image: ImageRecord) -> PictureOutcome:
    return fine(image, error_code="truncated", error_message="cut short")


def record(
    catalog: Catalog, planned: SliceRecord, run_id: str, pictures: Sequence[PictureOutcome], *, attempt: int = 1
) -> RecordedSlice:
    outcome = SliceOutcome(
        planned.slice_id,
        attempt,
        run_id,
        AttemptState.DONE,
        worker="host:1",
        embedded=len(pictures),
        seconds=1.5,
        receipts=[receipt(planned)],
        pictures=pictures,
    )
    return catalog.record_outcome(outcome, sources=SOURCES)


def test_the_columns_stand_in_the_order_of_the_outcomes_fields() -> None:
    columns = len(OUTCOME_COLUMNS)
    assert PictureOutcome._fields[: columns + 2] == ("image_id", *OUTCOME_COLUMNS, "captions")


def test_an_outcome_fills_the_pictures_the_attempt_and_the_receipts(catalog: Catalog) -> None:
    root, planned, (good, broken), run = a_slice(catalog, "a.jpg", "b.jpg")
    facts: dict[str, Any] = {
        "decoded_share": 0.75,
        "taken_at": 1_700_000_000,
        "latitude": 47.5,
        "longitude": -8.25,
        "utc_offset_minutes": -90,
        "taken_subsec_ms": 7,
        "camera_make": "Ihagee",
        "camera_model": "Exakta Ω",
        "taken_precision": "second",
        "taken_source": "xmp",
        "taken_zone": "stated",
    }
    recorded = record(catalog, planned, run, [fine(good, captions=[("xmp", "a dog"), ("xmp", "a dog")], **facts), bad(broken)])
    assert recorded == RecordedSlice(active=1, failed=1, incomplete=1)
    found = catalog.images([good.image_id, broken.image_id])
    known = replace(good, slice_id=planned.slice_id, state=ImageState.ACTIVE, width=640, height=480, format="JPEG")
    assert found[good.image_id] == replace(known, metadata_version=3, **facts)
    assert found[broken.image_id] == replace(broken, slice_id=planned.slice_id, state=ImageState.FAILED)
    assert catalog.captions([good.image_id]) == {good.image_id: [CaptionRecord(good.image_id, "xmp", "a dog")]}
    (failure,) = catalog.failures()
    assert failure == Failure(run, root.root_id, "b.jpg", "truncated", "cut short", broken.image_id)
    (attempt,) = catalog.attempts()
    assert (attempt.state, attempt.worker, attempt.embedded, attempt.failed, attempt.seconds) == ("done", "host:1", 2, 1, 1.5)
    assert catalog.receipts(planned.slice_id) == {"meta": receipt(planned)}
    assert list(catalog.unfinished_slices(["meta"])) == []


def test_the_facts_of_an_outcome_stand_in_the_order_of_the_columns_that_they_fill() -> None:
    assert PictureOutcome._fields[1 : 1 + len(OUTCOME_COLUMNS)] == OUTCOME_COLUMNS


def test_nothing_of_an_outcome_is_recorded_without_its_attempt(catalog: Catalog) -> None:
    _, planned, (image,), run = a_slice(catalog, "a.jpg")
    with pytest.raises(NotFoundError, match="try 2"):
        record(catalog, planned, run, [fine(image)], attempt=2)
    assert catalog.images([image.image_id])[image.image_id].state is ImageState.PENDING
    assert catalog.receipts(planned.slice_id) == {}


def test_a_picture_that_left_its_slice_or_is_gone_is_left_alone(catalog: Catalog) -> None:
    _, planned, (stays, goes, moves), run = a_slice(catalog, "a.jpg", "b.jpg", "c.jpg")
    catalog.mark_gone([goes.image_id])
    plan_slice(catalog, [moves], minute=1)
    before = catalog.images([goes.image_id, moves.image_id])
    assert record(catalog, planned, run, [fine(image) for image in (stays, goes, moves)]) == RecordedSlice(active=1)
    assert catalog.images([goes.image_id, moves.image_id]) == before


def test_what_was_read_of_a_header_since_stays(catalog: Catalog) -> None:
    _, planned, (image,), run = a_slice(catalog, "a.jpg")
    catalog.update_images([replace(catalog.images([image.image_id])[image.image_id], camera_make="Leica", metadata_version=9)])
    record(catalog, planned, run, [fine(image, metadata_version=0)])
    found = catalog.images([image.image_id])[image.image_id]
    assert (found.state, found.width, found.camera_make, found.metadata_version) == (ImageState.ACTIVE, 640, "Leica", 9)


def test_an_attempt_without_meta_touches_no_picture(catalog: Catalog) -> None:
    _, planned, (image,), run = a_slice(catalog, "a.jpg")
    assert record(catalog, planned, run, []) == RecordedSlice()
    assert catalog.images([image.image_id])[image.image_id].state is ImageState.PENDING


def _prepare(catalog: Catalog, corpus: str, seed: int) -> tuple[SliceRecord, list[PictureOutcome], str]:
    """A slice whose pictures have every kind of past, and outcomes of every kind; equal for equal seeds."""
    draw = random.Random(seed)
    root, planned, images, run = a_slice(catalog, *(f"{number:02d}.jpg" for number in range(24)), corpus=corpus)
    pasts = [draw.choice([ImageState.PENDING, ImageState.ACTIVE, ImageState.FAILED]) for _ in images]
    catalog.update_images(
        [
            replace(
                image,
                slice_id=planned.slice_id,
                state=state,
                taken_at=draw.choice([None, 5]),
                metadata_version=draw.choice([0, 2]),
            )
            for image, state in zip(images, pasts, strict=True)
        ]
    )
    # A tombstone is of a picture that was embedded, and failed or went since.
    known = catalog.images([image.image_id for image in images])
    catalog.update_images([replace(known[image.image_id], state=ImageState.FAILED) for image in images if draw.random() < 0.2])
    some = [image for image in images if draw.random() < 0.4]
    catalog.set_captions(
        {i.image_id: [CaptionRecord(i.image_id, draw.choice(["xmp", "table"]), "old")] for i in some}, sources=None
    )
    catalog.add_failures(
        [Failure(run, root.root_id, i.uri, "gone_wrong", "…", i.image_id) for i in images if draw.random() < 0.3]
    )
    catalog.add_tags([TagRecord.new(i.image_id, "red", "user") for i in images if draw.random() < 0.4])
    catalog.tags_delivered(catalog.tag_outbox())
    catalog.begin_loading("bridge-1", [planned.slice_id])
    catalog.mark_loaded("bridge-1", [planned.slice_id])
    outcomes = [
        bad(image)
        if draw.random() < 0.3
        else fine(
            image,
            taken_at=draw.choice([None, 5, 6]),
            metadata_version=draw.choice([0, 1, 3]),
            captions=draw.choice([(), (("xmp", "new"),), (("iptc", "b"), ("iptc", "a"))]),
        )
        for image in images
        if draw.random() < 0.9
    ]
    return planned, outcomes, run


def _record_singly(catalog: Catalog, planned: SliceRecord, outcomes: Sequence[PictureOutcome], run: str) -> None:
    """The same by single changes."""
    members = {image.image_id: image for image in catalog.slice_images(planned.slice_id, states=list(ImageState))}
    updates, failures, captions = [], [], {}
    for outcome in outcomes:
        image = members[outcome.image_id]
        if outcome.error_code is not None:
            updates.append(replace(image, state=ImageState.FAILED))
            failures.append(Failure(run, image.root_id, image.uri, "truncated", "cut short", image.image_id))
            continue
        catalog.clear_failures(image.root_id, [image.uri])
        captions[image.image_id] = [CaptionRecord(image.image_id, source, text) for source, text in outcome.captions]
        facts: dict[str, Any] = {"width": 640, "height": 480, "format": "JPEG"}
        if outcome.metadata_version >= image.metadata_version:  # an older reader changes nothing that a newer one read
            facts |= {"taken_at": outcome.taken_at, "metadata_version": outcome.metadata_version}
        updates.append(replace(image, state=ImageState.ACTIVE, **facts))
    catalog.set_captions(captions, sources=SOURCES)
    catalog.add_failures(failures)
    catalog.update_images(updates)


def _state(catalog: Catalog, planned: SliceRecord) -> dict[str, Any]:
    """What the catalog holds of a slice's pictures, by their names."""
    images = catalog.images(catalog.slice_members(planned.slice_id))
    names = {image_id: image.uri for image_id, image in images.items()}
    dead = set(catalog.tombstones("bridge-1")) & set(names)
    queued = {names[change.image_id] for change in catalog.tag_outbox() if change.image_id in names}
    return {
        "images": sorted((i.uri, i.state, i.width, i.taken_at, i.metadata_version) for i in images.values()),
        "captions": {names[id_]: [(c.source, c.text) for c in texts] for id_, texts in catalog.captions(names).items()},
        "failures": [(f.uri, f.code) for f in catalog.failures(corpus_id=planned.corpus_id)],
        "tombstones": sorted(names[id_] for id_ in dead),
        "queued": sorted(queued),
        "is_loaded": planned.slice_id not in {one.slice_id for one in catalog.unloaded_slices("bridge-1")},
    }


@pytest.mark.parametrize("seed", range(3))
def test_the_consequences_are_those_of_the_single_changes(catalog: Catalog, seed: int) -> None:
    planned, outcomes, run = _prepare(catalog, "at once", seed)
    record(catalog, planned, run, outcomes)
    told = _state(catalog, planned)
    singly, same, other_run = _prepare(catalog, "singly", seed)
    catalog.record_receipts([receipt(singly)])
    _record_singly(catalog, singly, same, other_run)
    assert told == _state(catalog, singly)
    assert told["tombstones"] or told["queued"]
    catalog.tags_delivered(catalog.tag_outbox())
    record(catalog, planned, run, outcomes)
    assert _state(catalog, planned) == {**told, "queued": []}  # the same again changes nothing


def test_the_statements_of_an_outcome_do_not_grow_with_its_pictures(catalog: Catalog) -> None:
    counts = []
    for corpus, number in (("few", 2), ("many", 40)):
        _, planned, images, run = a_slice(catalog, *(f"{name}.jpg" for name in range(number)), corpus=corpus)
        seen: list[str] = []

        def count(_c: Any, _cursor: Any, statement: str, _p: Any, _x: Any, many: bool, seen: list[str] = seen) -> None:
            assert not many, statement
            seen.append(statement)

        event.listen(Engine, "before_cursor_execute", count)
        record(catalog, planned, run, [fine(image) for image in images])
        event.remove(Engine, "before_cursor_execute", count)
        counts.append(len(seen))
    assert counts[0] == counts[1]


def test_a_slice_of_more_pictures_than_one_statement_takes_is_recorded_whole(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "_MOST_VALUES", 3 * 13)
    _, planned, images, run = a_slice(catalog, *(f"{name}.jpg" for name in range(8)))
    pictures = [fine(image, width=number, camera_make=None if number % 2 else "Zorki") for number, image in enumerate(images)]
    assert record(catalog, planned, run, pictures).active == 8
    found = catalog.images([image.image_id for image in images])
    assert [found[image.image_id].width for image in images] == list(range(8))
    assert [found[image.image_id].camera_make for image in images] == ["Zorki", None] * 4


def test_an_outcome_replaces_a_receipt_of_the_same_part(catalog: Catalog) -> None:
    _, planned, (image,), run = a_slice(catalog, "a.jpg")
    record(catalog, planned, run, [fine(image)])
    catalog.start_attempt(planned.slice_id, run)
    newer: Receipt = receipt(planned, size=5000)
    catalog.record_outcome(
        SliceOutcome(planned.slice_id, 2, run, AttemptState.DONE, receipts=[newer], pictures=[fine(image)]), sources=SOURCES
    )
    assert catalog.receipts(planned.slice_id) == {"meta": newer}
