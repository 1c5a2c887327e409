"""Exports of an indexed home: what files hold, filters, resumption after kills, changes of the catalog, and refusals."""

from __future__ import annotations

import io
import json
import shutil
import signal
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from blake3 import blake3
from tests.support.cli import lodestone, run_here
from tests.support.documents import ROOT, blocks_of
from tests.support.exports import files_of, make_home
from tests.support.home import image_ids, open_runtime, vectors_of
from tests.support.home_copies import IndexedHomes
from tests.support.pictures import write_photo
from tests.support.small_disk import small_disk

from lodestone.catalog.records import CaptionRecord, TagRecord
from lodestone.errors import (
    ConfigurationError,
    EmbeddingsDamagedError,
    InvalidRequestError,
    LodestoneError,
    RunFailedError,
    SourceError,
    StoreLockedError,
    UnknownNameError,
)
from lodestone.export.directory import ExportDirectory
from lodestone.export.request import ExportFormat, ExportRequest, FileSize, PictureBytes, VectorType
from lodestone.export.run import ExportReport, area_of, run_export
from lodestone.export.tasks import WrittenFile
from lodestone.files.opening import open_area
from lodestone.home.runtime import Runtime
from lodestone.indexing.bulk_work import BulkWork, Done, in_threads
from lodestone.indexing.faults import VARIABLE
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone_schemas.searching import QuerySet, SearchFilters

SMALL = FileSize(pictures=5)  # so a file has one slice


@pytest.fixture
def folder(tmp_path: Path, indexed_homes: IndexedHomes) -> Path:
    indexed_homes.put(tmp_path, "exported", make_home)
    return tmp_path


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, indexed_homes: IndexedHomes) -> Path:
    """A home that no test changes."""
    place = tmp_path_factory.mktemp("shared")
    indexed_homes.put(place, "exported", make_home)
    return place


@pytest.fixture(scope="module")
def still(shared: Path) -> Iterator[Runtime]:
    """The opened home that no test changes."""
    with open_runtime(shared, slice_size=4) as opened:
        yield opened


@pytest.fixture
def runtime(folder: Path) -> Iterator[Runtime]:
    with open_runtime(folder, slice_size=4) as opened:
        yield opened


def export(runtime: Runtime, target: Path, request: ExportRequest | None = None, **options: Any) -> ExportReport:
    """Export without vectors, unless they are asked for: that needs no models."""
    asked = request or ExportRequest(**{"spaces": (), **options})
    return run_export(runtime, asked, area_of(runtime, str(target)), host=in_threads(2))


def rows_of(target: Path) -> list[dict[str, Any]]:
    """All rows of a Parquet export, as a reader sees them that is given the directory."""
    rows: list[dict[str, Any]] = ds.dataset(target, format="parquet").to_table().to_pylist()
    return rows


def uris(target: Path) -> list[str]:
    return sorted(row["uri"] for row in rows_of(target))


def test_a_table_has_the_facts_of_all_pictures_and_the_vectors_that_searches_compare(runtime: Runtime, tmp_path: Path) -> None:
    report = export(runtime, tmp_path / "out", spaces=None)
    assert "store" not in runtime.__dict__, "an export opened the vector store"
    rows = rows_of(tmp_path / "out")
    ids = image_ids(runtime)
    assert (report.pictures, report.files, report.written) == (12, 1, 1)
    assert {f"{row['root']}/{row['uri']}": row["id"] for row in rows} == ids
    assert [row["corpus"] for row in rows] == ["default"] * 12
    by_uri = {row["uri"]: row for row in rows}
    assert by_uri["winter/06.jpg"]["captions"] == [{"source": "sidecar", "text": "photo number 6"}]
    assert by_uri["winter/07.png"]["captions"] == []
    assert by_uri["summer/01.jpg"]["tags"] == [{"text": "keep", "source": "user", "score": None}]
    png = by_uri["winter/07.png"]
    path = tmp_path / "photos" / "winter" / "07.png"
    assert (png["format"], png["width"], png["height"], png["size"]) == ("PNG", 120, 80, path.stat().st_size)
    assert png["hash"] == blake3(path.read_bytes()).hexdigest()
    spaces = runtime.projections()
    schema = pq.read_schema(tmp_path / "out" / "00000.parquet")
    said = json.loads(schema.metadata[b"lodestone"])
    for name, projection in spaces.items():
        assert said["spaces"][name]["version"] == projection.version
        assert str(schema.field(f"vector_{name}").type) == f"fixed_size_list<element: float not null>[{projection.dim}]"
        stored = vectors_of(runtime, name)
        exported = {row["id"]: np.array(row[f"vector_{name}"], np.float32) for row in rows}
        assert exported.keys() == stored.keys()
        assert all(np.allclose(exported[key], stored[key], atol=1e-3) for key in stored)


