"""Tests of the recipes for an embedder and a generator: the pages' own code indexes pictures, and draws guides of a query."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.support.documents import ROOT, blocks_of
from tests.support.home import image_ids, settings_for
from tests.support.photos import CAT, COFFEE, ROCKET, photo
from tests.support.pictures import write_photos

from lodestone.backbones import registry as backbones
from lodestone.config.settings import Settings
from lodestone.generators import registry as generators
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone_schemas.api import SearchOptions, SearchRequest


def code_of(name: str) -> tuple[dict[str, Any], str, dict[str, Any]]:
    """Names that the page's module defines, the class that its entry point names, and the page's settings."""
    blocks = blocks_of(ROOT / "docs" / "recipes" / name)
    module: dict[str, Any] = {"__name__": "my_package"}
    (python,) = [block for block in blocks if block.language == "python"]
    exec(compile(python.code, python.place, "exec"), module)
    entry, settings = (tomllib.loads(block.code) for block in blocks if block.language == "toml")
    ((entries,)) = entry["project"]["entry-points"].values()
    ((path,)) = entries.values()
    return module, re.sub(r".*:", "", path), settings


def with_settings(folder: Path, values: dict[str, Any]) -> Settings:
    return Settings.model_validate(settings_for(folder).model_dump(exclude_unset=True) | values)


def write(folder: Path) -> Path:
    write_photos(folder, 4)
    for name in (CAT, COFFEE, ROCKET):
        photo(name).save(folder / Path(name).with_suffix(".jpg"))
    return folder


async def test_the_embedder_of_the_page_fills_a_space_that_pictures_are_searched_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, name, values = code_of("add-an-embedder.md")
    monkeypatch.setitem(backbones.BACKBONES, "colours", module[name])  # type: ignore[arg-type]  # a dict
    pictures = write(tmp_path / "pictures")
    with Runtime.open(with_settings(tmp_path, values), purpose="a test") as runtime:
        assert index_paths(runtime, IndexRequest((pictures,))).counts["embedded"] == 7
        ids = image_ids(runtime)
        engine = runtime.engine()
        found = await engine.similar(ids["pictures/chelsea.jpg"], SearchOptions(spaces=["colours"], limit=10))
        await engine.settled(found.query_id)
    assert {hit.image_id for hit in found.hits} == set(ids.values()) - {ids["pictures/chelsea.jpg"]}
    assert list(found.space_weights) == ["colours"]
    assert found.hits[0].image_id == ids["pictures/coffee.jpg"]


async def test_the_generator_of_the_page_draws_guides_that_a_query_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, name, values = code_of("add-a-generator.md")
    monkeypatch.setitem(generators.GENERATORS, "swatch", module[name])  # type: ignore[arg-type]  # a dict
    pictures = write(tmp_path / "pictures")
    with Runtime.open(with_settings(tmp_path, values), purpose="a test") as runtime:
        index_paths(runtime, IndexRequest((pictures,)))
        engine = runtime.engine()
        answer = await engine.answer(SearchRequest(query="a red and white rocket", guides=2))
        plain = await engine.answer(SearchRequest(query="a rocket", guides=2))
        for response in (answer, plain):
            await engine.settled(response.query_id)
    assert [guide.guide_id for guide in answer.guides if guide.engine == "paint"]
    assert not [guide for guide in plain.guides if guide.engine == "paint"]
