"""Fitting finds what predicts the text pass's precision, and a threshold that costs no more than it may."""

import numpy as np
import pytest

from lodestone.errors import InvalidRequestError
from lodestone.query.deciding.gate import Method
from lodestone.training.complexity import Observation, choose_threshold, fit_gate, pearson


def seen(count: int, *, seed: int = 0, guided: bool = True, noise: float = 0.05) -> list[Observation]:
    """Precision follows `bridge.best`; guides lift what is below .5 to .8; `labels.best` says nothing and is often missing."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        best = rng.random()
        ap = float(np.clip(best + noise * rng.standard_normal(), 0, 1))
        features = {"bridge.answered": 1.0, "bridge.best": float(best)}
        if rng.random() < 0.5:
            features |= {"labels.answered": 1.0, "labels.best": float(rng.random())}
        found.append(Observation(features, ap, (max(ap, 0.8) if ap < 0.5 else ap) if guided else None, str(number)))
    return found


def test_fit_finds_the_feature_that_predicts() -> None:
    model, report = fit_gate(seen(400))

    assert report.r2 > 0.9
    assert report.pearson > 0.95
    assert abs(model.terms["bridge.best"].weight) > 5 * abs(model.terms["labels.best"].weight)
    high = model.decide([Method("bridge", ("x",), np.array([0.95]))])
    low = model.decide([Method("bridge", ("x",), np.array([0.05]))])
    assert (high.verdict, low.verdict) == ("simple", "complex")


def test_threshold_lets_as_many_end_early_as_the_loss_allows() -> None:
    _, strict = fit_gate(seen(400), most_loss=0.0)
    _, usual = fit_gate(seen(400), most_loss=0.01)
    _, loose = fit_gate(seen(400), most_loss=0.2)

    assert strict.simple < usual.simple < loose.simple
    assert usual.lost is not None
    assert usual.lost <= 0.01
    assert usual.guided is not None
    assert usual.gated == pytest.approx(usual.guided - usual.lost, abs=1e-9)


def test_figures_of_noise_promise_nothing() -> None:
    rng = np.random.default_rng(1)
    noise = [
        Observation({"bridge.answered": 1.0, "bridge.best": float(rng.random())}, float(rng.random()), 1.0, str(number))
        for number in range(300)
    ]

    _, report = fit_gate(noise)

    assert report.r2 < 0.05
    assert report.simple < 0.1


def test_variants_of_one_need_do_not_vouch_for_each_other() -> None:
    rng = np.random.default_rng(2)
    same: list[Observation] = []
    for group in range(40):
        ap, name = float(rng.random()), f"g{group}.best"  # a feature of its own: only its own group could teach it
        same += [Observation({"bridge.answered": 1.0, name: float(group % 2)}, ap, ap, str(group)) for _ in range(5)]

    assert fit_gate(same)[1].r2 < 0.1


def test_fit_is_repeatable() -> None:
    assert fit_gate(seen(100))[0] == fit_gate(seen(100))[0]


def test_without_knowing_the_worth_of_guides_the_threshold_in_force_stays() -> None:
    model, report = fit_gate(seen(100, guided=False), threshold=0.7)

    assert model.threshold == 0.7
    assert report.lost is None
    assert report.guided is None


def test_too_few_judged_queries_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="29 judged queries"):
        fit_gate(seen(29))


def test_senseless_loss_is_refused() -> None:
    with pytest.raises(InvalidRequestError):
        fit_gate(seen(50), most_loss=1.5)


def test_equal_predictions_are_not_told_apart() -> None:
    predicted, text, guided = np.full(4, 0.5), np.array([1.0, 0, 0, 0]), np.ones(4)

    choice = choose_threshold(predicted, text, guided, most_loss=0.1)

    assert choice.simple == 0
    assert choice.threshold == 1


def test_guides_that_only_harm_leave_nothing_to_draw() -> None:
    choice = choose_threshold(np.array([0.9, 0.5, 0.1]), np.array([1.0, 0.5, 0.2]), np.array([0.5, 0.5, 0.1]))

    assert choice.simple == 1
    assert choice.threshold <= 0.1
    assert choice.lost < 0


def test_correlation_with_a_constant_is_none() -> None:
    assert pearson(np.ones(5), np.arange(5.0)) == 0
