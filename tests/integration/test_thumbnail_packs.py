"""Thumbnails of a home in a bucket, against a real S3-compatible server: their cost, and how they are read, dropped, mended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.cli import run_here
from tests.support.home import image_ids, open_runtime
from tests.support.home_copies import IndexedHomes
from tests.support.pictures import write_photo, write_photos
from tests.support.s3_server import S3Server, s3_server

from lodestone.access.caller import LOCAL_CALLER
from lodestone.backup.create import create_backup
from lodestone.backup.rebuild import rebuild_catalog
from lodestone.backup.restore import restore_backup
from lodestone.directories.changes import remove_directory
from lodestone.embeddings.thumbnail_upkeep import damaged_packs
from lodestone.files.opening import open_area
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.corpus_changes import compact_corpus, remove_corpus
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.services.pictures import PictureUseCases
from lodestone.services.sessions.in_process import InProcessSession

BUCKET = "lodestone-test"
COUNT = 20


@pytest.fixture
def s3() -> Iterator[S3Server]:
    with s3_server(BUCKET) as server:
        yield server


@pytest.fixture
def runtime(s3: S3Server, indexed_homes: IndexedHomes, tmp_path: Path) -> Iterator[Runtime]:
    """A home of twenty pictures in slices of eight, whose thumbnails lie in a bucket."""

    def make(folder: Path) -> None:
        with indexed(s3, folder):
            for key, content in stored(s3).items():
                (folder / "bucket" / key).parent.mkdir(parents=True, exist_ok=True)
                (folder / "bucket" / key).write_bytes(content)

    indexed_homes.put(tmp_path, "thumbnails in a bucket", make)
    bucket = tmp_path / "bucket"
    s3.put(BUCKET, {str(path.relative_to(bucket)): path.read_bytes() for path in bucket.rglob("*.*")})
    with open_runtime(tmp_path, thumbnails=s3.url(f"{BUCKET}/t")) as opened:
        yield opened


@contextmanager
def indexed(s3: S3Server, folder: Path) -> Iterator[Runtime]:
    write_photos(folder / "photos", COUNT)
    with open_runtime(folder, thumbnails=s3.url(f"{BUCKET}/t")) as runtime:
        index_paths(runtime, IndexRequest((folder / "photos",)))
        yield runtime


def hashes(runtime: Runtime) -> set[str]:
    return {image.hash for image in runtime.catalog.images(image_ids(runtime).values()).values()}


def check_all(runtime: Runtime) -> None:
    for content in hashes(runtime):
        assert runtime.thumbnails.good(content) is not None


def stored(s3: S3Server) -> dict[str, bytes]:
    """The bucket's objects; pyarrow leaves empty ones where it deleted the last of a prefix."""
    keys = [key for key in s3.keys(BUCKET, "t/") if not key.endswith("/")]
    return {key: s3.client.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys}


def test_a_run_writes_one_object_a_slice_and_a_thumbnail_is_one_ranged_read(s3: S3Server, tmp_path: Path) -> None:
    with indexed(s3, tmp_path) as runtime:
        slices = list(runtime.catalog.slices())
        assert len([1 for method, _, _ in s3.requests if method == "PUT"]) == len(slices) == len(stored(s3)) == 3
        assert not [query for method, _, query in s3.requests if "list-type" in query]
        contents = [(image.hash, image.slice_id) for image in runtime.catalog.images(image_ids(runtime).values()).values()]
        in_first = [content for content, slice_id in contents if slice_id == slices[0].slice_id]
        runtime.thumbnails.read(in_first[0])
        s3.requests.clear()
        for content in in_first[1:]:
            assert runtime.thumbnails.read(content)[:2] == b"\xff\xd8"
        assert [method for method, _, _ in s3.requests] == ["GET"] * (len(in_first) - 1)


