"""What becomes of the pictures of buckets, archives and tables between two listings: kept, moved, changed, gone, refused."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.archives import tar_bytes, write_tar
from tests.support.pictures import jpeg_bytes
from tests.support.s3_server import S3Server, s3_server

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import ImageRecord, ImageState
from lodestone.errors import ManifestChangedError, SourceError
from lodestone.files.beneath import Boundaries
from lodestone.indexing.faults import Faults
from lodestone.indexing.progress import Meter, RunStage, silent
from lodestone.indexing.scan.caption_changes import Recaptioner
from lodestone.indexing.scan.changes import ChangeFinder
from lodestone.indexing.scan.scan_scopes import examine, scopes_of

PICTURES = [jpeg_bytes((40, 30), seed=i) for i in range(6)]


@dataclass
class Indexed:
    """A catalog that listings are entered in, without embedding anything."""

    catalog: Catalog
    runs: list[str] = field(default_factory=list)

    def list(self, *named: Path | str, retry_failed: bool = False) -> dict[str, int]:
        """List what is named; counts by what became of the pictures."""
        corpus = self.catalog.ensure_corpus("c")
        self.runs.append(self.catalog.start_run("index", corpus.corpus_id).run_id)
        candidates, problems = examine(named, boundaries=Boundaries())
        if problems:
            raise problems[0]
        recaptioner = Recaptioner(self.catalog, "captions")
        finder = ChangeFinder(self.catalog, self.runs[-1], recaptioner, Faults(), retry_failed=retry_failed)
        scopes = [scope for one in candidates for scope in scopes_of(one, self.catalog, corpus, boundaries=Boundaries())[0]]
        finder.update(scopes, Meter(silent, RunStage.DISCOVER), lambda _: None)
        return {kind: count for kind, count in finder.changes.counts.items() if count}

    def images(self) -> dict[str, ImageRecord]:
        """Pictures that are not gone, by uri."""
        found = (i for root in self.catalog.roots() for i in self.catalog.images_of_root(root.root_id))
        return {image.uri: image for image in found if image.state is not ImageState.GONE}

    def failures(self) -> list[tuple[str, str]]:
        return [(failure.uri, failure.code) for failure in self.catalog.failures(run_id=self.runs[-1])]


@pytest.fixture
def indexed(tmp_path: Path) -> Iterator[Indexed]:
    with Catalog.open(tmp_path / "catalog.sqlite") as catalog:
        yield Indexed(catalog)


@pytest.fixture
def s3() -> Iterator[S3Server]:
    with s3_server("photos") as server:
        server.put("photos", {f"in/{i}.jpg": content for i, content in enumerate(PICTURES)})
        yield server


def test_objects_are_unchanged_moved_changed_or_gone_and_nothing_is_downloaded(indexed: Indexed, s3: S3Server) -> None:
    place = s3.url("photos/in")
    assert indexed.list(place) == {"new": 6}
    before = indexed.images()
    s3.requests.clear()
    assert indexed.list(place) == {"unchanged": 6}
    assert {method for method, path, _ in s3.requests if path.endswith(".jpg")} == set()
    s3.client.copy_object(Bucket="photos", Key="in/sub/moved.jpg", CopySource="photos/in/0.jpg")
    for key in ("in/0.jpg", "in/1.jpg"):
        s3.client.delete_object(Bucket="photos", Key=key)
    s3.put("photos", {"in/2.jpg": PICTURES[2] + b"more"})
    assert indexed.list(place) == {"gone": 2, "moved": 1, "changed": 1, "unchanged": 3}
    after = indexed.images()
    assert after["sub/moved.jpg"].image_id == before["0.jpg"].image_id
    assert after["2.jpg"].hash != before["2.jpg"].hash
    assert indexed.catalog.roots()[0].path == place.replace("photos/in", "photos/in")
    assert (indexed.catalog.roots()[0].name, indexed.catalog.roots()[0].kind) == ("in", "object")


def test_prefix_inside_an_indexed_one_belongs_to_it_and_one_around_it_leaves_it_its_pictures(
    indexed: Indexed, s3: S3Server
) -> None:
    s3.put("photos", {"in/deep/x.jpg": PICTURES[0] + b"x", "top.jpg": PICTURES[0] + b"y"})
    indexed.list(s3.url("photos/in"))
    assert indexed.list(s3.url("photos/in/deep")) == {"unchanged": 1}
    assert indexed.list(s3.url("photos/in/3.jpg")) == {"unchanged": 1}
    assert len(indexed.catalog.roots()) == 1
    assert indexed.list(s3.url("photos")) == {"new": 1, "unchanged": 7}
    assert [root.name for root in indexed.catalog.roots()] == ["in", "photos"]


def test_listing_that_breaks_off_enters_what_it_saw_and_calls_nothing_gone(indexed: Indexed, s3: S3Server) -> None:
    s3.put("photos", {f"in/{folder}/{i}.jpg": PICTURES[0] + folder.encode() for folder in "abc" for i in range(2)})
    indexed.list(s3.url("photos/in"))
    s3.client.delete_object(Bucket="photos", Key="in/a/0.jpg")
    s3.put("photos", {"in/d/0.jpg": PICTURES[0] + b"d"})
    s3.lives = 3  # the first look and the top folder's listing; then the token is over
    with pytest.raises(SourceError, match="expired"):
        indexed.list(s3.url("photos/in"))
    assert "a/0.jpg" in indexed.images()
    s3.lives = None
    assert indexed.list(s3.url("photos/in")) == {"gone": 1, "new": 1, "unchanged": 11}


def test_bucket_that_lists_but_denies_reads_fails_with_a_row_for_each_and_goes_on_where_it_may(
    indexed: Indexed, s3: S3Server
) -> None:
    place = s3.url("photos/in") + "&background_writes=1"  # listed without versions: each object has to be asked about
    s3.deny = lambda _method, _key: True
    with pytest.raises(SourceError, match="denied for all 6"):
        indexed.list(place)
    assert indexed.images() == {}
    assert sorted(indexed.failures()) == [(f"{i}.jpg", "denied") for i in range(6)]
    s3.deny = lambda _method, key: key.endswith("0.jpg")
    assert indexed.list(place) == {"new": 5, "unreadable": 1, "failures": 1}
    s3.deny = lambda _method, _key: False
    assert indexed.list(place) == {"new": 1, "unchanged": 5}


def test_archives_keep_ids_when_they_are_packed_anew_and_lose_what_they_lose(indexed: Indexed, tmp_path: Path) -> None:
    shards = tmp_path / "shards"
    write_tar(shards / "s-0.tar", {"a.jpg": PICTURES[0], "a.txt": b"a boat", "b.jpg": PICTURES[1]})
    write_tar(shards / "s-1.tar", {"c.jpg": PICTURES[2]})
    assert indexed.list(shards) == {"new": 3}
    before = indexed.images()
    assert [c.text for c in indexed.catalog.captions([before["s-0.tar/a.jpg"].image_id])[before["s-0.tar/a.jpg"].image_id]] == [
        "a boat"
    ]
    assert indexed.list(shards) == {"unchanged": 3}
    write_tar(shards / "s-0.tar", {"b.jpg": PICTURES[1]})
    os.utime(shards / "s-0.tar", ns=(1, 1))
    write_tar(shards / "s-2.tar", {"z.jpg": PICTURES[0]})
    (shards / "s-1.tar").unlink()
    assert indexed.list(shards) == {"gone": 2, "touched": 1, "moved": 1}
    after = indexed.images()
    assert sorted(after) == ["s-0.tar/b.jpg", "s-2.tar/z.jpg"]
    assert after["s-2.tar/z.jpg"].image_id == before["s-0.tar/a.jpg"].image_id
    assert after["s-0.tar/b.jpg"].position != before["s-0.tar/b.jpg"].position
    assert sorted(indexed.catalog.containers(indexed.catalog.roots()[0].root_id)) == ["s-0.tar", "s-2.tar"]


def test_archives_named_one_by_one_share_a_root_and_leave_the_others_alone(indexed: Indexed, tmp_path: Path) -> None:
    for i in range(3):
        write_tar(tmp_path / "shards" / f"s-{i}.tar", {f"{i}.jpg": PICTURES[i]})
    names = [tmp_path / "shards" / f"s-{i}.tar" for i in range(3)]
    assert indexed.list(*names[:2]) == {"new": 2}
    assert indexed.list(names[2]) == {"new": 1}
    (root,) = indexed.catalog.roots()
    assert (root.name, root.kind) == ("shards", "tar")
    names[0].unlink()
    assert indexed.list(names[1]) == {"unchanged": 1}
    assert indexed.list(tmp_path / "shards" / "s-*.tar") == {"gone": 1, "unchanged": 2}


def test_archive_that_got_cut_short_keeps_what_was_in_it(indexed: Indexed, tmp_path: Path) -> None:
    path = write_tar(tmp_path / "shards" / "s.tar", {f"{i}.jpg": content for i, content in enumerate(PICTURES)})
    indexed.list(path)
    path.write_bytes(path.read_bytes()[:4000])
    counts = indexed.list(path)
    assert "gone" not in counts
    assert len(indexed.images()) == 6
    assert ("s.tar", "truncated") in indexed.failures()


def test_rows_that_shift_in_a_table_are_the_same_pictures(indexed: Indexed, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"image": PICTURES[:3], "id": [7, 8, 9]}), path)
    assert indexed.list(path) == {"new": 3}
    before = {image.hash: image.image_id for image in indexed.images().values()}
    pq.write_table(pa.table({"image": PICTURES[3:4] + PICTURES[:3], "id": [6, 7, 8, 9]}), path)
    counts = indexed.list(path)
    assert counts == {"gone": 3, "moved": 3, "new": 1}
    after = {image.hash: image.image_id for image in indexed.images().values()}
    assert before.items() <= after.items()


def test_picture_behind_a_table_s_uri_that_changes_is_noticed_although_the_table_did_not(
    indexed: Indexed, tmp_path: Path
) -> None:
    (tmp_path / "a.jpg").write_bytes(PICTURES[0])
    pq.write_table(pa.table({"path": ["a.jpg"]}), tmp_path / "t.parquet")
    assert indexed.list(tmp_path / "t.parquet") == {"new": 1}
    (tmp_path / "a.jpg").write_bytes(PICTURES[1])
    assert indexed.list(tmp_path / "t.parquet") == {"changed": 1}


def test_table_edited_under_a_run_is_refused_and_the_next_run_takes_it(
    indexed: Indexed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lodestone.sources import containers

    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"image": PICTURES}), path)
    texts, rows = containers._texts, iter(range(100))

    def edited(cell: object) -> tuple[str, ...]:
        if next(rows) == 3:
            os.utime(path, ns=(5, 5))
        return texts(cell)

    monkeypatch.setattr(containers, "_texts", edited)
    with pytest.raises(ManifestChangedError, match=r"t\.parquet"):
        indexed.list(path)
    monkeypatch.undo()
    indexed.list(path)
    assert len(indexed.images()) == len(PICTURES)


def test_folder_s_pictures_are_not_asked_about_one_by_one_when_nothing_changed(
    indexed: Indexed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i, content in enumerate(PICTURES):
        (tmp_path / "photos").mkdir(exist_ok=True)
        (tmp_path / "photos" / f"{i}.jpg").write_bytes(content)
    indexed.list(tmp_path / "photos")
    asked: list[Path] = []
    monkeypatch.setattr("lodestone.indexing.scan.changes.vanished", lambda path: asked.append(path) or True)
    assert indexed.list(tmp_path / "photos") == {"unchanged": 6}
    assert asked == []
    (tmp_path / "photos" / "0.jpg").unlink()
    assert indexed.list(tmp_path / "photos") == {"unchanged": 5, "gone": 1}
    assert asked == [tmp_path / "photos" / "0.jpg"]


def test_tars_of_a_bucket_are_not_downloaded_again_when_nothing_changed(indexed: Indexed, s3: S3Server) -> None:
    s3.put("photos", {"w/s.tar": tar_bytes({"a.jpg": PICTURES[0]})})
    assert indexed.list(s3.url("photos/w/s.tar")) == {"new": 1}
    sent: list[str] = []
    s3.deny = lambda method, key: bool(sent.append(key)) if method == "GET" else False
    candidates, _ = examine([s3.url("photos/w/s.tar")], boundaries=Boundaries())
    sent.clear()
    corpus = indexed.catalog.ensure_corpus("c")
    (scope,) = scopes_of(candidates[0], indexed.catalog, corpus, boundaries=Boundaries())[0]
    assert scope.source is not None
    assert list(scope.source.items(print)) == []
    assert sent == []
