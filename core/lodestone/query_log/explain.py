"""Explanation of a recorded query: each hit's score, split into the parts that its (guide, space) lists gave.

The parts are computed from the query's record alone, so an explanation stays true after the collection has changed. They sum to
the score: for `mean_distance` a part is weight / scale * inner product over all weights, for rank fusions weight / (k + rank),
for composed queries what was recorded of each part (query/composing/ranking.py).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

from lodestone.query_log.trace import Trace
from lodestone.retrieval.fusion import NEED_ALL_SCORES, VISRET_K, WEIGHTED_SUM, RankedList, lists_of_tier
from lodestone.retrieval.rescoring import ALL_GUIDES
from lodestone_schemas.api import ExplainedHit, HitPart, ListInfo, QueryExplanation, QueryPart

PAGE_ORDER: Final = "page order"  # guide of the part that keeps a deeper page's score below the page before
_RANK_CONSTANT: Final = {"weighted_reciprocal_rank": 0.0, "rrf": VISRET_K}
_EXACT: Final = 1e-6
_FEWEST_GUIDES: Final = 3  # that the outlier filter compares (query/guides/outliers.py, which lies above this package)


def explain(trace: Trace) -> QueryExplanation:
    """Return the decisions, gate, guides, lists and weights of a query, and for each shown hit the parts of its score."""
    places = {image_id: place for place, image_id in enumerate(trace.ranking.ids)}
    return QueryExplanation(
        query_id=trace.query_id,
        created_at=trace.created_at,
        kind=trace.kind,
        text=trace.text,
        corrected_query=trace.plan.get("corrected_query"),
        language=trace.plan.get("language"),
        request=dict(trace.request),
        plan=dict(trace.plan),
        parts=[QueryPart.model_validate(part) for part in trace.plan.get("parts", [])],
        gate=trace.gate,
        confidence=trace.confidence,
        probably_nothing=trace.probably_nothing,
        confidence_signs=dict(trace.confidence_signs),
        prompts=dict(trace.prompts),
        topic=trace.topic,
        trust=dict(trace.trust),
        guides=list(trace.guides),
        lists=[
            ListInfo(
                guide=one.guide,
                space=one.space,
                weight=one.weight,
                scale=one.scale,
                found=len(one.ids),
                best=float(one.scores[0]) if one.ids else None,
                merged=one.merged,
            )
            for one in trace.lists
        ],
        hits=[_explained(trace, image_id, row, places[image_id]) for row, image_id in enumerate(trace.hits)],
        dropped=list(trace.dropped),
        warnings=list(trace.warnings),
        notes=[*_merged(trace), *_idle(trace)],
        timings_ms=dict(trace.timings_ms),
    )


def _merged(trace: Trace) -> list[str]:
    """Return the spaces in which several guides were searched as one."""
    guides = Counter(one.space for one in trace.lists if one.merged)
    if not guides:
        return []
    counts = ", ".join(f"{space} {count}" for space, count in guides.items())
    why = "scores are exact, but a picture that a single guide likes may be missed (query.merge_above)"
    return [f"guides were merged into one search in large spaces ({counts}): {why}"]


def _idle(trace: Trace) -> list[str]:
    """Return what was on and had nothing to work with: an outlier filter with too few guides."""
    drawn = [guide for guide in trace.guides if guide.status != "dropped"]
    if not trace.plan.get("outliers") or not 0 < len(drawn) < _FEWEST_GUIDES:
        return []
    few = f"{len(drawn)} {'guide is' if len(drawn) == 1 else 'guides are'} too few to say which one is unlike the others"
    return [f"the outlier filter judged nothing: {few}"]


def _explained(trace: Trace, image_id: str, row: int, place: int) -> ExplainedHit:
    score = float(trace.ranking.scores[place])
    if trace.fusion == WEIGHTED_SUM:
        parts = _composed_parts(trace, image_id, row)
    else:
        parts = _score_parts(trace, image_id, row) if trace.fusion in NEED_ALL_SCORES else _rank_parts(trace, image_id)
    total = math.fsum(part.part for part in parts)
    # Only a page beyond the first may lie under a ceiling (fusion.fuse_in_tiers); anything else stays visible as unexplained.
    if len(trace.depths) > 1 and total > score + _EXACT:
        parts.append(HitPart(guide=PAGE_ORDER, space="", score=score, weight=0.0, part=score - total))
        total = math.fsum(part.part for part in parts)
    size = max(abs(score), math.fsum(abs(part.part) for part in parts))
    explained = 1.0 if size == 0 else 1.0 - abs(score - total) / size
    parts.sort(key=lambda part: (-abs(part.part), part.guide, part.space))
    return ExplainedHit(rank=place + 1, image_id=image_id, score=score, explained=explained, parts=parts)


def _score_parts(trace: Trace, image_id: str, row: int) -> list[HitPart]:
    used = [one for one in _tier(trace, image_id) if one.weight > 0 and one.ids]
    whole = sum(one.weight for one in used)
    lists = {(one.guide, one.space): one for one in trace.lists}
    parts = []
    for one in used:
        group = [key for key in lists if key[1] == one.space and key in trace.parts] if one.guide == ALL_GUIDES else []
        known = all(math.isfinite(trace.parts[key][row]) for key in group)  # not, if it was deleted before it was recorded
        if image_id in one.ids and group and known:
            for guide, space in group:
                found = lists[guide, space]
                score = float(trace.parts[guide, space][row])
                parts.append(_part(found, image_id, score, found.weight / found.scale * score / whole))
        else:  # a list that no vector stands behind, or a picture that this space does not hold: it counts as the list's last
            score = float(one.scores[one.ids.index(image_id)]) if image_id in one.ids else float(one.scores.min())
            parts.append(_part(one, image_id, score, one.weight / one.scale * score / whole))
    return parts


def _composed_parts(trace: Trace, image_id: str, row: int) -> list[HitPart]:
    """Return the parts of a composed query: similarity as it was recorded, and the share of the score."""
    found = {(one.guide, one.space): one for one in trace.lists}
    parts = []
    for one in trace.completed:
        if one.weight <= 0 or image_id not in one.ids:
            continue
        share = float(one.scores[one.ids.index(image_id)])
        similarity = trace.parts.get((one.guide, one.space))
        listed = found.get((one.guide, one.space))
        parts.append(
            HitPart(
                guide=one.guide,
                space=one.space,
                rank=None if listed is None else _rank(listed, image_id),
                score=share if similarity is None else float(similarity[row]),
                weight=one.weight,
                part=one.weight * share,
            )
        )
    return parts


def _tier(trace: Trace, image_id: str) -> Sequence[RankedList]:
    """Return the lists that the picture's score was fused from: those of the page where it entered the ranking."""
    if len(trace.depths) == 1:
        return trace.completed
    return lists_of_tier(trace.fusion, trace.lists, trace.completed, depth=_depth_of(trace, image_id))


def _rank_parts(trace: Trace, image_id: str) -> list[HitPart]:
    constant = _RANK_CONSTANT[trace.fusion]
    parts = []
    for one in trace.lists:
        rank = _rank(one, image_id)
        if one.weight > 0 and rank is not None and rank <= _depth_of(trace, image_id):
            gain = one.weight / (constant + rank)
            parts.append(_part(one, image_id, float(one.scores[rank - 1]), gain))
    return parts


def _depth_of(trace: Trace, image_id: str) -> int:
    """Return the first depth at which the picture is a candidate: ranks beyond it did not count."""
    best = min((rank for one in trace.lists if one.weight > 0 and (rank := _rank(one, image_id)) is not None), default=0)
    return next((depth for depth in trace.depths if depth >= best), trace.depths[-1])


def _rank(one: RankedList, image_id: str) -> int | None:
    return one.ids.index(image_id) + 1 if image_id in one.ids else None


def _part(one: RankedList, image_id: str, score: float, part: float) -> HitPart:
    return HitPart(guide=one.guide, space=one.space, rank=_rank(one, image_id), score=score, weight=one.weight, part=part)
