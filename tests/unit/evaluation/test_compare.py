"""Intervals and paired tests: what they say of plain cases, and that captions of one picture count once."""

import numpy as np
import pytest
from scipy.stats import wilcoxon

from lodestone_eval.compare import compare_paired, estimate


def _each(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def test_a_constant_has_no_interval() -> None:
    found = estimate(np.full(20, 0.25), _each(20))
    assert (found.mean, found.low, found.high) == (0.25, 0.25, 0.25)


def test_the_interval_holds_the_mean_and_repeats_with_its_seed() -> None:
    values = np.random.default_rng(1).random(200)
    found = estimate(values, _each(200), seed=3)
    assert found.low < values.mean() < found.high
    assert found == estimate(values, _each(200), seed=3)
    standard_error = values.std() / np.sqrt(200)
    assert found.high - found.low == pytest.approx(2 * 1.96 * standard_error, rel=0.15)


def test_captions_of_one_picture_are_one_observation() -> None:
    rng = np.random.default_rng(2)
    pictures = rng.random(60)
    values, groups = np.repeat(pictures, 5), [str(number) for number in range(60) for _ in range(5)]
    together, apart = estimate(values, groups), estimate(values, _each(300))
    assert together.high - together.low > 1.8 * (apart.high - apart.low)  # sqrt(5) as wide


def test_means_are_over_queries_where_groups_differ_in_size() -> None:
    assert estimate(np.array([1.0, 0.0, 0.0, 0.0]), ["a", "b", "b", "b"]).mean == 0.25


def test_a_clear_gain_is_told_from_nothing() -> None:
    rng = np.random.default_rng(4)
    before = rng.random(150)
    gain = compare_paired(before, before + 0.05 + 0.02 * rng.standard_normal(150), _each(150))
    assert gain.difference.low > 0.04
    assert gain.p_bootstrap < 0.01
    assert gain.p_wilcoxon < 1e-6
    assert gain.better > 140
    noise = compare_paired(before, before + 0.05 * rng.standard_normal(150), _each(150))
    assert noise.difference.low < 0 < noise.difference.high
    assert noise.p_bootstrap > 0.05


def test_no_difference_has_p_one() -> None:
    same = compare_paired(np.array([0.1, 0.9, 0.4]), np.array([0.1, 0.9, 0.4]), _each(3))
    assert (same.difference.mean, same.p_bootstrap, same.p_wilcoxon, same.better, same.worse) == (0.0, 1.0, 1.0, 0, 0)


def test_turning_the_comparison_round_turns_its_sign_alone() -> None:
    rng = np.random.default_rng(5)
    before, after = rng.random(80), rng.random(80)
    there, back = compare_paired(before, after, _each(80)), compare_paired(after, before, _each(80))
    assert there.difference.mean == -back.difference.mean
    assert there.p_bootstrap == back.p_bootstrap
    assert (there.better, there.worse) == (back.worse, back.better)


def test_wilcoxon_is_of_the_groups_means() -> None:
    before, after = np.zeros(8), np.array([0.1, 0.2, 0.3, 0.1, -0.1, 0.5, 0.2, 0.4])
    groups = ["a", "a", "b", "b", "c", "c", "d", "d"]
    expected = wilcoxon([0.15, 0.2, 0.2, 0.3]).pvalue
    assert compare_paired(before, after, groups).p_wilcoxon == pytest.approx(expected)


def test_values_that_cannot_be_paired_are_refused() -> None:
    with pytest.raises(ValueError, match="as many"):
        compare_paired(np.zeros(3), np.zeros(2), _each(3))
    with pytest.raises(ValueError, match="at least one"):
        estimate(np.zeros(0), [])