def test_the_python_of_the_page_reads_an_export(still: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export(still, tmp_path / "export", spaces=("bridge",))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    (block,) = [block for block in blocks_of(ROOT / "docs" / "export.md") if block.language == "python"]
    exec(compile(block.code, block.place, "exec"), names)
    stored = {row["uri"]: row["vector_bridge"] for row in rows_of(tmp_path / "export")}
    assert names["matrix"].dtype == np.float32
    assert [stored[uri] for uri in names["pictures"]["uri"].to_pylist()] == names["matrix"].tolist()


def test_the_manifest_names_files_with_checksums_and_is_the_only_thing_beside_them(runtime: Runtime, tmp_path: Path) -> None:
    report = export(runtime, tmp_path / "out", size=SMALL)
    manifest = json.loads((tmp_path / "out" / "_manifest.json").read_text("utf-8"))
    assert manifest["pictures"] == 12
    assert [file["name"] for file in manifest["files"]] == ["00000.parquet", "00001.parquet", "00002.parquet"]
    assert [file["pictures"] for file in manifest["files"]] == [4, 4, 4]
    for file in manifest["files"]:
        content = (tmp_path / "out" / file["name"]).read_bytes()
        assert (file["bytes"], file["blake3"]) == (len(content), blake3(content).hexdigest())
    assert report.bytes == sum(file["bytes"] for file in manifest["files"])
    assert sorted(files_of(tmp_path / "out")) == [
        *sorted(file["name"] for file in manifest["files"]),
        "_export.json",
        "_manifest.json",
    ]


def test_columns_spaces_and_types_are_chosen(runtime: Runtime, tmp_path: Path) -> None:
    export(runtime, tmp_path / "out", columns=("uri", "id"), spaces=("bridge",), dtype=VectorType.FLOAT16)
    schema = pq.read_schema(tmp_path / "out" / "00000.parquet")
    assert schema.names == ["id", "uri", "vector_bridge"]  # in the order of the documentation
    assert str(schema.field("vector_bridge").type.value_type) == "halffloat"
    export(runtime, tmp_path / "plain", columns=("uri",), spaces=())
    assert pq.read_schema(tmp_path / "plain" / "00000.parquet").names == ["uri"]


CASES: list[tuple[dict[str, Any], list[int]]] = [
    ({"filters": SearchFilters(path_prefix="summer")}, [0, 1, 2, 3, 4]),
    ({"match": QuerySet(tagged="keep")}, [1, 8]),
    ({"match": QuerySet(none=[QuerySet(tagged="keep")])}, [0, 2, 3, 4, 5, 6, 7, 9, 10, 11]),
    ({"filters": SearchFilters(path_prefix="winter"), "match": QuerySet(tagged="keep")}, [8]),
    (
        {"match": QuerySet(any=[QuerySet(tagged="keep"), QuerySet(filters=SearchFilters(path_prefix="summer"))])},
        [0, 1, 2, 3, 4, 8],
    ),
    ({"filters": SearchFilters(roots=["photos"])}, list(range(12))),
    ({"match": QuerySet(tagged="nowhere")}, []),
]


@pytest.mark.parametrize(("asked", "expected"), CASES)
def test_filters_mean_what_they_mean_in_searches(
    still: Runtime, tmp_path: Path, asked: dict[str, Any], expected: list[int]
) -> None:
    report = export(still, tmp_path / "out", columns=("uri",), **asked)
    assert report.pictures == len(expected)
    found = uris(tmp_path / "out") if report.files else []
    assert [int(uri.split("/")[1][:2]) for uri in found] == expected


def test_what_ranks_is_no_restriction(still: Runtime, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="words and pictures rank"):
        export(still, tmp_path / "out", match=QuerySet(words="a dog"))


def test_pictures_of_disabled_directories_stay_where_they_are(runtime: Runtime, tmp_path: Path) -> None:
    runtime.catalog.set_root(runtime.catalog.roots()[0].root_id, enabled=False)
    report = export(runtime, tmp_path / "out")
    assert report.pictures == report.files == 0
    assert "are disabled" in report.notes[0] or "is disabled" in report.notes[0]


def members_of(target: Path) -> dict[str, dict[str, bytes]]:
    """Picture's id -> extension -> content of all archives."""
    found: dict[str, dict[str, bytes]] = {}
    for path in sorted(target.glob("*.tar")):
        with tarfile.open(path) as archive:
            for member in archive:
                assert (member.mtime, member.uid, member.uname) == (0, 0, "")
                key, _, extension = member.name.partition(".")
                file = archive.extractfile(member)
                assert file is not None
                assert extension not in found.setdefault(key, {})
                found[key][extension] = file.read()
    return found


def test_archives_have_the_pictures_as_they_are_with_facts_captions_and_vectors(runtime: Runtime, tmp_path: Path) -> None:
    report = export(runtime, tmp_path / "out", format=ExportFormat.WEBDATASET, spaces=("bridge",), size=SMALL)
    assert (report.pictures, report.files) == (12, 3)
    members = members_of(tmp_path / "out")
    ids = image_ids(runtime)
    assert set(members) == set(ids.values())
    for name, key in ids.items():
        path = tmp_path / "photos" / name.removeprefix("photos/")
        assert members[key][path.suffix[1:]] == path.read_bytes()
        facts = json.loads(members[key]["json"])
        assert facts["uri"] == name.removeprefix("photos/")
        assert members[key].get("txt", b"").decode() == "".join(caption["text"] for caption in facts["captions"])
    stored = vectors_of(runtime, "bridge")
    assert all(np.allclose(np.load(io.BytesIO(members[key]["bridge.npy"])), stored[key], atol=1e-3) for key in stored)


def test_an_archive_has_one_caption_a_line(runtime: Runtime, tmp_path: Path) -> None:
    key = image_ids(runtime)["photos/summer/01.jpg"]
    captions = [CaptionRecord(key, "sidecar", text) for text in ("two\nlines", "one")]
    runtime.catalog.set_captions({key: captions})
    export(runtime, tmp_path / "out", format=ExportFormat.WEBDATASET, pictures=PictureBytes.NONE)
    assert members_of(tmp_path / "out")[key]["txt"] == b"two lines\none"


def test_archives_with_thumbnails_or_nothing(runtime: Runtime, tmp_path: Path) -> None:
    options = {"format": ExportFormat.WEBDATASET, "spaces": ()}
    export(runtime, tmp_path / "small", pictures=PictureBytes.THUMBNAILS, **options)
    export(runtime, tmp_path / "none", pictures=PictureBytes.NONE, **options)
    small, none = members_of(tmp_path / "small"), members_of(tmp_path / "none")
    png = image_ids(runtime)["photos/winter/07.png"]
    content = runtime.catalog.images([png])[png].hash
    assert small[png]["jpg"] == runtime.thumbnails.read(content)
    assert none.keys() == small.keys()
    assert set(none[png]) == {"json"}


@pytest.mark.parametrize(
    ("form", "fault"), [("parquet", "exporting:1"), ("parquet", "exporting:3"), ("webdataset", "exporting:2")]
)
def test_a_killed_export_goes_on_and_ends_like_an_undisturbed_one(folder: Path, form: str, fault: str) -> None:
    command = ("export", "--format", form, "--size", "5", "--space", "labels", "--workers", "1")
    if not (folder / "whole").exists():
        assert run_here(*command, folder / "whole", home=folder / "home").code == 0
    killed = lodestone(*command, folder / "out", home=folder / "home", **{VARIABLE: fault})
    assert killed.code == -signal.SIGKILL
    assert not (folder / "out" / "_manifest.json").exists()
    (folder / "out" / ".00002.tar.0123.part").write_bytes(b"half a file")
    before = {path.name: path.stat().st_mtime_ns for path in (folder / "out").glob("0*")}
    told = run_here(*command, folder / "out", "-o", "json", home=folder / "home")
    assert told.code == 0, told.err
    finished = int(fault[-1]) - 1  # with a receipt
    assert told.json["written"] == 3 - finished
    assert sum(path.stat().st_mtime_ns == before.get(path.name) for path in (folder / "out").glob("0*")) == finished
    assert files_of(folder / "out") == files_of(folder / "whole")


def test_what_a_worker_leaves_that_is_killed_in_the_run_is_gone_at_its_end(runtime: Runtime, tmp_path: Path) -> None:
    area = area_of(runtime, str(tmp_path / "out"))

    def host(work: BulkWork[Any, Any], tasks: Any, /) -> Iterator[Done[Any, Any]]:
        for done in in_threads(1)(work, tasks):
            (tmp_path / "out" / f".{done[0].name}.0123.part").write_bytes(b"half a file")
            yield done

    report = run_export(runtime, ExportRequest(size=SMALL), area, host=host)
    assert report.written == 3
    assert list((tmp_path / "out").glob(".*.part")) == []


def test_a_run_after_a_finished_one_writes_nothing(runtime: Runtime, tmp_path: Path) -> None:
    export(runtime, tmp_path / "out", size=SMALL)
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir() if path.name[0] != "."}
    report = export(runtime, tmp_path / "out", size=SMALL)
    assert (report.pictures, report.written) == (12, 0)
    assert stamps == {path: path.stat().st_mtime_ns for path in stamps}


