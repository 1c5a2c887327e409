"""Copies of real photos are found in a home, listed by the command, and folded in answers."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cli import run_here
from tests.support.home import image_ids, open_runtime
from tests.support.photos import CAT, COFFEE, ROCKET, photo

from lodestone.duplicates.find import find_duplicates, list_groups
from lodestone.errors import InvalidRequestError
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone_schemas.api import SearchRequest, SearchResponse


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("duplicates")
    pictures = home / "pictures"
    pictures.mkdir()
    for name in (CAT, COFFEE, ROCKET):
        photo(name).save(pictures / f"{Path(name).stem}.png")
    cat = photo(CAT)
    cat.resize((cat.width * 2 // 3, cat.height * 2 // 3)).save(pictures / "resized.jpg", quality=85)
    shutil.copy(pictures / f"{Path(CAT).stem}.png", pictures / "copied.png")
    shutil.copy(pictures / f"{Path(COFFEE).stem}.png", pictures / "coffee again.png")
    with open_runtime(home) as runtime:
        index_paths(runtime, IndexRequest((pictures,), corpus="photos"))
        corpus = runtime.catalog.corpus("photos")
        find_duplicates(runtime.catalog, runtime.store, runtime.home, corpus, space="bridge", thumbnails=runtime.thumbnails)
    return home


@pytest.fixture
def runtime(folder: Path) -> Iterator[Runtime]:
    with open_runtime(folder) as opened:
        yield opened


async def ask(runtime: Runtime, **options: object) -> SearchResponse:
    engine = runtime.engine()
    await engine.warm_up()
    return await engine.answer(SearchRequest.model_validate({"query": "a cat", "guides": 0, **options}))


def test_equal_files_and_resized_ones_are_grouped_and_others_are_not(runtime: Runtime) -> None:
    groups = {
        (group.kind, frozenset(member.file.removeprefix("pictures/") for member in group.members))
        for group in list_groups(runtime.catalog)
    }
    cats, coffees = {f"{Path(CAT).stem}.png", "copied.png"}, {f"{Path(COFFEE).stem}.png", "coffee again.png"}
    assert groups == {
        ("exact", frozenset(cats)),
        ("exact", frozenset(coffees)),
        ("near", frozenset({*cats, "resized.jpg"})),
        ("near", frozenset(coffees)),
    }
    for group in list_groups(runtime.catalog):
        assert group.members[0].image_id == group.group_id
        assert group.members[0].distance == 0
    assert not list(runtime.home.path.glob("duplicates/*"))
    run = runtime.catalog.last_run("duplicates", runtime.catalog.corpus("photos").corpus_id)
    assert run is not None
    assert (run.state, run.counts) == ("done", {"exact": 4, "near": 5})


async def test_an_answer_may_show_the_best_of_copies_alone(runtime: Runtime) -> None:
    whole, folded = await ask(runtime), await ask(runtime, collapse=True)
    ids = image_ids(runtime, "photos")
    assert len(whole.hits) == 6
    assert all(hit.copies == 0 for hit in whole.hits)
    assert len(folded.hits) == 3
    assert sorted(hit.copies for hit in folded.hits) == [0, 1, 2]
    assert [hit.rank for hit in folded.hits] == [1, 2, 3]
    assert folded.hits[0].image_id == whole.hits[0].image_id
    cats = {ids[f"pictures/{name}"] for name in (f"{Path(CAT).stem}.png", "copied.png", "resized.jpg")}
    assert len(cats & {hit.image_id for hit in folded.hits}) == 1
    pages = [(await ask(runtime, collapse=True, limit=1, offset=offset)) for offset in range(3)]
    assert [page.hits[0].image_id for page in pages] == [hit.image_id for hit in folded.hits]
    assert [page.next_offset for page in pages] == [1, 2, None]


def test_commands_find_and_list_copies(folder: Path) -> None:
    home = folder / "home"
    found = run_here("duplicates", "find", "--exact", "--output", "json", home=home)
    assert (found.code, found.json[0]["exact"], found.json[0]["near"]) == (0, 4, None)
    found = run_here("duplicates", "find", "--corpus", "photos", home=home)
    assert found.code == 0, found.err
    assert "photos: 4 equal files in 2 groups; 5 pictures that look alike in 2 groups" in found.out
    listed = run_here("duplicates", "list", "--kind", "near", "--limit", "1", "--output", "json", home=home)
    assert [len(group["members"]) for group in listed.json] in ([2], [3])
    assert "resized.jpg" in run_here("duplicates", "list", home=home).out
    answer = run_here("search", "a cat", "--collapse", "--guides", "0", "--output", "json", home=home)
    assert len(answer.json["hits"]) == 3
    assert "like it)" in run_here("search", "a cat", "--collapse", "--guides", "0", home=home).out


def test_a_space_that_was_never_loaded_and_a_distance_that_makes_no_sense_are_refused(runtime: Runtime) -> None:
    corpus = runtime.catalog.corpus("photos")
    for wrong in ({"space": "nope"}, {"space": "bridge", "distance": 1.5}, {"space": "bridge", "distance": float("nan")}):
        with pytest.raises(InvalidRequestError) as caught:
            find_duplicates(runtime.catalog, runtime.store, runtime.home, corpus, thumbnails=runtime.thumbnails, **wrong)
        assert caught.value.hint


def test_a_folder_in_two_corpora_is_shown_once_and_an_answer_says_what_is_not_known_yet(tmp_path: Path) -> None:
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for name in (CAT, COFFEE):
        photo(name).save(pictures / f"{Path(name).stem}.png")
    with open_runtime(tmp_path) as runtime:
        for corpus in ("family", "press"):
            index_paths(runtime, IndexRequest((pictures,), corpus=corpus))
        whole, folded = (asyncio.run(ask(runtime, **options)) for options in ({}, {"collapse": True}))

    assert (len(whole.hits), whole.warnings) == (4, [])
    assert [hit.copies for hit in folded.hits] == [1, 1]
    assert ["duplicates find" in warning for warning in folded.warnings] == [True]
    shown = run_here("search", "a cat", "--guides", "0", home=tmp_path / "home").out
    assert "  [family]" in shown
    assert "  [press]" in shown
    assert "[family]" not in run_here("search", "a cat", "--guides", "0", "--corpus", "family", home=tmp_path / "home").out
