"""The catalog keeps what is learnt in use on every database: tags, queries, feedback, trust, states of engines."""

from __future__ import annotations

import sqlite3
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from alembic import command
from alembic.config import Config
from tests.support.catalogs import embed_slice, make_root, picture

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.database import migrate
from lodestone.catalog.database.engine import make_engine
from lodestone.catalog.records import CaptionRecord, EngineState, ImageRecord, ImageState, TagRecord
from lodestone.catalog.use_records import FeedbackRecord, QueryRecord, TopicRecord, TrustEvent
from lodestone.errors import InvalidRequestError, NotFoundError

START = datetime(2026, 1, 1, tzinfo=UTC)


def two_pictures(catalog: Catalog, corpus: str = "holidays") -> list[ImageRecord]:
    _, root = make_root(catalog, corpus)
    images = [picture(root, "a.jpg"), picture(root, "b.jpg")]
    catalog.add_images(images)
    return images


def waiting(catalog: Catalog) -> list[str]:
    return sorted(change.image_id for change in catalog.tag_outbox())


def deliver(catalog: Catalog) -> None:
    catalog.tags_delivered(catalog.tag_outbox())


# Tags


def test_the_same_tag_again_is_the_present_one(catalog: Catalog) -> None:
    a, b = two_pictures(catalog)
    new = TagRecord.new(a.image_id, "red canoe", "implicit", score=0.1 + 0.2, query_id="q1")
    other = TagRecord.new(b.image_id, "red canoe", "user")
    added = catalog.add_tags([new, other, new])
    assert [tag.image_id for tag in added] == [a.image_id, b.image_id]
    assert added[0] == replace(new, tag_id=added[0].tag_id, corpus_id=a.corpus_id)
    deliver(catalog)
    again = catalog.add_tags([TagRecord.new(a.image_id, "red canoe", "implicit", score=0.9)])
    assert again == added[:1]
    assert waiting(catalog) == []
    assert catalog.add_tags([TagRecord.new(a.image_id, "red canoe", "user")])[0].tag_id != added[0].tag_id
    assert {image_id: len(tags) for image_id, tags in catalog.tags([a.image_id, b.image_id, "unknown"]).items()} == {
        a.image_id: 2,
        b.image_id: 1,
    }


def test_tags_of_an_unknown_picture_are_refused_together(catalog: Catalog) -> None:
    a, _ = two_pictures(catalog)
    stranger = str(uuid4())
    with pytest.raises(NotFoundError, match=stranger):
        catalog.add_tags([TagRecord.new(a.image_id, "dog", "user"), TagRecord.new(stranger, "dog", "user")])
    assert catalog.list_tags() == []
    assert catalog.tag_outbox() == []
    assert catalog.add_tags([]) == []


def test_tags_are_listed_newest_first_by_what_was_asked(catalog: Catalog) -> None:
    a, b = two_pictures(catalog)
    (elsewhere, _) = two_pictures(catalog, "work")
    for minute, (image, text, source) in enumerate([(a, "x", "user"), (b, "x", "implicit"), (elsewhere, "y", "user")]):
        when = START + timedelta(minutes=minute)
        catalog.add_tags([replace(TagRecord.new(image.image_id, text, source), created_at=when)])

    def listed(**wanted: object) -> list[str]:
        return [tag.image_id for tag in catalog.list_tags(**wanted)]  # type: ignore[arg-type]  # (of several types)

    assert listed() == [elsewhere.image_id, b.image_id, a.image_id]
    assert listed(corpus_id=a.corpus_id) == [b.image_id, a.image_id]
    assert listed(text="x", source="user") == listed(image_id=a.image_id) == [a.image_id]
    assert listed(offset=1, limit=1) == [b.image_id]


def test_undoing_removes_what_was_added_since_of_one_source_and_corpus_only(catalog: Catalog) -> None:
    a, b = two_pictures(catalog)
    (elsewhere, _) = two_pictures(catalog, "work")
    old = replace(TagRecord.new(a.image_id, "old", "implicit"), created_at=START - timedelta(seconds=1))
    new = [replace(TagRecord.new(a.image_id, text, "implicit"), created_at=START) for text in ("one", "two")]
    users = replace(TagRecord.new(b.image_id, "mine", "user"), created_at=START)
    others = replace(TagRecord.new(elsewhere.image_id, "one", "implicit"), created_at=START)
    catalog.add_tags([old, *new, users, others])
    deliver(catalog)
    assert catalog.undo_tags(START, "implicit", a.corpus_id) == 2
    assert waiting(catalog) == [a.image_id]
    assert sorted(tag.text for tag in catalog.list_tags()) == ["mine", "old", "one"]
    assert catalog.undo_tags(START) == 2
    assert [tag.text for tag in catalog.list_tags()] == ["old"]


