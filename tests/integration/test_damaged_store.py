"""A collection whose files were cut, emptied or lost is rebuilt by the named commands, and answers as before."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.cli import run_here
from tests.support.home import image_ids, open_runtime, vectors_of
from tests.support.home_copies import copy_folder
from tests.support.pictures import write_photos

from lodestone.catalog.records import TagRecord
from lodestone.errors import CollectionDamagedError
from lodestone.home.runtime import Runtime
from lodestone.indexing.progress import silent
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.indexing.sync.collections import make_targets, sync
from lodestone.indexing.sync.repair import make_missing_collections
from lodestone.indexing.sync.verify import examine
from lodestone.store.base import SparseQuery, VectorQuery
from lodestone.tags.delivery import COLLECTION
from lodestone.tags.search import TagSearch
from lodestone.tags.terms import PictureTag, picture_vector
from lodestone_schemas.collections import CollectionSpec

COUNT = 12
Answers = dict[str, list[str]]


def _halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _empty(path: Path) -> None:
    os.truncate(path, 0)


def _alter(path: Path) -> None:
    """Alter one bit of the last number of the first record, as the row of an id mapping has it in its highest byte."""
    content = bytearray(path.read_bytes())
    content[min(20, len(content) - 1)] ^= 0x40
    path.write_bytes(content)


DAMAGES: dict[str, Callable[[Path], None]] = {"half": _halve, "empty": _empty, "gone": Path.unlink, "bit": _alter}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Answers]:
    """A folder with a home with captions, tags and a graph, and a copy of all of it; what searches of the home find."""
    folder = tmp_path_factory.mktemp("damaged")
    write_photos(folder / "photos", COUNT)
    for number, path in enumerate(sorted((folder / "photos").iterdir())):
        path.with_suffix(".txt").write_text(f"picture number {number}", encoding="utf-8")
    with open_runtime(folder) as runtime:
        index_paths(runtime, IndexRequest((folder / "photos",)))
        runtime.catalog.add_tags([TagRecord.new(image_id, "a red dog", "user") for image_id in image_ids(runtime).values()])
        runtime.deliver_tags()
        runtime.store.build(runtime.store.aliases()["bridge"])
    before = _expected(folder)
    for name in ("home", "photos"):
        copy_folder(folder / name, folder / "copy" / name)
    return folder, before


@pytest.fixture
def home(whole: tuple[Path, Answers]) -> Path:
    """The folder with its home as it was made: which files a rebuilt collection has depends on what was done to it."""
    folder, _ = whole
    for name in ("home", "photos"):
        shutil.rmtree(folder / name)
    copy_folder(folder / "copy", folder)
    return folder


@pytest.fixture
def before(whole: tuple[Path, Answers]) -> Answers:
    """What searches find in the home as it was made."""
    return whole[1]


def _answers(runtime: Runtime) -> Answers:
    """What searches of each collection find: the neighbours of each of its own vectors, and the pictures with a tag."""
    answers: Answers = {}
    for alias in ("bridge", "labels", "captions"):
        vectors = vectors_of(runtime, alias)
        collection = runtime.store.aliases()[alias]
        found = runtime.store.search(collection, [VectorQuery(vectors[key], limit=3, exact=True) for key in sorted(vectors)])
        answers[alias] = [point for neighbours in found for point in neighbours.ids]
    term = picture_vector([PictureTag("a red dog")])
    assert term is not None
    (tagged,) = runtime.store.search_sparse(runtime.store.aliases()["tags"], [SparseQuery(term, limit=100)])
    return {**answers, "tags": list(tagged.ids)}


def _files(folder: Path, alias: str = "") -> dict[tuple[str, ...], Path]:
    """Files of the collections now, by what they are: a rebuilt collection has other ids in their names."""
    collections = folder / "home" / "store" / "collections"
    files = sorted(path for path in collections.rglob("*") if path.is_file())
    parts = {path: path.relative_to(collections).parts for path in files}
    return {
        tuple(part for part in parts[path] if not part.startswith("gen-") and part.count("-") != 4): path
        for path in files
        if parts[path][0].startswith(alias)
    }


def _damage_and_sync(folder: Path, file: Path, damage: str, before: Answers) -> None:
    DAMAGES[damage](file)
    with open_runtime(folder) as runtime:
        sync(runtime)
        assert _answers(runtime) == before, (damage, file)
        for target in make_targets(runtime):
            assert examine(runtime.store, target, progress=silent, sample=None).ok, (damage, file)


def _expected(folder: Path) -> Answers:
    with open_runtime(folder) as runtime:
        answers = _answers(runtime)
    assert [len(answers[alias]) for alias in ("bridge", "labels", "captions", "tags")] == [3 * COUNT] * 3 + [COUNT]
    return answers


def test_a_collection_with_a_cut_file_is_rebuilt_by_a_sync(home: Path, before: Answers) -> None:
    """Of `matrix.dat` the engine reads what is left; without the others it opens nothing, or fewer points."""
    for name in ("matrix.dat", "mutable_id_tracker.mappings", "CURRENT"):
        _damage_and_sync(home, next(path for path in _files(home, "bridge").values() if path.name == name), "half", before)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("alias", ["bridge", "labels", "captions", "tags"])
def test_a_store_with_any_file_damaged_is_whole_after_a_sync(home: Path, before: Answers, alias: str, damage: str) -> None:
    with open_runtime(home) as runtime:
        runtime.store.build(runtime.store.aliases()["bridge"])
    damaged = set[tuple[str, ...]]()
    while left := {kind: path for kind, path in _files(home, alias).items() if kind not in damaged}:
        kind, path = next(iter(left.items()))
        damaged.add(kind)
        _damage_and_sync(home, path, damage, before)
    assert len(damaged) > 20


def test_index_says_what_was_damaged_and_rebuilt(home: Path, before: Answers) -> None:
    collection, segment = next((kind[0], path) for kind, path in _files(home, "bridge").items() if path.name == "segment.json")
    _halve(segment)
    with open_runtime(home) as runtime, pytest.raises(CollectionDamagedError) as caught:
        runtime.store.count(runtime.store.aliases()["bridge"])
    assert caught.value.code == "collection_damaged"
    assert "lodestone index" in caught.value.hint
    told = run_here("index", home / "photos", "--output", "json", home=home / "home", LODESTONE_INDEX__EXECUTOR="inline")
    assert told.code == 0, told.err
    (warning,) = told.json["warnings"]
    assert collection in warning
    assert f"rebuilt from the Parquet files with {COUNT} points" in warning
    assert _expected(home) == before


def test_verify_names_the_damage_and_repairs_it(home: Path, before: Answers) -> None:
    files = {**_files(home, "labels"), **_files(home, "tags")}
    victims = {kind[0]: path for kind, path in files.items() if kind[-2:] == ("payload_storage", "page_0.dat")}
    assert len(victims) == 2
    for path in victims.values():
        _empty(path)
    told = run_here("verify", "--output", "json", home=home / "home")
    assert told.code == 7
    (broken,) = [row for row in told.json["collections"] if not row["ok"]]
    assert "page_0.dat" in broken["broken"]
    assert "damaged: it has to be rebuilt" in run_here("verify", home=home / "home").out
    repaired = run_here("verify", "--repair", "--output", "json", home=home / "home")
    assert repaired.code == 0, repaired.err
    assert sorted(name for name in victims for sentence in repaired.json["rebuilt"] if name in sentence) == sorted(victims)
    assert _expected(home) == before
    assert json.loads(run_here("verify", "--all", "--output", "json", home=home / "home").out)["ok"]


def test_an_altered_id_mapping_ends_no_command_and_altered_vectors_are_not_searched(home: Path, before: Answers) -> None:
    victims = {
        kind[0]: path
        for kind, path in _files(home).items()
        if (kind[0].startswith("labels") and kind[-1] == "mutable_id_tracker.mappings")
        or (kind[0].startswith("bridge") and kind[-1] == "matrix.dat")
    }
    assert len(victims) == 2
    for path in victims.values():
        _alter(path)
    told = run_here("search", "a dog", "--output", "json", home=home / "home")
    assert (told.code, json.loads(told.err)["error"]["code"]) == (7, "collection_damaged")
    assert "was altered" in run_here("doctor", home=home / "home").out
    verified = run_here("verify", "--output", "json", home=home / "home")
    assert verified.code == 7
    broken = sorted(row["collection"] for row in verified.json["collections"] if "was altered" in (row["broken"] or ""))
    assert broken == sorted(victims)
    repaired = run_here("verify", "--repair", "--output", "json", home=home / "home")
    assert repaired.code == 0, repaired.err
    assert sorted(name for name in victims for sentence in repaired.json["rebuilt"] if name in sentence) == sorted(victims)
    assert _expected(home) == before


@pytest.mark.nightly_beyond(1)
@pytest.mark.parametrize("exchanged", ["folders", "generations", "specifications"])
def test_collections_with_exchanged_files_are_rebuilt(home: Path, before: Answers, exchanged: str) -> None:
    """Their files are sound, each for itself; both have as many points, and of the same pictures."""
    labels, bridge = (
        next(path for path in (home / "home/store/collections").glob(f"{name}-*")) for name in ("labels", "bridge")
    )
    if exchanged == "folders":
        _exchange(labels, bridge)
    elif exchanged == "specifications":
        _exchange(labels / "spec.json", bridge / "spec.json")
    else:
        for name in ("CURRENT", "deleted.json"):
            if (labels / name).exists() and (bridge / name).exists():
                _exchange(labels / name, bridge / name)
        (first,), (second,) = labels.glob("gen-*"), bridge.glob("gen-*")
        first.rename(bridge / first.name)
        second.rename(labels / second.name)
    told = run_here("verify", "--output", "json", home=home / "home")
    assert told.code == 7
    broken = {row["collection"]: row["broken"] for row in told.json["collections"] if row["broken"]}
    assert broken.keys() == {labels.name, bridge.name}
    assert repr(bridge.name) in broken[labels.name]
    repaired = run_here("verify", "--repair", "--output", "json", home=home / "home")
    assert (repaired.code, len(repaired.json["rebuilt"])) == (0, 2), repaired.err
    assert _expected(home) == before


def _exchange(first: Path, second: Path) -> None:
    aside = first.with_name("aside")
    first.rename(aside)
    second.rename(first)
    aside.rename(second)


def test_a_service_starts_with_an_empty_collection_in_place_of_a_damaged_one(home: Path, before: Answers) -> None:
    collection, victim = next((kind[0], path) for kind, path in _files(home, "labels").items() if path.name == "segment.json")
    victim.unlink()
    with open_runtime(home) as runtime:
        assert make_missing_collections(runtime) == [collection]
        assert runtime.store.aliases()["labels"] == collection
        assert runtime.store.count(collection) == 0
        assert make_missing_collections(runtime) == []
        sync(runtime)
        assert _answers(runtime) == before


def test_tags_of_a_former_version_are_delivered_anew_with_names_and_dropped_by_the_next_sync(home: Path) -> None:
    photo = min((home / "photos").glob("*.jpg"))
    photo.with_suffix(".txt").write_text("Ottilie at the lake", encoding="utf-8")
    with open_runtime(home) as runtime:
        runtime.store.drop_alias("tags")
        runtime.store.drop(COLLECTION)
        runtime.store.create(CollectionSpec("tags-1", sparse=True))
        runtime.store.set_alias("tags", "tags-1")
        index_paths(runtime, IndexRequest((home / "photos",)))

        assert runtime.store.aliases()["tags"] == COLLECTION
        matches = TagSearch(runtime.store).search("a day with ottilie", COLLECTION)
        assert matches.named == {image_ids(runtime)[f"photos/{photo.name}"]}
        assert len(TagSearch(runtime.store).search("a red dog", COLLECTION).whole) == COUNT

        assert "tags-1" in runtime.store.collections()  # queries that are under way read it
        sync(runtime)
        assert "tags-1" not in runtime.store.collections()
