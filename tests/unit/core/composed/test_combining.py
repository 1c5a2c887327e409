"""Rules of the final ranking: the published formulas for two parts, contributions that sum to the score, missing modalities."""

from __future__ import annotations

import numpy as np
import pytest

from lodestone.composed.combining import RULES, Null, combine, combine_values
from lodestone.composed.joint import JointPart, scores
from lodestone.errors import InvalidRequestError, UnknownNameError


def _unit(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True), np.float32)


def _world(
    seed: int, *, weights: tuple[float, ...] = (0.5, 0.5), absent: float = 0.0
) -> tuple[list[JointPart], dict[str, np.ndarray], list[Null]]:
    rng = np.random.default_rng(seed)
    parts, vectors, nulls = [], {}, []
    for place, weight in enumerate(weights):
        rows = _unit(rng.normal(size=(60, 8)) + 0.5)
        queries = _unit(rng.normal(size=(50, 8)) + 0.3)
        nulls.append(Null.of(rows, queries))
        rows = rows.copy()
        rows[rng.random(60) < absent] = np.nan
        vectors[f"s{place}"] = rows
        parts.append(JointPart(f"p{place}", f"s{place}", queries[0], weight))
    return parts, vectors, nulls


@pytest.mark.parametrize("rule", list(RULES))
@pytest.mark.parametrize("absent", [0.0, 0.4])
def test_contributions_sum_to_the_score_for_any_weights_and_missing_modalities(rule: str, absent: float) -> None:
    parts, vectors, nulls = _world(1, weights=(0.1, 2.0, 0.7), absent=absent)
    combined = combine(rule, parts, vectors, avoided=[False, False, True], nulls=nulls)
    scored = ~np.isnan(combined.scores)
    assert scored.sum() == 60 - np.isnan(np.stack([rows[:, 0] for rows in vectors.values()])).all(axis=0).sum()
    np.testing.assert_allclose(combined.contributions[scored].sum(axis=1), combined.scores[scored], atol=1e-12)
    missing = np.isnan(np.stack([vectors[part.space][:, 0] for part in parts], axis=1))
    assert not combined.contributions[missing].any()


def test_sum_is_the_joint_similarity() -> None:
    parts, vectors, _ = _world(2, weights=(0.3, 0.7, 5.0), absent=0.3)
    np.testing.assert_allclose(combine("sum", parts, vectors).scores, scores(parts, vectors), atol=1e-12)


def test_two_equal_parts_are_ranked_by_the_published_product_and_harris_criterion() -> None:
    values = np.random.default_rng(3).random((40, 2))
    first, second = values.T
    product = combine_values("product", values, [1, 1])
    np.testing.assert_allclose(product.scores**2, first * second)
    harris = combine_values("harris", values, [1, 1])
    np.testing.assert_allclose(harris.scores, first * second - 0.1 * (first + second) ** 2)
    np.testing.assert_allclose(harris.contributions[:, 0], first * second / 2 - 0.1 * first * (first + second))


def test_basic_is_the_published_formula() -> None:
    """Centre the features, shift and scale each similarity by its null minimum, clamp at 0, st * si - .1 (st + si)^2."""
    parts, vectors, _ = _world(4)
    rng = np.random.default_rng(5)
    standardised, nulls = [], []
    for part in parts:
        rows, queries = vectors[part.space], _unit(rng.normal(size=(30, 8)))
        nulls.append(Null.of(rows, queries))
        centred_rows, centred_queries = rows - rows.mean(0), queries - queries.mean(0)
        low = (centred_queries @ centred_rows.T).min()
        similarity = (part.vector - queries.mean(0)) @ centred_rows.T
        standardised.append(np.clip((similarity - low) / abs(low), 0, None))
    image, text = standardised
    expected = text * image - 0.1 * (text + image) ** 2
    np.testing.assert_allclose(combine("basic", parts, vectors, nulls=nulls).scores, expected, atol=1e-5)


def test_product_prefers_some_of_each_part_to_much_of_one() -> None:
    values = np.array([[0.9, 0.05], [0.45, 0.4]])
    assert np.argmax(combine_values("sum", values, [1, 1]).scores) == 0
    for rule in ("product", "harris"):
        assert np.argmax(combine_values(rule, values, [1, 1]).scores) == 1


