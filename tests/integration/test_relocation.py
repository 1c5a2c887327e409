"""After the folder of a directory was moved, its pictures are the same, embedded once, and found once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.support.home import image_ids, open_runtime
from tests.support.home_copies import IndexedHomes
from tests.support.pictures import write_photos
from tests.support.served import TOKEN, served_here
from tests.support.tenants import OTHER, OWN, make_tenants

from lodestone.catalog.records import ImageState, TagRecord
from lodestone.directories.changes import relocate_directory
from lodestone.errors import InvalidRequestError
from lodestone.files.beneath import Boundaries
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexReport, IndexRequest
from lodestone.indexing.sync.collections import sync
from lodestone.services.local import LocalClient
from lodestone_schemas.api import SearchRequest
from lodestone_schemas.directories import DirectoryRelocation, DirectoryRequest

COUNT = 5
ASKED = SearchRequest(query="coloured dots", limit=50, guides=0)


@pytest.fixture
def photos(indexed_homes: IndexedHomes, tmp_path: Path) -> Path:
    """The pictures of `runtime`."""

    def make(folder: Path) -> None:
        write_photos(folder / "photos", COUNT)
        (folder / "photos" / "000000.txt").write_text("a lighthouse at dusk\n")
        with open_runtime(folder) as runtime:
            index(runtime, folder / "photos")
            runtime.catalog.add_tags([TagRecord.new(image_ids(runtime)["photos/000001.jpg"], "my favourite", "user")])

    indexed_homes.put(tmp_path, "photos", make)
    return tmp_path / "photos"


@pytest.fixture
def runtime(tmp_path: Path, photos: Path) -> Iterator[Runtime]:
    with open_runtime(tmp_path) as runtime:
        yield runtime


def index(runtime: Runtime, *folders: Path) -> IndexReport:
    return index_paths(runtime, IndexRequest(folders))


def test_a_renamed_folder_is_indexed_again_without_a_model_and_found_once(runtime: Runtime, photos: Path) -> None:
    before = image_ids(runtime)
    photos.rename(photos.with_name("photos2"))
    report = index(runtime, photos.with_name("photos2"))
    assert (report.counts["relocated"], report.counts["unchanged"], report.counts.get("embedded", 0)) == (COUNT, COUNT, 0)
    assert any("has moved from" in warning and "not embedded again" in warning for warning in report.warnings)
    assert image_ids(runtime) == before
    assert runtime.catalog.tags([before["photos/000001.jpg"]])
    hits = LocalClient.over(runtime).search(ASKED).hits
    assert sorted(hit.image_id for hit in hits) == sorted(before.values())
    assert not any(hit.missing for hit in hits)
    assert [root.path for root in runtime.catalog.roots()] == [str(photos.with_name("photos2"))]


def test_adding_a_moved_folder_finds_the_directory_again(runtime: Runtime, photos: Path) -> None:
    client = LocalClient.over(runtime)
    (directory,) = client.iter_directories()
    photos.rename(photos.with_name("photos2"))
    added = client.add_directory(DirectoryRequest(path=str(photos.with_name("photos2")), index=False))
    assert (added.directory.directory_id, added.relocated) == (directory.directory_id, True)
    again = client.add_directory(DirectoryRequest(path=str(photos.with_name("photos2")), index=False))
    assert (again.directory.directory_id, again.relocated) == (directory.directory_id, False)


def test_hits_whose_files_are_gone_are_marked(runtime: Runtime, photos: Path) -> None:
    client = LocalClient.over(runtime)
    (photos / "000002.jpg").rename(photos / "000002.away")
    assert {hit.uri for hit in client.search(ASKED).hits if hit.missing} == {"000002.jpg"}
    photos.rename(photos.with_name("photos2"))
    assert all(hit.missing for hit in client.search(ASKED).hits)
    (directory,) = client.iter_directories()
    where = DirectoryRelocation(path=str(photos.with_name("photos2")), index=False)
    client.relocate_directory(directory.directory_id, where)
    assert {hit.uri for hit in client.search(ASKED).hits if hit.missing} == {"000002.jpg"}


def test_relocating_puts_pictures_in_the_place_of_those_that_were_indexed_anew(runtime: Runtime, photos: Path) -> None:
    before = image_ids(runtime)
    (root,) = runtime.catalog.roots()
    new = photos.with_name("photos2")
    runtime.catalog.ensure_root(root.corpus_id, str(new))  # as an older version did
    photos.rename(new)
    assert index(runtime, new).counts["embedded"] == COUNT
    assert len(LocalClient.over(runtime).search(ASKED).hits) == 2 * COUNT
    relocation = relocate_directory(runtime, root.root_id, str(new), boundaries=Boundaries())
    assert relocation.merged == COUNT
    sync(runtime)
    hits = LocalClient.over(runtime).search(ASKED).hits
    assert sorted(hit.image_id for hit in hits) == sorted(before.values())
    assert {hit.root for hit in hits} == {"photos2"}
    assert not any(hit.missing for hit in hits)
    assert index(runtime, new).counts.get("embedded", 0) == 0
    assert runtime.catalog.count_images(root.corpus_id, ImageState.ACTIVE) == COUNT


def test_a_folder_without_its_pictures_is_refused(runtime: Runtime, photos: Path, tmp_path: Path) -> None:
    (root,) = runtime.catalog.roots()
    (tmp_path / "other").mkdir()
    with pytest.raises(InvalidRequestError, match="none of the pictures"):
        relocate_directory(runtime, root.root_id, str(tmp_path / "other"), boundaries=Boundaries())
    assert relocate_directory(runtime, root.root_id, str(photos), boundaries=Boundaries()).merged is None


def test_a_served_directory_is_relocated_over_http_by_whoever_may(tmp_path: Path) -> None:
    tenants = make_tenants(tmp_path)
    with served_here(tenants.settings) as served, httpx.Client(base_url=served.address.url, timeout=60) as http:

        def relocate(directory_id: str, path: Path, headers: dict[str, str]) -> httpx.Response:
            body = {"path": str(path), "index": False}
            return http.post(f"/v1/directories/{directory_id}/relocate", json=body, headers=headers)

        def directory_of(name: str) -> str:
            listed = http.get("/v1/directories", headers=tenants.headers(name)).json()["directories"]
            return listed[0]["directory_id"]

        own, other = directory_of(OWN), directory_of(OTHER)
        folder = tmp_path / f"{OWN}-pictures"
        (tmp_path / "away").mkdir()
        folder.rename(tmp_path / "away" / "moved")
        assert relocate(own, tmp_path / "away" / "moved", tenants.headers(OWN)).status_code == 403
        assert relocate(other, folder, tenants.headers(OWN)).status_code == 404
        assert relocate(own, tmp_path / "nowhere", {"X-Lodestone-Token": TOKEN}).status_code == 404
        moved = relocate(own, tmp_path / "away" / "moved", {"X-Lodestone-Token": TOKEN})
        assert (moved.status_code, moved.json()["relocated"]) == (200, True), moved.text
        found = http.post("/v1/search", json={"query": "dots", "guides": 0}, headers=tenants.headers(OWN)).json()["hits"]
        assert found
        assert not any(hit["missing"] for hit in found)
        (tmp_path / "away" / "moved").rename(folder)
        assert relocate(own, folder, tenants.headers(OWN)).status_code == 200
