"""The parts of a hit sum to its score, with every fusion, and a record fuses to the same ranking again."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from tests.support.points import make_points
from tests.support.traces import unexplained

from lodestone.query.guides.outliers import FEWEST_GUIDES
from lodestone.query_log.explain import PAGE_ORDER, explain
from lodestone.query_log.replay import compare, replay
from lodestone.query_log.trace import Trace
from lodestone.retrieval.fusion import FUSIONS, NEED_ALL_SCORES, FusedList, RankedList, fuse_in_tiers
from lodestone.retrieval.rescoring import ListSearch, complete
from lodestone.store.aliases import JsonAliasTable
from lodestone.store.base import VectorQuery
from lodestone.store.edge.store import EdgeStore
from lodestone_schemas.api import GuideInfo
from lodestone_schemas.collections import CollectionSpec

DIM = 16
GUIDES = ("text", "exemplar/0", "exemplar/1")
SPACES = ("bridge", "labels")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    home = tmp_path_factory.mktemp("store")
    opened = EdgeStore(home / "store", aliases=JsonAliasTable(home / "aliases.json"))
    for number, space in enumerate(SPACES):
        opened.create(CollectionSpec(f"{space}-1", DIM))
        opened.upsert(f"{space}-1", replace_vectors(make_points(80 - number * 15, DIM, seed=1), number))
    yield opened
    opened.close()


def replace_vectors(points, seed):
    vectors = np.random.default_rng(seed).normal(size=points.vectors.shape).astype(np.float32)
    return replace(points, vectors=vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def answered(store, fusion: str, *, depths: tuple[int, ...] = (10,), tags: bool = True) -> Trace:
    """A query answered as the engine does it, over two spaces, three guides and tags; one space lacks some pictures."""
    rng = np.random.default_rng(5)
    searches, lists = [], []
    for guide in GUIDES:
        for weight, space in enumerate(SPACES, 1):
            vector = rng.normal(size=DIM).astype(np.float32)
            search = ListSearch(guide, space, f"{space}-1", 0.3 * weight, vector / np.linalg.norm(vector))
            (found,) = store.search(search.collection, [VectorQuery(search.vector, limit=depths[-1])])
            searches.append(search)
            lists.append(RankedList(guide, space, search.weight, found.ids, found.scores, 0.11 * weight))
    if tags:
        lists.append(RankedList("text", "tags", 0.4, lists[0].ids[3:6], np.array([0.9, 0.5, 0.1], np.float32)))
    completed = complete(store, searches, lists) if fusion in NEED_ALL_SCORES else lists
    fused = fuse_in_tiers(fusion, lists, completed, depths=depths)
    hits = fused.ids
    parts = {}
    for search in searches:
        points = store.retrieve(search.collection, hits)
        row = {image_id: number for number, image_id in enumerate(points.ids)}
        scores = [points.vectors[row[i]] @ search.vector if i in row else np.nan for i in hits]
        parts[search.guide, search.space] = np.array(scores, np.float32)
    return Trace(
        query_id="q",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        kind="words",
        text="words",
        request={},
        plan={},
        fusion=fusion,
        depths=depths,
        space_weights={},
        ranking=fused,
        searches=tuple(searches),
        lists=tuple(lists),
        completed=tuple(completed),
        hits=hits,
        parts=parts,
    )


@pytest.mark.parametrize("fusion", FUSIONS)
@pytest.mark.parametrize("depths", [(10,), (10, 20)])
def test_the_parts_of_every_hit_sum_to_its_score(store, fusion, depths):
    trace = answered(store, fusion, depths=depths)
    explanation = explain(Trace.from_bytes(trace.to_bytes()))
    assert len(explanation.hits) > 10
    assert unexplained(explanation) == []
    for hit, score in zip(explanation.hits, trace.ranking.scores, strict=True):
        assert sum(part.part for part in hit.parts) == pytest.approx(score, abs=1e-6)
        assert {(part.guide, part.space) for part in hit.parts} <= {
            (g, s) for g in (*GUIDES, "*") for s in (*SPACES, "tags")
        } | {(PAGE_ORDER, "")}


@pytest.mark.parametrize("depths", [(6,), (3, 6, 12, 24)])
def test_a_hit_is_explained_whole_where_there_was_no_time_for_exact_scores(store, depths):
    trace = answered(store, "mean_distance", depths=depths)
    fused = fuse_in_tiers("mean_distance", trace.lists, trace.lists, depths=depths)
    places = [trace.hits.index(image_id) for image_id in fused.ids]
    parts = {key: scores[places] for key, scores in trace.parts.items()}
    late = replace(trace, completed=trace.lists, ranking=fused, hits=fused.ids, parts=parts)
    assert unexplained(explain(late)) == []


def test_pages_beyond_the_first_need_no_correction_but_the_ceiling(store):
    """What a space lacks counts as the last of the page where the picture came in, not of all pages."""
    trace = answered(store, "mean_distance", depths=(3, 6, 12, 24))
    explanation = explain(trace)
    assert unexplained(explanation) == []
    ceilings = {score for score in trace.ranking.scores.tolist() if trace.ranking.scores.tolist().count(score) > 1}
    corrected = [hit for hit in explanation.hits if any(part.guide == PAGE_ORDER for part in hit.parts)]
    assert all(hit.score in ceilings for hit in corrected)


def test_a_hit_that_was_deleted_before_it_was_recorded_is_explained_by_its_spaces(store):
    trace = answered(store, "mean_distance")
    gone = {key: np.where(np.arange(len(scores)) == 0, np.nan, scores) for key, scores in trace.parts.items()}
    explanation = explain(replace(trace, parts=gone))
    assert unexplained(explanation) == []
    assert {part.guide for part in explanation.hits[0].parts} <= {"*", "text"}


def test_a_part_too_few_is_seen(store):
    trace = answered(store, "weighted_reciprocal_rank")
    short = replace(trace, lists=tuple(one for one in trace.lists if one.guide != "exemplar/0"))
    assert unexplained(explain(short))


@pytest.mark.parametrize("fusion", FUSIONS)
def test_a_record_fuses_to_the_same_ranking_bit_for_bit(store, fusion):
    trace = answered(store, fusion, depths=(10, 20))
    again = replay(Trace.from_bytes(trace.to_bytes()))
    assert again.identical
    assert again.moved == []
    assert tuple(again.ids) == trace.ranking.ids


def test_a_record_that_was_changed_does_not_pass_as_identical(store):
    trace = answered(store, "rrf")
    heavier = tuple(replace(one, weight=one.weight * 3) if one.space == "labels" else one for one in trace.lists)
    again = replay(replace(trace, lists=heavier, completed=heavier))
    assert not again.identical


def test_a_later_answer_is_compared_place_by_place(store):
    trace = answered(store, "rrf")
    swapped = (trace.ranking.ids[1], trace.ranking.ids[0], *trace.ranking.ids[2:-1], "new")
    later = replace(trace, ranking=FusedList(swapped, trace.ranking.scores))
    result = compare(trace, later)
    assert result.fresh
    assert not result.identical
    assert result.moved == [trace.ranking.ids[0], trace.ranking.ids[1], trace.ranking.ids[-1], "new"]


@pytest.mark.parametrize(("guides", "note"), [(1, "1 guide is too few"), (2, "2 guides are too few"), (3, ""), (0, "")])
def test_an_outlier_filter_with_too_few_guides_is_said_to_have_judged_nothing(store, guides, note):
    scores = [None if guides < FEWEST_GUIDES else 0.4] * guides
    drawn = tuple(
        GuideInfo(guide_id=f"g/{number}", engine="g", weight=1.0, provenance={}, outlier_score=score)
        for number, score in enumerate(scores)
    )
    trace = replace(answered(store, "mean_distance"), guides=drawn, plan={"outliers": True})
    notes = explain(trace).notes
    assert [line for line in notes if note in line and "the outlier filter judged nothing" in line] == notes
    assert len(notes) == bool(note)
    assert explain(replace(trace, plan={"outliers": False})).notes == []


def test_guides_that_were_searched_as_one_are_said_to_be(store):
    trace = answered(store, "mean_distance")
    merged = tuple(replace(one, merged=one.guide != "text" and one.space == "labels") for one in trace.lists)
    explanation = explain(Trace.from_bytes(replace(trace, lists=merged).to_bytes()))
    assert [(one.guide, one.space) for one in explanation.lists if one.merged] == [
        ("exemplar/0", "labels"),
        ("exemplar/1", "labels"),
    ]
    (note,) = explanation.notes
    assert "merged into one search" in note
    assert "labels 2" in note
    assert explain(trace).notes == []
    assert not any(one.merged for one in explain(trace).lists)
