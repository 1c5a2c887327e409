"""A lost catalog is refused by every command, and rebuilt from the Parquet files so that searches answer as before."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.cli import run_here
from tests.support.home import image_ids, open_runtime, vectors_of
from tests.support.home_copies import copy_folder
from tests.support.pictures import write_photo, write_photos

from lodestone.backup.rebuild import GONE, rebuild_catalog
from lodestone.catalog.records import ImageState, TagRecord
from lodestone.embeddings.corpus_records import FILE
from lodestone.errors import CatalogLostError, ConfigurationError, NotFoundError
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.corpus_changes import compact_corpus
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest

COUNT = 10


@dataclass(frozen=True)
class Known:
    """What is known of a home before its catalog is lost: facts, points of the collections, and what a search finds."""

    home: Path
    facts: dict[str, object]
    points: dict[str, set[str]]
    hits: set[str]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home of two corpora, with captions, a file that is no picture, changed and removed pictures, and a tag."""
    folder = tmp_path_factory.mktemp("original")
    photos = folder / "photos"
    write_photos(photos, COUNT)
    write_photos(folder / "trip", 3, size=(300, 200))
    (photos / "broken.jpg").write_bytes(b"\xff\xd8\xff no picture")
    for number, path in enumerate(sorted(photos.glob("*.jpg"))[:4]):
        path.with_suffix(".txt").write_text(f"picture number {number}\nanother caption", encoding="utf-8")
    with open_runtime(folder) as runtime:
        index_paths(runtime, IndexRequest((photos,)))
        index_paths(runtime, IndexRequest((folder / "trip",), corpus="journeys"))
        changed = sorted(photos.glob("*.jpg"))[6]
        write_photo(changed, seed=99)
        index_paths(runtime, IndexRequest((photos,)))
        first = next(iter(image_ids(runtime).values()))
        runtime.catalog.add_tags([TagRecord.new(first, "a dog", "user")])
    return folder


@pytest.fixture(scope="module")
def known(original: Path) -> Known:
    """A copy of its home that was searched."""
    home = copy_folder(original / "home", original / "searched" / "home")
    with open_runtime(home.parent) as runtime:
        facts, points = _facts(runtime), _points(runtime)
    return Known(home, facts, points, _hits(home))


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    """A copy of its home; the pictures stay where they are."""
    copy_folder(original / "home", tmp_path / "home")
    return tmp_path


def _remove(path: Path) -> None:
    path.unlink()


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _hits(home: Path) -> set[str]:
    """Ids of all that a search finds; their order may change where a busy machine leaves guides out."""
    told = run_here("search", "picture number 2", "--limit", "100", "--output", "json", home=home)
    assert told.code == 0, told.err
    return {hit["image_id"] for hit in told.json["hits"]}


def _points(runtime: Runtime) -> dict[str, set[str]]:
    return {alias: set(vectors_of(runtime, alias)) for alias in ("bridge", "labels", "captions")}


def _garble(path: Path) -> None:
    path.write_bytes(b"no database" * 500)


def _facts(runtime: Runtime) -> dict[str, object]:
    """Everything that the Parquet files have of a catalog."""
    catalog = runtime.catalog
    corpora = catalog.corpora()
    roots = {root.root_id: root for root in catalog.roots(None)}
    images = [image for root_id in roots for image in catalog.images_of_root(root_id)]
    shown = {
        image.image_id: (roots[image.root_id].name, image.uri, image.hash, image.size, image.mtime_ns, image.state, image.width)
        for image in images
    }
    receipts = {
        (receipt.part, receipt.path, receipt.rows, receipt.size, receipt.checksum)
        for record in catalog.slices()
        if catalog.slice_images(record.slice_id)
        for receipt in catalog.receipts(record.slice_id).values()
    }
    return {
        "corpora": {corpus.corpus_id: corpus.name for corpus in corpora},
        "roots": {(root.root_id, root.name, root.path, root.kind, root.enabled, root.watched) for root in roots.values()},
        "images": shown,
        "captions": catalog.captions(shown),
        "failures": {(failure.uri, failure.code) for failure in catalog.failures()},
        "receipts": receipts,
    }


@pytest.mark.parametrize("lose", [_remove, _empty], ids=["removed", "emptied"])
def test_every_command_refuses_a_home_without_its_catalog_and_changes_nothing(
    folder: Path, lose: Callable[[Path], None]
) -> None:
    home = folder / "home"
    lose(home / "catalog.sqlite")
    before = {path: path.stat().st_mtime_ns for path in home.rglob("*")}
    for words in (["status"], ["search", "a dog"], ["corpus", "list"], ["verify"], ["index", str(folder)], ["runs", "list"]):
        told = run_here(*words, "--output", "json", home=home)
        assert told.code == 14, words
        error = json.loads(told.err)["error"]
        assert error["code"] == "catalog_lost"
        assert "lodestone backup restore" in error["hint"]
        assert "lodestone catalog rebuild" in error["hint"]
    assert {path: path.stat().st_mtime_ns for path in home.rglob("*")} == before
    assert "catalog_lost" in run_here("doctor", home=home).out


