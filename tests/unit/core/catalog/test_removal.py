"""The catalog forgets removed pictures in every table and in the bytes of its file, and nothing else."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.database import engine as database_engine
from lodestone.catalog.pictures.removal import Mentions
from lodestone.catalog.records import Failure, ImageRecord, ImageState, RunState, TagRecord
from lodestone.catalog.use_records import QueryRecord
from lodestone.indexing.embed.slicing import plan_slices


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog.open(tmp_path / "catalog.sqlite") as opened:
        yield opened


def fill(catalog: Catalog, count: int = 6) -> list[str]:
    """A corpus of `count` pictures in slices of two; their ids in the order of their names."""
    corpus = catalog.ensure_corpus("photos")
    root = catalog.ensure_root(corpus.corpus_id, "/pictures/secretfolder")
    uris = [f"secret-{number}.jpg" for number in range(count)]
    ids = catalog.mint_image_ids(corpus.corpus_id, root.name, uris)
    catalog.add_images(
        [
            ImageRecord(ids[uri], corpus.corpus_id, root.root_id, uri, f"{number:064x}", 1, 1, ImageState.PENDING)
            for number, uri in enumerate(uris)
        ]
    )
    run = catalog.start_run("index", corpus.corpus_id)
    plan_slices(catalog, corpus.corpus_id, size=2, first=2, workers=1, again=(), run_id=run.run_id)
    catalog.finish_run(run.run_id, RunState.DONE)
    return [ids[uri] for uri in uris]


def slices_of(catalog: Catalog, image_id: str) -> set[str | None]:
    return {image.slice_id for image in catalog.images([image_id]).values()}


def test_only_the_slices_of_a_removed_picture_are_listed_for_erasure(catalog: Catalog) -> None:
    ids = fill(catalog)
    corpus = catalog.corpus("photos").corpus_id
    (slice_id,) = slices_of(catalog, ids[2])
    catalog.withdraw_images([ids[2]])
    assert [record.slice_id for record in catalog.slices_to_erase(corpus)] == [slice_id]
    assert catalog.bytes_to_erase() == catalog.bytes_to_erase(corpus) == (1, 0)
    assert catalog.bytes_to_erase("another") == (0, 0)
    assert catalog.count_living(str(slice_id)) == (1, 0)
    assert catalog.remove_images([ids[2]]) == 1
    assert catalog.remove_images([ids[2]]) == 0
    assert [record.slice_id for record in catalog.slices_to_erase(corpus)] == [slice_id]
    assert list(catalog.tombstones("space-1")) == [ids[2]], "every collection must still delete it"
    assert len(catalog.images(ids)) == 5


def test_a_tombstone_goes_when_every_collection_has_carried_it_out(catalog: Catalog) -> None:
    ids = fill(catalog)
    catalog.withdraw_images(ids[:2])
    catalog.remove_images(ids[:1])
    catalog.mark_deleted("a", ids[:2])
    assert catalog.forget_tombstones(["a", "b"]) == 0
    catalog.mark_deleted("b", ids[:2])
    assert catalog.forget_tombstones(["a", "b"]) == 1, "the other picture still has a row"


def test_a_slice_with_pictures_is_not_dropped(catalog: Catalog) -> None:
    ids = fill(catalog)
    (slice_id,) = slices_of(catalog, ids[0])
    catalog.drop_slice(str(slice_id))
    assert slices_of(catalog, ids[0]) == {slice_id}
    catalog.withdraw_images(ids[:2])
    catalog.drop_slice(str(slice_id))
    assert catalog.slices_to_erase(catalog.corpus("photos").corpus_id) == []


def test_gone_pictures_are_listed_from_the_moment_on_that_they_are_kept_to(catalog: Catalog) -> None:
    ids = fill(catalog)
    now = datetime.now(UTC)
    catalog.mark_gone(ids[:2])
    assert sorted(catalog.gone_images()) == sorted(ids[:2])
    assert list(catalog.gone_images(before=now - timedelta(days=1))) == []
    assert sorted(catalog.gone_images(before=now + timedelta(minutes=1))) == sorted(ids[:2])
    assert list(catalog.gone_images(corpus_id="another")) == []
    count, since = catalog.count_gone()
    assert count == 2
    assert since is not None
    assert now - timedelta(seconds=1) <= since <= datetime.now(UTC)


def test_groups_of_copies_keep_their_other_pictures(catalog: Catalog) -> None:
    ids = fill(catalog)
    corpus = catalog.corpus("photos").corpus_id
    groups = [[(ids[0], 0.0), (ids[1], 0.1), (ids[2], 0.2)], [(ids[3], 0.0), (ids[4], 0.1)]]
    catalog.put_duplicates("near", corpus, groups)
    catalog.remove_images([ids[0], ids[4]])
    rows = [(row.image_id, row.group_id, row.distance) for row in catalog.duplicates()]
    assert rows == [(ids[1], ids[1], 0.0), (ids[2], ids[1], 0.2)]


def test_what_names_a_removed_picture_forgets_it(catalog: Catalog) -> None:
    ids = fill(catalog)
    corpus = catalog.corpus("photos")
    root = catalog.roots(corpus.corpus_id)[0]
    run = catalog.start_run("index", corpus.corpus_id, request={"paths": [root.path, "/pictures/others"]})
    catalog.add_failures([Failure(run.run_id, root.root_id, f"secret-{n}.jpg", "bad", "broken", ids[n]) for n in (0, 1)])
    catalog.finish_run(run.run_id, RunState.FAILED, "ImageError: secret-0.jpg is broken")
    other = catalog.start_run("index", corpus.corpus_id)
    catalog.finish_run(other.run_id, RunState.FAILED, "ImageError: something else")
    catalog.add_feedback("q1", ids[:2], ids[2:3], 0.1)
    catalog.add_feedback("q2", ids[3:4], [], 0.1)
    for number, trace in enumerate((b"keep", b"change", b"drop")):
        catalog.add_query(QueryRecord(f"q{number}", datetime.now(UTC), "words", "w", None, {}, trace), 10)

    answers = {b"keep": b"keep", b"change": b"changed", b"drop": None}
    mentions = Mentions(frozenset({ids[0], ids[2]}), frozenset({"secret-0.jpg", root.path}))
    catalog.forget_mentions(mentions, redact=lambda trace, _ids: answers[trace])
    catalog.remove_images([ids[0], ids[2]])

    assert {query.query_id: catalog.query(query.query_id).trace for query in catalog.queries()} == {  # type: ignore[union-attr]
        "q0": b"keep",
        "q1": b"changed",
    }
    assert {one.query_id: (one.relevant, one.irrelevant) for one in catalog.feedback()} == {
        "q1": ((ids[1],), ()),
        "q2": ((ids[3],), ()),
    }
    assert [failure.uri for failure in catalog.failures()] == ["secret-1.jpg"]
    first, second = catalog.run(run.run_id), catalog.run(other.run_id)
    assert first is not None
    assert second is not None
    assert "secret" not in first.error
    assert first.error.startswith("ImageError")
    assert first.request["paths"] == ["/pictures/others"]
    assert second.error == "ImageError: something else"


def test_nothing_is_looked_through_where_nothing_is_removed(catalog: Catalog) -> None:
    catalog.add_query(QueryRecord("q", datetime.now(UTC), "words", "w", None, {}, b"trace"), 10)
    assert catalog.forget_mentions(Mentions(frozenset(), frozenset({"trace"})), redact=lambda _trace, _ids: None) == 0
    assert catalog.has_query("q")


def test_the_file_holds_no_byte_of_what_was_removed_even_if_an_older_version_wrote_it(catalog: Catalog, tmp_path: Path) -> None:
    ids = fill(catalog, count=40)
    catalog.add_tags([TagRecord.new(ids[5], "secret tag", "user")])
    with closing(sqlite3.connect(tmp_path / "catalog.sqlite")) as connection:  # as an older version deletes
        connection.execute("PRAGMA secure_delete=OFF")
        connection.execute("INSERT INTO home_facts VALUES ('older', 'secret of an older version')")
        connection.execute("DELETE FROM home_facts WHERE name = 'older'")
        connection.commit()
    assert b"secret of an older" in content(tmp_path)
    catalog.erase_free_space()
    assert b"secret of an older" not in content(tmp_path)
    catalog.withdraw_images(ids)
    catalog.remove_images(ids)
    assert b"secret-" in content(tmp_path), "the log still holds the pages of before"
    assert catalog.erase_free_space() == 0
    assert b"secret-" not in content(tmp_path)
    assert b"secret tag" not in content(tmp_path)
    assert catalog.log_bytes() == 0


def test_a_reader_of_an_older_state_is_waited_for_as_long_as_is_said_and_no_longer(catalog: Catalog, tmp_path: Path) -> None:
    ids = fill(catalog, count=20)
    catalog.erase_free_space()
    with closing(sqlite3.connect(tmp_path / "catalog.sqlite", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM images").fetchone()
        catalog.withdraw_images(ids)
        catalog.remove_images(ids)
        started = time.monotonic()
        assert catalog.erase_free_space(wait_s=0.2) >= catalog.log_bytes() > 0
        assert 0.2 <= time.monotonic() - started < database_engine._BUSY_SECONDS / 2, "SQLite's own patience is for writers"
        with catalog._engine.connect() as connection:
            assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == database_engine._BUSY_SECONDS * 1000
        reader.execute("COMMIT")
        assert catalog.erase_free_space() == 0
    assert catalog.log_bytes() == 0


def content(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.glob("catalog.sqlite*")))
