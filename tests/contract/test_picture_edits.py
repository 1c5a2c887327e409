"""The contract of engines that edit pictures, for each of them: services that are stood in for, and a tiny random pipeline."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import numpy as np
import pytest
from tests.support.engines import remote
from tests.support.image_servers import ImageServer
from tests.support.photos import CAT, photo

from lodestone.config.engines import EngineSettings
from lodestone.generators.base import Generator, GuideRequest, PictureEdit

SIZE = 64
PIXELS = np.asarray(photo(CAT).convert("RGB"))


@pytest.fixture(params=["http", "openai", pytest.param("diffusers", marks=pytest.mark.slow)])
async def editor(request: pytest.FixtureRequest) -> AsyncIterator[Generator]:
    if request.param == "diffusers":
        from tests.support.tiny_models import tiny_models

        from lodestone.generators.engines.diffusers import Diffusers

        options = {"steps": 2, "guidance": 0}
        yield Diffusers(EngineSettings(kind="diffusers", model=str(tiny_models().diffusion), options=options), "x")
        return
    with ImageServer() as server:
        options = {"edits": True} | ({"send_seed": True} if request.param == "openai" else {})
        made = remote("x", server.url, kind=request.param, options=options).generator
        yield made
        await made.close()


def edit(n: int = 1, *, first: int = 0, seed: int = 0, pixels: np.ndarray = PIXELS) -> GuideRequest:
    return GuideRequest("at night", "at night", n, first=first, seed=seed, size=SIZE, edit=PictureEdit(pixels, 0.5))


async def test_an_edited_picture_is_a_guide_as_any_other(editor: Generator) -> None:
    assert editor.edits and editor.cacheable
    await editor.warm_up()
    before = PIXELS.copy()
    (guide,) = await editor.generate(edit())
    assert guide.guide_id == "x/0" and guide.pixels is not None
    assert guide.pixels.dtype == np.uint8 and guide.pixels.shape[2] == 3 and max(guide.pixels.shape) <= SIZE
    told = json.loads(json.dumps(dict(guide.provenance)))
    assert (told["prompt"], told["strength"], told["version"]) == ("at night", 0.5, editor.version)
    np.testing.assert_array_equal(PIXELS, before)  # what was given is not changed
    assert await editor.generate(edit(0)) == []


async def test_the_same_request_gives_the_same_picture_and_another_number_or_seed_another(editor: Generator) -> None:
    (one,), (again,), (second,), (other_seed,) = [
        await editor.generate(each) for each in (edit(), edit(), edit(first=1), edit(seed=5))
    ]
    assert one.pixels is not None
    np.testing.assert_array_equal(one.pixels, again.pixels)
    assert second.guide_id == "x/1"
    for other in (second, other_seed):
        assert other.pixels is not None and (other.pixels != one.pixels).any()


async def test_it_draws_as_well_and_takes_pictures_of_any_shape(editor: Generator) -> None:
    (drawn,) = await editor.generate(GuideRequest("a cat", "a cat", 1, size=SIZE))
    assert drawn.pixels is not None and "strength" not in drawn.provenance
    for shape in ((1, 1, 3), (900, 3, 3), (16, 16, 3)):
        pixels = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
        (guide,) = await editor.generate(edit(pixels=pixels))
        assert guide.pixels is not None and max(guide.pixels.shape) <= SIZE
