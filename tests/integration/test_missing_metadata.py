"""A home of an older version: one index run reads the missing metadata from headers, and nothing else is done or touched."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from alembic import command
from alembic.config import Config
from PIL import Image
from PIL.ImageFile import ImageFile
from tests.support.archives import tar_bytes
from tests.support.home import open_runtime, vectors_of
from tests.support.pictures import encoded, photo
from tests.support.s3_server import s3_server

from lodestone.catalog.database import migrate
from lodestone.catalog.database.engine import make_engine
from lodestone.catalog.records import ImageRecord, ImageState
from lodestone.embeddings import tables
from lodestone.embeddings.slices import read_part
from lodestone.errors import ImageError, RunCancelledError
from lodestone.home.runtime import Runtime
from lodestone.imaging.metadata import METADATA_VERSION
from lodestone.indexing.parts import metadata as metadata_part
from lodestone.indexing.progress import ProgressEvent
from lodestone.indexing.run.corpus_changes import compact_corpus
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexReport, IndexRequest
from lodestone.indexing.scan import missing_metadata
from lodestone.indexing.scan.caption_changes import Recaptioner
from lodestone.sources.reading import Reader
from lodestone.store.base import Between, Filter, PointBatch
from lodestone_schemas.arrow import META_SCHEMA

NEW_COLUMNS = ("utc_offset_minutes", "taken_subsec_ms", "camera_make", "camera_model", "metadata_version")
NEWER_COLUMNS = ("taken_precision", "taken_source", "taken_zone", "decoded_share")
TAKEN_AT = 1_625_416_215  # 2021-07-04T16:30:15Z


def exif(number: int) -> bytes:
    made = Image.Exif()
    made.update({0x010F: "Lodecam", 0x0110: f"Model {number}"})
    made.get_ifd(0x8769).update({0x9003: "2021:07:04 18:30:15", 0x9011: "+02:00", 0x9291: "5"})
    made.get_ifd(0x8825).update({1: "N", 2: (47.0, 30.0, 0.0), 3: "E", 4: (8.0, 30.0, 0.0)})
    return made.tobytes()


def content(number: int, format_name: str = "JPEG") -> bytes:
    return encoded(photo((64, 48), seed=number), format_name, exif=exif(number))


@pytest.fixture
def as_of_old(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Until it is undone, slices get the meta files that an older version wrote."""

    def old_table(*args: Any, **options: Any) -> pa.Table:
        return tables.meta_table(*args, **options).drop_columns([*NEW_COLUMNS, *NEWER_COLUMNS])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metadata_part, "meta_table", old_table)
        yield patch


def index(runtime: Runtime, *paths: Path | str) -> IndexReport:
    return index_paths(runtime, IndexRequest(paths))


def downgrade(home: Path) -> None:
    engine = make_engine(home / "catalog.sqlite")
    config = Config()
    config.set_main_option("script_location", str(Path(migrate.__file__).parents[1] / "migrations"))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "0006")
    engine.dispose()


def _write_times_in_utc(runtime: Runtime) -> None:
    """Give the points the filter fields that an older version wrote."""
    collection = runtime.store.aliases()["bridge"]
    for batch in list(runtime.store.scroll(collection)):
        payloads = [{**payload, "taken_at": TAKEN_AT} for payload in batch.payloads]
        runtime.store.upsert(collection, PointBatch(batch.ids, batch.vectors, payloads))


def _at(runtime: Runtime, second: int) -> int:
    """Return the number of points whose clock showed a second."""
    only = Filter(must=(Between("taken_at", second, second + 1),))
    return runtime.store.count(runtime.store.aliases()["bridge"], only)


def files(runtime: Runtime) -> dict[str, tuple[int, bytes]]:
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in runtime.home.embeddings.rglob("*.parquet")}


def pictures(runtime: Runtime) -> dict[str, ImageRecord]:
    return {image.uri: image for root in runtime.catalog.roots() for image in runtime.catalog.images_of_root(root.root_id)}


def facts(image: ImageRecord) -> tuple[object, ...]:
    return (image.utc_offset_minutes, image.taken_subsec_ms, image.camera_make, image.camera_model, image.latitude)


