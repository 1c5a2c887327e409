"""How likely a collection holds what was asked."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from tests.support.models import model_context

from lodestone.config.profiles import PROFILES
from lodestone.query.deciding.presence import (
    CAPTION_SIGN,
    Presence,
    PresenceJudge,
    PresenceModel,
    SignTerm,
    SpaceSigns,
    Usual,
    make_judge,
    signs,
    with_tags,
    with_written,
)
from lodestone.spaces.bridge import BridgeSpace
from lodestone.spaces.labels import LabelSpace
from lodestone.spaces.names import BRIDGE, LABELS

USUAL = {BRIDGE: Usual(0.0, 0.05), LABELS: Usual(0.1, 0.1)}
TERMS = {"bridge.best": SignTerm(0.2, 0.1, 2.0), CAPTION_SIGN: SignTerm(0.0, 1.0, 1.0)}
MODEL = PresenceModel(0.5, TERMS, USUAL, threshold=0.3, provenance={"data": "none"})


def found(bridge: float, labels: float = 0.4, *, sampled: int = 256) -> dict[str, SpaceSigns]:
    return {
        BRIDGE: SpaceSigns(("a", "b"), np.array([bridge, 0.05]), mean=0.02, spread=0.04, sampled=sampled),
        LABELS: SpaceSigns(("b", "c"), np.array([labels, 0.1]), mean=0.1, spread=0.1, sampled=sampled),
    }


def test_the_confidence_is_the_logistic_of_the_terms() -> None:
    presence = MODEL.judge(found(0.3), similarity=0.4, familiarity=0.5)
    assert presence is not None
    assert presence.confidence == pytest.approx(1 / (1 + math.exp(-2.5)))  # .5 + 2 (.3 - .2) / .1
    assert not presence.probably_nothing
    low = MODEL.judge(found(0.05), similarity=0.4, familiarity=0.5)
    assert low is not None and low.confidence < MODEL.threshold and low.probably_nothing


def test_at_the_threshold_nothing_is_said() -> None:
    presence = MODEL.judge(found(0.3), similarity=0.4, familiarity=0.5)
    assert presence is not None
    assert presence.threshold == pytest.approx(MODEL.threshold)
    assert not replace(presence, confidence=presence.threshold).probably_nothing


def test_the_threshold_is_lower_in_a_small_collection() -> None:
    eased = replace(MODEL, threshold_slope=0.5)
    assert eased.threshold_at({"size": math.log2(257)}) == pytest.approx(MODEL.threshold)
    few = eased.judge(found(0.3, sampled=15), similarity=0.4, familiarity=0.5)
    odds = math.log(0.3 / 0.7) - 0.5 * (math.log2(257) - 4)
    assert few is not None and few.threshold == pytest.approx(1 / (1 + math.exp(-odds)))


def test_signs_are_read_from_each_space_and_from_both() -> None:
    values = signs(found(0.3), USUAL, similarity=0.7, familiarity=0.5, captions=1.5)
    share = 256 / (256 + 32)
    spread = math.sqrt(share * 0.04**2 + (1 - share) * 0.05**2)
    assert values["bridge.best"] == pytest.approx(0.3)
    assert values["bridge.above"] == pytest.approx((0.3 - share * 0.02) / spread)
    assert values["named"] == pytest.approx(0.5)
    assert values["labels.named"] == pytest.approx(0.5 * 0.4)
    assert values["bridge.known"] == pytest.approx(0.5 * 0.3)
    assert values["size"] == pytest.approx(math.log2(257))
    assert values["agree"] == pytest.approx(1 / 2)
    assert (values["similarity"], values["familiarity"], values[CAPTION_SIGN]) == (0.7, 0.5, 1.5)


def test_words_like_nothing_that_was_taught_and_no_name_are_strange() -> None:
    strange = [
        signs(found(0.3), USUAL, similarity=near, familiarity=known)["strange"]
        for near, known in ((0.3, 0.14), (0.3, 0.24), (0.3, 0.34), (0.95, 0.14))
    ]
    assert strange[0] > 0.95 and strange[1] == pytest.approx(0.5, abs=0.01) and strange[2] < 0.05 and strange[3] < 0.01
    assert signs(found(0.3), USUAL, similarity=0.3, familiarity=0.9, attainable=0.2)["attainable"] == 0.2


def test_the_threshold_is_higher_for_words_of_which_pictures_can_be_near() -> None:
    moved = replace(MODEL, terms={**TERMS, "attainable": SignTerm(0.2, 0.1, -1.0)}, threshold_terms={"attainable": 5.0})
    presence = [moved.judge(found(0.3), similarity=0.4, familiarity=0.5, attainable=value) for value in (0.2, 0.3)]
    assert presence[0] is not None and presence[1] is not None
    assert presence[0].threshold == pytest.approx(MODEL.threshold)
    assert presence[1].threshold == pytest.approx(1 / (1 + math.exp(-math.log(0.3 / 0.7) - 0.5)))
    assert presence[1].confidence == pytest.approx(1 / (1 + math.exp(-1.5)))  # one spread of the sign less
    assert PresenceModel.from_json(moved.to_json()) == moved


def test_a_collection_too_small_for_a_background_borrows_the_usual_one() -> None:
    few = signs(found(0.3, sampled=0), USUAL, similarity=0.2, familiarity=0.5)
    assert few["bridge.above"] == pytest.approx(0.3 / 0.05)
    assert few["labels.above"] == pytest.approx(3.0)


def test_a_search_without_one_of_the_spaces_is_not_judged_and_an_empty_one_holds_nothing() -> None:
    assert MODEL.judge({BRIDGE: found(0.3)[BRIDGE]}, similarity=0.4, familiarity=0.5) is None
    empty = {space: SpaceSigns((), np.empty(0)) for space in (BRIDGE, LABELS)}
    presence = MODEL.judge(empty, similarity=0.4, familiarity=0.5)
    assert presence is not None and presence.confidence == 0 and presence.probably_nothing


def test_captions_that_fit_speak_for_presence() -> None:
    context = model_context()
    judge = PresenceJudge(MODEL, LabelSpace(context), BridgeSpace(context))
    presence = MODEL.judge(found(0.1), similarity=0.4, familiarity=0.5)
    assert presence is not None
    assert judge.with_captions(presence, 3.0).confidence > presence.confidence
    assert judge.with_captions(presence, 3.0).signs[CAPTION_SIGN] == 3.0


@pytest.mark.parametrize("said", [with_tags, with_written])
def test_what_people_said_in_the_words_stays_said_after_captions(said: Callable[[Presence], Presence]) -> None:
    context = model_context()
    judge = PresenceJudge(MODEL, LabelSpace(context), BridgeSpace(context))
    presence = MODEL.judge(found(0.05), similarity=0.4, familiarity=0.5)
    assert presence is not None and presence.probably_nothing
    after = judge.with_captions(said(presence), 0.0)
    assert (after.confidence, after.probably_nothing, after.signs[CAPTION_SIGN]) == (1.0, False, 0.0)
    assert judge.with_captions(presence, 0.0).confidence == pytest.approx(presence.confidence, abs=1e-4)


def test_a_model_comes_back_from_its_json() -> None:
    assert PresenceModel.from_json(MODEL.to_json()) == MODEL
    with pytest.raises(ValueError, match="format 9"):
        PresenceModel.from_json(MODEL.to_json().replace('"format": 1', '"format": 9'))


def test_only_profiles_with_a_fitted_model_have_a_judge() -> None:
    context = model_context()
    spaces = {LABELS: LabelSpace(context), BRIDGE: BridgeSpace(context)}
    assert make_judge("embedded", spaces) is not None
    assert [name for name in PROFILES if PresenceModel.shipped(name)] == [
        "embedded",
        "embedded-large",
        "embedded-multilingual",
    ]
    assert make_judge("fast", spaces) is None
    assert make_judge("embedded", {LABELS: spaces[LABELS]}) is None


@pytest.mark.parametrize("profile", ["embedded", "embedded-large", "embedded-multilingual"])
def test_the_shipped_model_can_be_read_and_says_what_it_was_fitted_on(profile: str) -> None:
    model = PresenceModel.shipped(profile)
    assert model is not None
    assert set(model.usual) == {BRIDGE, LABELS}
    assert 0 < model.threshold < 0.5
    assert model.terms[CAPTION_SIGN].weight > 0
    assert {"data", "licence_notice", "figures"} <= model.provenance.keys()
    known = signs(found(0.3), model.usual, similarity=0.4, familiarity=0.5)
    assert model.terms.keys() <= known.keys()
