"""Implicit tags: pictures that a search with guides found with high confidence get its words as a tag (NEEDLE, F.2).

Later searches use these tags, so a wrong tag would make the same words, and their paraphrases, find the wrong picture again.
Therefore only searches that used guides leave tags. Tags are no evidence for tags: their list does not count, and an answer
that used a guide because of its tag leaves none. And only pictures above a threshold are tagged, above which most were right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Final

from lodestone.config.settings import TagSettings
from lodestone.errors import InvalidRequestError
from lodestone.query_log.trace import Trace
from lodestone.retrieval.fusion import PICTURE_GUIDE, TEXT_GUIDE, mean_distance
from lodestone.spaces.names import CAPTIONS, TAGS
from lodestone.tags.confidence import Confidence
from lodestone.tags.service import FEEDBACK, IMPLICIT, new_tag, tag_text

if TYPE_CHECKING:
    from lodestone.catalog.records import ImageRecord, TagRecord

TAG_SOURCE: Final = "tag_score"  # key of the provenance of a guide that was chosen for its tags


def implicit_tags(
    trace: Trace, settings: TagSettings, *, images: Mapping[str, ImageRecord], confidence: Confidence | None = None
) -> list[TagRecord]:
    """Return the tags that this search leaves, for `Catalog.add_tags`.

    Args:
        trace: A text search that used guides; any other search leaves no tags.
        settings: Whether tags are left, from which confidence on, and how many at most.
        images: The shown pictures by id (`Catalog.images`); only these can be tagged.
        confidence: The model to use; None for the shipped one.
    """
    text = _text_of(trace)
    if not settings.implicit or text is None or trace.stage != "guides":
        return []
    if any(guide.status == "used" and TAG_SOURCE in guide.provenance for guide in trace.guides):
        return []
    model = confidence or _shipped()
    ranking = mean_distance([ranked for ranked in trace.completed if ranked.space != TAGS])
    confidences = model.of(ranking.scores, guides=_weight_of_guides(trace), most=settings.most)
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
        for image_id, score in zip(ranking.ids, confidences, strict=False)
        if score >= limit and score > 0 and image_id in images
    ]


def feedback_tags(
    trace: Trace, relevant: Sequence[str], *, images: Mapping[str, ImageRecord], now: datetime
) -> list[TagRecord]:
    """Return tags for pictures that a user called right, limited to those that the search had found.

    Args:
        trace: The search; one without text leaves no tags.
        relevant: Image ids that the user called right.
        images: The relevant pictures by id; others are left out.
        now: Time of the feedback, with a time zone.
    """
    text = _text_of(trace)
    found_ids = set(trace.ranking.ids)
    if text is None:
        return []
    return [
        new_tag(image_id, images[image_id].corpus_id, text, source=FEEDBACK, created_at=now, query_id=trace.query_id)
        for image_id in dict.fromkeys(relevant)
        if image_id in images and image_id in found_ids
    ]


def _text_of(trace: Trace) -> str | None:
    """Return the search's text as a tag, or None when it makes no tag (no words, or too many)."""
    if trace.kind != "words":
        return None
    try:
        return tag_text(trace.text)
    except InvalidRequestError:
        return None


def _weight_of_guides(trace: Trace) -> float:
    """Return the weight of guides and captions, relative to the text pass's weight of 1."""
    spaces = [ranked for ranked in trace.lists if ranked.space not in {TAGS, CAPTIONS}]
    text = sum(ranked.weight for ranked in spaces if ranked.guide in {TEXT_GUIDE, PICTURE_GUIDE})
    captions = sum(ranked.weight for ranked in trace.completed if ranked.space == CAPTIONS)
    return (sum(ranked.weight for ranked in spaces) - text + captions) / text if text > 0 else 0.0


@cache
def _shipped() -> Confidence:
    return Confidence.shipped()