def known(number: int) -> tuple[object, ...]:
    return (120, 500, "Lodecam", f"Model {number}", 47.5)


UNKNOWN = (None, None, None, None)


def test_one_run_fills_the_columns_and_touches_nothing_else(tmp_path: Path, as_of_old: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    formats = ("JPEG", "PNG", "WEBP", "TIFF", "AVIF")
    for number in range(20):
        (folder / f"{number:02}").write_bytes(content(number, formats[number % 5]))
        (folder / f"{number:02}").rename(folder / f"{number:02}.jpg")
    (folder / "bad.jpg").write_bytes(b"")  # (other failures are tried again after an upgrade)
    with open_runtime(tmp_path) as runtime:
        assert index(runtime, folder).counts["embedded"] == 20
    as_of_old.undo()
    downgrade(tmp_path / "home")

    with open_runtime(tmp_path) as runtime:
        old = pictures(runtime)
        assert {facts(image)[:4] for image in old.values()} == {UNKNOWN}
        _write_times_in_utc(runtime)
        assert (_at(runtime, TAKEN_AT), _at(runtime, TAKEN_AT + 7200)) == (20, 0)
        before, vectors, loads = files(runtime), vectors_of(runtime, "bridge"), _loads(runtime)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ImageFile, "load", _refuse)
            report = index(runtime, folder)
            assert (report.counts["metadata_read"], report.counts["metadata_unreadable"]) == (20, 0)
            assert report.counts.get("embedded", 0) == 0
            assert files(runtime) == before
            assert _loads(runtime) == loads
            filled = pictures(runtime)
            assert [facts(filled[f"{number:02}.jpg"]) for number in range(20)] == [known(number) for number in range(20)]
            assert {image.taken_at for image in filled.values() if image.state is ImageState.ACTIVE} == {TAKEN_AT}
            patch.setattr(missing_metadata, "read_header", _refuse)
            again = index(runtime, folder)
            assert (again.counts["metadata_read"], again.counts["metadata_unreadable"]) == (0, 0)
            assert pictures(runtime) == filled
        assert (_at(runtime, TAKEN_AT), _at(runtime, TAKEN_AT + 7200)) == (0, 20)  # local time, two hours ahead of UTC
        after = vectors_of(runtime, "bridge")
        assert {point: vector.tobytes() for point, vector in after.items()} == {p: v.tobytes() for p, v in vectors.items()}


