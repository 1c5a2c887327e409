"""Guides drawn by a diffusers pipeline: repeatable one by one, in time or not at all, and never what the checker withheld.

The pipeline is tiny and random and draws noise: this proves loading and drawing, no quality.
"""

import asyncio
import importlib.util
import shutil
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from tests.support.photos import CAT, ROCKET, photo
from tests.support.tiny_models import tiny_models, write_tiny_diffusion

from lodestone.config.engines import EngineSettings
from lodestone.errors import ConfigurationError, DeadlineExceededError, ModelUnavailableError
from lodestone.generators.base import GuideRequest, PictureEdit
from lodestone.generators.engines.diffusers import PRESETS, Diffusers
from lodestone.generators.engines.diffusers_pipeline import fitted
from lodestone.models import packages

pytestmark = pytest.mark.slow  # diffusers takes ten seconds to import


def engine(folder=None, **options):
    settings = EngineSettings(kind="diffusers", model=str(folder or tiny_models().diffusion), options={"steps": 2, **options})
    return Diffusers(settings, "painter")


def request(n=2, **more):
    return GuideRequest("a cat", "a cat on a mat", n, **{"size": 64, **more})


@pytest.fixture(scope="module")
def painter():
    made = engine(guidance=0)
    asyncio.run(made.warm_up())
    return made


async def test_guides_are_pictures_of_the_size_asked_for_with_their_origin(painter):
    guides = await painter.generate(request())
    assert [guide.guide_id for guide in guides] == ["painter/0", "painter/1"]
    assert {(guide.pixels.shape, guide.pixels.dtype.name, guide.engine) for guide in guides} == {
        ((64, 64, 3), "uint8", "painter")
    }
    told = guides[0].provenance
    assert (told["model"], told["prompt"], told["steps"], told["guidance"]) == ("diffusion", "a cat on a mat", 2, 0)
    assert told["version"] == painter.version
    assert told["seed"] != guides[1].provenance["seed"]
    assert not np.array_equal(guides[0].pixels, guides[1].pixels)


def assert_same_picture(one, other):
    """In another batch a processor's kernels may round otherwise: by one step of a colour at most."""
    np.testing.assert_allclose(one.pixels.astype(int), other.pixels.astype(int), rtol=0, atol=1)


async def test_a_guide_is_the_same_picture_in_whatever_round_it_is_drawn(painter):
    at_once = await painter.generate(request(3))
    one_by_one = [guide for first in range(3) for guide in await painter.generate(request(1, first=first))]
    assert [guide.guide_id for guide in one_by_one] == [guide.guide_id for guide in at_once]
    for alone, together in zip(one_by_one, at_once, strict=True):
        assert_same_picture(alone, together)


async def test_guides_of_one_call_are_drawn_together_and_come_as_they_are_drawn(painter, monkeypatch):
    made = engine(guidance=0, batch=2)
    await made.warm_up()
    whole, calls = made._pipe, []

    def counted(**arguments):
        calls.append(arguments["num_images_per_prompt"])
        return whole(**arguments)

    monkeypatch.setattr(made, "_pipe", counted)
    came = [(len(calls), [guide.guide_id for guide in guides]) async for guides in made.stream(request(5))]
    assert calls == [2, 2, 1]
    assert [ids for _, ids in came] == [["painter/0", "painter/1"], ["painter/2", "painter/3"], ["painter/4"]]
    for alone, together in zip(await painter.generate(request(5)), await made.generate(request(5)), strict=True):
        assert (alone.guide_id, alone.provenance["seed"]) == (together.guide_id, together.provenance["seed"])
        assert_same_picture(alone, together)
    assert made.version == painter.version  # guides of the cache fit


