"""Implicit tags: pictures that a search with guides found with high confidence get its words as a tag (NEEDLE, F.2).

Later searches use these tags, so a wrong tag would make the same words, and their paraphrases, find the wrong picture again.
Therefore only searches that used guides leave tags. Tags are no evidence for tags: their list does not count, and an answer
that used a guide because of its tag leaves none. And only pictures above a threshold are tagged, above which most were right.

Linear model of how confident an answer is of each picture, from the picture's position among the fused scores. Scores are
weighted means of similarities in units of their spread, so that they mean the same in every collection and for every set of
spaces. The evidence is how high a picture scores, how far ahead of the next one, how far behind the best, how far above the
tenth, and how much weight the guides had. research/fits/tag_confidence.py fits the model on queries whose right answers are
known.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.config.settings import TagSettings
from lodestone.errors import InvalidRequestError
from lodestone.query_log.trace import Trace
from lodestone.retrieval.fusion import PICTURE_GUIDE, TEXT_GUIDE, mean_distance
from lodestone.spaces.names import CAPTIONS, TAGS
from lodestone.tags.service import FEEDBACK, IMPLICIT, new_tag, tag_text

if TYPE_CHECKING:
    from lodestone.catalog.records import ImageRecord, TagRecord

EVIDENCE: Final = ("score", "lead", "behind", "drop", "guides")
SHIPPED: Final = "tags.json"
_TENTH: Final = 10
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Confidence:
    """Estimates the confidence in the first pictures of a ranking; immutable.

    Attributes:
        intercept: Confidence where all evidence is 0.
        weights: Kind of evidence -> what one unit of it adds.
        threshold: Confidence from which a picture is tagged.
        provenance: Data, licence and figures; JSON-serialisable.
    """

    intercept: float
    weights: Mapping[str, float]
    threshold: float
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def of(self, scores: Array, *, guides: float, most: int) -> Array:
        """Return the confidence in each of the first pictures of a ranking, in [0, 1].

        Args:
            scores: (n,) fused scores, descending.
            guides: Weight of the guides' lists, relative to the text pass's weight of 1.
            most: Highest number of pictures to judge.

        Returns:
            (min(most, n - 1),) float64. The last picture of a ranking has no successor, so it is not judged. The array is empty
            when a score is not a number.
        """
        features = evidence(scores, guides=guides, most=most)
        weights = np.array([self.weights.get(name, 0.0) for name in EVIDENCE])
        confidence: Array = np.clip(self.intercept + features @ weights, 0, 1)
        return confidence

    def to_json(self) -> str:
        """Return the model as JSON, which `from_json` reads."""
        content = {
            "intercept": self.intercept,
            "weights": dict(self.weights),
            "threshold": self.threshold,
            "provenance": dict(self.provenance),
        }
        return json.dumps(content, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Confidence:
        """Return the model that `to_json` wrote."""
        return cls(**json.loads(text))

    @classmethod
    def shipped(cls) -> Confidence:
        """Return the model that ships inside the package, in `data/gate/`."""
        return cls.from_json(files("lodestone").joinpath("data", "gate", SHIPPED).read_text(encoding="utf-8"))


def evidence(scores: Array, *, guides: float, most: int) -> Array:
    """Return the evidence for the first pictures of a ranking: (min(most, n - 1), 5), with columns as in `EVIDENCE`.

    Args:
        scores: (n,) fused scores, descending.
        guides: Weight of the guides' lists, relative to the text pass's weight of 1.
        most: Highest number of pictures to judge.
    """
    judged = max(0, min(most, len(scores) - 1))
    if not judged or not np.isfinite(scores).all():
        return np.empty((0, len(EVIDENCE)))
    first = np.asarray(scores[:judged], np.float64)
    tenth = float(scores[min(_TENTH, len(scores) - 1)])
    return np.stack(
        [first, first - scores[1 : judged + 1], scores[0] - first, first - tenth, np.full(judged, float(guides))], axis=1
    )


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
