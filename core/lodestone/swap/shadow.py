"""Shadow comparison of a swap: recorded queries, answered by both versions of a space.

Recorded queries are sent to two engines that differ in one space: with all spaces, and in that space alone where it takes text.
A sample of the indexed pictures is also searched by its own vectors, so that there is a comparison before any query is
recorded. Nothing is recorded and no user waits: searches meanwhile use the active version.

Pictures that feedback called right or wrong are counted for both. The judged pictures were found by the version that was active
then: where only one version finds a picture, possibly nobody has judged it, so small differences favour neither.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lodestone.catalog.work.swaps import unsettled_swaps
from lodestone.errors import LodestoneError, NotFoundError
from lodestone.home.space_definitions import projection_of
from lodestone.home.space_standby import SwapVersions, has_versions
from lodestone.query_log.trace import Trace
from lodestone.retrieval.metrics import average_precision, recall_at, reciprocal_rank
from lodestone.store.base import VectorQuery
from lodestone_schemas.api import SearchRequest, SearchResponse

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog
    from lodestone.home.runtime import Runtime
    from lodestone.query.engine import QueryEngine
    from lodestone.spaces.base import Projection
    from lodestone.store.base import VectorStore

QUERIES: Final = 200
K: Final = 10
PICTURES: Final = 50
_JUDGED_DEPTH: Final = 100  # results in which right pictures are looked for
_PATIENCE_MS: Final = 30_000  # deadline of a query; it is long because no user waits
_AT_ONCE: Final = 2
_PAGE: Final = 500
_BAD_SHARE: Final = 0.1


@dataclass(frozen=True, slots=True)
class _RecordedQuery:
    """Holds a recorded query, and the pictures that feedback on its answers judged."""

    request: SearchRequest
    relevant: frozenset[str] = frozenset()
    irrelevant: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Answers:
    """Holds one version's answers, query by query; None where it failed."""

    all_spaces: list[SearchResponse | None] = field(default_factory=list)
    one_space: list[SearchResponse | None] = field(default_factory=list)


async def compare_versions(
    runtime: Runtime, space: str, *, queries: int = QUERIES, k: int = K, pictures: int = PICTURES
) -> dict[str, Any]:
    """Compare both sides of the unsettled swap of a space. It opens the store and loads the text encoders, twice at most.

    Args:
        runtime: The opened home.
        space: Space whose swap is compared.
        queries: Highest number of recorded queries, the latest first, each wording once.
        k: Number of results that are compared.
        pictures: Highest number of indexed pictures to search by.

    Returns:
        JSON-serialisable: `k`; `queries` (`asked`, `failed`); `overlap` of the first k results with all spaces (`mean`, `low`,
        the tenth percentile, and `same`, the share of queries with equal results in equal order); `space_overlap` in the space
        alone; `neighbours` of the sampled pictures; `judged`: for `old` and `new` the mean average precision, recall@k and
        reciprocal rank of pictures called right, and how many in the first k were called wrong. Parts without data are absent.

    Raises:
        NotFoundError: there is no unsettled swap of that space.
        LodestoneError: a version failed at every query; this is the first error.
    """
    swaps = await asyncio.to_thread(unsettled_swaps, runtime.catalog, space)
    swap = next((candidate for candidate in swaps if has_versions(candidate)), None)
    if swap is None:
        raise NotFoundError(f"no swap of the space {space!r} is going on", hint="lodestone models swap --status")
    sides = SwapVersions.of(swap)
    recorded = await asyncio.to_thread(_recorded_queries, runtime.catalog, queries, k)
    versions = {"old": projection_of(sides.old, runtime), "new": projection_of(sides.new, runtime)}
    alone = all(projection.text_encoder is not None for projection in versions.values())
    answers = {name: await _answers(runtime, space, projection, recorded, alone) for name, projection in versions.items()}
    report: dict[str, Any] = {"k": k, "queries": _counted(recorded, answers)}
    report |= _compared("overlap", answers["old"].all_spaces, answers["new"].all_spaces, k)
    report |= _compared("space_overlap", answers["old"].one_space, answers["new"].one_space, k)
    collections = (versions["old"].collection, versions["new"].collection)
    report |= await asyncio.to_thread(_neighbours, runtime.store, collections, pictures, k)
    if judged := {
        name: _judged(recorded, answers[name].all_spaces, k) for name in versions if any(query.relevant for query in recorded)
    }:
        report["judged"] = {"queries": sum(bool(query.relevant) for query in recorded), **judged}
    return report


def _recorded_queries(catalog: Catalog, most: int, k: int) -> list[_RecordedQuery]:
    """Return the latest recorded text searches.

    Of one wording the newest is taken; feedback on any of its answers counts.
    """
    feedback = _feedback(catalog)
    by_text: dict[str, _RecordedQuery] = {}
    offset = 0
    while len(by_text) < most and (page := catalog.queries(offset, _PAGE)):
        offset += len(page)
        for row in page:
            if row.kind != "words" or (row.text not in by_text and len(by_text) == most):
                continue
            right, wrong = feedback.get(row.query_id, (frozenset(), frozenset()))
            if row.text in by_text:
                newer = by_text[row.text]
                by_text[row.text] = _RecordedQuery(newer.request, newer.relevant | right, newer.irrelevant | wrong)
            elif (record := catalog.query(row.query_id)) is not None:
                by_text[row.text] = _RecordedQuery(_text_pass_only(Trace.from_bytes(record.trace), k), right, wrong)
    return list(by_text.values())