def test_files_whose_pictures_changed_are_written_again_and_surplus_ones_go(runtime: Runtime, tmp_path: Path) -> None:
    export(runtime, tmp_path / "out", size=SMALL)
    before = files_of(tmp_path / "out")
    ids = image_ids(runtime)
    runtime.catalog.add_tags([TagRecord.new(ids["photos/summer/00.jpg"], "new", "user")])
    assert export(runtime, tmp_path / "out", size=SMALL).written == 1
    after = files_of(tmp_path / "out")
    assert [name for name in before if before[name] != after[name]] == ["00000.parquet", "_manifest.json"]
    runtime.catalog.mark_gone([ids[f"photos/winter/{number:02}.jpg"] for number in (8, 9, 10, 11)])
    assert export(runtime, tmp_path / "out", size=SMALL).pictures == 8
    assert not (tmp_path / "out" / "00002.parquet").exists()
    assert len(rows_of(tmp_path / "out")) == 8


def test_a_run_that_ends_early_leaves_no_manifest(runtime: Runtime, tmp_path: Path) -> None:
    export(runtime, tmp_path / "out", size=SMALL)
    ids = image_ids(runtime)
    runtime.catalog.add_tags([TagRecord.new(ids["photos/summer/00.jpg"], "new", "user")])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ExportDirectory, "complete", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            export(runtime, tmp_path / "out", size=SMALL)
    assert not (tmp_path / "out" / "_manifest.json").exists()
    assert export(runtime, tmp_path / "out", size=SMALL).written == 0  # all receipts are there
    assert sorted(path.name for path in (tmp_path / "out").iterdir() if path.name[0] == "_") == [
        "_export.json",
        "_manifest.json",
    ]


