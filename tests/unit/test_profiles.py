"""Profiles: every model that one names exists under that name, and NEEDLE's modes are as published."""

import pytest
from tests.support.tiny_models import declare_torchvision_operators

from lodestone.backbones.open_clip import repository_of
from lodestone.backbones.registry import make_backbone
from lodestone.config.profiles import PROFILES, find_profile
from lodestone.errors import UnknownNameError
from lodestone.generators.diffusers_engine import PRESETS
from lodestone.language.registry import make_text_encoder
from lodestone.models.cache import ModelCache
from lodestone.models.context import ModelContext
from lodestone.query.fusion import find_fusion
from lodestone.spaces.registry import make_space
from lodestone_schemas.collections import HnswSpec

MODES = ("fast", "balanced", "accurate")


@pytest.fixture
def context(tmp_path):
    return ModelContext(ModelCache(tmp_path))


def test_accurate_is_needles_table_of_six_embedders_and_weights():
    accurate = find_profile("accurate")
    six = {space: (accurate.direct[space].removeprefix("timm:"), accurate.space_priors[space]) for space in accurate.spaces[:6]}
    assert six == {
        "eva": ("eva02_large_patch14_448.mim_m38m_ft_in22k_in1k", 0.8497),
        "regnet": ("regnety_1280.swag_ft_in1k", 0.8235),
        "dino": ("vit_large_patch14_reg4_dinov2.lvd142m", 0.8235),
        "clip": ("vit_large_patch14_clip_336.openai_ft_in12k_in1k", 0.8146),
        "convnextv2": ("convnextv2_large.fcmae_ft_in22k_in1k_384", 0.8184),
        "beit": ("beitv2_large_patch16_224.in1k_ft_in22k_in1k", 0.7660),
    }
    assert accurate.spaces[6:] == ("words",)
    assert accurate.space_priors["words"] == pytest.approx(sum(prior for _, prior in six.values()) / 6)


@pytest.mark.parametrize(("mode", "guides", "embedders"), [("fast", 1, 2), ("balanced", 2, 4), ("accurate", 2, 6)])
def test_modes_have_needles_numbers(mode, guides, embedders):
    profile = find_profile(mode)
    assert profile.guides == guides
    assert len([space for space in profile.spaces if space != "words"]) == embedders
    assert (profile.hnsw.m, profile.hnsw.ef_construct) == (48, 200)
    assert profile.fusion == "needle"


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_is_complete_and_light(mode, context):
    profile = find_profile(mode)
    find_fusion(profile.fusion)
    make_text_encoder(profile.text_encoder, context)
    spaces = [make_space(space, context, direct=profile.direct) for space in profile.spaces]
    assert [space.name for space in spaces] == list(profile.spaces)
    assert set(profile.direct.values()) == set(profile.backbones)
    assert set(profile.space_priors) == set(profile.spaces)
    texts = [space.text_encoder for space in spaces if space.text_encoder is not None]
    assert len(texts) == 1  # the text pass has a space to search
    make_text_encoder(texts[0], context)
    for name in profile.generators:
        engine = profile.engines[name]
        assert engine.kind == "diffusers"
        assert engine.model in PRESETS
        assert engine.size == profile.image_size == 512


def test_every_timm_model_is_published_under_its_name():
    declare_torchvision_operators()
    from timm.models import get_pretrained_cfg

    names = {name.removeprefix("timm:") for mode in MODES for name in find_profile(mode).backbones if name.startswith("timm:")}
    assert len(names) == 6
    assert {get_pretrained_cfg(name).hf_hub_id for name in names} == {f"timm/{name}" for name in names}


def test_every_clip_model_is_published_on_the_hub(context):
    declare_torchvision_operators()
    names = [name for mode in MODES for name in find_profile(mode).backbones if name.startswith("open_clip:")]
    assert len(names) == 3
    for name in names:
        assert "/" in repository_of(name.removeprefix("open_clip:"), context.cache)
        assert make_backbone(name, context).text_encoder == name


def test_embedded_stays_what_it_was():
    embedded = find_profile("embedded")
    assert embedded.backbones == ("efficientnet-lite0", "efficientnet-lite2")
    assert embedded.spaces == ("bridge", "labels")
    assert (embedded.generators, embedded.guides, embedded.fusion) == (("exemplar",), 10, "mean_distance")
    assert (embedded.gate, embedded.adaptive, embedded.depth) == (False, False, 100)
    assert embedded.hnsw == HnswSpec(m=16, ef_construct=128, ef=128)
    assert not embedded.direct
    assert not embedded.space_priors


def test_an_unknown_profile_lists_the_known_ones():
    with pytest.raises(UnknownNameError) as caught:
        find_profile("leisurely")
    assert all(name in caught.value.hint for name in PROFILES)