def _feedback(catalog: Catalog) -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    judged: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
    offset = 0
    while page := catalog.feedback(offset, _PAGE):
        offset += len(page)
        for row in page:
            right, wrong = judged.get(row.query_id, (frozenset(), frozenset()))
            judged[row.query_id] = (right | set(row.relevant), wrong | set(row.irrelevant))
    return judged


def _text_pass_only(trace: Trace, k: int) -> SearchRequest:
    """Return the request without guides, because guides are drawn anew in every search and would hide the difference."""
    request = SearchRequest.model_validate(trace.request)
    limit = max(k, _JUDGED_DEPTH)
    changes = {"guides": 0, "generators": [], "limit": limit, "offset": 0, "deadline_ms": _PATIENCE_MS, "explain": False}
    return request.model_copy(update=changes)


async def _answers(
    runtime: Runtime, space: str, projection: Projection, recorded: Sequence[_RecordedQuery], alone: bool
) -> _Answers:
    """Return one version's answers, with all spaces and with one; the other spaces have the version that is served."""
    if not recorded:
        return _Answers()
    projections: Mapping[str, Projection] = {**await asyncio.to_thread(runtime.serving_projections), space: projection}
    engine = await asyncio.to_thread(lambda: runtime.engine(projections, shadow=True))
    await engine.warm_up()
    slots = asyncio.Semaphore(_AT_ONCE)
    errors: list[LodestoneError] = []
    all_spaces = await asyncio.gather(*(_ask(engine, query.request, slots, errors) for query in recorded))
    if len(errors) == len(recorded):
        raise errors[0]
    one_space_requests = [query.request.model_copy(update={"spaces": [space]}) for query in recorded] if alone else []
    return _Answers(all_spaces, await asyncio.gather(*(_ask(engine, request, slots, errors) for request in one_space_requests)))


async def _ask(
    engine: QueryEngine, request: SearchRequest, slots: asyncio.Semaphore, errors: list[LodestoneError]
) -> SearchResponse | None:
    async with slots:
        try:
            return await engine.answer(request)
        except LodestoneError as error:  # counted as failed; its corpus may have been removed
            errors.append(error)
            return None


def _counted(recorded: Sequence[_RecordedQuery], answers: Mapping[str, _Answers]) -> dict[str, int]:
    failed = {
        name: sum(response is None for response in version_answers.all_spaces) for name, version_answers in answers.items()
    }
    return {"asked": len(recorded), "failed_old": failed["old"], "failed_new": failed["new"]}


def _compared(
    name: str, old: Sequence[SearchResponse | None], new: Sequence[SearchResponse | None], k: int
) -> dict[str, dict[str, float]]:
    pairs = [(_ids(a)[:k], _ids(b)[:k]) for a, b in zip(old, new, strict=True) if a is not None and b is not None]
    return {name: _overlaps(pairs)} if pairs else {}


def _ids(response: SearchResponse) -> list[str]:
    return [hit.image_id for hit in response.hits]


def _overlaps(pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> dict[str, float]:
    shares = np.array([len(set(a) & set(b)) / max(len(a), len(b), 1) if a or b else 1.0 for a, b in pairs])
    return {
        "mean": round(float(shares.mean()), 4),
        "low": round(float(np.quantile(shares, _BAD_SHARE)), 4),
        "same": round(float(np.mean([list(a) == list(b) for a, b in pairs])), 4),
        "compared": len(pairs),
    }


def _neighbours(store: VectorStore, collections: tuple[str, str], pictures: int, k: int) -> dict[str, dict[str, float]]:
    """Return how far each sampled picture's neighbours agree between both versions, without the picture itself.

    Ids are hashes, so the first ones are a random sample.
    """
    sample = next(iter(store.scroll(collections[0], batch_size=max(pictures, 1))), None)
    if sample is None or not pictures:
        return {}
    neighbours_by_version: list[dict[str, list[str]]] = []
    for collection in collections:
        points = store.retrieve(collection, list(sample.ids[:pictures]))
        questions = [VectorQuery(vector=vector, limit=k + 1) for vector in points.vectors]
        answers = store.search(collection, questions) if questions else []
        neighbours_by_version.append(
            {
                id_: [neighbour for neighbour in near.ids if neighbour != id_][:k]
                for id_, near in zip(points.ids, answers, strict=True)
            }
        )
    common_ids = [id_ for id_ in neighbours_by_version[0] if id_ in neighbours_by_version[1]]
    return (
        {"neighbours": _overlaps([(neighbours_by_version[0][id_], neighbours_by_version[1][id_]) for id_ in common_ids])}
        if common_ids
        else {}
    )


def _judged(recorded: Sequence[_RecordedQuery], responses: Sequence[SearchResponse | None], k: int) -> dict[str, float]:
    right: list[list[bool]] = []
    wrong = 0
    totals: list[int] = []
    for query, response in zip(recorded, responses, strict=True):
        if response is None:
            continue
        ids = _ids(response)
        wrong += len(set(ids[:k]) & query.irrelevant)
        if query.relevant:
            right.append([id_ in query.relevant for id_ in ids] + [False] * (_JUDGED_DEPTH - len(ids)))
            totals.append(len(query.relevant))
    if not right:
        return {"wrong_in_first": wrong}
    matrix, all_right = np.array([row[:_JUDGED_DEPTH] for row in right]), np.array(totals)
    return {
        "average_precision": round(float(average_precision(matrix, totals=all_right).mean()), 4),
        "recall": round(float(recall_at(matrix, k, totals=all_right).mean()), 4),
        "reciprocal_rank": round(float(reciprocal_rank(matrix).mean()), 4),
        "wrong_in_first": wrong,
    }