def test_a_file_that_was_cut_is_written_again(runtime: Runtime, tmp_path: Path) -> None:
    export(runtime, tmp_path / "out", size=SMALL)
    before = files_of(tmp_path / "out")
    path = tmp_path / "out" / "00001.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    assert export(runtime, tmp_path / "out", size=SMALL).written == 1
    assert files_of(tmp_path / "out") == before


def test_a_receipt_of_before_counts_for_nothing_once_its_file_is_written_again(runtime: Runtime, tmp_path: Path) -> None:
    """The machine fails between a file and its receipt, and the catalog goes back to what the former receipt says."""
    export(runtime, tmp_path / "out", size=SMALL)
    before = files_of(tmp_path / "out")
    size = (tmp_path / "out" / "00000.parquet").stat().st_size
    (tag,) = runtime.catalog.add_tags([TagRecord.new(image_ids(runtime)["photos/summer/00.jpg"], "new", "user")])
    record = ExportDirectory.record

    def fail(directory: ExportDirectory, file: Any) -> None:
        if file.inputs:
            raise RuntimeError("the machine fails here")
        record(directory, file)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ExportDirectory, "record", fail)
        with pytest.raises(RuntimeError):
            export(runtime, tmp_path / "out", size=SMALL)
    runtime.catalog.remove_tags([tag.tag_id])
    (tmp_path / "out" / "00000.parquet").write_bytes(b"x" * size)  # what was written happens to have the former size
    assert export(runtime, tmp_path / "out", size=SMALL).written == 1
    assert files_of(tmp_path / "out") == before