async def test_what_a_batch_withholds_is_missing_alone_and_a_full_gpu_halves_it(painter, monkeypatch):
    made = engine(guidance=0, batch=4)
    await made.warm_up()
    whole, calls = made._pipe, []

    def small(**arguments):
        calls.append(arguments["num_images_per_prompt"])
        if calls[-1] > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        drawn = whole(**arguments)
        return SimpleNamespace(images=drawn.images, nsfw_content_detected=[False, True][: calls[-1]])

    monkeypatch.setattr(made, "_pipe", small)
    assert [guide.guide_id for guide in await made.generate(request(4))] == ["painter/0", "painter/2"]
    assert calls == [4, 2, 2]
    await made.generate(request(4))
    assert calls[3:] == [2, 2]  # learnt


async def test_a_stream_that_is_closed_ends_the_drawing(monkeypatch):
    made = engine(guidance=0)
    await made.warm_up()
    whole, calls = made._pipe, []

    def counted(**arguments):
        calls.append(arguments["generator"].initial_seed())
        return whole(**arguments)

    monkeypatch.setattr(made, "_pipe", counted)
    stream = made.stream(request(500))
    assert [guide.guide_id for guide in await anext(stream)] == ["painter/0"]
    await stream.aclose()
    assert len(await made.generate(request(1))) == 1  # the pipeline is free again
    assert len(calls) < 400


async def test_seed_and_prompt_both_matter(painter):
    (first,), (other_seed,), (other_prompt,) = [
        await painter.generate(each)
        for each in (request(1), request(1, seed=1), GuideRequest("a dog", "a dog in the snow", 1, size=64))
    ]
    assert (first.pixels != other_seed.pixels).mean() > 0.5
    assert (first.pixels != other_prompt.pixels).any()


async def test_sizes_are_brought_to_what_latents_allow(painter):
    shapes = [(await painter.generate(request(1, size=size)))[0].pixels.shape[:2] for size in (70, 16, 20)]
    assert shapes == [(64, 64), (16, 16), (16, 16)]


async def test_an_init_picture_shows_through_the_more_the_lower_the_strength(tmp_path):
    async def drawn(name, strength):
        path = tmp_path / f"{name}.png"
        photo(name).save(path)
        (guide,) = await engine(init_image=str(path), strength=strength).generate(request(1))
        assert (guide.provenance["init_image"], guide.provenance["strength"]) == (path.name, strength)
        return guide.pixels.astype(np.float32)

    from_photos = {strength: [await drawn(name, strength) for name in (CAT, ROCKET)] for strength in (0.3, 1.0)}
    differences = {strength: np.abs(a - b).mean() for strength, (a, b) in from_photos.items()}
    assert from_photos[0.3][0].shape == (64, 64, 3)
    assert differences[0.3] > 2 * differences[1.0]
    np.testing.assert_array_equal(await drawn(CAT, 0.3), from_photos[0.3][0])


def edited(name, strength=0.3, **more):
    pixels = np.asarray(photo(name).convert("RGB"))
    return request(1, edit=PictureEdit(pixels, strength), **more)


async def test_a_picture_is_edited_in_its_shape_and_shows_through_the_more_the_lower_the_strength(painter):
    async def drawn(name, strength):
        (guide,) = await painter.generate(edited(name, strength))
        assert guide.provenance["strength"] == strength
        return guide.pixels.astype(np.float32)

    (wide,) = await painter.generate(edited(CAT, size=96))
    assert wide.pixels.shape == (48, 96, 3)  # of 451 x 300 pixels
    by_strength = {strength: [await drawn(name, strength) for name in (CAT, ROCKET)] for strength in (0.3, 1.0)}
    height, width = (min(one.shape[axis] for one in by_strength[0.3]) for axis in (0, 1))
    differences = {strength: np.abs(a[:height, :width] - b[:height, :width]).mean() for strength, (a, b) in by_strength.items()}
    assert differences[0.3] > 2 * differences[1.0]
    np.testing.assert_array_equal(await drawn(CAT, 0.3), by_strength[0.3][0])
    (other_seed,) = await painter.generate(edited(CAT, seed=1))
    assert (other_seed.pixels != by_strength[0.3][0]).any()


