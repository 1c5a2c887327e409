"""Directories are added, switched, described and removed, and every query obeys at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.home import image_ids, open_runtime, settings_for
from tests.support.home_copies import IndexedHomes
from tests.support.pictures import write_photo, write_photos

from lodestone.config.home import Home
from lodestone.directories.changes import remove_directory
from lodestone.directories.naming import find_directory
from lodestone.directories.service import DirectoryService
from lodestone.directories.upkeep import order_for
from lodestone.errors import InvalidRequestError, NotFoundError, StoreLockedError, UnknownNameError
from lodestone.home.runtime import Runtime
from lodestone.indexing.locking import corpus_lock
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.indexing.scan import mounts
from lodestone.indexing.sync.collections import sync
from lodestone_schemas.api import SearchFilters, SearchRequest, SearchResponse
from lodestone_schemas.directories import DirectoryChange


@pytest.fixture
def runtime(indexed_homes: IndexedHomes, tmp_path: Path) -> Iterator[Runtime]:
    """A home with the directories `first` and `second`."""
    indexed_homes.put(tmp_path, "two directories", index_two)
    with open_runtime(tmp_path) as opened:
        yield opened


def index_two(folder: Path) -> None:
    for name, seed in (("first", 0), ("second", 50)):
        (folder / name).mkdir()
        for number in range(4):
            write_photo(folder / name / f"{number}.jpg", seed=seed + number)
            (folder / name / f"{number}.txt").write_text(f"dots of the {name} kind\n")
    with open_runtime(folder) as runtime:
        index_paths(runtime, IndexRequest((folder / "first", folder / "second"), corpus="photos"))


def book(runtime: Runtime) -> DirectoryService:
    return DirectoryService(runtime.catalog, runtime.home)


async def ask(runtime: Runtime, **filters: object) -> SearchResponse:
    engine = runtime.engine()
    await engine.warm_up()
    request = SearchRequest(query="dots of the second kind", limit=20, filters=SearchFilters.model_validate(filters))
    return await engine.answer(request)


def roots_of(response: SearchResponse) -> set[str]:
    return {hit.root for hit in response.hits}


async def test_a_disabled_directory_is_in_no_answer_and_an_enabled_one_is_again(runtime: Runtime) -> None:
    assert roots_of(await ask(runtime)) == {"first", "second"}
    second = find_directory(runtime.catalog, "second")
    points = runtime.store.count(runtime.store.aliases()["bridge"])

    book(runtime).change(second.root_id, DirectoryChange(enabled=False))
    response = await ask(runtime)
    assert roots_of(response) == {"first"}
    assert len(response.hits) == 4
    shown = [guide.provenance.get("image_id") for guide in response.guides]
    hidden = set(runtime.catalog.images(image_ids(runtime, "photos").values())) - {hit.image_id for hit in response.hits}
    assert not hidden & set(shown), "a guide was taken from a disabled directory"
    assert runtime.store.count(runtime.store.aliases()["bridge"]) == points

    book(runtime).change(second.root_id, DirectoryChange(enabled=True))
    assert roots_of(await ask(runtime)) == {"first", "second"}


async def test_a_search_of_a_disabled_directory_says_why_it_finds_nothing(runtime: Runtime) -> None:
    book(runtime).change(find_directory(runtime.catalog, "second").root_id, DirectoryChange(enabled=False))
    response = await ask(runtime, roots=["second"])
    assert response.hits == []
    assert "'second' is disabled" in response.warnings[0]
    assert (await ask(runtime, roots=["first"])).warnings == []


def test_a_directory_is_described_with_what_can_be_found_of_it(runtime: Runtime, tmp_path: Path) -> None:
    (tmp_path / "second" / "broken.jpg").write_bytes(b"no picture")
    index_paths(runtime, IndexRequest((tmp_path / "second",), corpus="photos"))
    listed = book(runtime).page().directories
    assert [(one.name, one.images, one.waiting, one.failed) for one in listed] == [("first", 4, 0, 0), ("second", 4, 0, 1)]
    assert book(runtime).page(1, 1).directories == listed[1:]
    assert book(runtime).page(0, 1).next_offset == 1


def test_an_order_for_a_directory_tries_failed_files_again_only_where_that_is_asked_for(runtime: Runtime) -> None:
    root = find_directory(runtime.catalog, "second")
    for wished in (False, True):
        order = order_for(runtime.catalog, root, reason="asked", retry_failed=wished)
        assert (order.corpus, order.paths, order.retry_failed) == ("photos", (root.path,), wished)


def test_a_directory_goes_with_its_points_and_thumbnails_and_the_others_stay(runtime: Runtime, tmp_path: Path) -> None:
    thumbnails = set(runtime.thumbnails.contents())
    write_photo(tmp_path / "first" / "copy.jpg", seed=50)  # what second/0.jpg shows too
    index_paths(runtime, IndexRequest((tmp_path / "first",), corpus="photos"))

    disks = runtime.home.path / mounts.NAME
    disks.write_text(json.dumps({str(tmp_path / name / "nas"): "/mnt/nas" for name in ("first", "second")}))
    removed = remove_directory(runtime, find_directory(runtime.catalog, "second").root_id)
    assert json.loads(disks.read_text()).keys() == {str(tmp_path / "first" / "nas")}
    report = sync(runtime)

    assert (removed.images, removed.thumbnails) == (4, 3)
    assert len(set(runtime.thumbnails.contents())) == len(thumbnails) - 3
    assert {name.split("/")[0] for name in image_ids(runtime, "photos")} == {"first"}
    for collection in report.collections:
        assert collection.points == (4 if collection.alias == "captions" else 5), collection.alias
    assert (tmp_path / "second" / "0.jpg").exists()


def test_a_directory_that_is_added_again_has_its_ids_and_is_embedded_again(runtime: Runtime, tmp_path: Path) -> None:
    ids = image_ids(runtime, "photos")
    remove_directory(runtime, find_directory(runtime.catalog, "second").root_id)
    sync(runtime)
    report = index_paths(runtime, IndexRequest((tmp_path / "second",), corpus="photos"))
    assert image_ids(runtime, "photos") == ids
    assert report.counts["embedded"] == 4
    assert report.sync is not None
    assert {one.alias: one.points for one in report.sync.collections}["bridge"] == 8


def test_a_directory_is_not_removed_under_a_run(runtime: Runtime) -> None:
    root = find_directory(runtime.catalog, "second")
    with corpus_lock(runtime.home, runtime.catalog.corpus("photos")), pytest.raises(StoreLockedError):
        remove_directory(runtime, root.root_id)
    assert runtime.catalog.root(root.root_id).enabled


def test_a_directory_is_found_by_path_name_and_corpus(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = find_directory(runtime.catalog, "first")
    monkeypatch.chdir(tmp_path)
    for named in (root.root_id, str(tmp_path / "first"), "first/", "./second/../first", "photos/first"):
        assert find_directory(runtime.catalog, named) == root
    with pytest.raises(UnknownNameError) as unknown:
        find_directory(runtime.catalog, "third")
    assert "photos/first" in unknown.value.hint
    (tmp_path / "other" / "first").mkdir(parents=True)
    book(runtime).add(str(tmp_path / "other" / "first"), corpus="others")
    monkeypatch.chdir("/")
    with pytest.raises(InvalidRequestError, match="several directories are called 'first', in the corpora others, photos"):
        find_directory(runtime.catalog, "first")
    assert find_directory(runtime.catalog, "first", corpus="photos") == root


def test_what_cannot_be_a_directory_is_refused_with_the_reason(tmp_path: Path) -> None:
    write_photos(tmp_path / "pictures" / "inner", 1)
    with open_runtime(tmp_path) as runtime:
        known = book(runtime)
        known.add(str(tmp_path / "pictures"))
        assert known.add(str(tmp_path / "pictures")).name == "pictures"
        assert len(runtime.catalog.roots(None)) == 1
        with pytest.raises(InvalidRequestError, match="lies inside the directory 'pictures'"):
            known.add(str(tmp_path / "pictures" / "inner"))
        (tmp_path / "link").symlink_to(tmp_path / "pictures")
        with pytest.raises(InvalidRequestError, match="is the directory 'pictures'") as linked:
            known.add(str(tmp_path / "link"))
        assert str(tmp_path / "pictures") in linked.value.hint
        with pytest.raises(InvalidRequestError, match="lies inside the directory 'pictures'"):
            known.add(str(tmp_path / "link" / "inner"))
        with pytest.raises(InvalidRequestError, match="lies inside the directory 'pictures'"):
            known.add(str(tmp_path / "pictures" / ".." / "pictures" / "inner"))
        apart = tmp_path / "apart"
        (apart / "deep").mkdir(parents=True)
        known.add(str(apart / "deep"))
        (tmp_path / "beside").symlink_to(apart)
        with pytest.raises(InvalidRequestError, match="leads to a folder around the directory 'deep'"):
            known.add(str(tmp_path / "beside"))
        runtime.catalog.remove_root(find_directory(runtime.catalog, "deep").root_id)
        assert known.add(str(tmp_path / "pictures" / "inner"), corpus="apart").name == "inner"
        with pytest.raises(InvalidRequestError, match="is a file"):
            known.add(str(next((tmp_path / "pictures" / "inner").iterdir())))
        with pytest.raises(NotFoundError, match="no such folder"):
            known.add(str(tmp_path / "nowhere"))
        with pytest.raises(InvalidRequestError, match="holds the home"):
            known.add(str(tmp_path))
        with pytest.raises(InvalidRequestError, match="is no folder of this machine") as url:
            known.add("s3://bucket/photos")
        assert "lodestone index s3://bucket/photos" in url.value.hint
        for path in ("", " ", "a\0b"):
            with pytest.raises(InvalidRequestError, match="is no path"):
                known.add(path)


def test_only_folders_can_be_watched(tmp_path: Path) -> None:
    with open_runtime(tmp_path) as runtime:
        corpus = runtime.catalog.ensure_corpus("default")
        root = runtime.catalog.ensure_root(corpus.corpus_id, "s3://bucket/photos", kind="object")
        with pytest.raises(InvalidRequestError, match="cannot be watched"):
            book(runtime).change(root.root_id, DirectoryChange(watched=True))
        assert book(runtime).change(root.root_id, DirectoryChange(enabled=False)).enabled is False


def test_a_hidden_home_inside_a_directory_is_allowed(tmp_path: Path) -> None:
    settings = settings_for(tmp_path)
    with Runtime.open(settings) as runtime:
        hidden = DirectoryService(runtime.catalog, Home(tmp_path / ".local" / "home"))
        assert hidden.add(str(tmp_path)).path == str(tmp_path)