def test_what_is_indexed_meanwhile_is_exported_too(runtime: Runtime, tmp_path: Path) -> None:
    calls = 0

    def index_more(_done: int, _total: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            write_photo(tmp_path / "photos" / "later.jpg", seed=99)
            index_paths(runtime, IndexRequest((tmp_path / "photos",)))

    area = area_of(runtime, str(tmp_path / "out"))
    report = run_export(runtime, ExportRequest(size=SMALL, spaces=()), area, host=in_threads(1), progress=index_more)
    assert (report.pictures, report.is_changing) == (13, False)
    assert "later.jpg" in uris(tmp_path / "out")


def test_a_picture_that_changes_meanwhile_is_there_once(runtime: Runtime, tmp_path: Path) -> None:
    changed = 0

    def index_changed(_done: int, _total: int) -> None:
        nonlocal changed
        changed += 1
        write_photo(tmp_path / "photos" / "summer" / "00.jpg", seed=100 + changed)
        index_paths(runtime, IndexRequest((tmp_path / "photos",)))

    area = area_of(runtime, str(tmp_path / "out"))
    report = run_export(runtime, ExportRequest(size=SMALL, spaces=()), area, host=in_threads(1), progress=index_changed)
    assert report.is_changing
    assert len(uris(tmp_path / "out")) == len(set(uris(tmp_path / "out")))


def test_slices_that_compaction_replaces_meanwhile_are_planned_again(runtime: Runtime, tmp_path: Path) -> None:
    from lodestone.indexing.run.corpus_changes import compact_corpus

    ids = image_ids(runtime)
    runtime.catalog.mark_gone([ids[f"photos/summer/{number:02}.jpg"] for number in (0, 1, 2)])
    calls = 0

    def compact(_done: int, _total: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            assert compact_corpus(runtime, "default").replaced

    area = area_of(runtime, str(tmp_path / "out"))
    report = run_export(
        runtime, ExportRequest(size=FileSize(pictures=1), spaces=("labels",)), area, host=in_threads(1), progress=compact
    )
    assert (report.pictures, len(rows_of(tmp_path / "out"))) == (9, 9)


def test_a_picture_without_outputs_has_no_vector_and_is_counted(runtime: Runtime, tmp_path: Path) -> None:
    record = next(iter(runtime.catalog.slices()))
    parts = [part for part in runtime.catalog.receipts(record.slice_id) if part.startswith("efficientnet-lite0")]
    runtime.catalog.forget_receipts(record.slice_id, parts)
    report = export(runtime, tmp_path / "out", spaces=None)
    assert report.without_vector["bridge"] == 4
    assert sum(row["vector_bridge"] is None for row in rows_of(tmp_path / "out")) == 4
    export(runtime, tmp_path / "tar", format=ExportFormat.WEBDATASET, spaces=("bridge",))
    assert sum("bridge.npy" in members for members in members_of(tmp_path / "tar").values()) == 8


def test_a_missing_original_is_left_out_and_named_and_tried_again(runtime: Runtime, tmp_path: Path) -> None:
    options = {"format": ExportFormat.WEBDATASET, "spaces": (), "size": FileSize(bytes=1)}
    lost, changed = tmp_path / "photos" / "winter" / "07.png", tmp_path / "photos" / "winter" / "10.jpg"
    content, former = lost.read_bytes(), changed.read_bytes()
    lost.unlink()
    write_photo(changed, seed=1000)
    report = export(runtime, tmp_path / "out", **options)
    assert (report.pictures, sorted(one.uri for one in report.left_out)) == (10, ["winter/07.png", "winter/10.jpg"])
    assert {one.code for one in report.left_out} == {"not_found"}
    manifest = json.loads((tmp_path / "out" / "_manifest.json").read_text("utf-8"))
    assert (manifest["pictures"], manifest["left_out"]) == (10, 2)
    assert len(members_of(tmp_path / "out")) == 10
    lost.write_bytes(content)
    changed.write_bytes(former)
    again = export(runtime, tmp_path / "out", **options)
    assert (again.pictures, again.written, again.left_out) == (12, 2, ())
    assert len(members_of(tmp_path / "out")) == 12


def test_a_disk_that_is_away_ends_an_export_of_originals_which_goes_on_when_it_is_back(
    runtime: Runtime, tmp_path: Path
) -> None:
    photos = tmp_path / "photos"
    photos.rename(tmp_path / "away")
    for is_mount_point in (False, True):
        if is_mount_point:
            photos.mkdir()
        with pytest.raises(SourceError, match="is missing or empty"):
            export(runtime, tmp_path / "out", format=ExportFormat.WEBDATASET)
    assert not (tmp_path / "out" / "_manifest.json").exists()
    photos.rmdir()
    (tmp_path / "away").rename(photos)
    assert export(runtime, tmp_path / "out", format=ExportFormat.WEBDATASET).pictures == 12


def test_a_damaged_embeddings_file_ends_an_export_and_the_other_files_are_kept(runtime: Runtime, tmp_path: Path) -> None:
    record = list(runtime.catalog.slices())[-1]
    part = next(part for part in runtime.catalog.receipts(record.slice_id) if part.startswith("efficientnet-lite0"))
    path = runtime.embeddings.folder / runtime.catalog.receipts(record.slice_id)[part].path  # type: ignore[operator]
    content = path.read_bytes()
    path.write_bytes(content[:100])
    with pytest.raises(EmbeddingsDamagedError, match="has 100 bytes instead of"):
        export(runtime, tmp_path / "out", size=SMALL, spaces=("labels",))
    path.write_bytes(content)
    report = export(runtime, tmp_path / "out", size=SMALL, spaces=("labels",))
    assert (report.pictures, report.written) == (12, 1)


def test_two_exports_into_one_directory_are_kept_apart(runtime: Runtime, tmp_path: Path) -> None:
    with ExportDirectory(open_area(tmp_path / "out")).held(), pytest.raises(StoreLockedError, match="another process exports"):
        export(runtime, tmp_path / "out")


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"format": ExportFormat.WEBDATASET}, "format is"),
        ({"dtype": VectorType.FLOAT16}, "dtype is"),
        ({"columns": ("id",)}, "columns is"),
        ({"spaces": ("bridge",)}, "spaces is"),
        ({"filters": SearchFilters(path_prefix="summer")}, "filters is nothing there"),
        ({"match": QuerySet(tagged="keep")}, "match is nothing there"),
        ({"size": SMALL}, "size is"),
    ],
)
def test_another_selection_in_the_same_directory_is_refused(
    still: Runtime, tmp_path: Path, changed: dict[str, Any], why: str
) -> None:
    export(still, tmp_path / "out", spaces=("labels",))
    before = files_of(tmp_path / "out")
    with pytest.raises(InvalidRequestError, match=f"holds another export: {why}") as refused:
        export(still, tmp_path / "out", **{"spaces": ("labels",), **changed})
    assert "name another directory" in refused.value.hint
    assert files_of(tmp_path / "out") == before


