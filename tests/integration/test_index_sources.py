"""Indexing a real S3 server, archives and tables to the end: searched, shown, gone, resumed, and nothing temporary left."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.archives import tar_bytes
from tests.support.home import open_runtime, vectors_of
from tests.support.pictures import jpeg_bytes
from tests.support.s3_server import S3Server, s3_server

from lodestone.access.caller import LOCAL_CALLER
from lodestone.catalog.records import ImageState
from lodestone.errors import ManifestChangedError, NotFoundError, SourceError
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexReport, IndexRequest
from lodestone.services.pictures import PictureUseCases
from lodestone.services.sessions.in_process import InProcessSession

PICTURES = [jpeg_bytes((64, 48), seed=i) for i in range(12)]


@pytest.fixture
def s3() -> Iterator[S3Server]:
    with s3_server("photos") as server:
        yield server


def index(runtime: Runtime, *paths: Path | str, **options: object) -> IndexReport:
    return index_paths(runtime, IndexRequest(tuple(paths), **options))  # type: ignore[arg-type]


def images_of(runtime: Runtime) -> dict[str, str]:
    """Uri -> id of the pictures that can be found."""
    found = (i for root in runtime.catalog.roots() for i in runtime.catalog.images_of_root(root.root_id))
    return {image.uri: image.image_id for image in found if image.state is ImageState.ACTIVE}


def test_bucket_with_pictures_archives_and_tables_is_searched_shown_and_followed(tmp_path: Path, s3: S3Server) -> None:
    table = io.BytesIO()
    pq.write_table(pa.table({"image": PICTURES[8:], "caption": ["a lake", "a hill", "", None]}), table)
    objects = {f"in/{i}.jpg": content for i, content in enumerate(PICTURES[:4])}
    objects["in/4.jpg"] = b"no picture at all"
    objects["tars/s-0.tar"] = tar_bytes({f"{i}.jpg": content for i, content in enumerate(PICTURES[4:8], start=4)})
    objects["t.parquet"] = table.getvalue()
    s3.put("photos", objects)
    places = [s3.url("photos/in"), s3.url("photos/tars/s-*.tar"), s3.url("photos/t.parquet")]
    with open_runtime(tmp_path) as runtime:
        report = index(runtime, *places)
        assert (report.images, report.counts["embedded"], report.counts["failed"]) == (12, 12, 1)
        ids = images_of(runtime)
        assert set(vectors_of(runtime, "bridge")) == set(ids.values())
        shown = PictureUseCases(InProcessSession(runtime))
        originals = [shown.content(ids[uri], LOCAL_CALLER).source for uri in ("0.jpg", "s-0.tar/5.jpg", "t.parquet/000000002")]
        assert originals == [PICTURES[0], PICTURES[5], PICTURES[10]]
        runtime.thumbnails.discard(runtime.catalog.images([ids["1.jpg"]])[ids["1.jpg"]].hash)
        assert shown.thumbnail(ids["1.jpg"], LOCAL_CALLER).media_type == "image/jpeg"
        assert shown.image(ids["t.parquet/000000001"], LOCAL_CALLER).captions == ["a hill"]

        s3.client.copy_object(Bucket="photos", Key="in/new/0.jpg", CopySource="photos/in/0.jpg")
        s3.client.delete_object(Bucket="photos", Key="in/0.jpg")
        s3.client.delete_object(Bucket="photos", Key="in/1.jpg")
        before = s3.keys("photos")
        with pytest.raises(NotFoundError):
            shown.content(ids["1.jpg"], LOCAL_CALLER)
        again = index(runtime, *places)
        assert (again.counts["moved"], again.counts["gone"], again.counts.get("embedded", 0)) == (1, 2, 0)
        assert images_of(runtime)["new/0.jpg"] == ids["0.jpg"]
        assert ids["1.jpg"] not in vectors_of(runtime, "bridge")
    assert s3.keys("photos") == before
    assert s3.uploads("photos") == []
    assert not [path for path in tmp_path.rglob("*") if path.suffix in {".part", ".tmp"}]
    assert "testing-secret" not in "".join(str(root) for root in places)


def test_credentials_that_expire_half_way_lose_nothing_and_the_next_run_finishes(tmp_path: Path, s3: S3Server) -> None:
    s3.put("photos", {f"in/{i:02}.jpg": content for i, content in enumerate(PICTURES)})
    with open_runtime(tmp_path, slice_size=4) as runtime:
        counted = iter(range(10_000))

        def expire(method: str, key: str) -> bool:
            if method == "GET" and next(counted) == 5:
                s3.lives = 0
            return False

        s3.deny = expire
        with pytest.raises(SourceError, match="expired"):
            index(runtime, s3.url("photos/in"))
        assert {image.state for root in runtime.catalog.roots() for image in runtime.catalog.images_of_root(root.root_id)} <= {
            ImageState.PENDING,
            ImageState.ACTIVE,
        }
        s3.lives, s3.deny = None, lambda _method, _key: False
        report = index(runtime, resume="")
        assert report.images == len(PICTURES)
        assert report.counts["embedded"] <= len(PICTURES)


def test_reads_that_are_all_denied_end_the_run_and_give_no_picture_up(tmp_path: Path, s3: S3Server) -> None:
    s3.put("photos", {f"in/{i}.jpg": content for i, content in enumerate(PICTURES[:4])})
    with open_runtime(tmp_path) as runtime:
        s3.deny = lambda method, key: method == "GET" and key.endswith(".jpg")  # facts may be asked for, contents may not
        with pytest.raises(SourceError, match="denied"):
            index(runtime, s3.url("photos/in"))
        s3.deny = lambda method, key: method == "GET" and key.endswith("0.jpg")
        report = index(runtime, s3.url("photos/in"))
        assert (report.images, report.counts["failed"]) == (3, 1)
        (failure,) = runtime.catalog.failures()
        assert (failure.uri, failure.code) == ("0.jpg", "denied")
        s3.deny = lambda _method, _key: False
        assert index(runtime, s3.url("photos/in"), retry_failed=True).images == 4


def test_archive_edited_under_the_embedding_ends_the_run_and_the_next_one_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.tar"
    path.write_bytes(tar_bytes({f"{i}.jpg": content for i, content in enumerate(PICTURES[:4])}))
    from lodestone.indexing.embed import slice_batches

    made = slice_batches.task_of

    def edited(*arguments: object) -> object:
        path.write_bytes(tar_bytes({f"{i}.jpg": content for i, content in enumerate(PICTURES[1:4], start=1)}))
        return made(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(slice_batches, "task_of", edited)
    with open_runtime(tmp_path) as runtime:
        with pytest.raises(ManifestChangedError, match=r"s\.tar"):
            index(runtime, path)
        monkeypatch.undo()
        report = index(runtime, path)
        assert report.images == 3
        assert report.counts["failed"] == 0
    assert replace(IndexRequest(), paths=("s3://b/x",)).as_dict()["paths"] == ["s3://b/x"]
