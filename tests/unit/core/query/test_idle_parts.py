"""Parts of queries that are on and can do nothing: a gate fitted on other spaces, a filter with too few guides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lodestone.config.profiles import PROFILES
from lodestone.config.settings import QuerySettings
from lodestone.query.deciding.gate import GateModel, Method, Term
from lodestone.query.idle_parts import idle_parts

SHIPPED = GateModel.shipped()


def fitted_on(*methods: str) -> GateModel:
    return GateModel(0.9, {f"{name}.answered": Term(1, 1, 0.0) for name in methods}, threshold=0.5)


@pytest.mark.parametrize(
    ("profile", "idle"),
    [("embedded", set()), ("fast", {"gate", "outliers"}), ("balanced", {"gate", "outliers"}), ("accurate", {"outliers"})],
)
def test_each_profile_says_which_of_its_parts_do_nothing_as_it_ships(profile: str, idle: set[str]) -> None:
    assert idle_parts(PROFILES[profile], QuerySettings(), SHIPPED).keys() == idle


def test_a_gate_that_was_fitted_in_the_home_is_on() -> None:
    fast = PROFILES["fast"]
    assert "gate" not in idle_parts(fast, QuerySettings(), fitted_on("words", "captions"))
    reason = idle_parts(fast, QuerySettings(), SHIPPED)["gate"]
    assert "fitted on bridge, labels" in reason
    assert "searches regnet, eva, words" in reason
    assert "lodestone train complexity" in reason


def test_a_gate_that_is_switched_off_or_on_by_the_settings_is_taken_at_its_word() -> None:
    assert "gate" not in idle_parts(PROFILES["fast"], QuerySettings(gate=False), SHIPPED)
    assert "gate" in idle_parts(PROFILES["accurate"], QuerySettings(gate=True), SHIPPED)


def test_outliers_can_be_judged_from_three_guides_on() -> None:
    fast = PROFILES["fast"]
    assert "1 guide at most" in idle_parts(fast, QuerySettings(), SHIPPED)["outliers"]
    assert "2 guides at most" in idle_parts(fast, QuerySettings(guides=2), SHIPPED)["outliers"]
    for settings in (QuerySettings(guides=3), QuerySettings(guides=0), QuerySettings(outliers=False)):
        assert "outliers" not in idle_parts(replace(fast), settings, SHIPPED)


@pytest.mark.parametrize("names", [("words",), ("words", "captions"), ("words", "captions", "tags")])
def test_captions_and_tags_do_not_judge_spaces_that_the_model_never_saw(names: tuple[str, ...]) -> None:
    """However well captions fit: they say nothing about how good another space's list is."""
    methods = [Method(name, ("x", "y"), np.array([1.0, 0.2])) for name in names]
    decision = SHIPPED.decide(methods, threshold=0.0)
    assert (decision.verdict, decision.predicted_ap) == ("complex", 0.0)
    assert "fitted on" in decision.why
    assert decision.features["words.best"] == 1.0  # what `train complexity` learns from
    assert fitted_on("words").decide(methods).verdict == "simple"
