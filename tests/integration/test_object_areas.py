"""Embeddings and thumbnails in an object store keep what a folder promises, against a real S3-compatible server."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.support.home import open_runtime, vectors_of
from tests.support.pictures import write_photos
from tests.support.s3_server import S3Server, s3_server

from lodestone.catalog.records import Receipt
from lodestone.embeddings.slices import find_part, read_part, remove_corpus_files, remove_leftovers, write_part
from lodestone.embeddings.tables import outputs_table
from lodestone.errors import ConfigurationError, EmbeddingsDamagedError, LodestoneError, SourceError
from lodestone.files.area import FileArea
from lodestone.files.opening import open_area
from lodestone.imaging.thumbnails import ThumbnailStore
from lodestone.indexing.run.corpus_changes import compact_corpus, remove_corpus
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.indexing.sync.collections import sync

BUCKET = "lodestone-test"
CORPUS = "6f9619ff-8b86-d011-b42d-00cf4fc964ff"
FP = "ab" * 16
HASH = "ab" + "c0" * 31


@pytest.fixture
def s3() -> Iterator[S3Server]:
    with s3_server(BUCKET) as server:
        yield server


def _write(area: FileArea, rows: int = 8) -> Receipt:
    matrix = np.random.default_rng(7).normal(size=(rows, 32)).astype(np.float16)
    table = outputs_table([f"id{row}" for row in range(rows)], ["0" * 64] * rows, {"v": matrix})
    written = write_part(area, CORPUS, FP, "lite0-1", table)
    return Receipt("slice", "lite0-1", written.path, written.rows, written.size, written.checksum, 0.0)


def test_a_part_is_one_put_to_its_final_key(s3: S3Server) -> None:
    area = open_area(s3.url(f"{BUCKET}/home/embeddings"))
    receipt = _write(area)
    key = f"home/embeddings/{receipt.path}"
    assert [(method, path) for method, path, _ in s3.requests] == [("PUT", f"/{BUCKET}/{key}")]
    assert s3.keys(BUCKET) == [key]
    assert s3.uploads(BUCKET) == []


def test_parts_come_back_as_from_a_folder(s3: S3Server, tmp_path: Path) -> None:
    far, near = open_area(s3.url(f"{BUCKET}/e")), open_area(tmp_path)
    receipt = _write(far)
    assert _write(near) == receipt
    assert read_part(far, receipt, verify=True).equals(read_part(near, receipt))
    found = find_part(far, CORPUS, FP, "lite0-1", slice_id="slice")
    assert found is not None
    assert (found.path, found.checksum) == (receipt.path, receipt.checksum)
    assert find_part(far, CORPUS, FP, "other-1", slice_id="slice") is None
    assert remove_leftovers(far, CORPUS) == 0
    assert [stored.path for stored in far.files()] == [receipt.path] == [stored.path for stored in near.files()]
    remove_corpus_files(far, CORPUS)
    remove_corpus_files(far, CORPUS)
    assert list(far.files()) == []


def test_an_area_travels_to_other_processes(s3: S3Server) -> None:
    area = open_area(s3.url(f"{BUCKET}/e"))
    receipt = _write(area)  # so that a connection is open
    assert read_part(pickle.loads(pickle.dumps(area)), receipt).num_rows == 8


@pytest.mark.parametrize("damage", ["missing", "truncated", "other"])
def test_damaged_objects_are_damaged_embeddings(s3: S3Server, damage: str) -> None:
    area = open_area(s3.url(f"{BUCKET}/e"))
    receipt = _write(area)
    client, key = s3.client, f"e/{receipt.path}"
    content = client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    if damage == "missing":
        client.delete_object(Bucket=BUCKET, Key=key)
    else:
        client.put_object(Bucket=BUCKET, Key=key, Body=content[:-50] if damage == "truncated" else b"x" * len(content))
    with pytest.raises(EmbeddingsDamagedError):
        read_part(area, receipt)


def test_a_store_that_is_away_or_refuses_is_not_taken_for_damage(s3: S3Server) -> None:
    receipt = _write(open_area(s3.url(f"{BUCKET}/e")))
    nowhere = open_area(s3.url("no-such-bucket/e"))
    for attempt in (lambda: _write(nowhere), lambda: read_part(nowhere, receipt)):
        with pytest.raises(SourceError, match="no such bucket") as caught:
            attempt()
        assert "s3://no-such-bucket/e" in caught.value.message
    with pytest.raises(SourceError):
        find_part(nowhere, CORPUS, FP, "lite0-1", slice_id="slice")


@pytest.mark.parametrize("url", ["s3://AKIA:geheim@bucket/x", "s3://bucket/x?secret_key=geheim&access_key=AKIA"])
def test_credentials_in_a_url_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_area(url)
    assert "geheim" not in str(caught.value)
    assert "AWS_SECRET_ACCESS_KEY" in caught.value.hint


def test_thumbnails_lie_in_a_bucket_too(s3: S3Server) -> None:
    store = ThumbnailStore(open_area(s3.url(f"{BUCKET}/t")), size=32)
    assert store.file(HASH) is None
    assert not store.has(HASH)
    store.ensure(HASH, Image.new("RGB", (64, 48)))
    assert store.has(HASH)
    assert store.read(HASH)[:2] == b"\xff\xd8"
    assert list(store.contents()) == [HASH]
    assert store.discard(HASH)
    assert not store.discard(HASH)
    assert list(store.contents()) == []


def test_any_store_that_fsspec_knows_is_an_area() -> None:
    area = open_area("memory://lodestone-test/e")
    receipt = _write(area)
    assert read_part(area, receipt, verify=True).num_rows == 8
    assert [stored.path for stored in area.files()] == [receipt.path]
    area.delete_folder(CORPUS)
    assert list(area.files()) == []


def test_a_home_keeps_its_embeddings_and_thumbnails_in_a_bucket(s3: S3Server, tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 6)
    options = {"embeddings": s3.url(f"{BUCKET}/home/embeddings"), "thumbnails": s3.url(f"{BUCKET}/home/thumbnails")}
    with open_runtime(tmp_path, **options) as runtime:
        request = IndexRequest((tmp_path / "photos",))
        assert index_paths(runtime, request).images == 6
        puts = sorted(path for method, path, _ in s3.requests if method == "PUT")
        assert puts == sorted(f"/{BUCKET}/{key}" for key in s3.keys(BUCKET))  # one for each object, and none of another name
        assert not {method for method, _, _ in s3.requests} & {"POST", "DELETE"}
        receipts = [r for record in runtime.catalog.slices() for r in runtime.catalog.receipts(record.slice_id).values()]
        stored = [key for key in s3.keys(BUCKET, "home/embeddings/") if not key.endswith("/corpus.json")]
        assert sorted(stored) == sorted(f"home/embeddings/{receipt.path}" for receipt in receipts)
        assert [key.count("/packs/") for key in s3.keys(BUCKET, "home/thumbnails/")] == [1]  # all six in one
        assert list(runtime.home.embeddings.rglob("*.parquet")) == list(runtime.home.thumbnails.rglob("*.jpg")) == []
        for path in sorted((tmp_path / "photos").iterdir())[:2]:
            path.unlink()
        assert index_paths(runtime, request).counts.get("embedded", 0) == 0
        assert compact_corpus(runtime, "default").rows_dropped == 2
        runtime.store.drop(runtime.store.aliases()["bridge"])
        sync(runtime)
        assert len(vectors_of(runtime, "bridge")) == 4
        remove_corpus(runtime, "default")
        assert [key for key in s3.keys(BUCKET) if not key.endswith("/")] == []
    assert s3.uploads(BUCKET) == []


def test_a_bucket_that_cannot_be_written_ends_the_run_and_the_next_goes_on(s3: S3Server, tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 3)
    request = IndexRequest((tmp_path / "photos",))
    with (
        open_runtime(tmp_path, embeddings=s3.url("missing/e"), backoff_s=0.0) as runtime,
        pytest.raises(LodestoneError) as caught,
    ):
        index_paths(runtime, request)
    assert "no such bucket" in str(caught.value)
    s3.client.create_bucket(Bucket="missing")
    with open_runtime(tmp_path, embeddings=s3.url("missing/e")) as runtime:
        assert index_paths(runtime, request).images == 3
