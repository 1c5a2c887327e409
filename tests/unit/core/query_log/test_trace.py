"""A query's record comes back bit for bit."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from lodestone.errors import CatalogError, NotFoundError
from lodestone.query_log.explain import explain
from lodestone.query_log.replay import compare, replay
from lodestone.query_log.trace import Trace, load_trace
from lodestone.retrieval.fusion import FusedList, RankedList
from lodestone.retrieval.rescoring import ListSearch
from lodestone_schemas.api import GateDecision, GuideInfo


def make_trace(**changes) -> Trace:
    rng = np.random.default_rng(3)
    ids = tuple(f"picture-{n}" for n in range(5))
    vector = rng.normal(size=8).astype(np.float32)
    trace = Trace(
        query_id="q1",
        created_at=datetime(2026, 3, 1, 12, 30, 1, 5, tzinfo=UTC),
        kind="words",
        text="two dogs \u200f\U0001f415",
        request={"query": "two dogs", "limit": 5},
        plan={"spaces": {"bridge": "bridge-1"}},
        fusion="mean_distance",
        depths=(100,),
        space_weights={"bridge": 0.1 + 0.2, "labels": 1 / 3},
        topic="dogs",
        trust={"bridge": 1.1},
        gate=GateDecision(verdict="complex", predicted_ap=0.3, threshold=0.5, why="because", features={"x": 1 / 7}),
        prompts={"exemplar": "two dogs"},
        guides=(GuideInfo(guide_id="exemplar/0", engine="exemplar", weight=0.7, provenance={"image_id": "a"}),),
        text_vectors={"minilm": vector},
        searches=(ListSearch("text", "bridge", "bridge-1", 0.3, vector, 25),),
        lists=(RankedList("text", "bridge", 1 / 3, ids, rng.random(5).astype(np.float32), 0.123456789),),
        completed=(RankedList("*", "bridge", 1 / 3, ids[::-1], rng.random(5).astype(np.float32)),),
        ranking=FusedList(ids, rng.random(5)),
        hits=ids[:2],
        parts={("text", "bridge"): np.array([0.5, np.nan], np.float32)},
        dropped=("a guide",),
        warnings=("careful",),
        timings_ms={"total": 1.5},
        confidence=0.1 + 0.2,
        probably_nothing=True,
        confidence_signs={"bridge.best": 1 / 7},
    )
    return replace(trace, **changes)


def same_list(one: RankedList, other: RankedList) -> bool:
    return (
        (one.guide, one.space, one.weight, one.ids, one.scale, one.merged)
        == (other.guide, other.space, other.weight, other.ids, other.scale, other.merged)
        and one.scores.dtype == other.scores.dtype
        and one.scores.tobytes() == other.scores.tobytes()
    )


def test_a_trace_comes_back_bit_for_bit():
    trace = make_trace()
    back = Trace.from_bytes(trace.to_bytes())
    for name in Trace.__slots__:
        if name not in {"searches", "lists", "completed", "ranking", "text_vectors", "parts"}:
            assert getattr(back, name) == getattr(trace, name), name
    assert all(map(same_list, back.lists, trace.lists))
    assert all(map(same_list, back.completed, trace.completed))
    assert back.ranking.ids == trace.ranking.ids
    assert back.ranking.scores.tobytes() == trace.ranking.scores.tobytes()
    assert back.text_vectors["minilm"].tobytes() == trace.text_vectors["minilm"].tobytes()
    assert back.parts["text", "bridge"].tobytes() == trace.parts["text", "bridge"].tobytes()
    assert back.searches[0].vector.tobytes() == trace.searches[0].vector.tobytes()
    assert (back.searches[0].weight, back.searches[0].depth) == (0.3, 25)


def test_a_record_is_a_zlib_stream_in_which_fractions_are_stored_as_they_are():
    """Those of a vector hardly shrink, and would take most of the time."""
    trace = replace(make_trace(), text_vectors={"minilm": np.random.default_rng(0).standard_normal(5_000).astype(np.float32)})
    record = trace.to_bytes()
    plain = zlib.decompress(record)
    vector = trace.text_vectors["minilm"].tobytes()
    assert vector in record
    assert len(record) - len(vector) < len(plain) - len(vector)
    former = Trace.from_bytes(zlib.compress(plain, 1))  # as earlier versions wrote it
    assert former.text_vectors["minilm"].tobytes() == vector


def test_a_record_of_an_earlier_version_has_no_confidence(monkeypatch):
    now = json.dumps

    def as_before(header, **options):
        return now({key: value for key, value in header.items() if "confiden" not in key and "nothing" not in key}, **options)

    trace = make_trace()
    monkeypatch.setattr("lodestone.query_log.trace.json.dumps", as_before)
    back = Trace.from_bytes(trace.to_bytes())
    assert (back.confidence, back.probably_nothing, back.confidence_signs) == (None, False, {})


def test_an_explanation_and_a_replay_keep_the_confidence():
    trace = make_trace()
    explanation, again = explain(trace), replay(trace)
    assert explanation.confidence == again.confidence == trace.confidence
    assert explanation.probably_nothing and again.probably_nothing
    assert explanation.confidence_signs == trace.confidence_signs
    later = compare(trace, replace(trace, confidence=0.9, probably_nothing=False))
    assert (later.confidence, later.probably_nothing) == (0.9, False)


def test_an_empty_answer_is_recorded_too():
    back = Trace.from_bytes(
        make_trace(lists=(), completed=(), searches=(), ranking=FusedList((), np.empty(0)), hits=()).to_bytes()
    )
    assert back.ranking.ids == ()
    assert len(back.ranking.scores) == 0


@pytest.mark.parametrize("data", [b"", b"nonsense", make_trace().to_bytes()[:-20]])
def test_a_damaged_record_says_so(data):
    with pytest.raises(CatalogError, match="damaged"):
        Trace.from_bytes(data)


def test_an_unknown_query_is_not_found():
    class Empty:
        def query(self, query_id):
            return None

    with pytest.raises(NotFoundError, match="'nope'"):
        load_trace(Empty(), "nope")
