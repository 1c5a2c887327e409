"""Composed queries that users have judged, as pairs from which weights of modalities are learnt.

The record of a query keeps its parts, and feedback says which pictures of its answer are right. Words are taken as they were
searched, an indexed picture by its id. Uploaded pictures, regions and several pictures are taken by their recorded vectors, as
far as these are of the versions that are searched today. Pictures to avoid are left out: pairs have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lodestone.config.compositions import DEFAULT_COMPOSITION, Composition, Role
from lodestone.errors import InvalidRequestError, LodestoneError
from lodestone.query.asking.parts import OWN
from lodestone.query_log.trace import Trace, load_trace
from lodestone.training.composed_pairs import ComposedPair, merged
from lodestone.training.judgements import judged_answers
from lodestone_schemas.api import QueryPart

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog


def pairs_of_feedback(
    catalog: Catalog, composition: Composition, collections: Mapping[str, str]
) -> tuple[list[ComposedPair], int]:
    """Return the judged composed queries, each once, and how many judged answers are no longer recorded. Blocking.

    Only pictures that were called right count as right, because a user has not seen all others.

    Args:
        catalog: Knows queries and feedback.
        composition: Whose queries they are; it says in which spaces pictures are compared.
        collections: Space -> collection of the version that is searched today.

    Raises:
        InvalidRequestError: there is no composed query of which a picture was called right.
    """
    pairs, forgotten = [], 0
    for query_id, relevant in judged_answers(catalog):
        if not relevant:
            continue
        try:
            trace = load_trace(catalog, query_id)
        except LodestoneError:
            forgotten += 1  # its record was deleted (query.history), or has an older format
            continue
        pair = _pair_of(trace, relevant, composition, collections)
        if pair is not None:
            pairs.append(pair)
    if not pairs:
        raise InvalidRequestError(
            "no recorded query of words and pictures has feedback that calls a picture right",
            hint="judge answers (lodestone feedback), keep more of them (query.history), or give pairs in a file",
        )
    return merged(pairs), forgotten


def _pair_of(
    trace: Trace, relevant: frozenset[str], composition: Composition, collections: Mapping[str, str]
) -> ComposedPair | None:
    """Return the pair of a judged query; None for a query that is not composed by this composition, or looks for nothing."""
    if (trace.request.get("composition") or DEFAULT_COMPOSITION) != composition.name:
        return None
    parts = [QueryPart.model_validate(part) for part in trace.plan.get("parts", [])]
    if trace.kind != "composed" or not parts:
        return None
    words, without = (
        ", ".join(part.text for part in parts if part.text is not None and part.avoid is avoid) for avoid in (False, True)
    )
    pictures = [part for part in parts if part.text is None and not part.avoid]
    reference: str | None = None
    vectors: dict[str, tuple[float, ...]] = {}
    if len(pictures) == 1 and pictures[0].image_id is not None and pictures[0].region is None:
        reference = pictures[0].image_id
    elif pictures:
        vectors = _vectors(trace, {part.name: part.weight for part in pictures}, composition, collections)
    if not (reference or words or vectors):
        return None
    return ComposedPair(0, reference, words, without, tuple(sorted(relevant)), vectors, trace.query_id)


def _vectors(
    trace: Trace, pictures: Mapping[str, float], composition: Composition, collections: Mapping[str, str]
) -> dict[str, tuple[float, ...]]:
    """Return target modality -> sum of the recorded vectors of these pictures, by their weights.

    They are the pictures' own, also where the query compared edited pictures. A composition of composition vectors learns from
    those that were compared.
    """
    recorded = {(one.guide, one.space): one.vector for one in trace.searches if collections.get(one.space) == one.collection}
    ending = "" if composition.target == "composed" else OWN
    spaces: dict[str, NDArray[np.float32]] = {}
    for name, space in [place for place in recorded if place[0] in pictures]:
        vector = recorded.get((name + ending, space), recorded[name, space]) * np.float32(pictures[name])
        spaces[space] = spaces[space] + vector if space in spaces else vector
    return {
        modality.name: tuple(spaces[modality.space].tolist())
        for modality in composition.of_role(Role.TARGET)
        if modality.space in spaces and spaces[modality.space].any()
    }