@pytest.mark.parametrize("rule", list(RULES))
def test_a_picture_without_a_modality_is_ranked_by_the_others_alone(rule: str) -> None:
    both = combine_values(rule, np.array([[0.6, np.nan], [0.6, 0.6]]), [0.3, 0.7])
    assert both.scores[0] == pytest.approx(both.scores[1])


def test_a_picture_is_no_unrelated_query_of_itself() -> None:
    rows = _unit(np.random.default_rng(7).normal(size=(30, 8)))
    centred = rows - rows.mean(0)
    products = centred @ centred.T
    null = Null.of(rows, rows)
    others = products[~np.eye(30, dtype=bool)]
    assert (null.low, null.high) == pytest.approx((others.min(), others.max()), abs=1e-6)
    assert null.high < np.diag(products).max() - 0.1
    copied = Null.of(rows, rows.copy())  # pictures of another collection, among which one may be the same
    assert copied.high == pytest.approx(np.diag(products).max(), abs=1e-6)


def test_a_part_is_measured_from_the_unrelated_pair_least_like_it_and_one_to_avoid_from_the_most_alike() -> None:
    rng = np.random.default_rng(8)
    rows, queries = _unit(rng.normal(size=(40, 6)) + 0.4), _unit(rng.normal(size=(20, 6)) - 0.2)
    null = Null.of(rows, queries)
    products = (queries - queries.mean(0)) @ (rows - rows.mean(0)).T
    assert null.high != pytest.approx(-null.low, rel=0.05)
    for pick, avoided in ((np.argmin, False), (np.argmax, True)):
        query, row = np.unravel_index(pick(products), products.shape)
        vector = -queries[query] if avoided else queries[query]
        values = null.standardised(JointPart("p", "s", vector, 1.0), rows, avoided=avoided)
        assert values[row] == pytest.approx(0.0, abs=1e-5)
        assert values.min() == pytest.approx(values[row])
        scale = null.high if avoided else -null.low
        sign = -1 if avoided else 1
        np.testing.assert_allclose(values, 1 + sign * products[query] / scale, atol=1e-5)


@pytest.mark.parametrize("rule", list(RULES))
def test_the_more_a_picture_is_like_what_to_avoid_the_lower_it_is(rule: str) -> None:
    angles = np.linspace(0.1, 1.4, 8)
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)  # ever less like (1, 0)
    vectors = {"look": np.repeat(np.array([[0.8, 0.6]], np.float32), 8, axis=0), "words": rows}
    parts = [
        JointPart("picture", "look", np.array([1, 0], np.float32), 0.5),
        JointPart("without", "words", np.array([-1, 0], np.float32), 0.5),
    ]
    sample = _unit(np.random.default_rng(6).normal(size=(200, 2)))
    null = Null.of(sample, sample)
    found = combine(rule, parts, vectors, avoided=[False, True], nulls=[null, null]).scores
    assert (np.diff(found) > 0).all()


def test_parts_of_weight_zero_and_pictures_with_nothing_to_compare() -> None:
    values = np.array([[0.5, 0.0], [np.nan, 0.3], [np.nan, np.nan]])
    for rule in RULES:
        combined = combine_values(rule, values, [1.0, 0.0])
        assert np.isfinite(combined.scores[0])
        assert combined.contributions[0, 1] == 0
        assert np.isnan(combined.scores[1:]).all()


def test_what_cannot_be_combined_is_refused() -> None:
    parts, vectors, _ = _world(0)
    with pytest.raises(UnknownNameError):
        combine("median", parts, vectors)
    with pytest.raises(InvalidRequestError, match="unrelated"):
        combine("basic", parts, vectors)
    with pytest.raises(InvalidRequestError, match="above 0"):
        combine_values("sum", np.zeros((1, 2)), [0, 0])
    with pytest.raises(InvalidRequestError, match="do not show"):
        Null.of(np.full((3, 2), np.nan, np.float32), np.ones((3, 2), np.float32))