def test_an_export_of_another_home_in_the_same_directory_is_refused(
    runtime: Runtime, tmp_path: Path, indexed_homes: IndexedHomes
) -> None:
    export(runtime, tmp_path / "out")
    other = tmp_path / "other"
    indexed_homes.put_photos(other, 3)
    with open_runtime(other) as opened, pytest.raises(InvalidRequestError, match="it is of another home"):
        export(opened, tmp_path / "out")


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("--space", "clip"), "unknown_name", "known: bridge, labels"),
        (("--columns", "id,colour"), "unknown_name", "known: camera_make"),
        (("--columns", ","), "invalid_request", "no column is named"),
        (("--corpus", "none"), "unknown_name", "known: default"),
        (("--where", "colour=red"), "unknown_name", "known: camera, corpus"),
        (("--where", "colour"), "invalid_request", "is no restriction"),
        (("--format", "csv"), "invalid_request", "one of parquet, webdataset"),
        (("--dtype", "int8"), "invalid_request", "one of float32, float16"),
        (("--size", "0"), "invalid_request", "500MB"),
        (("--size", "many"), "invalid_request", "500MB"),
        (("--pictures", "originals"), "invalid_request", "--format webdataset"),
        (("--format", "webdataset", "--pictures", "some"), "invalid_request", "one of originals, thumbnails, none"),
        (("--space", "bridge", "--no-vectors"), "invalid_request", "give one of the two"),
        (("--executor", "dask"), "invalid_request", "one of auto, inline, ray"),
        (("--year", "2019", "--from", "2018"), "invalid_request", "--year"),
    ],
)
def test_bad_input_is_named_and_nothing_is_made(
    shared: Path, tmp_path: Path, arguments: tuple[str, ...], code: str, told: str
) -> None:
    refused = run_here("export", tmp_path / "out", *arguments, "-o", "json", home=shared / "home")
    error = json.loads(refused.err)["error"]
    assert error["code"] == code
    assert told in error["hint"] + error["detail"]
    assert not (tmp_path / "out").exists()