def test_removed_tags_are_reported_to_the_outbox(catalog: Catalog) -> None:
    a, b = two_pictures(catalog)
    first, second = catalog.add_tags([TagRecord.new(a.image_id, "x", "user"), TagRecord.new(b.image_id, "x", "user")])
    deliver(catalog)
    assert catalog.remove_tags([first.tag_id, "unknown"]) == 1
    assert waiting(catalog) == [a.image_id]
    assert list(catalog.tags([a.image_id, b.image_id])) == [b.image_id]
    assert catalog.remove_tags([first.tag_id]) == 0
    assert catalog.list_tags() == [second]


def test_a_picture_that_changes_while_it_is_delivered_stays_in_the_outbox(catalog: Catalog) -> None:
    a, b = two_pictures(catalog)
    embed_slice(catalog, [a, b])
    catalog.add_tags([TagRecord.new(image.image_id, "x", "user") for image in (a, b)])
    read = catalog.tag_outbox()
    catalog.add_tags([TagRecord.new(a.image_id, "y", "user")])
    catalog.tags_delivered(read)
    catalog.tags_delivered([])
    assert waiting(catalog) == [a.image_id]
    assert [change.image_id for change in catalog.tag_outbox(limit=5)] == [a.image_id]
    deliver(catalog)
    assert catalog.reset_tag_outbox() == 2
    assert waiting(catalog) == sorted([a.image_id, b.image_id])


def test_what_becomes_of_a_picture_reaches_the_outbox(catalog: Catalog) -> None:
    one, other = two_pictures(catalog)
    assert waiting(catalog) == []  # what cannot be found by a model is not found by its name
    embed_slice(catalog, [one, other])
    assert waiting(catalog) == sorted([one.image_id, other.image_id])
    deliver(catalog)
    living = catalog.images([one.image_id])[one.image_id]

    catalog.update_images([replace(living, mtime_ns=5)])
    assert waiting(catalog) == []
    catalog.update_images([replace(living, uri="moved/a.jpg")])
    assert waiting(catalog) == [one.image_id]
    deliver(catalog)
    catalog.mark_gone([one.image_id])
    assert waiting(catalog) == [one.image_id]
    deliver(catalog)
    catalog.update_images([living])
    assert waiting(catalog) == [one.image_id]
    deliver(catalog)
    catalog.update_images([replace(living, state=ImageState.FAILED)])
    assert waiting(catalog) == [one.image_id]


def test_names_are_listed_of_living_pictures_of_one_corpus_or_of_all(catalog: Catalog) -> None:
    _, root = make_root(catalog, "holidays", "/pictures/Norway")
    _, other = make_root(catalog, "work", "/pictures/Office")
    images = [picture(root, "fjord/a.jpg", camera_make="Zorki"), picture(root, "gone/b.jpg"), picture(other, "desk/c.d.png")]
    catalog.add_images(images)
    catalog.mark_gone([images[1].image_id])
    assert catalog.filing_names(root.corpus_id, most=9) == ["Norway", "Zorki", "a", "fjord"]
    assert catalog.filing_names(other.corpus_id, most=9) == ["Office", "c.d", "desk"]
    assert set(catalog.filing_names(most=9)) == {"Norway", "Zorki", "a", "fjord", "Office", "c.d", "desk"}
    assert set(catalog.filing_names(most=0)) == {"Norway", "Office"}


def test_positions_are_listed_of_living_pictures_of_one_corpus_or_of_all(catalog: Catalog) -> None:
    _, root = make_root(catalog, "holidays", "/pictures/Norway")
    _, other = make_root(catalog, "work", "/pictures/Office")
    here, near, gone, there = ((59.9139, 10.7522), (59.9141, 10.7478), (1.0, 2.0), (-33.8612, 151.2))
    images = [
        picture(place, f"{number}.jpg", latitude=latitude, longitude=longitude)
        for number, (place, (latitude, longitude)) in enumerate([(root, here), (root, near), (root, gone), (other, there)])
    ]
    catalog.add_images([*images, picture(root, "nowhere.jpg")])
    catalog.mark_gone([images[2].image_id])
    assert catalog.positions(root.corpus_id, most=9) == [(59.91, 10.75)]
    assert catalog.positions(most=9) == [(-33.86, 151.2), (59.91, 10.75)]
    assert catalog.positions(most=0) == []


