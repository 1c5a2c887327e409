"""Ranking in which copies of a picture count as one: the best of each group represents all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from lodestone.retrieval.fusion import FusedList
from lodestone.retrieval.searcher import Ranking


def with_equal_files(groups: Mapping[str, str], hashes: Mapping[str, str]) -> dict[str, str]:
    """Return the groups, joined where pictures have equal content: in one corpus or in several.

    Args:
        groups: Image id -> group, as they were found before; groups are known within a corpus alone.
        hashes: Image id -> hash of its content.
    """
    leader: dict[str, str] = {}  # group or hash -> another one that it is joined with; nothing for the last of a chain

    def last_of(name: str) -> str:
        while name in leader:
            name = leader[name]
        return name

    for image_id, content in hashes.items():
        group, same = last_of(f"group {groups.get(image_id, image_id)}"), last_of(f"content {content}")
        if group != same:
            leader[group] = same
    return {image_id: last_of(f"content {content}") for image_id, content in hashes.items()}


def collapsed(ranking: Ranking, groups: Mapping[str, str]) -> tuple[Ranking, dict[str, int]]:
    """Return the ranking with the best of each group alone, and for each representative the number of copies that it replaces.

    Args:
        ranking: All candidates.
        groups: Image id -> group, for pictures that have copies.
    """
    kept: list[int] = []
    first: dict[str, str] = {}  # group -> its representative
    folded: dict[str, int] = {}
    for place, image_id in enumerate(ranking.fused.ids):
        best = first.setdefault(groups[image_id], image_id) if image_id in groups else image_id
        if best == image_id:
            kept.append(place)
        else:
            folded[best] = folded.get(best, 0) + 1
    ids = tuple(ranking.fused.ids[place] for place in kept)
    scores = ranking.fused.scores[np.array(kept, np.intp)]
    return replace(ranking, fused=FusedList(ids, scores)), folded
