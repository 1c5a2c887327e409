"""Removed pictures leave recorded queries, and the rest of the record stays."""

from __future__ import annotations

import zlib
from dataclasses import replace
from uuid import UUID

import numpy as np
from tests.support.traces import trace_of_scores

from lodestone.query_log.redact import without_pictures
from lodestone.query_log.trace import Trace
from lodestone_schemas.api import GuideInfo

A, B, C, D = (str(UUID(int=number << 64 | 5)) for number in (1, 2, 3, 4))
SCORES = {"bridge": {A: 0.9, B: 0.7, C: 0.5}, "labels": {A: 0.1, B: 0.4, C: 0.3}}


def trace() -> Trace:
    made = trace_of_scores("q", SCORES)
    order = made.hits
    return replace(made, parts={("*", "bridge"): np.array([SCORES["bridge"][one] for one in order], np.float32)})


def test_a_removed_picture_leaves_every_list_and_scores_stay_with_their_pictures() -> None:
    whole = trace()
    data = without_pictures(whole.to_bytes(), {B})
    assert data is not None
    assert B.encode() not in zlib.decompress(data)
    kept = Trace.from_bytes(data)
    assert kept.hits == tuple(one for one in whole.hits if one != B)
    assert kept.parts["*", "bridge"].tolist() == [np.float32(SCORES["bridge"][one]) for one in kept.hits]
    for one in kept.lists:
        assert dict(zip(one.ids, one.scores.tolist(), strict=True)) == {
            image_id: np.float32(score) for image_id, score in SCORES[one.space].items() if image_id != B
        }
    before = dict(zip(whole.ranking.ids, whole.ranking.scores.tolist(), strict=True))
    assert dict(zip(kept.ranking.ids, kept.ranking.scores.tolist(), strict=True)) == {A: before[A], C: before[C]}
    assert (kept.query_id, kept.text, kept.space_weights) == (whole.query_id, whole.text, whole.space_weights)


def test_a_record_of_other_pictures_stays_as_it_is() -> None:
    data = trace().to_bytes()
    assert without_pictures(data, {D}) is data
    assert without_pictures(data, set()) is data


def test_a_record_that_is_about_a_removed_picture_goes() -> None:
    guide = GuideInfo(guide_id="exemplar/0", engine="exemplar", weight=1.0, provenance={"image_id": D})
    asked, guided, planned = {"request": {"image_id": D}}, {"guides": (guide,)}, {"plan": {"like": [D]}}
    for facts in (asked, guided, planned):
        about = replace(trace(), **facts)  # type: ignore[arg-type]
        assert without_pictures(about.to_bytes(), {D}) is None


def test_a_record_that_cannot_be_read_goes() -> None:
    assert without_pictures(b"no trace", {A}) is None
    assert without_pictures(zlib.compress(f"nothing but {A}".encode()), {A}) is None