def test_what_a_new_run_embeds_needs_no_second_reading(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_bytes(content(1))
    with open_runtime(tmp_path) as runtime:
        index(runtime, tmp_path / "photos")
        assert facts(pictures(runtime)["a.jpg"]) == known(1)
        assert index(runtime, tmp_path / "photos").counts["metadata_read"] == 0
        (record,) = runtime.catalog.slices()
        table = read_part(runtime.embeddings, runtime.catalog.receipts(record.slice_id)["meta"])
        assert table.schema.equals(META_SCHEMA)
        (row,) = table.to_pylist()
        assert [row[name] for name in NEW_COLUMNS] == [120, 500, "Lodecam", "Model 1", METADATA_VERSION]
        assert row["camera"] == "Lodecam Model 1"


def test_files_that_cannot_be_read_are_tried_again_when_they_change(tmp_path: Path, as_of_old: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.jpg").write_bytes(content(number))
    with open_runtime(tmp_path) as runtime:
        index(runtime, folder)
        as_of_old.undo()
        tried: list[str] = []

        def broken_read(source: BinaryIO) -> Any:
            name = Path(f"/dev/fd/{source.fileno()}").resolve().name
            tried.append(name)
            if name == "1.jpg":
                raise ImageError("denied", reason="unreadable")
            return read_header(source)

        read_header = missing_metadata.read_header
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(missing_metadata, "read_header", broken_read)
            report = index(runtime, folder)
            assert (report.counts["metadata_read"], report.counts["metadata_unreadable"]) == (2, 1)
            before = pictures(runtime)
            assert facts(before["1.jpg"]) == (*UNKNOWN, 47.5)
            assert index(runtime, folder).counts["metadata_unreadable"] == 0
            assert sorted(tried) == ["0.jpg", "1.jpg", "2.jpg"]
        os.utime(folder / "1.jpg", (1, 1))
        report = index(runtime, folder)
        assert (report.counts["touched"], report.counts["metadata_read"]) == (1, 1)
        assert facts(pictures(runtime)["1.jpg"]) == known(1)


def test_a_cancelled_run_keeps_what_it_read(tmp_path: Path, as_of_old: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(10):
        (folder / f"{number}.jpg").write_bytes(content(number))
    with open_runtime(tmp_path) as runtime:
        index(runtime, folder)
        as_of_old.undo()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(missing_metadata, "_BATCH", 4)

            def stop(event: ProgressEvent) -> None:
                if any(image.metadata_version for image in pictures(runtime).values()):
                    raise RunCancelledError("enough")

            with pytest.raises(RunCancelledError):
                index_paths(runtime, IndexRequest((folder,)), progress=stop)
        assert sum(image.metadata_version == METADATA_VERSION for image in pictures(runtime).values()) == 4
        assert index(runtime, folder).counts["metadata_read"] == 6


def test_a_picture_that_cannot_be_reached_waits_for_the_next_run(tmp_path: Path, as_of_old: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(2):
        (folder / f"{number}.jpg").write_bytes(content(number))
    with open_runtime(tmp_path) as runtime:
        index(runtime, folder)
        as_of_old.undo()
        reader = missing_metadata.MissingMetadata(runtime.catalog, Reader(), Recaptioner(runtime.catalog, "captions"))
        (folder / "0.jpg").unlink()
        (folder / "1.jpg").write_bytes(content(7))  # other content, which no scan has seen
        root = runtime.catalog.roots()[0]
        assert [reader._filled(root, image) for image in pictures(runtime).values()] == [None, None]
        assert not any(image.metadata_version for image in pictures(runtime).values())


def test_old_and_new_slices_compact_into_one_and_readers_see_all_columns(tmp_path: Path, as_of_old: pytest.MonkeyPatch) -> None:
    import duckdb

    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "0.jpg").write_bytes(content(0))
    with open_runtime(tmp_path) as runtime:
        index(runtime, folder)
        as_of_old.undo()
        (folder / "1.jpg").write_bytes(content(1))
        index(runtime, folder)
        pattern = runtime.home.embeddings / "*/*/*.meta.parquet"
        query = f"SELECT uri, camera_model, camera FROM read_parquet('{pattern}', union_by_name = true) ORDER BY uri"
        assert duckdb.sql(query).fetchall() == [("0.jpg", None, "Lodecam Model 0"), ("1.jpg", "Model 1", "Lodecam Model 1")]
        assert duckdb.sql(f"SELECT camera FROM '{pattern}' ORDER BY uri").fetchall() == [  # the documented query
            ("Lodecam Model 0",),
            ("Lodecam Model 1",),
        ]
        report = compact_corpus(runtime, "default")
        assert (report.replaced, report.written) == (2, 1)
        (path,) = runtime.home.embeddings.glob("*/*/*.meta.parquet")
        table = pq.read_table(path)
        assert table.schema.equals(META_SCHEMA)
        assert sorted(table.column("camera_model").to_pylist()) == ["Model 0", "Model 1"]  # the first from the catalog
        assert index(runtime, folder).counts.get("embedded", 0) == 0


def test_files_of_a_killed_old_run_are_adopted_and_their_headers_read_next(
    tmp_path: Path, as_of_old: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.jpg").write_bytes(content(number))
    with open_runtime(tmp_path) as runtime:
        index(runtime, folder)
        as_of_old.undo()
        (record,) = runtime.catalog.slices()
        parts = list(runtime.catalog.receipts(record.slice_id))
        runtime.catalog.forget_receipts(record.slice_id, parts)  # as if it had been killed before it recorded them
        before = files(runtime)
        report = index(runtime, folder)
        assert report.adopted == len(parts)
        assert files(runtime) == before
        assert report.counts["metadata_read"] + index(runtime, folder).counts["metadata_read"] == 3
        assert [facts(image) for image in pictures(runtime).values()] == [known(number) for number in range(3)]
        runtime.catalog.forget_receipts(record.slice_id, parts)
        index(runtime, folder)
        assert [facts(image) for image in pictures(runtime).values()] == [known(number) for number in range(3)]


def test_buckets_archives_and_tables_are_read_too(tmp_path: Path, as_of_old: pytest.MonkeyPatch) -> None:
    table = io.BytesIO()
    pq.write_table(pa.table({"image": [content(4), content(5)]}), table)
    with s3_server("photos") as s3:
        s3.put("photos", {"in/0.jpg": content(0), "in/1.webp": content(1, "WEBP")})
        s3.put(
            "photos",
            {"tars/s.tar": tar_bytes({"2.jpg": content(2), "3.tif": content(3, "TIFF")}), "t.parquet": table.getvalue()},
        )
        places = [s3.url("photos/in"), s3.url("photos/tars/s.tar"), s3.url("photos/t.parquet")]
        with open_runtime(tmp_path) as runtime:
            index(runtime, *places)
            as_of_old.undo()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(missing_metadata, "BEGINNING_BYTES", 1024)  # less than a whole picture
                report = index(runtime, *places)
            assert (report.counts["metadata_read"], report.counts.get("embedded", 0)) == (6, 0)
            assert sorted(facts(image)[3] for image in pictures(runtime).values()) == [f"Model {number}" for number in range(6)]
            assert index(runtime, *places).counts["metadata_read"] == 0


def test_only_the_beginning_of_an_object_or_member_is_fetched(tmp_path: Path) -> None:
    with s3_server("photos") as s3, open_runtime(tmp_path) as runtime:
        s3.put("photos", {"in/0.jpg": content(0), "tars/s.tar": tar_bytes({"1.jpg": content(1)})})
        index(runtime, s3.url("photos/in"), s3.url("photos/tars/s.tar"))
        from lodestone.sources.locators import locator_of_image

        roots = {root.root_id: root for root in runtime.catalog.roots()}
        for number, image in enumerate(sorted(pictures(runtime).values(), key=lambda image: image.camera_model or "")):
            locator = locator_of_image(roots[image.root_id], image)
            options = {"content": image.hash, "size": image.size, "mtime_ns": image.mtime_ns}
            assert Reader().read_beginning(locator, **options, most=100) == content(number)[:100]  # type: ignore[arg-type]
            assert Reader().read_beginning(locator, **options, most=10**6) == content(number)  # type: ignore[arg-type]


def test_expired_credentials_end_the_reading_and_not_the_run(tmp_path: Path, as_of_old: pytest.MonkeyPatch) -> None:
    with s3_server("photos") as s3, open_runtime(tmp_path) as runtime:
        s3.put("photos", {f"in/{number}.jpg": content(number) for number in range(4)})
        index(runtime, s3.url("photos/in"))
        as_of_old.undo()
        s3.deny = lambda _, key: key == "in/2.jpg"
        report = index(runtime, s3.url("photos/in"))
        assert (report.counts["metadata_read"], report.counts["metadata_unreadable"]) == (3, 1)
        runtime.catalog.set_photo_facts([_unread(image) for image in pictures(runtime).values()])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Reader, "read_beginning", _expired)
            report = index(runtime, s3.url("photos/in"))
        assert report.counts["metadata_read"] == 0
        assert any("expired" in warning for warning in report.warnings)


def _unread(image: ImageRecord) -> ImageRecord:
    from dataclasses import replace

    return replace(image, metadata_version=0)


def _expired(*_: object, **__: object) -> bytes:
    from lodestone.errors import SourceError

    raise SourceError("the credentials are expired", hint="renew them", reason="expired")


def _refuse(*_: object, **__: object) -> Any:
    raise AssertionError("not to be called")


def _loads(runtime: Runtime) -> tuple[int, ...]:
    return tuple(runtime.catalog.count_loaded(collection) for collection in sorted(runtime.store.collections()))
