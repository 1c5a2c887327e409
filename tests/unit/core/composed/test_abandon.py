"""Early abandoning: the same answers as the definition, for any weights, with fewer multiplications."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from lodestone.composed.abandon import AbandoningScorer
from lodestone.composed.joint import JointPart, scores
from lodestone.errors import InvalidRequestError

_DIMS = {"look": 16, "words": 24, "face": 8, "scene": 12}


def _unit(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True), np.float32)


def _world(rng: np.random.Generator, n: int, *, spaces: int = 4, absent: float = 0.0) -> dict[str, np.ndarray]:
    vectors = {}
    for space in list(_DIMS)[:spaces]:
        rows = _unit(rng.normal(size=(n, _DIMS[space])))
        rows[rng.random(n) < absent] = np.nan
        vectors[space] = rows
    return vectors


def _parts(rng: np.random.Generator, weights: dict[str, float]) -> list[JointPart]:
    return [JointPart(space, space, _unit(rng.normal(size=_DIMS[space])), weight) for space, weight in weights.items()]


def _expected(parts: list[JointPart], vectors: dict[str, np.ndarray], k: int) -> tuple[np.ndarray, np.ndarray]:
    exact = scores(parts, vectors)
    order = np.lexsort((np.arange(len(exact)), -exact))
    order = order[~np.isnan(exact[order])][:k]
    return order, exact[order]


@pytest.mark.parametrize("seed", range(20))
def test_answers_are_those_of_the_definition_for_any_weights_and_missing_modalities(seed: int) -> None:
    rng = np.random.default_rng(seed)
    spaces = int(rng.integers(1, 5))
    vectors = _world(rng, 400, spaces=spaces, absent=float(rng.choice([0.0, 0.3, 0.8])))
    asked = rng.permutation(list(vectors))[: int(rng.integers(1, spaces + 1))]  # t <= m
    amounts = 10.0 ** rng.uniform(-4, 4, len(asked))  # users' own, which sum to anything
    parts = _parts(rng, dict(zip(asked.tolist(), amounts.tolist(), strict=True)))
    scorer = AbandoningScorer(vectors)
    for k in (1, 10, 1_000):
        rows, exact = _expected(parts, vectors, k)
        for order in (None, sorted(asked.tolist()), sorted(asked.tolist(), reverse=True)):
            found = scorer.search(parts, k, order=order)
            np.testing.assert_array_equal(found.rows, rows)
            np.testing.assert_allclose(found.scores, exact, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_several_parts_of_one_space_parts_to_avoid_and_zero_vectors(seed: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = _world(rng, 300, spaces=2, absent=0.2)
    vectors["look"][::7] = 0
    vectors["words"][::5] *= 1.7  # rows of another length
    unlike = _unit(rng.normal(size=_DIMS["words"]))
    parts = [*_parts(rng, {"look": 0.4, "words": 0.3}), JointPart("without", "words", -unlike, 0.3)]
    rows, exact = _expected(parts, vectors, 12)
    found = AbandoningScorer(vectors).search(parts, 12)
    np.testing.assert_array_equal(found.rows, rows)
    np.testing.assert_allclose(found.scores, exact, atol=1e-12)


def test_bound_of_the_paper_drops_right_answers_where_weights_do_not_sum_to_1() -> None:
    """With weights 1 and .5 the picture that agrees in both modalities is bounded below what another one reaches."""
    picture, words = np.array([1, 0], np.float32), np.array([1, 0], np.float32)
    vectors = {"look": np.array([[0.6, 0.8], [1, 0]], np.float32), "words": np.array([[1, 0], [-0.1, 0.995]], np.float32)}
    parts = [JointPart("picture", "look", picture, 1.0), JointPart("text", "words", words, 0.5)]
    similarities = {space: rows @ np.array([1, 0], np.float32) for space, rows in vectors.items()}
    papers_bound = 1 - 1.0 * (
        1 - similarities["look"][0]
    )  # equations 8 and 9 after the first modality: |u - q|^2 = 2 - 2<u, q>
    assert papers_bound < 1.0 * similarities["look"][0] + 0.5 * similarities["words"][0]  # no bound at all
    assert AbandoningScorer(vectors).search(parts, 1).rows.tolist() == _expected(parts, vectors, 1)[0].tolist()


def test_equal_scores_come_by_ascending_row() -> None:
    row = np.array([[0.6, 0.8]], np.float32)
    vectors = {"look": np.repeat(row, 6, axis=0), "words": np.repeat(row, 6, axis=0)}
    parts = [JointPart("picture", "look", row[0], 0.5), JointPart("text", "words", row[0], 0.5)]
    assert AbandoningScorer(vectors).search(parts, 3).rows.tolist() == [0, 1, 2]


def test_multiplications_are_saved_more_of_them_the_fewer_results_and_the_less_equal_the_weights() -> None:
    rng = np.random.default_rng(3)
    centres = _unit(rng.normal(size=(40, 16)))
    owner = rng.integers(0, 40, 4_000)
    vectors = {
        "look": _unit(centres[owner] + 0.15 * rng.normal(size=(4_000, 16))),
        "words": _unit(centres[rng.permutation(owner)] + 0.15 * rng.normal(size=(4_000, 16))),
    }
    scorer = AbandoningScorer(vectors)

    def saved(k: int, heavy: float) -> float:
        parts = [JointPart("p", "look", centres[0], heavy), JointPart("t", "words", centres[1], 1 - heavy)]
        return scorer.search(parts, k).saved

    shares = {(k, heavy): saved(k, heavy) for k, heavy in itertools.product((1, 100), (0.6, 0.9))}
    assert shares[1, 0.9] > shares[1, 0.6] > 0
    assert shares[1, 0.6] > shares[100, 0.6]
    assert shares[1, 0.9] > 0.3


def test_only_some_pictures_are_searched() -> None:
    rng = np.random.default_rng(5)
    vectors = _world(rng, 200, spaces=2, absent=0.1)
    parts = _parts(rng, {"look": 0.5, "words": 0.5})
    among = np.sort(rng.choice(200, 50, replace=False))
    rows, exact = _expected(parts, {space: all_rows[among] for space, all_rows in vectors.items()}, 5)
    found = AbandoningScorer(vectors).search(parts, 5, among=among)
    np.testing.assert_array_equal(found.rows, among[rows])
    np.testing.assert_allclose(found.scores, exact, atol=1e-12)


def test_pictures_with_nothing_to_compare_are_left_out_and_an_empty_collection_gives_none() -> None:
    vectors = {"look": np.full((3, 16), np.nan, np.float32)}
    parts = _parts(np.random.default_rng(0), {"look": 1.0})
    assert len(AbandoningScorer(vectors).search(parts, 2).rows) == 0
    assert len(AbandoningScorer({"look": np.empty((0, 16), np.float32)}).search(parts, 2).rows) == 0


def test_what_cannot_be_searched_is_refused() -> None:
    rng = np.random.default_rng(0)
    scorer = AbandoningScorer(_world(rng, 10, spaces=1))
    parts = _parts(rng, {"look": 1.0})
    with pytest.raises(InvalidRequestError, match="0 pictures"):
        scorer.search(parts, 0)
    with pytest.raises(InvalidRequestError, match="order names"):
        scorer.search(parts, 1, order=["look", "look"])
    with pytest.raises(InvalidRequestError, match="no vectors"):
        scorer.search(_parts(rng, {"words": 1.0}), 1)
