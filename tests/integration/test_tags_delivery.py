"""Tags reach searches, whatever breaks on the way, and only where they belong, with a real catalog and a real store."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from tests.support.catalogs import make_root, picture

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import CaptionRecord, Corpus, ImageState
from lodestone.errors import InvalidRequestError, NotFoundError, StoreError, UnknownNameError
from lodestone.spaces.names import TAGS
from lodestone.store.aliases import JsonAliasTable
from lodestone.store.base import Filter, MatchAny, PointBatch, SparseBatch
from lodestone.store.edge.store import EdgeStore
from lodestone.tags import delivery
from lodestone.tags.delivery import COLLECTION, deliver
from lodestone.tags.filed import MOST_FILED
from lodestone.tags.search import TagSearch
from lodestone.tags.service import IMPLICIT, TagService, new_tag
from lodestone.tags.terms import PictureTag, picture_vector
from lodestone_schemas.collections import CollectionSpec


class Home:
    """Two corpora with three pictures each, in a real catalog and a real store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.catalog = Catalog.open(folder / "catalog.sqlite")
        self.store = EdgeStore(folder / "store", aliases=JsonAliasTable(folder / "aliases.json"))
        self.book = TagService(self.catalog)
        self.corpora: dict[str, Corpus] = {}
        self.ids: dict[str, list[str]] = {}
        for name in ("holidays", "work"):
            corpus, root = make_root(self.catalog, name, f"/pictures/{name}")
            records = [picture(root, f"summer/{number}.jpg", state=ImageState.ACTIVE, taken_at=100) for number in range(3)]
            self.catalog.add_images(records)
            self.corpora[name] = corpus
            self.ids[name] = [record.image_id for record in records]

    def deliver(self) -> int:
        return deliver(self.catalog, self.store)

    def found(self, text: str, *, corpus: str | None = None) -> list[str]:
        """Ids by tags."""
        collection = self.store.aliases().get(TAGS)
        if collection is None:
            return []
        only = None if corpus is None else Filter((MatchAny("corpus", (self.corpora[corpus].corpus_id,)),))
        return list(TagSearch(self.store).search(text, collection, filter_=only).ranked().ids)

    def close(self) -> None:
        self.store.close()
        self.catalog.close()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    opened = Home(tmp_path)
    yield opened
    opened.close()


def test_keywords_inside_a_picture_count_as_tags(home: Home) -> None:
    first, second, _ = home.ids["holidays"]
    captions = {
        first: [CaptionRecord(first, "keywords", "Lake, red boat")],
        second: [CaptionRecord(second, "xmp", "lake, red boat")],
    }
    home.catalog.set_captions(captions)
    home.deliver()
    assert home.found("red boat") == [first]
    assert home.found("lake") == [first, second]  # what a caption says of one word comes after what a tag says


def test_tagged_picture_is_found_by_its_words_and_scored_by_how_many_fit(home: Home) -> None:
    first, second, _ = home.ids["holidays"]
    home.book.add([first], "a black dog in the snow")
    home.book.add([second], "a black cat in the sun")
    home.deliver()

    found = TagSearch(home.store).search("black dogs in snow", COLLECTION).found

    assert found.ids == (first,)
    assert (found.guide, found.space, found.scale) == ("text", "tags", 1.0)
    assert found.scores[0] == pytest.approx(1, abs=1e-4)
    assert home.found("black dog") == [first, second]


@pytest.mark.nightly_beyond(4)
@pytest.mark.parametrize(("captioned", "are_few"), [(1, True), (40, True), (41, False), (80, False)])
@pytest.mark.parametrize("limit", [2, 100])
def test_a_query_of_one_word_puts_few_captions_first_and_many_nowhere(
    home: Home, captioned: int, are_few: bool, limit: int
) -> None:
    home.store.create(CollectionSpec(COLLECTION, sparse=True))
    ids = sorted(str(UUID(int=number + 1)) for number in range(captioned + 3))
    said = [PictureTag("zeta", given="words")]
    points = [picture_vector([], ["a zeta by the lake"])] * captioned + [picture_vector([], ["an eta"])] * 2
    vectors = [vector for vector in (*points, picture_vector(said)) if vector is not None]
    home.store.upsert_sparse(COLLECTION, SparseBatch(ids, vectors, [{}] * len(ids)))

    found = TagSearch(home.store).search("the zeta", COLLECTION, limit=limit)

    assert found.whole == {ids[-1]}
    assert found.named == (set(ids[:captioned]) if are_few else set())


