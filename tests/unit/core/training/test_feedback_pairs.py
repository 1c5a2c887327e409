"""Weights of modalities learn from answers of their composition with a right picture, by the vectors its target needs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from lodestone.config.compositions import DEFAULT_COMPOSITION, Role, choose_composition
from lodestone.config.profiles import PROFILES
from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone.query.composing.targets import OWN
from lodestone.query_log.trace import Trace
from lodestone.retrieval.fusion import WEIGHTED_SUM, FusedList
from lodestone.retrieval.rescoring import ListSearch
from lodestone.training import feedback_pairs
from lodestone.training.feedback_pairs import _pair_of as pair_of

OWN_VECTOR, COMPARED = np.array([0.6, 0.8], np.float32), np.array([1.0, 0.0], np.float32)
COMPOSITION = choose_composition(DEFAULT_COMPOSITION, {}, PROFILES["embedded"])


def record(*searches: ListSearch) -> Trace:
    parts = [{"name": "words", "weight": 0.5, "text": "a cat"}, {"name": "picture", "weight": 0.5}]
    return Trace(
        "a-query", datetime.now(UTC), "composed", "a cat", {}, {"parts": parts}, WEIGHTED_SUM, (10,), {},
        FusedList((), np.empty(0)), searches=searches,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("target", "expected"),
    [("own", OWN_VECTOR), ("guide", OWN_VECTOR), ("composed", COMPARED)],
    ids=["own", "guide", "composed"],
)
def test_an_upload_is_learnt_by_its_own_vectors_though_edited_ones_were_compared(target, expected) -> None:
    trace = record(
        ListSearch("words", "bridge", "bridge-1", 0.2, COMPARED),
        ListSearch("picture", "bridge", "bridge-1", 0.3, COMPARED),
        ListSearch("picture" + OWN, "bridge", "bridge-1", 0.0, OWN_VECTOR),
        ListSearch("picture", "labels", "labels-0", 0.1, COMPARED),  # of a version that is no longer searched
    )
    pair = pair_of(
        trace, frozenset({"right"}), replace(COMPOSITION, target=target), {"bridge": "bridge-1", "labels": "labels-1"}
    )
    assert pair is not None
    (modality,) = (one.name for one in COMPOSITION.of_role(Role.TARGET) if one.space == "bridge")
    assert set(pair.vectors) == {modality}
    np.testing.assert_allclose(pair.vectors[modality], 0.5 * expected)


def test_queries_of_another_composition_teach_nothing() -> None:
    trace = replace(record(ListSearch("picture", "bridge", "bridge-1", 0.3, OWN_VECTOR)), request={"composition": "shoes"})
    for name, taught in (("shoes", True), (DEFAULT_COMPOSITION, False)):
        pair = pair_of(trace, frozenset({"right"}), replace(COMPOSITION, name=name), {"bridge": "bridge-1"})
        assert (pair is not None) is taught


def test_without_edited_vectors_those_that_were_compared_are_the_pictures_own() -> None:
    trace = record(ListSearch("picture", "bridge", "bridge-1", 0.3, OWN_VECTOR))
    pair = pair_of(trace, frozenset({"right"}), COMPOSITION, {"bridge": "bridge-1"})
    assert pair is not None
    assert [vector == pytest.approx((0.5 * OWN_VECTOR).tolist()) for vector in pair.vectors.values()] == [True]


def test_answers_without_a_right_picture_teach_nothing_and_forgotten_ones_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = record(ListSearch("picture", "bridge", "bridge-1", 0.3, OWN_VECTOR))
    judged = [("a", frozenset({"right"})), ("b", frozenset()), ("gone", frozenset({"right"}))]

    def load(_: object, query_id: str) -> Trace:
        if query_id == "gone":
            raise NotFoundError("no such query", hint="")
        return replace(trace, query_id=query_id)

    monkeypatch.setattr(feedback_pairs, "load_trace", load)
    monkeypatch.setattr(feedback_pairs, "judged_answers", lambda _: judged)
    pairs, forgotten = feedback_pairs.pairs_of_feedback(None, COMPOSITION, {"bridge": "bridge-1"})  # type: ignore[arg-type]
    assert (len(pairs), forgotten) == (1, 1)
    judged.remove(("a", frozenset({"right"})))
    with pytest.raises(InvalidRequestError, match="no recorded query"):
        feedback_pairs.pairs_of_feedback(None, COMPOSITION, {"bridge": "bridge-1"})  # type: ignore[arg-type]
