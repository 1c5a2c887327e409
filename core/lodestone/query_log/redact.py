"""Redaction of recorded queries: pictures that were removed leave every list of a trace."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from lodestone.errors import CatalogError
from lodestone.query_log.trace import Trace
from lodestone.retrieval.fusion import FusedList, RankedList

_ID: Final = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def without_pictures(data: bytes, removed: Collection[str]) -> bytes | None:
    """Return a recorded trace without some pictures; the same bytes if it has none of them.

    Args:
        data: What `Trace.to_bytes` returned.
        removed: Ids of the pictures.

    Returns:
        The trace; None where one of them was asked for or guided the answer, or the record cannot be read: such a record goes.
    """
    try:
        plain = zlib.decompress(data)
    except zlib.error:
        return None
    if not _names_any(plain, removed):
        return data
    try:
        trace = Trace.from_bytes(data)
    except CatalogError:
        return None
    facts = [trace.request, trace.plan, trace.prompts, trace.warnings, [guide.model_dump() for guide in trace.guides]]
    if _names_any(json.dumps(facts, default=str).encode(), removed):
        return None
    shown = _places(trace.hits, removed)
    ranked = _places(trace.ranking.ids, removed)
    kept = replace(
        trace,
        lists=tuple(_kept_list(one, removed) for one in trace.lists),
        completed=tuple(_kept_list(one, removed) for one in trace.completed),
        ranking=FusedList(tuple(trace.ranking.ids[place] for place in ranked), np.asarray(trace.ranking.scores)[ranked]),
        hits=tuple(trace.hits[place] for place in shown),
        parts={key: scores[shown] for key, scores in trace.parts.items()},
    )
    return kept.to_bytes()


def _names_any(content: bytes, removed: Collection[str]) -> bool:
    return any(found.decode() in removed for found in set(_ID.findall(content)))


def _kept_list(one: RankedList, removed: Collection[str]) -> RankedList:
    places = _places(one.ids, removed)
    return replace(one, ids=tuple(one.ids[place] for place in places), scores=np.asarray(one.scores)[places])


def _places(ids: Sequence[str], removed: Collection[str]) -> list[int]:
    return [place for place, image_id in enumerate(ids) if image_id not in removed]
