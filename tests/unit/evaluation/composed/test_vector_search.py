"""Methods over vector sets: joint search is the joint similarity, in arrays and in graphs, and streams merge as published."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from lodestone.composed.joint import JointPart, scores
from lodestone.errors import InvalidRequestError
from lodestone.store.base import VectorStore
from lodestone.store.factory import open_store
from lodestone_eval.composed.ann import evaluate_vectors
from lodestone_eval.composed.ann_report import AnnOptions
from lodestone_eval.composed.exact_methods import AbandoningJoint, RankedByRule
from lodestone_eval.composed.modalities import AttributeModality, VectorModality
from lodestone_eval.composed.semi_synthetic import SemiSynthetic, write_semi_synthetic
from lodestone_eval.composed.vector_search import (
    ExactJoint,
    ExactStreams,
    StoreJoint,
    StoreStreams,
    best,
    joint_scores,
    merge_streams,
)
from lodestone_eval.composed.vector_sets import VectorSet, read_vector_set, weights_of
from lodestone_eval.composed.weight_choice import choose_weights, weight_grid
from lodestone_schemas.collections import HnswSpec

_EXACT_ENOUGH = HnswSpec(m=16, ef_construct=200, ef=200)


def _unit(rng: np.random.Generator, rows: int, dim: int) -> NDArray[np.float32]:
    vectors = rng.standard_normal((rows, dim)).astype(np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def _set(*, lacking: bool = False, seed: int = 0) -> VectorSet:
    """Three modalities of 300 objects and 12 queries, which leave attributes open; some objects lack the second if asked."""
    rng = np.random.default_rng(seed)
    wanted = rng.integers(0, 3, (12, 4)).astype(np.int32)
    wanted[0] = 0  # lacks the third modality
    first, second = _unit(rng, 300, 8), _unit(rng, 300, 6)
    if lacking:
        second[rng.random(300) < 0.3] = 0
    attributes = rng.integers(0, 3, (300, 4)).astype(np.int32)
    return VectorSet(
        "made",
        (
            VectorModality("modality1", first, _unit(rng, 12, 8)),
            VectorModality("modality2", second, _unit(rng, 12, 6)),
            AttributeModality("modality3", attributes, wanted, 0),
        ),
        composition=_unit(rng, 12, 8),
    )


@pytest.fixture
def store(tmp_path: Path) -> VectorStore:
    return open_store("edge", root=tmp_path / "store", matrix_points=0)


@pytest.mark.parametrize("lacking", [False, True])
@pytest.mark.parametrize("squares", [(1, 1, 1), (0.9, 0.05, 0.05), (0, 1, 2), (0, 0, 1)])
def test_joint_scores_are_the_joint_similarity(squares: tuple[float, ...], lacking: bool) -> None:
    vectors = _set(lacking=lacking)
    weights = weights_of(vectors, squares)
    columns = [modality.columns() for modality in vectors.modalities]
    bases = {
        name: np.where(base.any(1, keepdims=True), base, np.float32(np.nan))
        for name, (base, _) in zip(vectors.names, columns, strict=True)
    }
    for query in range(vectors.queries):
        parts = [
            JointPart(name, name, asked[query], float(weight))
            for name, weight, (_, asked) in zip(vectors.names, weights, columns, strict=True)
            if weight > 0 and asked[query].any()
        ]
        if not parts:
            assert np.isnan(joint_scores(vectors, weights, query)).all()
            continue
        assert joint_scores(vectors, weights, query) == pytest.approx(scores(parts, bases), abs=1e-5, nan_ok=True)


@pytest.mark.parametrize("lacking", [False, True])
def test_one_graph_of_equal_weights_answers_every_weighting(lacking: bool, store: VectorStore) -> None:
    vectors = _set(lacking=lacking)
    method = StoreJoint(store, vectors, weights_of(vectors, (1, 1, 1)), hnsw=_EXACT_ENOUGH)
    for squares in ((1, 1, 1), (0.8, 0.1, 0.1), (0, 1, 1), (1, 0, 0)):
        method.weights = weights_of(vectors, squares)
        exact = ExactJoint(vectors, method.weights)
        overlap = [
            len(set(method.search(query, 10, 300)) & set(exact.search(query, 10, 0))) / 10 for query in range(vectors.queries)
        ]
        assert np.mean(overlap) >= 0.95, squares
    store.close()


@pytest.mark.parametrize("lacking", [False, True])
def test_early_abandoning_finds_what_brute_force_finds(lacking: bool) -> None:
    vectors = _set(lacking=lacking)
    for squares in ((1, 1, 1), (0.9, 0.05, 0.05), (0, 1, 1)):
        weights = weights_of(vectors, squares)
        exact, abandoning = ExactJoint(vectors, weights), AbandoningJoint(vectors, weights)
        for query in range(vectors.queries):
            scored = joint_scores(vectors, weights, query)
            assert scored[abandoning.search(query, 10, 0)] == pytest.approx(scored[exact.search(query, 10, 0)], abs=1e-5)


def test_a_rule_ranks_the_candidates_of_the_sum_again() -> None:
    picture = np.array([[1, 0], [0.6, 0.8], [0, 1]], np.float32)
    words = np.array([[0, 1], [0.8, 0.6], [1, 0]], np.float32)
    vectors = VectorSet(
        "hand", (VectorModality("modality1", picture, picture[:1]), VectorModality("modality2", words, words[2:]))
    )
    equal = weights_of(vectors, (1, 1))
    # similarities: (1, 0), (.6, .8), (0, 1): the sum orders 1, 0, 2, and only object 1 has a product
    assert ExactJoint(vectors, equal).search(0, 3, 0).tolist() == [1, 0, 2]
    heavy = weights_of(vectors, (9, 1))  # sums .9, .62, .1
    assert ExactJoint(vectors, heavy).search(0, 3, 0).tolist() == [0, 1, 2]
    assert RankedByRule(vectors, heavy, "product").search(0, 3, 3).tolist() == [1, 0, 2]
    assert RankedByRule(vectors, heavy, "product").search(0, 1, 1).tolist() == [0]  # of one candidate
    assert RankedByRule(vectors, equal, "harris").search(0, 3, 3).tolist() == [1, 0, 2]


def test_standardised_similarities_rank_a_query_with_attributes_too() -> None:
    vectors = _set(lacking=True)
    method = RankedByRule(vectors, weights_of(vectors, (1, 1, 1)), "basic")
    assert [len(method.search(query, 5, 50)) for query in range(vectors.queries)] == [5] * vectors.queries


def test_streams_of_a_store_are_those_of_brute_force(store: VectorStore) -> None:
    vectors = _set().of_modalities(2)  # attributes tie, and a graph breaks ties as it comes upon them
    found, exact = StoreStreams(store, vectors, hnsw=_EXACT_ENOUGH), ExactStreams(vectors)
    same = [np.array_equal(found.search(query, 5, 60), exact.search(query, 5, 60)) for query in range(vectors.queries)]
    assert np.mean(same) >= 0.9
    store.close()


def test_merged_streams_are_the_intersection_in_the_target_s_order_filled_from_the_target() -> None:
    target, words = np.array([4, 2, 9, 7]), np.array([7, 1, 4, 8])
    assert merge_streams([target, words], 2).tolist() == [4, 7]
    assert merge_streams([target, words], 3).tolist() == [4, 7, 2]
    assert merge_streams([target, words], 1).tolist() == [4]  # the intersection exceeds k
    assert merge_streams([target], 2).tolist() == [4, 2]
    assert merge_streams([], 2).tolist() == []


def test_the_best_are_ordered_by_score_and_then_by_number() -> None:
    values = np.array([0.5, np.nan, 0.9, 0.5, 0.9, 0.1])
    assert best(values, 4).tolist() == [2, 4, 0, 3]
    assert best(values, 3).tolist() == [2, 4, 0]
    assert best(values, 9, [2]).tolist() == [4, 0, 3, 5]
    assert best(values, 0).tolist() == []


def test_the_grid_holds_every_weighting_once() -> None:
    assert [weights.tolist() for weights in weight_grid(2, 2)] == [[0, 1], [0.5, 0.5], [1, 0]]
    assert len(list(weight_grid(3, 4))) == 15
    assert next(iter(weight_grid(1, 1))).tolist() == [1.0]


def _conflicting() -> VectorSet:
    """Queries whose right object is told by the words, and whose picture is that of another object."""
    rng = np.random.default_rng(3)
    pictures, words = _unit(rng, 200, 16), _unit(rng, 200, 16)
    truth = rng.integers(0, 200, 60)
    near = words[truth] + 0.1 * _unit(rng, 60, 16)
    return VectorSet(
        "conflict",
        (
            VectorModality("modality1", pictures, _unit(rng, 60, 16)),
            VectorModality("modality2", words, near / np.linalg.norm(near, axis=1, keepdims=True)),
        ),
        truths=tuple(np.array([place], np.int32) for place in truth),
        equally_right=True,
    )


def test_weights_are_chosen_on_other_queries_than_those_measured() -> None:
    vectors = _conflicting()
    report = evaluate_vectors(vectors, AnnOptions(ks=(1,), efforts=(20,)))
    assert report.chosen
    assert report.queries == 30
    assert report.weights[1] > 0.6
    rows = {(row.table, row.method, row.about): row for row in report.rows}
    assert rows["curve", "MUST, exact", ""].recall.mean == 1.0
    assert rows["single modality", "MUST, exact", "modality1 alone"].recall.mean <= 0.1
    assert rows["single modality", "MUST, exact", "modality2 alone"].recall.mean == 1.0
    assert rows["curve", "MR, exact", ""].recall.mean < 0.9
    assert {row.wanted for row in report.rows} == {1}


def test_a_larger_weight_gives_a_more_similar_result_in_that_modality() -> None:
    report = evaluate_vectors(_conflicting(), AnnOptions(weights=(0.5, 0.5), ks=(1,), efforts=(20,)))
    shown = [row.similarity for row in report.rows if row.table == "weights"]
    assert [row.weights[0] for row in report.rows if row.table == "weights"] == [0.5, 0.6, 0.7, 0.8, 0.9]
    pictures, words = zip(*shown, strict=True)
    assert list(pictures) == sorted(pictures)
    assert list(words) == sorted(words, reverse=True)
    assert pictures[-1] > pictures[0]


def test_figures_are_those_of_a_set_worked_out_by_hand() -> None:
    picture = np.array([[1, 0], [0.6, 0.8], [0, 1]], np.float32)
    words = np.array([[0, 1], [1, 0], [1, 0]], np.float32)
    asked = VectorModality("modality1", picture, picture[:1]), VectorModality("modality2", words, words[1:2])
    vectors = VectorSet("hand", asked, truths=(np.array([1, 2], np.int32),))
    # equal weights score 0.5, 0.8 and 0.5: first object 1, then 0 and 2 in their order
    report = evaluate_vectors(vectors, AnnOptions(weights=(1, 1), ks=(1, 2, 3), efforts=(3,)))
    curve = {row.k: row for row in report.rows if row.table == "curve" and row.method == "MUST, exact"}
    assert [curve[k].recall.mean for k in (1, 2, 3)] == [1.0, 0.5, 1.0]
    assert curve[1].similarity == pytest.approx([0.6, 1.0])
    assert curve[1].error is not None
    assert curve[1].error.mean == pytest.approx(0.0, abs=1e-6)
    alone = {row.about: row for row in report.rows if row.table == "single modality"}
    assert alone["modality1 alone"].recall.mean == 0.0
    # the first result is object 0, whose similarity to the first right one is 0.6
    assert alone["modality1 alone"].error is not None
    assert alone["modality1 alone"].error.mean == pytest.approx(0.4, abs=1e-6)


def test_without_a_truth_recall_is_that_of_brute_force_and_needs_weights(store: VectorStore) -> None:
    vectors = _set()
    with pytest.raises(InvalidRequestError, match="weights are chosen by right objects"):
        evaluate_vectors(vectors, AnnOptions())
    report = evaluate_vectors(
        vectors, AnnOptions(weights=(2, 1, 1), ks=(5,), efforts=(100, 300), hnsw=_EXACT_ENOUGH), open_store=lambda: store
    )
    recalls = {(row.method, row.effort): row.recall.mean for row in report.rows if row.table == "curve"}
    assert recalls["MUST, exact", None] == 1.0
    assert recalls["MUST, abandoning", None] >= 0.95  # ties
    assert recalls["MUST", 300] >= 0.95
    assert {method for method, _ in recalls} == {
        "MUST, exact",
        "MUST, abandoning",
        "MR, exact",
        "JE, exact",
        "MUST",
        "MR",
        "MR with JE",
        "JE",
    }
    assert any("brute force" in note for note in report.notes)
    assert [row.about for row in report.rows if row.table == "modalities"] == ["m = 2", "m = 2", "m = 3", "m = 3"]


def test_weights_move_to_another_category() -> None:
    report = evaluate_vectors(_conflicting(), AnnOptions(ks=(1,), efforts=(20,)), other=_conflicting())
    moved = {row.about: row.recall.mean for row in report.rows if row.table == "moved weights"}
    assert list(moved) == ["moved, on conflict", "equal, on conflict", "own, on conflict"]
    assert moved["moved, on conflict"] == moved["own, on conflict"] >= moved["equal, on conflict"]
    with pytest.raises(InvalidRequestError, match="cannot be moved"):
        evaluate_vectors(_conflicting(), AnnOptions(ks=(1,), efforts=(20,)), other=_set())


def test_a_semi_synthetic_set_repeats_and_is_read_in_the_published_layout(tmp_path: Path) -> None:
    options = SemiSynthetic(objects=2_000, queries=40, dim=16, attributes=2, values=3, seed=5)
    paths = write_semi_synthetic(tmp_path / "one", options)
    again = write_semi_synthetic(tmp_path / "two", options)
    assert [path.name for path in paths] == [
        f"one_{ending}"
        for ending in ("modal1_base.fvecs", "modal1_query.fvecs", "modal2_base.ivecs", "modal2_query.ivecs", "gt.ivecs")
    ]
    assert [path.read_bytes() for path in paths] == [path.read_bytes() for path in again]
    vectors = read_vector_set(tmp_path / "one")
    assert (vectors.objects, vectors.queries) == (2_000, 40)
    picture, words = vectors.modalities
    assert isinstance(picture, VectorModality)
    assert isinstance(words, AttributeModality)
    assert vectors.truths is not None
    for query, truth in enumerate(vectors.truths):
        same = np.flatnonzero((words.base == words.asked[query]).all(1))
        order = same[np.argsort(-(picture.base[same] @ picture.asked[query]), kind="stable")]
        assert truth.tolist() == order[:100].tolist()
    chosen = choose_weights(vectors, range(20), k=10, wanted=10)
    assert chosen[1] >= 0.3  # all attributes must match


def test_a_semi_synthetic_set_takes_real_vectors(tmp_path: Path) -> None:
    first = SemiSynthetic(objects=50, queries=5, dim=4, attributes=1, values=2)
    base, asked, *_ = write_semi_synthetic(tmp_path / "drawn", first)
    given = SemiSynthetic(objects=40, queries=3, attributes=1, values=2, base=base, asked=asked)
    write_semi_synthetic(tmp_path / "given", given)
    picture = read_vector_set(tmp_path / "given").modalities[0]
    assert (picture.objects, picture.queries, picture.widths) == (40, 3, (4, 4))
    with pytest.raises(InvalidRequestError, match="holds 50 vectors, and 60 are wanted"):
        write_semi_synthetic(tmp_path / "more", SemiSynthetic(objects=60, queries=3, base=base, asked=asked))
    with pytest.raises(InvalidRequestError, match="at least 1"):
        SemiSynthetic(objects=0)


def test_attributes_of_too_many_values_are_searched_exactly(tmp_path: Path) -> None:
    base = np.arange(5_000, dtype=np.int32)[:, None]
    modality = AttributeModality("modality2", base, base[:3])
    similarities = modality.similarities(1)
    assert similarities is not None
    assert np.flatnonzero(similarities).tolist() == [1]
    with pytest.raises(InvalidRequestError, match=r"5,000 values") as caught:
        modality.columns()
    assert "exact" in caught.value.hint