def test_what_becomes_of_tags_and_captions_reaches_the_outbox(catalog: Catalog) -> None:
    one, other = two_pictures(catalog)
    embed_slice(catalog, [one, other])
    deliver(catalog)
    catalog.set_captions({one.image_id: [CaptionRecord(one.image_id, "sidecar", "Ottilie at the lake")]})
    assert waiting(catalog) == [one.image_id]
    deliver(catalog)
    catalog.set_captions({one.image_id: []}, sources=["sidecar"])
    assert waiting(catalog) == [one.image_id]
    deliver(catalog)
    catalog.add_tags([TagRecord.new(other.image_id, "x", "user")])
    assert waiting(catalog) == [other.image_id]
    assert catalog.reset_tag_outbox() == 2
    assert waiting(catalog) == sorted([one.image_id, other.image_id])


def test_tags_die_with_their_picture_and_corpus_and_the_outbox_says_so(catalog: Catalog) -> None:
    replaced, mover = two_pictures(catalog)
    (elsewhere, _) = two_pictures(catalog, "work")
    catalog.add_tags([TagRecord.new(image.image_id, "x", "user") for image in (replaced, mover, elsewhere)])
    catalog.mark_gone([replaced.image_id])
    deliver(catalog)
    catalog.update_images([replace(mover, uri=replaced.uri)])
    assert catalog.tags([replaced.image_id]) == {}
    assert replaced.image_id in waiting(catalog)
    deliver(catalog)
    catalog.remove_corpus(mover.corpus_id)
    assert [tag.image_id for tag in catalog.list_tags()] == [elsewhere.image_id]
    assert waiting(catalog) == [mover.image_id]


# Queries and feedback


def asked(number: int) -> QueryRecord:
    return QueryRecord(
        f"q{number}", START + timedelta(seconds=number), "words", f"dog {number}", None, {"hits": number}, bytes([number])
    )


def test_only_the_latest_queries_are_kept(catalog: Catalog) -> None:
    for number in range(5):
        catalog.add_query(asked(number), keep=3)
    assert catalog.query("q4") == asked(4)
    assert catalog.query("q1") is None
    assert catalog.queries(offset=1) == [replace(asked(number), trace=b"") for number in (3, 2)]
    changed = replace(asked(4), summary={"hits": 0}, topic="dogs")
    catalog.add_query(changed, keep=3)
    assert catalog.query("q4") == changed
    catalog.add_query(asked(5), keep=0)
    assert catalog.queries() == []


def test_text_that_no_database_may_hold_is_the_fault_of_the_one_who_sent_it(catalog: Catalog, catalog_url: str) -> None:
    postgres = not catalog_url.startswith("sqlite")
    with pytest.raises(InvalidRequestError, match="NUL") if postgres else nullcontext():
        assert catalog.query("q\0") is None
    with pytest.raises(InvalidRequestError, match="NUL") if postgres else nullcontext():
        catalog.add_query(replace(asked(1), topic="\0"), keep=3)


def test_all_queries_are_forgotten_at_once_and_feedback_is_not(catalog: Catalog) -> None:
    for number in range(5):
        catalog.add_query(asked(number), keep=10)
    catalog.add_feedback("q1", ["a"], [], 0.2)
    assert catalog.forget_queries() == 5
    assert catalog.queries() == []
    assert [one.query_id for one in catalog.feedback()] == ["q1"]


def test_the_same_feedback_counts_once(catalog: Catalog) -> None:
    assert catalog.add_feedback("q1", ["b", "a", "b"], ["c"], 0.2)
    assert not catalog.add_feedback("q1", ["a", "b"], ["c", "c"], 0.3)
    assert catalog.add_feedback("q1", ["a"], ["b", "c"], 0.2)
    assert catalog.add_feedback("q2", ["a", "b"], ["c"], 0.2)
    found = catalog.find_feedback("q1", ["b", "a"], ["c"])
    assert found is not None
    assert (found.relevant, found.irrelevant, found.eta, found.event_id, found.active) == (("a", "b"), ("c",), 0.2, None, False)
    assert catalog.find_feedback("q1", ["a"], ["c"]) is None
    assert [said.query_id for said in catalog.feedback(limit=1)] == ["q2"]
    assert len(catalog.feedback()) == 3


# Trust