def test_directories_that_cannot_be_one_of_an_export(folder: Path) -> None:
    home = folder / "home"

    def told(directory: Path | str) -> dict[str, Any]:
        refused = run_here("export", directory, "-o", "json", home=home)
        assert refused.code, refused.out
        error: dict[str, Any] = json.loads(refused.err)["error"]
        return error

    assert "is not empty, and holds no export" in told(folder / "photos")["detail"]
    assert "lies in the home" in told(home / "out")["detail"]
    assert told("")["code"] == "invalid_request"
    assert told("s3://key:secret@bucket/out")["code"] in {"bad_configuration", "invalid_request"}
    (folder / "file").write_text("a file")
    assert told(folder / "file")["code"] == "bad_configuration"
    assert (folder / "file").read_text("utf-8") == "a file"
    missing = run_here("export", folder / "out", home=folder / "nowhere")
    assert (missing.code, (folder / "out").exists(), (folder / "nowhere").exists()) == (3, False, False)


def test_a_full_disk_is_told_and_what_is_finished_is_kept(folder: Path) -> None:
    with small_disk(folder / "small") as disk:
        if disk is None:
            pytest.skip("the system allows no mounts")
        command = ("export", disk.path / "out", "--size", "5", "--workers", "1", "--format", "webdataset", "--no-vectors")
        disk.leave(80_000)  # for a file or two
        full = lodestone(*command, "-o", "json", home=folder / "home", prefix=disk.prefix)
        assert json.loads(full.err)["error"]["code"] == "no_space_left", full.err
        disk.grow()
        done = lodestone(*command, "-o", "json", home=folder / "home", prefix=disk.prefix)
        assert done.code == 0, done.err
        assert done.json["pictures"] == 12
        assert 0 < done.json["written"] < 3


def test_the_command_says_what_it_did(folder: Path) -> None:
    command = ("export", folder / "out", "--size", "5", "--no-vectors")
    told = run_here(*command, home=folder / "home")
    assert told.code == 0, told.err
    assert "12 pictures in 3 files" in told.out
    again = run_here(*command, home=folder / "home")
    assert "3 files had not changed" in again.out


@pytest.mark.parametrize(
    ("options", "member", "value"),
    [
        (("--no-vectors",), "spaces", []),
        (("--space", "labels,bridge", "--space", "labels"), "spaces", ["bridge", "labels"]),
        (("--no-vectors", "--columns", "uri, id"), "columns", ["id", "uri"]),
        (("--no-vectors", "--size", "2GB"), "size", "2048MB"),
        (("--no-vectors", "--size", "300 mb"), "size", "300MB"),
        (("--no-vectors", "--size", "300"), "size", "300"),
    ],
)
def test_the_commands_options_mean_what_they_say(folder: Path, options: tuple[str, ...], member: str, value: object) -> None:
    assert run_here("export", folder / "out", *options, home=folder / "home").code == 0
    described = json.loads((folder / "out" / "_export.json").read_text())
    assert described.get("selection", described)[member] == value


