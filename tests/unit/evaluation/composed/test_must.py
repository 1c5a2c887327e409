"""Composed queries over embedded pictures: the rows of a run, the queries they are measured on, and the rankings to submit."""

from pathlib import Path

import numpy as np
import pytest

from lodestone.errors import InvalidRequestError
from lodestone_eval.composed.modalities import VectorModality
from lodestone_eval.composed.must import MustOptions, evaluate_must, part_of, submitted_rankings
from lodestone_eval.composed.pictures import EmbeddedSet, ExcludedPlaces
from lodestone_eval.composed.queries import ComposedQuery, ComposedSet
from lodestone_eval.composed.vector_sets import VectorSet


def _embedded(*, truth: bool = True) -> EmbeddedSet:
    """Four pictures and as many queries, whose words name the target and whose picture is the reference."""
    names = ("a.jpg", "b.jpg", "c.jpg", "d.jpg")
    pictures = np.eye(4, dtype=np.float32)
    targets = [1, 2, 3, 0]
    queries = tuple(
        ComposedQuery(
            str(number),
            (),
            ("words",),
            frozenset({names[target]}) if truth else frozenset(),
            excluded=frozenset({names[number]}),
            candidates=frozenset(names[:3]) if number == 0 else None,
        )
        for number, target in enumerate(targets)
    )
    composed = ComposedSet("made", "test", {name: Path(name) for name in names}, queries, ("recall@1(1)",))
    words = pictures[targets]
    composition = (pictures + words) / np.float32(np.sqrt(2))
    vectors = VectorSet(
        "made",
        (VectorModality("picture", pictures, pictures), VectorModality("words", pictures, words)),
        composition,
        tuple(np.array([target], np.int32) for target in targets) if truth else None,
        ExcludedPlaces(queries, {name: place for place, name in enumerate(names)}),
        equally_right=True,
    )
    return EmbeddedSet(composed, vectors, names, {"space bridge": "bridge-1"})


def test_all_methods_answer_the_same_half_of_the_queries() -> None:
    seen: list[tuple[str, int, int]] = []
    reports = evaluate_must(_embedded(), MustOptions(), report_progress=lambda *step: seen.append(step))
    assert [report.method for report in reports] == [
        "picture alone",
        "words alone",
        "JE",
        "MR",
        "MUST, equal weights",
        "MUST, product",
        "MUST, harris",
        "MUST, basic",
        "MUST, chosen weights",
    ]
    assert {tuple(report.queries) for report in reports} == {tuple(reports[0].queries)}
    assert len(reports[0].queries) == 2
    means = {report.method: report.groups[0].metrics["recall@1(1)"].mean for report in reports}
    assert means["words alone"] == means["JE"] == means["MUST, equal weights"] == means["MUST, chosen weights"] == 1.0
    assert seen[-1] == ("MUST, chosen weights", 2, 2)
    assert reports[0].settings["models"] == {"space bridge": "bridge-1"}


def test_given_weights_are_measured_on_all_queries() -> None:
    reports = evaluate_must(_embedded(), MustOptions(weights=(3, 1)))
    assert reports[-1].method == "MUST, given weights"
    assert reports[-1].settings["weights"] == {"picture": 0.75, "words": 0.25}
    assert len(reports[-1].queries) == 4
    with pytest.raises(InvalidRequestError, match="1 weights for 2 modalities"):
        evaluate_must(_embedded(), MustOptions(weights=(1,)))


def test_what_a_query_leaves_out_is_worked_out_from_its_candidates() -> None:
    embedded = _embedded()
    excluded = embedded.vectors.excluded
    assert excluded is not None
    assert [rows.tolist() for rows in excluded] == [[0, 3], [1], [2], [3]]
    assert [rows.tolist() for rows in excluded[:2]] == [[0, 3], [1]]
    part = part_of(embedded, [0, 3])
    assert [query.query_id for query in part.composed.queries] == ["0", "3"]
    assert part.vectors.excluded is not None
    assert [rows.tolist() for rows in part.vectors.excluded] == [[0, 3], [3]]
    assert part.vectors.queries == 2


def test_a_split_without_truth_is_ranked_and_not_measured() -> None:
    hidden = _embedded(truth=False)
    with pytest.raises(InvalidRequestError) as caught:
        evaluate_must(hidden, MustOptions())
    assert "--submission" in caught.value.hint
    rankings = submitted_rankings(hidden, MustOptions(weights=(0, 1)))
    assert rankings[0] == ["b.jpg", "c.jpg"]
    assert [ranking[0] for ranking in rankings if ranking] == ["b.jpg", "c.jpg", "d.jpg", "a.jpg"]