def change(seq: int, **changes: object) -> TrustEvent:
    event = TrustEvent(seq, str(uuid4()), START, "feedback", "dogs", "q1", {"x": 1.0}, {"x": 0.1 + 0.2}, {"eta": 0.2}, b"\0\1")
    return replace(event, **changes)  # type: ignore[arg-type]  # (fields of different types)


def topic(**changes: object) -> TopicRecord:
    record = TopicRecord("dogs", "encoder", b"\x01\x02", 1, {"x": 0.1 + 0.2, "y": 1 / 3}, ["a dog"])
    return replace(record, **changes)  # type: ignore[arg-type]  # (fields of different types)


def test_trust_comes_back_bit_for_bit(catalog: Catalog) -> None:
    assert catalog.trust_seq() == 0
    assert catalog.trust_topics() == (0, [])
    event = change(1)
    assert catalog.append_trust_event(event, topics=[topic(), topic(topic="cats", encoder=None, centre=None)])
    assert catalog.trust_seq() == 1
    assert catalog.trust_topics() == (1, [topic(topic="cats", encoder=None, centre=None), topic()])
    assert catalog.trust_event(event.event_id) == event
    assert catalog.trust_event("unknown") is None


def test_an_event_that_comes_too_late_changes_nothing(catalog: Catalog) -> None:
    assert catalog.append_trust_event(change(1), topics=[topic()])
    late = FeedbackRecord.of("q1", ["a"], ["b"], 0.2)
    assert not catalog.append_trust_event(change(1), topics=[topic(queries=9)], dropped=["dogs"], feedback=late)
    assert not catalog.append_trust_event(change(3), topics=[topic(queries=9)])
    assert catalog.trust_topics() == (1, [topic()])
    assert catalog.feedback() == []


def test_feedback_is_kept_with_its_event_and_can_be_taken_out_of_account(catalog: Catalog) -> None:
    first, undo = change(1), change(2, kind="undo", topic=None)
    said = replace(FeedbackRecord.of("q1", ["a"], ["b"], 0.2), event_id=first.event_id, active=True)
    catalog.append_trust_event(first, topics=[topic()], feedback=said)
    assert catalog.find_feedback("q1", ["a"], ["b"]) == said
    catalog.append_trust_event(undo, topics=[], dropped=["dogs"], deactivated=[first.event_id])
    assert catalog.find_feedback("q1", ["a"], ["b"]) == replace(said, active=False)
    assert catalog.trust_topics() == (2, [])
    catalog.append_trust_event(change(3), topics=[topic()], activated=[first.event_id])
    assert catalog.feedback() == [said]


def test_events_are_read_in_order_over_several_pages(catalog: Catalog) -> None:
    for seq in range(1, 452):
        assert catalog.append_trust_event(change(seq, topic="cats" if seq % 2 else "dogs"), topics=[])
    assert [event.seq for event in catalog.trust_events()] == list(range(1, 452))
    assert [event.seq for event in catalog.trust_events(after=449)] == [450, 451]
    assert [event.seq for event in catalog.recent_trust_events(topic="cats", offset=1, limit=2)] == [449, 447]


# Engine states


def test_an_engine_is_switched_and_moved_independently(catalog: Catalog) -> None:
    assert catalog.engine_states() == {}
    assert catalog.set_engine("turbo", enabled=False) == EngineState(enabled=False)
    assert catalog.set_engine("turbo", priority=0) == EngineState(enabled=False, priority=0)
    assert catalog.set_engine("turbo") == EngineState(enabled=False, priority=0)
    assert catalog.set_engine("other") == EngineState()
    assert catalog.engine_states() == {"turbo": EngineState(enabled=False, priority=0)}


# Upgrading


def test_a_catalog_of_the_first_schema_is_upgraded_with_all_it_knows(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    with Catalog.open(path) as catalog:
        images = two_pictures(catalog)
        embed_slice(catalog, images)
        known = catalog.images([image.image_id for image in images])
    engine = make_engine(path)
    config = Config()
    config.set_main_option("script_location", str(migrate._SCRIPTS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "0001")
    engine.dispose()
    with sqlite3.connect(path) as raw:
        names = {name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    raw.close()
    assert "tags" not in names and "images" in names

    with Catalog.open(path) as catalog:
        assert catalog.images([image.image_id for image in images]) == known
        assert len(list(catalog.slices())) == 1
        assert catalog.add_tags([TagRecord.new(images[0].image_id, "x", "user")])[0].corpus_id == images[0].corpus_id
