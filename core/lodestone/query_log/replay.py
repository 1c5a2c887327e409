"""Replay of a recorded query: fuse the recorded lists once more, or compare the record with a new answer."""

from __future__ import annotations

from lodestone.query_log.trace import Trace
from lodestone.retrieval.fusion import FusedList, fuse_in_tiers
from lodestone_schemas.api import ReplayResult


def replay(trace: Trace) -> ReplayResult:
    """Fuse the recorded lists once more: the same ranking, whatever has happened to the collection since."""
    fused = FusedList((), trace.ranking.scores[:0])
    if trace.lists:
        fused = fuse_in_tiers(trace.fusion, trace.lists, trace.completed, depths=trace.depths)
    identical = fused.ids == trace.ranking.ids and fused.scores.tobytes() == trace.ranking.scores.tobytes()
    return ReplayResult(
        query_id=trace.query_id,
        identical=identical,
        ids=list(fused.ids),
        scores=fused.scores.tolist(),
        fresh=False,
        moved=moved(trace.ranking.ids, fused.ids),
        confidence=trace.confidence,
        probably_nothing=trace.probably_nothing,
    )


def compare(trace: Trace, later: Trace) -> ReplayResult:
    """Compare a query with the same request asked again, over the collection as it is now."""
    return ReplayResult(
        query_id=trace.query_id,
        identical=later.ranking.ids == trace.ranking.ids and later.ranking.scores.tobytes() == trace.ranking.scores.tobytes(),
        ids=list(later.ranking.ids),
        scores=later.ranking.scores.tolist(),
        fresh=True,
        moved=moved(trace.ranking.ids, later.ranking.ids),
        confidence=later.confidence,
        probably_nothing=later.probably_nothing,
    )


def moved(before: tuple[str, ...], after: tuple[str, ...]) -> list[str]:
    """Return the ids that stand at another place, or in one of the rankings only, in the order of `before`, then of `after`."""
    places = {image_id: place for place, image_id in enumerate(after)}
    changed = [image_id for place, image_id in enumerate(before) if places.get(image_id) != place]
    return [*changed, *(image_id for image_id in after if image_id not in set(before))]
