"""Only pictures that a whole search is sure of get its words as a tag, and never because of tags."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from lodestone.catalog.records import ImageRecord, ImageState
from lodestone.config.settings import TagSettings
from lodestone.query_log.trace import Trace
from lodestone.retrieval.fusion import FusedList, RankedList, mean_distance
from lodestone.tags.implicit import Confidence, evidence, feedback_tags, implicit_tags
from lodestone_schemas.api import GuideInfo

IDS = tuple(f"picture-{number:02}" for number in range(20))
MODEL = Confidence(intercept=0.0, weights={"lead": 0.5}, threshold=0.6)
IMAGES = {image_id: ImageRecord(image_id, "corpus-a", "root", image_id, "", 1, 0, ImageState.ACTIVE) for image_id in IDS}
NOW = datetime(2024, 5, 1, tzinfo=UTC)


def one_list(space: str, scores: list[float], *, guide: str = "*", weight: float = 1.0) -> RankedList:
    values = np.array(scores + [0.0] * (len(IDS) - len(scores)), np.float32)
    order = np.argsort(-values, kind="stable")
    return RankedList(guide, space, weight, tuple(IDS[row] for row in order), values[order])


def answered(*completed: RankedList, stage: str = "guides", provenance: dict[str, object] | None = None) -> Trace:
    lists = (one_list("bridge", [3.0], guide="text"), one_list("bridge", [2.0], guide="exemplar/0", weight=0.5))
    return Trace(
        query_id="query-1",
        created_at=NOW,
        kind="words",
        text="a black dog",
        request={},
        plan={},
        fusion="mean_distance",
        depths=(100,),
        space_weights={"bridge": 1.0},
        ranking=mean_distance(completed) if completed else FusedList((), np.empty(0)),
        guides=(GuideInfo(guide_id="exemplar/0", engine="exemplar", weight=1, provenance=provenance or {}),),
        lists=lists,
        completed=completed,
        stage=stage,
    )


def tagged(trace: Trace, **settings: object) -> list[str]:
    return [tag.image_id for tag in implicit_tags(trace, TagSettings(**settings), images=IMAGES, confidence=MODEL)]  # type: ignore[arg-type]


def test_picture_far_ahead_of_the_next_is_tagged_with_the_words() -> None:
    (tag,) = implicit_tags(answered(one_list("bridge", [3.0, 1.0])), TagSettings(), images=IMAGES, confidence=MODEL)

    assert (tag.image_id, tag.corpus_id, tag.text) == (IDS[0], "corpus-a", "a black dog")
    assert (tag.source, tag.query_id, tag.created_at) == ("implicit", "query-1", NOW)
    assert tag.score == pytest.approx(1.0)


def test_picture_hardly_ahead_is_not_tagged() -> None:
    assert tagged(answered(one_list("bridge", [3.0, 2.5, 2.0, 1.5, 1.0]))) == []


def test_answer_of_the_text_pass_alone_leaves_no_tags() -> None:
    assert tagged(answered(one_list("bridge", [3.0, 1.0]), stage="text")) == []


def test_search_by_picture_leaves_no_tags() -> None:
    assert tagged(replace(answered(one_list("bridge", [3.0, 1.0])), kind="picture", text="")) == []


def test_tags_are_no_evidence_for_tags() -> None:
    plain = one_list("bridge", [2.0, 1.8, 1.5, 1.2, 0.9, 0.6, 0.3])
    tags = one_list("tags", [1.0], guide="text", weight=5.0)

    assert tagged(answered(plain, tags)) == []
    assert tagged(answered(plain)) == []


def test_answer_with_a_guide_that_was_chosen_for_its_tag_leaves_no_tags() -> None:
    assert tagged(answered(one_list("bridge", [3.0, 1.0]), provenance={"tag_score": 0.9})) == []


def test_settings_decide_whether_from_when_and_how_many() -> None:
    trace = answered(one_list("bridge", [9.0, 6.0, 3.0]))

    assert tagged(trace) == list(IDS[:3])
    assert tagged(trace, implicit=False) == []
    assert tagged(trace, most=2) == list(IDS[:2])
    assert tagged(answered(one_list("bridge", [3.0, 2.4])), threshold=0.25) == list(IDS[:2])


def test_only_pictures_that_were_shown_are_tagged() -> None:
    trace = answered(one_list("bridge", [9.0, 6.0, 3.0]))
    shown = {IDS[1]: IMAGES[IDS[1]]}

    assert [tag.image_id for tag in implicit_tags(trace, TagSettings(), images=shown, confidence=MODEL)] == [IDS[1]]


def test_words_that_make_no_tag_leave_none() -> None:
    trace = answered(one_list("bridge", [3.0, 1.0]))

    assert tagged(replace(trace, text="x" * 500)) == []
    assert tagged(replace(trace, text="!!!")) == []


@pytest.mark.parametrize("scores", [[], [3.0], [float("nan"), 1.0]])
def test_ranking_that_says_nothing_gives_no_confidence(scores: list[float]) -> None:
    assert len(MODEL.of(np.array(scores), guides=0.5, most=5)) == 0


def test_evidence_is_where_a_picture_stands() -> None:
    scores = np.array([5.0, 3.0, 2.5, *np.linspace(2, 1, 10)])
    found = evidence(scores, guides=0.5, most=2)

    assert found[0] == pytest.approx([5.0, 2.0, 0.0, 5.0 - scores[10], 0.5])
    assert found[1] == pytest.approx([3.0, 0.5, 2.0, 3.0 - scores[10], 0.5])


def test_shipped_confidence_reads_back_and_is_careful() -> None:
    model = Confidence.shipped()

    assert Confidence.from_json(model.to_json()) == model
    assert 0.3 < model.threshold < 1
    assert model.provenance["figures"]["precision"] >= 0.8
    assert model.of(np.linspace(3, 2.5, 20), guides=0.5, most=5).max() < model.threshold


def test_feedback_tags_what_was_found_and_called_right() -> None:
    trace = answered(one_list("bridge", [3.0, 1.0]), stage="text")
    tags = feedback_tags(trace, [IDS[2], IDS[2], "unknown"], images=IMAGES, now=NOW)

    assert [(tag.image_id, tag.text, tag.source, tag.score) for tag in tags] == [(IDS[2], "a black dog", "feedback", None)]
    assert feedback_tags(replace(trace, kind="similar"), [IDS[2]], images=IMAGES, now=NOW) == []
    assert feedback_tags(replace(trace, ranking=FusedList((IDS[0],), np.ones(1))), [IDS[2]], images=IMAGES, now=NOW) == []