def test_a_home_that_never_held_pictures_gets_its_catalog_again(tmp_path: Path) -> None:
    with open_runtime(tmp_path) as runtime:
        runtime.catalog.ensure_corpus("default")
    (tmp_path / "home" / "catalog.sqlite").unlink()
    with open_runtime(tmp_path) as runtime:
        assert runtime.catalog.corpora() == []


@pytest.mark.nightly_beyond(1)
@pytest.mark.parametrize("lose", [_remove, _empty, _garble], ids=["removed", "emptied", "damaged"])
def test_a_rebuilt_catalog_knows_what_the_parquet_files_know(
    known: Known, original: Path, tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    home = copy_folder(known.home, tmp_path / "home")
    lose(home / "catalog.sqlite")
    told = run_here("catalog", "rebuild", "--output", "json", home=home)
    assert told.code == 0, told.err
    assert (told.json["corpora"], told.json["images"]) == (["default", "journeys"], COUNT + 3)
    assert (told.json["captions"], told.json["failures"], told.json["unreadable"]) == (8, 1, [])
    assert told.json["gone"] == list(GONE)
    with open_runtime(tmp_path) as runtime:
        after = _facts(runtime)
        for what, facts in known.facts.items():
            assert after[what] == facts, what
        assert _points(runtime) == known.points
        assert runtime.catalog.list_tags(offset=0, limit=1) == []
        report = index_paths(runtime, IndexRequest((original / "photos",)))
        assert (report.counts.get("embedded", 0), report.counts["unchanged"], report.completed) == (0, COUNT + 1, 0)
    assert _hits(home) == known.hits


def test_a_catalog_that_is_there_is_never_replaced(folder: Path) -> None:
    told = run_here("catalog", "rebuild", "--output", "json", home=folder / "home")
    assert told.code == ConfigurationError.exit_code
    assert "is not lost" in json.loads(told.err)["error"]["detail"]
    assert run_here("catalog", "rebuild", home=folder / "nowhere").code == NotFoundError.exit_code
    assert not (folder / "nowhere").exists()


def test_a_home_of_an_older_version_is_rebuilt_with_the_folders_that_were_indexed(folder: Path, original: Path) -> None:
    """Without records of the corpora, the names of corpora are lost, and the folders must be named."""
    with open_runtime(folder) as runtime:
        before = _facts(runtime)["images"]
        for record in runtime.home.embeddings.glob(f"*/{FILE}"):
            record.unlink()
    (folder / "home" / "catalog.sqlite").unlink()
    with open_runtime(folder) as runtime:
        report = rebuild_catalog(runtime.home, runtime.embeddings, folders=[original / "photos"])
        assert report.without_root == 3  # of the folder that was not named
        assert all(name.startswith("corpus-") for name in report.corpora)
        images = _facts(runtime)["images"]
        assert isinstance(images, dict)
        assert isinstance(before, dict)
        assert {key: image[1:] for key, image in images.items()} == {key: image[1:] for key, image in before.items()}
        assert sorted(image[0] for image in images.values()) == ["photos"] * (COUNT + 1) + ["unknown"] * 3


def test_a_damaged_file_costs_its_slice_and_is_named(folder: Path, original: Path) -> None:
    meta, *_ = sorted((folder / "home" / "embeddings").rglob("*efficientnet-lite0*.parquet"))
    meta.write_bytes(meta.read_bytes()[:-200])
    (folder / "home" / "catalog.sqlite").unlink()
    with open_runtime(folder) as runtime:
        report = rebuild_catalog(runtime.home, runtime.embeddings)
        assert [Path(path).name for path in report.unreadable] == [meta.name]
        assert report.images == COUNT + 3
        index_paths(runtime, IndexRequest((original / "photos",)))
        index_paths(runtime, IndexRequest((original / "trip",), corpus="journeys"))
        assert len(vectors_of(runtime, "bridge")) == COUNT + 3


def test_a_rebuild_that_fails_leaves_nothing_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "home" / "catalog.sqlite").unlink()

    def broken(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, open_runtime(folder) as runtime:
        patched.setattr("lodestone.catalog.catalog.Catalog.import_rows", broken)
        with pytest.raises(KeyboardInterrupt):
            rebuild_catalog(runtime.home, runtime.embeddings)
    assert [
        path.name for path in (folder / "home").iterdir() if "catalog" in path.name and not path.name.endswith(".lock")
    ] == []
    with open_runtime(folder) as runtime, pytest.raises(CatalogLostError):
        _ = runtime.catalog


def test_compaction_leaves_the_record_of_a_corpus_alone(folder: Path) -> None:
    with open_runtime(folder) as runtime:
        compact_corpus(runtime, "default")
        assert runtime.embeddings.size(f"{runtime.catalog.corpus('default').corpus_id}/{FILE}")
        before = _facts(runtime)
    (folder / "home" / "catalog.sqlite").unlink()
    with open_runtime(folder) as runtime:
        assert rebuild_catalog(runtime.home, runtime.embeddings).images == COUNT + 3
        assert _facts(runtime)["images"] == before["images"]
        assert runtime.catalog.count_images(state=ImageState.ACTIVE) == COUNT + 3
        assert runtime.catalog.count_tag_outbox() == COUNT + 4  # nobody knows what had been delivered; one cannot be read