async def test_editing_loads_nothing_again_and_leaves_drawing_as_it_is(painter, monkeypatch):
    import diffusers

    made = engine(guidance=0)
    (before,) = await made.generate(request(1))
    monkeypatch.setattr(diffusers.AutoPipelineForImage2Image, "from_pretrained", None)
    await made.generate(edited(CAT))
    assert made._editor.unet is made._pipe.unet
    (after,) = await made.generate(request(1))
    np.testing.assert_array_equal(before.pixels, after.pixels)
    assert made.edits


async def test_an_init_picture_gives_way_to_the_one_to_edit(painter, tmp_path):
    path = tmp_path / "rocket.png"
    photo(ROCKET).save(path)
    (ours,) = await engine(guidance=0, init_image=str(path)).generate(edited(CAT))
    (expected,) = await painter.generate(edited(CAT))
    assert_same_picture(ours, expected)
    assert "init_image" not in ours.provenance


async def test_a_model_without_such_a_pipeline_says_that_it_edits_nothing(monkeypatch):
    import diffusers

    def unknown(_pipe):
        raise ValueError("AutoPipeline can't find a pipeline linked to X for image2image")

    made = engine(guidance=0)
    monkeypatch.setattr(diffusers.AutoPipelineForImage2Image, "from_pipe", unknown)
    with pytest.raises(ModelUnavailableError, match="edits no pictures") as caught:
        await made.generate(edited(CAT))
    assert "generators.painter.model" in caught.value.hint
    assert len(await made.generate(request(1))) == 1


async def test_editing_stops_at_the_deadline_too(painter):
    with pytest.raises(DeadlineExceededError):
        await painter.generate(edited(CAT, deadline=time.monotonic() - 1))


@pytest.mark.parametrize(
    ("shape", "expected"), [((30, 40), (48, 64)), ((40, 30), (64, 48)), ((10, 2_000), (16, 64)), ((1, 1), (64, 64))]
)
def test_a_picture_to_edit_keeps_its_shape_within_what_latents_allow(shape, expected):
    picture = fitted(np.zeros((*shape, 3), np.uint8), 64, 16)
    assert (picture.height, picture.width) == expected


def test_what_changes_the_pictures_changes_the_version(tmp_path):
    path = tmp_path / "cat.png"
    photo(CAT).resize((64, 64)).save(path)
    copy = shutil.copytree(tiny_models().diffusion, tmp_path / "copy")
    made = [
        engine(),
        engine(steps=3),
        engine(guidance=2),
        engine(init_image=str(path)),
        engine(init_image=str(path), strength=0.9),
        engine(copy),
        Diffusers(EngineSettings(kind="diffusers"), "painter"),
    ]
    assert len({each.version for each in made}) == len(made)
    before = engine(copy).version
    write_tiny_diffusion(copy, seed=1)
    assert engine(copy).version != before
    assert engine().version == engine().version


async def test_a_deadline_in_the_past_gives_no_guide_and_says_so(painter):
    with pytest.raises(DeadlineExceededError, match="painter"):
        await painter.generate(request(deadline=time.monotonic() - 1))


async def test_drawing_stops_within_a_step_of_the_deadline_and_keeps_what_is_done(painter, monkeypatch):
    made = engine(guidance=0)
    await made.warm_up()
    whole, steps, first_ends = made._pipe, [], 0.0

    class Slow:
        def __call__(self, *, callback_on_step_end, **arguments):
            def slowly(pipe, step, timestep, tensors):
                steps.append(step)
                time.sleep(max(0.15, first_ends - time.monotonic()))
                return callback_on_step_end(pipe, step, timestep, tensors)

            return whole(callback_on_step_end=slowly, **arguments)

    monkeypatch.setattr(made, "_pipe", Slow())
    guides = await made.generate(request(40, deadline=time.monotonic() + 4))
    assert 1 <= len(guides) < 40
    steps.clear()
    deadline = time.monotonic() + 3
    first_ends = deadline + 0.1
    with pytest.raises(DeadlineExceededError):
        await made.generate(request(1, deadline=deadline))
    assert len(steps) == 1


