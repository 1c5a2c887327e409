"""Which pictures get a search's words as a tag? Those that the whole pipeline found and is sure of (NEEDLE, F.2).

What a search teaches is found by the next one, so a wrong tag would make the same words find the wrong picture again, and its
paraphrases too. Hence: only searches that drew guides leave tags; tags are no evidence for tags (their list, and answers
that used a guide because of its tag, do not count); and only pictures above a threshold are tagged above which most were right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Final

from lodestone.config.settings import TagSettings
from lodestone.errors import InvalidRequestError
from lodestone.query.captions import CAPTIONS_SPACE
from lodestone.query_log.trace import Trace
from lodestone.retrieval.fusion import PICTURE_GUIDE, TEXT_GUIDE, mean_distance
from lodestone.tags.confidence import Confidence
from lodestone.tags.search import TAGS_SPACE
from lodestone.tags.service import FEEDBACK, IMPLICIT, new_tag, tag_text

if TYPE_CHECKING:
    from lodestone.catalog.records import ImageRecord, TagRecord

TAG_SOURCE: Final = "tag_score"  # key of the provenance of a guide that was chosen for its tags


def implicit_tags(
    trace: Trace, settings: TagSettings, *, images: Mapping[str, ImageRecord], confidence: Confidence | None = None
) -> list[TagRecord]:
    """Tags that this search leaves; for `Catalog.add_tags`.

    Args:
        trace: A search in words that used guides; any other leaves no tags.
        settings: Whether, from which confidence on, and how many at most.
        images: The shown pictures by id (`Catalog.images`): only these can be tagged.
        confidence: Instead of the model that ships.
    """
    text = _text_of(trace)
    if not settings.implicit or text is None or trace.stage != "guides":
        return []
    if any(guide.status == "used" and TAG_SOURCE in guide.provenance for guide in trace.guides):
        return []
    model = confidence or _shipped()
    ranking = mean_distance([one for one in trace.completed if one.space != TAGS_SPACE])
    sure = model.of(ranking.scores, guides=_weight_of_guides(trace), most=settings.most)
    limit = model.threshold if settings.threshold is None else settings.threshold
    return [
        new_tag(
            image_id,
            images[image_id].corpus_id,
            text,
            source=IMPLICIT,
            created_at=trace.created_at,
            score=round(float(score), 4),
            query_id=trace.query_id,
        )
        for image_id, score in zip(ranking.ids, sure, strict=False)
        if score >= limit and score > 0 and image_id in images
    ]


def feedback_tags(
    trace: Trace, relevant: Sequence[str], *, images: Mapping[str, ImageRecord], now: datetime
) -> list[TagRecord]:
    """Tags for pictures that somebody said are right, of those that the search had found.

    Args:
        trace: The search; one without words leaves no tags.
        relevant: Image ids.
        images: The relevant pictures by id; others are left out.
        now: When it was said, aware.
    """
    text = _text_of(trace)
    found = set(trace.ranking.ids)
    if text is None:
        return []
    return [
        new_tag(one, images[one].corpus_id, text, source=FEEDBACK, created_at=now, query_id=trace.query_id)
        for one in dict.fromkeys(relevant)
        if one in images and one in found
    ]


def _text_of(trace: Trace) -> str | None:
    """The words as a tag; None when they make none (no words, too many)."""
    if trace.kind != "words":
        return None
    try:
        return tag_text(trace.text)
    except InvalidRequestError:
        return None


def _weight_of_guides(trace: Trace) -> float:
    """What guides and captions weigh, the text pass weighing 1."""
    spaces = [one for one in trace.lists if one.space not in {TAGS_SPACE, CAPTIONS_SPACE}]
    text = sum(one.weight for one in spaces if one.guide in {TEXT_GUIDE, PICTURE_GUIDE})
    captions = sum(one.weight for one in trace.completed if one.space == CAPTIONS_SPACE)
    return (sum(one.weight for one in spaces) - text + captions) / text if text > 0 else 0.0


@cache
def _shipped() -> Confidence:
    return Confidence.shipped()