def test_a_part_may_be_asked_for_by_its_field_and_is_a_column(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its values are read from the files of the part, without a store."""
    from tests.support.exports import write_colours

    write_colours(runtime, monkeypatch)
    request = ExportRequest(filters=SearchFilters(where={"colour": ["red"]}), columns=("uri", "colour"), spaces=())
    report = export(runtime, tmp_path / "out", request)
    rows = rows_of(tmp_path / "out")
    assert report.pictures == len(rows) == 6
    assert {tuple(row["colour"]) for row in rows} == {("red", "blue"), ("red",)}
    with pytest.raises(UnknownNameError):
        export(runtime, tmp_path / "other", filters=SearchFilters(where={"size": ["red"]}))


@pytest.mark.parametrize("form", list(ExportFormat))
def test_a_bucket_gets_the_same_files(still: Runtime, tmp_path: Path, form: ExportFormat) -> None:
    place = f"memory://{tmp_path.name}-{form}"
    options: dict[str, Any] = {"format": form, "size": SMALL}
    export(still, tmp_path / "out", **options)
    asked = ExportRequest(spaces=(), **options)
    assert run_export(still, asked, area_of(still, place), host=in_threads(2)).written == 3
    assert run_export(still, asked, area_of(still, place), host=in_threads(2)).written == 0
    area = open_area(place)
    assert {file.path: bytes(area.read(file.path)) for file in area.files()} == {
        name: (tmp_path / "out" / name).read_bytes() for name in files_of(tmp_path / "out")
    }


def test_a_cluster_in_the_settings_does_the_work(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def on_ray(runtime: Runtime, **options: Any) -> None:
        seen.append((runtime.settings.cluster.address, options["paths"]))
        raise InvalidRequestError("that is enough")

    monkeypatch.setattr("lodestone_jobs.bulk.on_ray", on_ray)
    out, home = tmp_path / "out", shared / "home"
    for form, paths in (("parquet", [str(out)]), ("webdataset", [str(out), str(shared / "photos")])):
        told = run_here("export", out, "--address", "10.0.0.1:6379", "--format", form, home=home)
        assert "that is enough" in told.err
        assert seen.pop() == ("10.0.0.1:6379", paths)
    assert (
        run_here("export", out, "--executor", "inline", "--no-vectors", home=home, LODESTONE_CLUSTER__ADDRESS="auto").code == 0
    )
    assert not seen


def test_a_worker_that_writes_elsewhere_ends_the_export(still: Runtime, tmp_path: Path) -> None:
    def elsewhere(_: Any, tasks: Any, /) -> Iterator[Done[Any, Any]]:
        for task in tasks:
            yield Done(task, WrittenFile(task.name, task.pictures, 10, "0" * 64))

    with pytest.raises(ConfigurationError, match="a worker has written '00000\\.parquet'"):
        run_export(still, ExportRequest(spaces=()), area_of(still, str(tmp_path / "out")), host=elsewhere)  # type: ignore[arg-type]
    assert not (tmp_path / "out" / "_manifest.json").exists()


@pytest.mark.parametrize("done", [0, 1])
def test_a_host_that_does_not_do_all_tasks_ends_the_export(still: Runtime, tmp_path: Path, done: int) -> None:
    """All are read, and one is done or none; or the first is done, and no other is read."""

    def forgetful(work: Any, tasks: Any, /) -> Iterator[Done[Any, Any]]:
        do = work.prepare()
        for task in tasks if done else list(tasks)[:1]:
            yield Done(task, do(task))
            return

    with pytest.raises(RunFailedError, match="not all files were written"):
        run_export(still, ExportRequest(spaces=(), size=SMALL), area_of(still, str(tmp_path / "out")), host=forgetful)  # type: ignore[arg-type]
    assert not (tmp_path / "out" / "_manifest.json").exists()


def test_an_archive_is_whole_or_not_there(runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that fails in the middle of a file leaves nothing of it."""
    from lodestone.export import archives

    facts_of = archives.facts_of
    calls = 0

    def failing(*arguments: Any) -> dict[str, list[Any]]:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise LodestoneError("a fault")
        return facts_of(*arguments)

    monkeypatch.setattr(archives, "facts_of", failing)  # called once a slice
    with pytest.raises(LodestoneError, match="a fault"):
        export(runtime, tmp_path / "out", format=ExportFormat.WEBDATASET)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [".export.lock", "_export.json"]
    shutil.rmtree(tmp_path / "out")
