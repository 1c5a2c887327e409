"""Learning of modality weights: tasks whose right weights differ, what wrong objects are, and what is chosen by."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lodestone.composed.joint import JointPart, scores
from lodestone.errors import InvalidRequestError
from lodestone.training.contrastive import ContrastiveTerms
from lodestone.training.joint_pairs import JointPairs, ObjectVectors, PartVectors
from lodestone.training.modality_weights import (
    FEWEST,
    CurvePoint,
    LearningOptions,
    learn_weights,
    search_grid,
    simplex_grid,
)

_NOTHING = np.empty(0, np.intp)


def _unit(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True), np.float32)


def _task(noise: tuple[float, ...], *, queries: int, objects: int = 1_500, seed: int = 0, absent: float = 0.0) -> JointPairs:
    """Make queries that are their right object with noise of different strength in each modality."""
    rng = np.random.default_rng(seed)
    vectors, parts = {}, []
    right = rng.integers(0, objects, queries)
    for place, strength in enumerate(noise):
        rows = _unit(rng.normal(size=(objects, 24)))
        vectors[f"space{place}"] = rows
        asked = _unit(rows[right] + strength * rng.normal(size=(queries, 24)) / math.sqrt(24))
        asked[rng.random(queries) < absent] = np.nan
        parts.append(PartVectors(f"m{place}", f"space{place}", asked))
        vectors[f"space{place}"] = rows.copy()
        vectors[f"space{place}"][rng.random(objects) < absent] = np.nan
    return JointPairs(tuple(parts), ObjectVectors(vectors), [np.array([row]) for row in right], [_NOTHING] * queries)


def _halves(pairs: JointPairs) -> tuple[JointPairs, JointPairs]:
    middle = len(pairs) // 2
    return pairs.take(np.arange(middle)), pairs.take(np.arange(middle, len(pairs)))


@pytest.mark.parametrize(("noise", "heavy"), [((3.5, 1.5), "m1"), ((1.5, 3.5), "m0")])
def test_learnt_weights_beat_equal_ones_and_one_modality_where_the_right_weights_differ(
    noise: tuple[float, float], heavy: str
) -> None:
    training, test = _halves(_task(noise, queries=800))
    report = learn_weights(training, LearningOptions(anchors=128))
    grid, _ = search_grid(training, 20, 10)
    columns = [list(report.weights.values()), [0.5, 0.5], [1.0, 0.0], [0.0, 1.0], list(grid.values())]
    learnt, equal, *single, best = test.search(np.array(columns), 10).recall
    assert report.weights[heavy] > 0.6
    for weaker in (equal, *single):
        gain = learnt - weaker
        assert gain.mean() > 1.96 * gain.std() / math.sqrt(len(gain))  # beyond noise
    assert learnt.mean() >= best.mean() - 0.01


def test_three_modalities_of_which_one_says_nothing() -> None:
    training, _ = _halves(_task((2.0, 2.0, 60.0), queries=600))
    weights = learn_weights(training, LearningOptions(anchors=128)).weights
    assert weights["m2"] < 0.1
    assert abs(weights["m0"] - weights["m1"]) < 0.2


def test_missing_modalities_on_both_sides_are_learnt_with() -> None:
    training, test = _halves(_task((3.0, 1.5), queries=600, absent=0.2))
    report = learn_weights(training, LearningOptions(anchors=128))
    learnt, equal = test.search(np.array([list(report.weights.values()), [0.5, 0.5]]), 10).recall.mean(axis=1)
    assert learnt > equal


def test_searches_are_those_of_the_definition() -> None:
    pairs = _task((1.0, 1.0), queries=40, objects=2_000, absent=0.3)
    weights = np.array([0.3, 0.7])
    found = pairs.search(weights[None], 5)
    hardest = pairs.hardest(weights[None], 5)
    for query in range(len(pairs)):
        parts = [
            JointPart(part.modality, part.space, part.vectors[query], weight)
            for part, weight in zip(pairs.parts, weights, strict=True)
            if not np.isnan(part.vectors[query]).any()
        ]
        if not parts:
            assert found.recall[0, query] == found.reciprocal[0, query] == 0
            assert set(hardest[query]) == {-1}
            continue
        joint = np.nan_to_num(scores(parts, pairs.objects.vectors), nan=-np.inf)
        right = pairs.positives[query][0]
        rank = 1 + int((joint > joint[right] + 1e-6).sum())
        if np.isfinite(joint[right]):
            assert found.reciprocal[0, query] == pytest.approx(1 / rank)
            assert found.recall[0, query] == float(rank <= 5)
        wrong = np.delete(np.arange(len(joint)), right)
        assert set(hardest[query].tolist()) == set(wrong[np.argsort(-joint[wrong], kind="stable")[:5]].tolist())


def test_no_right_object_of_an_anchor_and_no_ignored_one_is_a_wrong_one() -> None:
    rng = np.random.default_rng(1)
    rows = _unit(rng.normal(size=(1, 8)) + 0.01 * rng.normal(size=(30, 8)))
    pairs = JointPairs(
        (PartVectors("m0", "space", rows[:1]),), ObjectVectors({"space": rows}), [np.array([0, 3, 7])], [np.array([5])]
    )
    wrong = set(pairs.hardest(np.ones((1, 1)), 40)[0].tolist())
    assert wrong == set(range(30)) - {0, 3, 7, 5} | {-1}
    assert pairs.search(np.ones((1, 1)), 29).recall[0, 0] == 1  # the reference is not among the results


def test_derivatives_of_the_loss_are_right() -> None:
    pairs = _task((1.0, 2.0), queries=6, objects=50, absent=0.3)
    rng = np.random.default_rng(2)
    queries = np.arange(6)
    terms = ContrastiveTerms(
        pairs.features(queries, np.array([rows[0] for rows in pairs.positives])),
        pairs.features(np.repeat(queries, 4), rng.integers(0, 50, 24)),
        np.arange(0, 24, 4),
        np.full(6, 4),
    )
    weights, scale, step = np.array([0.4, 0.6]), 3.0, 1e-6
    _, by_weights, by_scale = terms.loss(weights, scale)
    for place in range(2):
        shifted = weights + step * np.eye(2)[place]
        assert by_weights[place] == pytest.approx(
            (terms.loss(shifted, scale)[0] - terms.loss(weights, scale)[0]) / step, abs=1e-4
        )
    assert by_scale == pytest.approx((terms.loss(weights, scale + step)[0] - terms.loss(weights, scale)[0]) / step, abs=1e-4)


def test_a_seed_makes_learning_repeatable_and_every_round_is_told() -> None:
    pairs = _task((3.0, 1.5), queries=150, objects=400)
    told: list[CurvePoint] = []
    first = learn_weights(pairs, LearningOptions(seed=7), told=told.append)
    assert dict(first.weights) == dict(learn_weights(pairs, LearningOptions(seed=7)).weights)
    assert tuple(told) == first.curve
    assert [point.round for point in told] == list(range(len(told)))
    assert dict(told[0].weights) == {"m0": 0.5, "m1": 0.5}
    chosen = first.curve[first.chosen]
    assert chosen.reciprocal == max(point.reciprocal for point in first.curve)  # by the held-out pairs, not by the loss
    assert len(told) - 1 - first.chosen <= LearningOptions().patience
    assert first.anchors + first.held_out == 150


def test_a_round_before_the_weights_ran_away_is_chosen_by_the_held_out_pairs() -> None:
    pairs = _task((2.5, 2.5), queries=300, objects=600)
    report = learn_weights(pairs, LearningOptions(temperature=1.0, learning_rate=0.5, hard=False, negatives=1))
    last = report.curve[-1]
    assert max(last.weights.values()) > 0.7
    assert report.chosen < last.round
    assert report.curve[report.chosen].reciprocal > last.reciprocal
    assert last.round - report.chosen == LearningOptions().patience


@pytest.mark.parametrize("change", [{"hard": False}, {"temperature": 1.0}, {"negatives": 1}, {"learning_rate": 0.3}])
def test_ablations_run(change: dict[str, object]) -> None:
    report = learn_weights(_task((3.0, 1.5), queries=100, objects=300), LearningOptions(**change))  # type: ignore[arg-type]
    assert math.fsum(report.weights.values()) == pytest.approx(1)
    assert min(report.weights.values()) >= 0


def test_one_modality_alone_has_all_the_weight() -> None:
    assert dict(learn_weights(_task((1.0,), queries=30, objects=100)).weights) == {"m0": 1.0}


def test_grid_holds_every_multiple_once() -> None:
    grid = simplex_grid(3, 10)
    assert len(grid) == len({tuple(row) for row in grid}) == 66
    np.testing.assert_allclose(grid.sum(axis=1), 1)


def test_what_cannot_be_learnt_from_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="too few"):
        learn_weights(_task((1.0, 1.0), queries=FEWEST - 1, objects=50))
    with pytest.raises(InvalidRequestError, match="out of range"):
        LearningOptions(negatives=0)
    with pytest.raises(InvalidRequestError, match="temperature"):
        LearningOptions(temperature=math.nan)
    pairs = _task((1.0,), queries=30, objects=50)
    with pytest.raises(InvalidRequestError, match="numbers"):
        JointPairs(pairs.parts, ObjectVectors({"space0": np.zeros((50, 9), np.float32)}), pairs.positives, pairs.ignored)
    with pytest.raises(InvalidRequestError, match="does not exist"):
        JointPairs(pairs.parts, pairs.objects, [np.array([50])] * 30, pairs.ignored)
