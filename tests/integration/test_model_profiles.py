"""Profiles of downloaded models, from files on disk to a ranking: open_clip and timm backbones, direct spaces, drawn guides.

The models are tiny and random: this proves that they are loaded, indexed with, searched and explained, and no quality.
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.support.models import model_context
from tests.support.photos import CAT, COFFEE, ROCKET, photo
from tests.support.pictures import write_photos
from tests.support.tiny_models import CLIP_DIM, TIMM_DIM, tiny_models, write_tiny_timm

from lodestone.config.engines import EngineSettings
from lodestone.config.profiles import PROFILES, Profile
from lodestone.config.settings import IndexSettings, ModelSettings, QuerySettings, Settings, StoreSettings
from lodestone.errors import ModelUnavailableError
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone_eval.needle_engines import NeedleEngines
from lodestone_eval.needle_variants import NeedleVariant
from lodestone_schemas.api import SearchOptions, SearchRequest
from lodestone_schemas.collections import HnswSpec

PICTURES = 12

pytestmark = pytest.mark.slow


def tiny_profile() -> Profile:
    clip, timm = f"open_clip:{tiny_models().clip}", f"timm:{tiny_models().timm}"
    return Profile(
        name="tiny",
        backbones=(clip, timm),
        text_encoder="minilm",
        spaces=("words", "look"),
        generators=("painter",),
        guides=2,
        fusion="weighted_reciprocal_rank",
        image_size=64,
        hnsw=HnswSpec(m=6, ef_construct=32, ef=64),
        direct={"words": clip, "look": timm},
        space_priors={"words": 1.0, "look": 3.0},
        engines={
            "painter": EngineSettings(
                kind="diffusers", model=str(tiny_models().diffusion), size=64, options={"steps": 1, "guidance": 0}
            )
        },
    )


def settings(folder, *, profile="tiny", **more):
    return Settings(
        home=folder / "home",
        profile=profile,
        models=ModelSettings(cache=model_context().cache.root, threads=1),
        index=IndexSettings(executor="inline", workers=1, slice_size=8),
        store=StoreSettings(lock_timeout_s=0.2, **more),
        query=QuerySettings(deadline_ms=120_000, outliers=False),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def profiles():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PROFILES, "tiny", tiny_profile())
        yield


@pytest.fixture(scope="module")
def runtime(folder, profiles):
    write_photos(folder / "photos", PICTURES - 3)
    for name in (CAT, COFFEE, ROCKET):
        photo(name).save(folder / "photos" / f"{name}.png")
    with Runtime.open(settings(folder), purpose="a test") as opened:
        report = index_paths(opened, IndexRequest((folder / "photos",)))
        assert report.counts["embedded"] == PICTURES
        yield opened


@pytest.fixture(scope="module")
def engine(runtime):
    return runtime.engine()


def test_every_space_holds_every_picture_in_its_own_size(runtime):
    aliases = runtime.store.aliases()
    facts = {space: runtime.store.info(aliases[space]) for space in ("words", "look")}
    assert {space: (info.dim, info.points) for space, info in facts.items()} == {
        "words": (CLIP_DIM, PICTURES),
        "look": (TIMM_DIM, PICTURES),
    }


def test_the_graph_is_the_profiles_unless_the_settings_say_otherwise(runtime, folder, profiles):
    def graph(opened):
        collection = opened.store.aliases()["words"]
        (path,) = [path for path in opened.home.store.rglob("spec.json") if collection in path.parts]
        return {key: json.loads(path.read_text())["hnsw"][key] for key in ("m", "ef_construct", "ef")}

    assert graph(runtime) == {"m": 6, "ef_construct": 32, "ef": 64}
    other = settings(folder / "other", m=9)
    with Runtime.open(other, purpose="a test") as opened:
        index_paths(opened, IndexRequest((folder / "photos",)))
        assert graph(opened) == {"m": 9, "ef_construct": 32, "ef": 64}


async def test_words_search_the_space_with_a_text_tower_alone(engine):
    answer = await engine.answer(SearchRequest(query="a cat on a sofa", guides=0, explain=True, limit=PICTURES))
    assert answer.stage == "text"
    assert len(answer.hits) == PICTURES
    assert {part.space for hit in answer.hits for part in hit.contributions} == {"words"}


async def test_words_rank_as_the_models_own_towers_do(runtime, engine):
    import open_clip
    import torch

    model, _, preprocess = open_clip.create_model_and_transforms(f"local-dir:{tiny_models().clip}")
    tokenizer = open_clip.get_tokenizer(f"local-dir:{tiny_models().clip}")
    with torch.inference_mode():
        words = model.eval().encode_text(tokenizer(["a rocket"]), normalize=True).numpy()[0]
        pictures = torch.stack([preprocess(photo(name)) for name in (CAT, COFFEE, ROCKET)])
        expected = model.encode_image(pictures, normalize=True).numpy() @ words
    answer = await engine.answer(SearchRequest(query="a rocket", guides=0, explain=True, limit=PICTURES, tags=False))
    scores = {hit.uri: hit.contributions[0].score for hit in answer.hits}
    got = [scores[f"{name}.png"] for name in (CAT, COFFEE, ROCKET)]
    np.testing.assert_allclose(got, expected, atol=0.03)


async def test_a_picture_finds_itself_in_every_space(engine):
    for name in (CAT, COFFEE, ROCKET):
        answer = await engine.by_picture(photo(name), SearchOptions(explain=True))
        assert answer.hits[0].uri == f"{name}.png"
        assert {part.space for part in answer.hits[0].contributions} == {"words", "look"}


async def test_drawn_guides_search_every_space_and_tell_where_they_come_from(engine):
    answer = await engine.answer(SearchRequest(query="a cat on a sofa", explain=True, limit=PICTURES))
    assert answer.warnings == []
    assert answer.stage == "guides"
    assert [guide.guide_id for guide in answer.guides] == ["painter/0", "painter/1"]
    assert answer.guides[0].provenance["model"] == "diffusion"
    searched = {(part.guide, part.space) for hit in answer.hits for part in hit.contributions}
    assert searched >= {(guide, space) for guide in ("painter/0", "painter/1") for space in ("words", "look")}
    assert ("text", "look") not in searched
    again = await engine.answer(SearchRequest(query="a cat on a sofa", explain=True, limit=PICTURES))
    assert [hit.image_id for hit in again.hits] == [hit.image_id for hit in answer.hits]


async def test_needles_ranking_needs_no_space_that_takes_words(runtime):
    """Of the embedders alone there is no text pass at all: pictures are ranked by what is near to the drawn guides."""
    engines = NeedleEngines(runtime, [], {})
    variant = NeedleVariant(2, ("look",), ("painter",))
    try:
        system = await engines.system(variant)
        answer = await system.answer(
            SearchRequest(query="a cat on a sofa", limit=PICTURES, **variant.request() | {"explain": True})
        )
    finally:
        await engines.close()
    assert (answer.stage, answer.warnings, len(answer.hits)) == ("guides", [], PICTURES)
    parts = {(part.guide, part.space) for hit in answer.hits for part in hit.contributions}
    assert parts == {("painter/0", "look"), ("painter/1", "look")}
    for hit in answer.hits:  # eq. 4: two guides share the weight of the one embedder
        assert hit.score == pytest.approx(sum(0.5 / part.rank for part in hit.contributions))


def test_a_profile_of_real_models_says_that_its_gate_is_off(runtime):
    idle = runtime.idle_parts()
    assert idle == {}  # the tiny profile asks for no gate, and its outlier filter is off
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime, "configured", replace(runtime.configured, gate=True))
        assert "fitted on bridge, labels, and this profile searches words, look" in runtime.idle_parts()["gate"]


def test_needles_embedders_are_those_of_the_paper_the_most_trusted_first():
    assert PROFILES["accurate"].embedders == ("eva", "regnet", "dino", "convnextv2", "clip", "beit")  # table 6
    assert PROFILES["fast"].embedders == ("eva", "regnet")
    assert PROFILES["embedded"].embedders == ("bridge", "labels")


async def test_other_weights_are_another_version_and_nothing_is_mixed(runtime, folder, tmp_path, profiles):
    other = f"timm:{write_tiny_timm(tmp_path / 'timm', seed=1)}"
    with pytest.MonkeyPatch.context() as patch:
        tiny = tiny_profile()
        changed = replace(tiny, backbones=(tiny.backbones[0], other), direct={**tiny.direct, "look": other})
        patch.setitem(PROFILES, "tiny", changed)
        projections = {name: projection.collection for name, projection in _projections(settings(folder)).items()}
    live = runtime.store.aliases()
    assert projections["words"] == live["words"]
    assert projections["look"] != live["look"]


def _projections(of):
    with Runtime.open(of, purpose="a test") as opened:
        return opened.projections()


def test_a_profile_whose_models_are_not_to_be_had_says_which_and_how(folder, tmp_path, monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with Runtime.open(settings(tmp_path, profile="fast"), purpose="a test") as opened:
        with pytest.raises(ModelUnavailableError, match="regnety_1280") as caught:
            index_paths(opened, IndexRequest((folder / "photos",)))
        assert "local directory" in caught.value.hint