def test_a_deleted_picture_leaves_its_pack_with_the_next_compaction_and_a_changed_one_at_once(
    s3: S3Server, runtime: Runtime, tmp_path: Path
) -> None:
    first, second = sorted((tmp_path / "photos").iterdir())[:2]
    before = {image.uri: image.hash for image in runtime.catalog.images(image_ids(runtime).values()).values()}
    shown, changed = (runtime.thumbnails.read(before[path.name]) for path in (first, second))
    first.unlink()
    index_paths(runtime, IndexRequest((tmp_path / "photos",)))
    assert any(shown in content for content in stored(s3).values())
    report = compact_corpus(runtime, "default")
    assert (report.replaced, report.thumbnails_dropped) == (0, 1)  # its slice stays, with its row
    assert not any(shown in content for content in stored(s3).values())
    assert compact_corpus(runtime, "default").thumbnails_dropped == 0
    check_all(runtime)
    write_photo(second, seed=77)
    index_paths(runtime, IndexRequest((tmp_path / "photos",)))
    assert not any(changed in content for content in stored(s3).values())
    check_all(runtime)


def test_compaction_joins_packs_and_keeps_every_thumbnail(s3: S3Server, runtime: Runtime, tmp_path: Path) -> None:
    for path in sorted((tmp_path / "photos").iterdir())[::2]:
        path.unlink()
    index_paths(runtime, IndexRequest((tmp_path / "photos",)))
    known = {content: runtime.thumbnails.read(content) for content in hashes(runtime)}
    s3.put(BUCKET, {"t/packs/" + runtime.catalog.corpus("default").corpus_id + "/00/" + "00" * 16 + ".thumbnails": b"stray"})
    assert compact_corpus(runtime, "default").written
    assert {content: runtime.thumbnails.read(content) for content in hashes(runtime)} == known
    slices = [record for record in runtime.catalog.slices() if runtime.catalog.slice_images(record.slice_id)]
    assert {key.rpartition("/")[2].partition(".")[0] for key in stored(s3)} == {record.fingerprint for record in slices}


def test_a_removed_directory_or_corpus_takes_its_thumbnails_along(s3: S3Server, runtime: Runtime, tmp_path: Path) -> None:
    write_photos(tmp_path / "more", 3, size=(200, 300))
    index_paths(runtime, IndexRequest((tmp_path / "more",)))
    (root,) = [root for root in runtime.catalog.roots(None) if root.name == "more"]
    shown = [runtime.thumbnails.read(image.hash) for image in runtime.catalog.images_of_root(root.root_id)]
    assert remove_directory(runtime, root.root_id).thumbnails == 3
    assert not any(thumbnail in content for thumbnail in shown for content in stored(s3).values())
    check_all(runtime)
    remove_corpus(runtime, "default")
    assert stored(s3) == {}


@pytest.mark.nightly_beyond(1)
@pytest.mark.parametrize("damage", ["missing", "cut", "altered"])
def test_a_damaged_pack_is_shown_anew_and_mended_by_the_next_run(
    s3: S3Server, runtime: Runtime, tmp_path: Path, damage: str
) -> None:
    whole = stored(s3)
    key = min(whole)
    if damage == "missing":
        s3.client.delete_object(Bucket=BUCKET, Key=key)
    else:
        s3.put(BUCKET, {key: whole[key][:-1] + (b"x" if damage == "altered" else b"")})
    (corpus,) = runtime.catalog.corpora()
    quick = [pack.name.path for pack in damaged_packs(runtime.catalog, runtime.thumbnails, corpus.corpus_id)]
    assert quick == ([] if damage == "altered" else [key.removeprefix("t/")])
    told = run_here("embeddings", "verify", "--deep", home=runtime.home.path, LODESTONE_INDEX__THUMBNAILS=s3.url(f"{BUCKET}/t"))
    assert (told.code, "1 pack of thumbnails" in told.err) == (15, True), told.err
    assert key.removeprefix("t/") in told.out
    shown = PictureUseCases(InProcessSession(runtime))
    for image_id in image_ids(runtime).values():
        assert shown.thumbnail(image_id, LOCAL_CALLER).media_type == "image/jpeg"
    report = index_paths(runtime, IndexRequest((tmp_path / "photos",)))
    assert report.counts.get("embedded", 0) == 0
    packs = {name: content for name, content in stored(s3).items() if "/packs/" in name}
    assert packs == whole
    assert list(damaged_packs(runtime.catalog, runtime.thumbnails, corpus.corpus_id, deep=True)) == []
    check_all(runtime)