async def test_a_cancelled_call_frees_the_engine_within_a_step(painter, monkeypatch):
    made = engine(guidance=0, steps=50)
    await made.warm_up()
    task = asyncio.create_task(made.generate(request(64)))
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    start = time.monotonic()
    assert len(await made.generate(request(1))) == 1
    one = time.monotonic() - start
    assert one < 60  # 64 pictures of 50 steps would have kept it for minutes


@pytest.mark.parametrize("reason", ["flagged", "blank"])
async def test_what_the_safety_checker_withholds_is_no_guide_and_keeps_its_number(painter, monkeypatch, reason):
    made = engine(guidance=0)
    await made.warm_up()
    whole, drawn = made._pipe, []

    def withholding(**arguments):
        result = whole(**arguments)
        drawn.append(result)
        if len(drawn) != 2:
            return SimpleNamespace(images=result.images, nsfw_content_detected=[False])
        if reason == "flagged":
            return SimpleNamespace(images=result.images, nsfw_content_detected=[True])
        return SimpleNamespace(images=[Image.new("RGB", (64, 64))], nsfw_content_detected=None)

    monkeypatch.setattr(made, "_pipe", withholding)
    assert [guide.guide_id for guide in await made.generate(request(3))] == ["painter/0", "painter/2"]


async def test_two_queries_at_once_do_not_disturb_each_other(painter):
    alone = [await painter.generate(request(2, seed=seed)) for seed in (1, 2)]
    together = await asyncio.gather(*(painter.generate(request(2, seed=seed)) for seed in (1, 2)))
    for a, b in zip(alone, together, strict=True):
        for one, other in zip(a, b, strict=True):
            assert_same_picture(one, other)


@pytest.mark.parametrize(
    "options",
    [{"step": 1}, {"steps": 0}, {"strength": 0}, {"guidance": -1}, {"steps": "many"}],
    ids=lambda one: next(iter(one)),
)
def test_a_wrong_option_is_named_with_what_is_allowed(options):
    with pytest.raises(ConfigurationError, match=next(iter(options))) as caught:
        engine(**options)
    assert "steps, guidance, variant, device, init_image, strength, batch" in caught.value.hint


async def test_a_model_that_cannot_be_had_says_how_to_get_it(tmp_path, monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    for model in (None, "someone/absent", str(tmp_path / "nowhere")):
        made = Diffusers(EngineSettings(kind="diffusers", model=model), "painter")
        with pytest.raises(ModelUnavailableError) as caught:
            await made.generate(request(1))
        assert "generators.painter.model" in caught.value.hint


async def test_damaged_weights_are_an_error_that_says_so(tmp_path):
    copy = shutil.copytree(tiny_models().diffusion, tmp_path / "copy")
    next((copy / "unet").glob("*.safetensors")).write_bytes(b"\0" * 64)
    with pytest.raises(ModelUnavailableError, match="cannot load"):
        await engine(copy).warm_up()


async def test_a_device_that_is_not_there_is_refused_by_name():
    with pytest.raises(ConfigurationError, match="cuda:7"):
        await engine(device="cuda:7").warm_up()


async def test_without_the_package_the_extra_is_named(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None if package == "diffusers" else found(package))
    with pytest.raises(ModelUnavailableError, match="diffusers") as caught:
        await engine().warm_up()
    assert caught.value.hint == "pip install 'lodestone-search[diffusers]'"


async def test_a_library_that_cannot_be_imported_is_an_error_that_says_why(monkeypatch):
    def broken(package):
        raise RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.setattr(packages.importlib, "import_module", broken)
    with pytest.raises(ModelUnavailableError, match="torchvision::nms"):
        await engine().warm_up()


def test_presets_draw_in_one_step_without_guidance():
    assert {name: (each.repository, each.steps, each.guidance) for name, each in PRESETS.items()} == {
        "sd-turbo": ("stabilityai/sd-turbo", 1, 0.0),
        "sdxl-turbo": ("stabilityai/sdxl-turbo", 1, 0.0),
        "flux-schnell": ("black-forest-labs/FLUX.1-schnell", 1, 0.0),
    }
