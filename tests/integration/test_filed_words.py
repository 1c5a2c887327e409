"""Pictures are found first by the names of their files and folders, by their camera and by their date, and follow renames."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from tests.support.cli import run_here
from tests.support.home import open_runtime
from tests.support.pictures import BERGEN, write_photo, write_photos, write_taken
from tests.support.upkeep import copied

from lodestone.access.caller import LOCAL_CALLER
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.indexing.sync import collections
from lodestone.indexing.sync.collections import sync
from lodestone.retrieval.fusion import RankedList
from lodestone.retrieval.tag_matches import FiledPictures, TagMatches
from lodestone.services.pictures import PictureUseCases
from lodestone.services.sessions.session import HomeSession
from lodestone.tags import delivery
from lodestone.tags.delivery import COLLECTION
from lodestone_schemas.api import SearchFilters, SearchRequest, SearchResponse

OTHERS = 12
FJORD = "camera/P0001.jpg"  # taken at Easter, and at 60.39 degrees north and 5.32 degrees east
CHRISTMAS = ("2017/Christmas/a.jpg", "2017/Christmas/b.jpg")


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filed")
    pictures = folder / "pictures"
    write_photos(pictures / "camera", OTHERS)
    for seed, name in enumerate(("Norway 2016/a.jpg", "Norway 2016/b.jpg", "birthday Ju\u0308rgen/a.jpg", "IMG_1343.jpg"), 100):
        write_photo(pictures / name, seed=seed)
    for seed, name in enumerate(CHRISTMAS, 200):
        write_taken(pictures / name, seed, taken="2017:12:25 18:00:00", camera="Canon EOS 5D")
    write_taken(pictures / FJORD, 250, taken="2018:04:01 12:00:00", at=BERGEN)
    with open_runtime(folder) as runtime:
        index_paths(runtime, IndexRequest((pictures,)))
    return folder


@pytest.fixture
def runtime(indexed: Path, tmp_path: Path) -> Iterator[Runtime]:
    copied(indexed, tmp_path)
    with open_runtime(tmp_path) as opened:
        yield opened


async def ask(runtime: Runtime, text: str, filters: SearchFilters | None = None) -> SearchResponse:
    engine = runtime.engine()
    return await engine.answer(SearchRequest(query=text, guides=0, limit=50, filters=filters or SearchFilters()))


async def first(runtime: Runtime, text: str) -> set[str]:
    """Files of the pictures that are said to be found by names, cameras and dates, which must come before all others."""
    hits = (await ask(runtime, text)).hits
    found = [hit.uri for hit in hits if hit.found_by]
    assert found == [hit.uri for hit in hits[: len(found)]]
    return set(found)


async def test_names_cameras_and_dates_find_their_pictures_first(runtime: Runtime) -> None:
    assert await first(runtime, "Norway") == {"Norway 2016/a.jpg", "Norway 2016/b.jpg", FJORD}
    assert await first(runtime, "a beach in 2017") == set(CHRISTMAS)
    assert await first(runtime, "IMG_1343") == {"IMG_1343.jpg"}
    assert await first(runtime, "Canon") == set(CHRISTMAS)
    assert await first(runtime, "christmas 2017") == set(CHRISTMAS)
    assert await first(runtime, "december 2017") == set(CHRISTMAS)
    assert await first(runtime, "birthday Jürgen") == {"birthday Ju\u0308rgen/a.jpg"}
    assert await first(runtime, "a dog by the camera") == set()


async def test_places_and_holidays_find_their_pictures_first_and_are_told_of_each(runtime: Runtime) -> None:
    for text in ("Bergen", "Vestland", "easter 2018", "Bergen at Easter 2018", "spring in Bergen"):
        assert await first(runtime, text) == {FJORD}, text
    assert (await ask(runtime, "Norway 2018")).hits[0].uri == FJORD  # the others are from Norway, and of no known year
    answer = await ask(runtime, "Vestland 2018")
    assert answer.hits[0].found_by == ["date", "place"]
    assert (answer.warnings, answer.corrected_query) == ([], None)
    assert await first(runtime, "Oslo") == set()


async def test_a_good_match_goes_before_a_hint(runtime: Runtime) -> None:
    hits = (await ask(runtime, "a summer in Norway")).hits
    hinted = {hit.image_id for hit in hits if hit.found_by}
    assert len(hinted) == 3
    tags = RankedList("text", "tags", 1.0, (), np.zeros(0, np.float32))
    scores = TagMatches(tags, filed=FiledPictures(hinted=frozenset({"hint"}), named=frozenset({"name"}))).ranked()
    assert dict(zip(scores.ids, scores.scores.tolist(), strict=True)) == {"name": 15.0, "hint": 6.0}


async def test_a_hit_says_what_it_was_found_by_and_nothing_is_said_to_be_unknown(runtime: Runtime) -> None:
    answer = await ask(runtime, "christmas 2017")
    assert [hit.found_by for hit in answer.hits[:2]] == [["folder", "date"]] * 2
    for text in ("IMG_1343", "Jürgen", "Canon"):
        answer = await ask(runtime, text)
        assert answer.hits[0].found_by
        assert answer.warnings == []
        assert answer.corrected_query is None
    without = await runtime.engine().answer(SearchRequest(query="Norway", guides=0, tags=False))
    assert not any(hit.found_by for hit in without.hits)


async def test_what_a_picture_is_filed_under_makes_no_guide_of_it_and_speaks_for_presence(runtime: Runtime) -> None:
    answer = await runtime.engine().answer(SearchRequest(query="IMG_1343", guides=4))
    assert answer.hits[0].uri == "IMG_1343.jpg"
    assert not [guide for guide in answer.guides if guide.status == "used" and "tag" in str(guide.provenance)]
    assert (answer.probably_nothing, answer.confidence) == (False, 1.0)


def test_while_a_run_goes_on_some_are_delivered_at_each_sync_and_the_rest_at_its_end(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime.store.drop(COLLECTION)
    monkeypatch.setattr(delivery, "_BATCH", 4)
    monkeypatch.setattr(collections, "_DELIVERED_MEANWHILE", 4)
    sync(runtime, build=False)
    assert runtime.store.count(COLLECTION) == 4
    sync(runtime)
    assert runtime.store.count(COLLECTION) == OTHERS + 7


async def test_filters_hold(runtime: Runtime) -> None:
    answer = await ask(runtime, "Norway", SearchFilters(path_prefix="camera"))
    assert len(answer.hits) == OTHERS + 1
    assert [hit.uri for hit in answer.hits if hit.found_by] == [FJORD]


async def test_a_renamed_folder_is_found_by_its_new_name_a_new_file_by_its_own_and_a_deleted_one_by_none(
    runtime: Runtime, tmp_path: Path
) -> None:
    pictures = tmp_path / "pictures"
    (pictures / "Norway 2016").rename(pictures / "Lofoten")
    (pictures / "IMG_1343.jpg").unlink()
    write_photo(pictures / "Geiranger.jpg", seed=300)
    index_paths(runtime, IndexRequest((pictures,)))
    assert await first(runtime, "Lofoten") == {"Lofoten/a.jpg", "Lofoten/b.jpg"}
    assert await first(runtime, "Geiranger") == {"Geiranger.jpg"}
    assert await first(runtime, "Norway") == {FJORD}
    assert await first(runtime, "IMG_1343") == set()


def test_each_picture_says_its_place(runtime: Runtime) -> None:
    pictures = PictureUseCases(cast("HomeSession", SimpleNamespace(runtime=runtime)))
    (root,) = runtime.catalog.roots(None)
    found = {image.uri: image.image_id for image in runtime.catalog.images_of_root(root.root_id)}
    places = {uri: pictures.image(image_id, LOCAL_CALLER).place for uri, image_id in found.items()}
    assert places.pop(FJORD) == "Bergen, Vestland, Norway"
    assert set(places.values()) == {None}


def test_the_command_line_says_it_too(indexed: Path, tmp_path: Path) -> None:
    copied(indexed, tmp_path)
    done = run_here("search", "christmas 2017", "--limit", "2", "--guides", "0", home=tmp_path / "home")
    assert done.code == 0, done.err
    assert done.out.count("by its folder and date") == 2
    assert "leaves no picture out" in done.out