def test_verify_repairs_packs_with_everything_else(s3: S3Server, runtime: Runtime, tmp_path: Path) -> None:
    runtime.close()
    at = {"LODESTONE_INDEX__THUMBNAILS": s3.url(f"{BUCKET}/t")}
    key = min(stored(s3))
    s3.put(BUCKET, {key: b"damaged"})
    told = run_here("verify", "--all", "--repair", "--output", "json", home=tmp_path / "home", **at)
    assert [file["part"] for file in told.json["files"]["damaged"]] == ["thumbnails"]
    assert key not in stored(s3)
    assert run_here("index", tmp_path / "photos", home=tmp_path / "home", **at).code == 0
    assert key in stored(s3)
    assert run_here("verify", "--all", home=tmp_path / "home", **at).code == 0


def test_slices_with_single_thumbnails_of_an_older_version_stay_as_they_are(
    s3: S3Server, runtime: Runtime, tmp_path: Path
) -> None:
    singles = {content: runtime.thumbnails.read(content) for content in hashes(runtime)}
    for key in stored(s3):
        s3.client.delete_object(Bucket=BUCKET, Key=key)
    for content, data in singles.items():
        runtime.thumbnails.put(content, data)
    write_photo(tmp_path / "photos" / "new.jpg", seed=200)
    index_paths(runtime, IndexRequest((tmp_path / "photos",)))
    assert len([key for key in stored(s3) if "/packs/" in key]) == 1
    check_all(runtime)
    (corpus,) = runtime.catalog.corpora()
    assert list(damaged_packs(runtime.catalog, runtime.thumbnails, corpus.corpus_id)) == []
    min((tmp_path / "photos").iterdir()).unlink()
    index_paths(runtime, IndexRequest((tmp_path / "photos",)))
    compact_corpus(runtime, "default")
    check_all(runtime)
    gone = set(singles) - hashes(runtime)
    assert not [key for key in stored(s3) for content in gone if content in key]


@pytest.mark.parametrize("to_bucket", [True, False])
def test_a_backup_brings_packs_back_to_a_bucket_and_single_files_to_a_folder(
    s3: S3Server, runtime: Runtime, tmp_path: Path, to_bucket: bool
) -> None:
    area = open_area(tmp_path / "backup")
    create_backup(runtime, area, thumbnails=True)
    assert create_backup(runtime, area, thumbnails=True).copied == 0
    wanted = {content: runtime.thumbnails.read(content) for content in hashes(runtime)}
    options = {"thumbnails": s3.url(f"{BUCKET}/new")} if to_bucket else {}
    with open_runtime(tmp_path / "new", **options) as new:
        restore_backup(new, area, new_id=True)
        assert {content: new.thumbnails.read(content) for content in wanted} == wanted
        assert len(list(new.thumbnails.contents())) == (0 if to_bucket else len(wanted))


def test_a_rebuilt_catalog_finds_the_packs(s3: S3Server, runtime: Runtime, tmp_path: Path) -> None:
    wanted = {content: runtime.thumbnails.read(content) for content in hashes(runtime)}
    runtime.close()
    (tmp_path / "home" / "catalog.sqlite").unlink()
    rebuild_catalog(runtime.home, open_area(runtime.home.embeddings))
    s3.requests.clear()
    with open_runtime(tmp_path, thumbnails=s3.url(f"{BUCKET}/t")) as rebuilt:
        assert {content: rebuilt.thumbnails.read(content) for content in hashes(rebuilt)} == wanted
    assert not [method for method, _, _ in s3.requests if method == "PUT"]