@pytest.mark.parametrize("text", ["the zeta", "zeta with Ottilie"])
def test_of_a_word_in_many_captions_few_are_read(home: Home, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    home.store.create(CollectionSpec(COLLECTION, sparse=True))
    ids = [str(UUID(int=number + 1)) for number in range(2_000)]
    vector = picture_vector([], ["a zeta by the lake"])
    assert vector is not None
    home.store.upsert_sparse(COLLECTION, SparseBatch(ids, [vector] * len(ids), [{}] * len(ids)))
    fetched: list[int] = []
    ask = EdgeStore._ask

    def counted(store: EdgeStore, collection: Any, request: Any, fetches: Mapping[int, int], **options: Any) -> Any:
        fetched.extend(fetches.values())
        return ask(store, collection, request, fetches, **options)

    monkeypatch.setattr(EdgeStore, "_ask", counted)

    found = TagSearch(home.store).search(text, COLLECTION, limit=100)

    assert not found
    assert max(set(fetched) - {MOST_FILED + 1, MOST_FILED}) < 500


def test_of_many_pictures_that_people_gave_a_word_those_of_the_lowest_ids_come_first(home: Home) -> None:
    home.store.create(CollectionSpec(COLLECTION, sparse=True))
    ids = [str(UUID(int=number + 1)) for number in range(MOST_FILED + 200)]
    vector = picture_vector([PictureTag("zeta", given="words")])
    assert vector is not None
    home.store.upsert_sparse(COLLECTION, SparseBatch(ids[::-1], [vector] * len(ids), [{}] * len(ids)))

    found = TagSearch(home.store).search("zeta", COLLECTION, limit=100)

    assert found.whole == set(ids[:100])


def test_query_without_words_finds_nothing(home: Home) -> None:
    home.book.add([home.ids["holidays"][0]], "dog")
    home.deliver()

    assert home.found("?!") == []


def test_home_without_pictures_has_no_collection(home: Home) -> None:
    for corpus in home.corpora.values():
        home.catalog.remove_corpus(corpus.corpus_id)
    home.catalog.tags_delivered(home.catalog.tag_outbox())
    assert home.deliver() == 0
    assert home.store.collections() == []


def test_removed_tag_is_not_found_any_more(home: Home) -> None:
    image_id = home.ids["holidays"][0]
    (tag,) = home.book.add([image_id], "red car")
    home.book.add([image_id], "blue sky")
    home.deliver()

    assert home.book.remove([tag.tag_id]) == 1
    home.deliver()

    assert home.found("red car") == []
    assert home.found("blue sky") == [image_id]


def test_delivering_twice_changes_nothing(home: Home) -> None:
    home.book.add(home.ids["holidays"], "beach")

    assert home.deliver() == 6  # all have names
    assert home.deliver() == 0
    assert home.store.count(COLLECTION) == 6


def test_a_bounded_delivery_leaves_the_rest_in_the_outbox(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "_BATCH", 2)
    assert deliver(home.catalog, home.store, most=2) == 2
    assert home.store.aliases()[TAGS] == COLLECTION  # nothing was searched before
    assert home.catalog.count_tag_outbox() == 4
    assert deliver(home.catalog, home.store, most=3) == 4
    assert home.deliver() == 0
    assert home.store.count(COLLECTION) == 6


def test_the_former_collection_is_searched_until_the_new_one_is_whole_and_what_was_delivered_is_not_delivered_again(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "_BATCH", 2)
    home.store.create(CollectionSpec("tags-0", sparse=True))
    home.store.set_alias(TAGS, "tags-0")
    assert deliver(home.catalog, home.store, most=2) == 2
    assert home.store.aliases()[TAGS] == "tags-0"
    with monkeypatch.context() as patch:
        patch.setattr(home.store, "upsert_sparse", lambda *_: pytest.fail("killed"))
        with pytest.raises(pytest.fail.Exception):
            home.deliver()
    assert home.store.aliases()[TAGS] == "tags-0"
    assert home.deliver() == 4
    assert home.store.aliases()[TAGS] == COLLECTION


def test_a_picture_that_is_renamed_or_removed_while_it_is_delivered_is_written_as_it_is_then(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two deliverers: the second one reads and writes between the first one's reading and its writing."""
    renamed, gone, _ = home.ids["holidays"]
    write, interrupted = home.store.upsert_sparse, False

    def slow(collection: str, batch: SparseBatch) -> None:
        nonlocal interrupted
        if not interrupted:
            interrupted = True
            record = home.catalog.images([renamed])[renamed]
            home.catalog.update_images([replace(record, uri="lofoten/0.jpg")])
            home.catalog.mark_gone([gone])
            home.deliver()
        write(collection, batch)

    monkeypatch.setattr(home.store, "upsert_sparse", slow)
    home.deliver()
    assert interrupted
    assert home.found("lofoten") == [renamed]
    assert home.store.count(COLLECTION) == 5


def test_tags_of_one_corpus_are_not_seen_from_another(home: Home) -> None:
    home.book.add(home.ids["holidays"][:1], "secret meeting")
    home.book.add(home.ids["work"][:1], "meeting secret")
    home.deliver()

    assert home.found("secret meeting", corpus="work") == home.ids["work"][:1]
    assert home.found("secret meeting", corpus="holidays") == home.ids["holidays"][:1]
    assert [tag.image_id for tag in home.book.list(corpus="work").tags] == home.ids["work"][:1]


def test_undo_takes_back_what_came_since_and_nothing_else(home: Home) -> None:
    image_id, other = home.ids["holidays"][0], home.ids["work"][0]
    home.book.add([image_id], "kept")
    moment = datetime.now(UTC) + timedelta(days=1)
    later = moment + timedelta(hours=1)
    tags = [
        new_tag(one, "", text, source=source, created_at=later)
        for one, text, source in ((image_id, "learnt", IMPLICIT), (image_id, "given", "user"), (other, "elsewhere", IMPLICIT))
    ]
    home.catalog.add_tags(tags)
    home.deliver()

    assert home.book.undo(since=moment, source="implicit", corpus="holidays") == 1
    home.deliver()

    assert home.found("learnt") == []
    assert (home.found("kept"), home.found("given"), home.found("elsewhere")) == ([image_id], [image_id], [other])
    assert home.book.undo(since=moment) == 2
    home.deliver()
    assert (home.found("kept"), home.found("given"), home.found("elsewhere")) == ([image_id], [], [])


def test_image_collections_are_never_touched(home: Home) -> None:
    home.store.create(CollectionSpec("bridge-1", 4))
    vectors = np.eye(3, 4, dtype=np.float32)
    home.store.upsert("bridge-1", PointBatch(home.ids["holidays"], vectors, [{"corpus": "x"}] * 3))
    before = home.store.retrieve("bridge-1", home.ids["holidays"])

    home.book.add(home.ids["holidays"], "beach")
    home.deliver()

    after = home.store.retrieve("bridge-1", home.ids["holidays"])
    assert np.array_equal(before.vectors, after.vectors)
    assert list(before.payloads) == list(after.payloads)


def test_picture_that_is_gone_is_not_found_by_its_tags(home: Home) -> None:
    first, second, _ = home.ids["holidays"]
    home.book.add([first, second], "beach")
    home.deliver()

    home.catalog.mark_gone([first])
    home.deliver()

    assert home.found("beach") == [second]


def test_moved_picture_is_found_in_its_new_folder(home: Home) -> None:
    image_id = home.ids["holidays"][0]
    home.book.add([image_id], "beach")
    home.deliver()

    record = home.catalog.images([image_id])[image_id]
    home.catalog.update_images([replace(record, uri="winter/0.jpg")])
    home.deliver()

    inside = Filter((MatchAny("folders", ("winter",)),))
    assert TagSearch(home.store).search("beach", COLLECTION, filter_=inside).found.ids == (image_id,)


@pytest.mark.parametrize("step", ["upsert_sparse", "delete", "set_alias", "tags_delivered", "create"])
def test_crash_at_any_step_loses_nothing_and_doubles_nothing(home: Home, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    first, second, third = home.ids["holidays"]
    if step != "create":
        home.book.add([third], "gone")
    home.book.add([first, second], "beach")
    if step == "delete":
        home.deliver()
        home.catalog.mark_gone([third])
    owner = home.catalog if step == "tags_delivered" else home.store

    def die(*_: object, **__: object) -> None:
        raise StoreError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(owner, step, die)
        with pytest.raises(StoreError):
            home.deliver()

    home.deliver()

    assert home.found("beach") == sorted([first, second])
    assert home.found("gone") == ([third] if step not in {"create", "delete"} else [])
    assert home.catalog.tag_outbox(10) == []


def test_crash_after_writing_delivers_again_to_the_same_points(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.book.add(home.ids["holidays"], "beach")
    home.deliver()
    home.book.add(home.ids["holidays"], "sunset")
    real = home.store.upsert_sparse

    def write_and_die(name: str, points: SparseBatch) -> None:
        real(name, points)
        raise StoreError("killed after writing")

    with monkeypatch.context() as patch:
        patch.setattr(home.store, "upsert_sparse", write_and_die)
        with pytest.raises(StoreError):
            home.deliver()

    assert home.deliver() == 3
    assert home.store.count(COLLECTION) == 6
    assert home.found("sunset") == sorted(home.ids["holidays"])


def test_tag_added_while_delivering_is_not_lost(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    image_id = home.ids["holidays"][0]
    home.book.add([image_id], "beach")
    real = home.store.upsert_sparse
    added = []

    def write_while_somebody_tags(name: str, points: SparseBatch) -> None:
        real(name, points)
        if not added:
            added.append(home.book.add([image_id], "sunset"))

    monkeypatch.setattr(home.store, "upsert_sparse", write_while_somebody_tags)
    home.deliver()

    assert home.found("sunset") == [image_id]


def test_dropped_collection_is_filled_again_from_the_catalog(home: Home) -> None:
    home.book.add(home.ids["holidays"], "beach")
    home.deliver()
    home.store.drop(COLLECTION)

    home.deliver()

    assert home.found("beach") == sorted(home.ids["holidays"])


def test_half_filled_collection_is_not_searched(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.book.add(home.ids["holidays"], "beach")

    def die(*_: object) -> None:
        raise StoreError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(home.store, "upsert_sparse", die)
        with pytest.raises(StoreError):
            home.deliver()

    assert TAGS not in home.store.aliases()


def test_book_refuses_what_is_no_tag(home: Home) -> None:
    image_id = home.ids["holidays"][0]
    for text in ("", "  ", "!!!", "x" * 201):
        with pytest.raises(InvalidRequestError):
            home.book.add([image_id], text)
    with pytest.raises(NotFoundError, match="nowhere"):
        home.book.add([image_id, "nowhere"], "beach")
    with pytest.raises(InvalidRequestError):
        home.book.list(source="magic")
    with pytest.raises(InvalidRequestError):
        home.book.undo(since=datetime(2024, 1, 1))  # noqa: DTZ001
    with pytest.raises(UnknownNameError):
        home.book.list(corpus="nowhere")
    with pytest.raises(InvalidRequestError):
        home.book.list(limit=0)
    assert home.book.list().tags == []


def test_same_tag_again_is_the_same_tag(home: Home) -> None:
    image_id = home.ids["holidays"][0]

    assert home.book.add([image_id, image_id], "beach") == home.book.add([image_id], "  beach ")
    assert len(home.book.list(image_id=image_id).tags) == 1


def test_list_comes_in_pages(home: Home) -> None:
    home.book.add(home.ids["holidays"], "beach")

    first = home.book.list(text="beach", limit=2)
    rest = home.book.list(text="beach", offset=first.next_offset or 0, limit=2)

    assert (len(first.tags), first.next_offset) == (2, 2)
    assert (len(rest.tags), rest.next_offset) == (1, None)
    assert {tag.image_id for tag in (*first.tags, *rest.tags)} == set(home.ids["holidays"])


def test_picture_that_cannot_be_read_any_more_is_found_by_its_tags_again_once_it_can(home: Home) -> None:
    first, second, _ = home.ids["holidays"]
    home.book.add([first, second], "beach")
    home.deliver()

    record = home.catalog.images([first])[first]
    home.catalog.update_images([replace(record, state=ImageState.FAILED)])
    home.deliver()
    assert home.found("beach") == [second]  # as in the other collections, which have buried it

    home.catalog.update_images([record])
    home.deliver()
    assert sorted(home.found("beach")) == sorted([first, second])


def test_a_tag_that_another_process_changes_while_it_is_delivered_is_written_as_it_is_then(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two deliverers: the second one reads and writes between the first one's reading and its writing."""
    first = home.ids["holidays"][0]
    home.book.add([first], "a black dog")
    write = home.store.upsert_sparse
    interrupted = False

    def slow(collection: str, batch: SparseBatch) -> None:
        nonlocal interrupted
        if not interrupted:
            interrupted = True
            home.book.add([first], "a red boat")
            home.deliver()
        write(collection, batch)

    monkeypatch.setattr(home.store, "upsert_sparse", slow)
    home.deliver()
    assert interrupted
    assert home.catalog.tag_outbox(10) == []
    assert home.found("a red boat") == [first]
    assert home.found("a black dog") == [first]


@pytest.mark.parametrize("limit", [1, 3, 7, 8])
def test_pages_by_cursor_hold_every_tag_once_newest_first(home: Home, limit: int) -> None:
    for number in range(7):
        home.book.add([home.ids["holidays"][number % 3]], f"tag {number}")
    whole = [tag.text for tag in home.book.list(limit=100).tags]
    assert sorted(whole) == [f"tag {number}" for number in range(7)]
    walked, cursor = [], None
    while True:
        page = home.book.list(limit=limit, cursor=cursor)
        walked += [tag.text for tag in page.tags]
        cursor = page.next_cursor
        if cursor is None:
            break
        assert len(page.tags) == limit
    assert walked == whole
