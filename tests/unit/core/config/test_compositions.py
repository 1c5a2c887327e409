"""Compositions: what every profile has, what the settings may declare, and what is refused."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from lodestone.config.compositions import (
    FUSED_FROM,
    FUSED_UP_TO,
    Composition,
    CompositionSettings,
    Role,
    all_compositions,
    choose_composition,
)
from lodestone.config.profiles import PROFILES, find_profile
from lodestone.config.settings import load_settings
from lodestone.errors import ConfigurationError, UnknownNameError

EMBEDDED = find_profile("embedded")


def declared(**values: object) -> Composition:
    return choose_composition("mine", {"mine": CompositionSettings.model_validate(values)}, EMBEDDED)


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_has_a_composition_without_any_setting(name: str) -> None:
    default = choose_composition("default", {}, find_profile(name))
    assert default.of_role(Role.TARGET)
    assert {modality.space for modality in default.of_role(Role.TARGET)} <= set(find_profile(name).spaces)
    assert default.modality("captions").role is Role.AUXILIARY
    assert default.spaces[-1] == "captions"


def test_default_takes_each_space_of_words_in_both_roles_and_no_space_of_pictures_alone_for_words() -> None:
    embedded = choose_composition("default", {}, EMBEDDED)
    assert [modality.name for modality in embedded.modalities] == [
        "bridge-picture",
        "labels-picture",
        "bridge-words",
        "labels-words",
        "captions",
    ]
    assert embedded.spaces == ("bridge", "labels", "captions")
    fast = choose_composition("default", {}, find_profile("fast"))
    assert [modality.space for modality in fast.modalities] == ["words", "words", "captions"]


def test_file_declares_a_composition(tmp_path: Path) -> None:
    (tmp_path / "lodestone.toml").write_text(
        '[compositions.shop]\ntarget = "composed"\nrule = "product"\nfused = true\nweights = {photo = 1, words = 3}\n'
        '[compositions.shop.modalities]\nphoto = {space = "bridge"}\nwords = {space = "captions", role = "auxiliary"}\n'
    )
    settings = load_settings({"home": str(tmp_path)}).settings
    shop = choose_composition("shop", settings.compositions, EMBEDDED)
    assert [(one.name, one.space, one.role) for one in shop.modalities] == [
        ("photo", "bridge", Role.TARGET),
        ("words", "captions", Role.AUXILIARY),
    ]
    assert shop.weights == {"photo": 1, "words": 3}
    assert (shop.target, shop.rule, shop.fused) == ("composed", "product", True)


def test_file_asks_for_edited_guides_and_says_how_far_they_may_go(tmp_path: Path) -> None:
    (tmp_path / "lodestone.toml").write_text('[compositions.default]\ntarget = "guide"\nstrength = 0.4\n')
    settings = load_settings({"home": str(tmp_path)}).settings
    chosen = choose_composition("default", settings.compositions, EMBEDDED)
    assert (chosen.target, chosen.strength) == ("guide", 0.4)
    assert choose_composition("default", {}, EMBEDDED).strength == CompositionSettings(target="guide").strength == 0.6
    for strength in (0, 1.1, float("nan")):
        with pytest.raises(ValidationError, match="strength"):
            CompositionSettings(target="guide", strength=strength)


def test_settings_of_default_change_it_and_keep_its_modalities() -> None:
    own = {"default": CompositionSettings(weights={"captions": 2, "bridge-picture": 1}, fused=False)}
    assert list(all_compositions(own, EMBEDDED)) == ["default"]
    default = choose_composition("default", own, EMBEDDED)
    assert default.fused is False and len(default.modalities) == 5


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"modalities": {"a": {"space": "bridge", "role": "auxiliary"}}}, "no modality is a target"),
        ({"modalities": {"a": {"space": "bridge"}, "b": {"space": "bridge"}}}, "as target; expected each once"),
        ({"modalities": {"a": {"space": "bridge"}}, "weights": {"b": 1}}, "'b', which is no modality"),
        ({"weights": {"captions": float("nan")}}, "'captions' is nan"),
        ({"weights": {"captions": -1}}, "'captions' is -1"),
        ({"weights": {"captions": 0}}, "all weights are 0"),
        ({"rule": "median"}, "rule"),
    ],
)
def test_wrong_declarations_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        CompositionSettings.model_validate(values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"modalities": {"a": {"space": "sound"}}}, "'sound', which the profile 'embedded' does not have"),
        ({"modalities": {"a": {"space": "captions"}}}, "captions are compared with words alone"),
        ({"weights": {"sound": 1}}, "'sound', which is none of its modalities"),
    ],
)
def test_declarations_that_the_profile_cannot_have_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        declared(**values)


def test_words_are_refused_in_a_space_of_pictures_alone() -> None:
    own = {
        "mine": CompositionSettings.model_validate(
            {"modalities": {"a": {"space": "eva"}, "b": {"space": "eva", "role": "auxiliary"}}}
        )
    }
    with pytest.raises(ConfigurationError, match="no words can be compared in the space 'eva'"):
        choose_composition("mine", own, find_profile("fast"))


def test_names_are_checked() -> None:
    with pytest.raises(ConfigurationError, match="'My Shop' has a name that no collection can have"):
        choose_composition("My Shop", {"My Shop": CompositionSettings()}, EMBEDDED)
    with pytest.raises(UnknownNameError, match="shop"):
        choose_composition("shop", {}, EMBEDDED)
    with pytest.raises(UnknownNameError, match="modality"):
        choose_composition("default", {}, EMBEDDED).modality("sound")


@pytest.mark.parametrize(
    ("pictures", "begun", "kept"),
    [
        (0, False, False),
        (FUSED_FROM // 2 - 1, False, False),
        (FUSED_FROM // 2, False, True),
        (FUSED_FROM - 1, False, True),
        (FUSED_FROM, True, True),
        (FUSED_UP_TO, True, True),
        (FUSED_UP_TO + 1, False, True),
    ],
)
def test_a_fused_index_is_begun_in_homes_of_some_sizes_and_stays_in_larger_and_half_as_small_ones(
    pictures: int, begun: bool, kept: bool
) -> None:
    default = choose_composition("default", {}, EMBEDDED)
    assert default.keeps_fused(pictures) is begun
    assert default.keeps_fused(pictures, exists=True) is kept
    for chosen in (True, False):
        assert declared(fused=chosen).keeps_fused(pictures) is chosen
