"""How would queries be answered after a swap? Those that were really asked, answered by both versions beside each other.

Recorded queries are asked again of two engines that differ in one space: with all spaces, and in that space alone where it
takes words. A sample of the indexed pictures is searched by its own vectors too, so that there is something to compare before
anybody has asked anything. Nothing is recorded, nobody waits: whoever searches meanwhile gets the version in force.

What feedback called right or wrong is counted for both. The judged pictures were found by the version that was in force then:
where only one version finds a picture, nobody may have judged it, so small differences speak for neither.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lodestone.errors import LodestoneError, NotFoundError
from lodestone.evaluation.metrics import average_precision, recall_at, reciprocal_rank
from lodestone.home.space_definitions import projection_of
from lodestone.home.space_standby import SwapVersions, has_versions, unsettled_swaps
from lodestone.query_log.trace import Trace
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
_PATIENCE_MS: Final = 30_000  # nobody waits for these queries
_AT_ONCE: Final = 2
_PAGE: Final = 500
_BAD_SHARE: Final = 0.1


@dataclass(frozen=True, slots=True)
class _Asked:
    """A recorded query, and what people said about its answers."""

    request: SearchRequest
    relevant: frozenset[str] = frozenset()
    irrelevant: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Answers:
    """What one version answers, query by query; None where it failed."""

    all_spaces: list[SearchResponse | None] = field(default_factory=list)
    one_space: list[SearchResponse | None] = field(default_factory=list)


async def compare_versions(
    runtime: Runtime, space: str, *, queries: int = QUERIES, k: int = K, pictures: int = PICTURES
) -> dict[str, Any]:
    """Compare both sides of the unsettled swap of a space. Takes the store; loads what words need, twice at most.

    Args:
        runtime: The opened home.
        space: Whose swap.
        queries: Recorded queries asked at most, the latest first, each wording once.
        k: Results that are compared.
        pictures: Indexed pictures searched by at most.

    Returns:
        JSON-serialisable: `k`; `queries` (`asked`, `failed`); `overlap` of the first k results with all spaces (`mean`, `low`,
        the tenth percentile, and `same`, the share of queries with equal results in equal order); `space_overlap` in the space
        alone; `neighbours` of the sampled pictures; `judged`: for `old` and `new` the mean average precision, recall@k and
        reciprocal rank of pictures called right, and how many in the first k were called wrong. Parts without data are absent.

    Raises:
        NotFoundError: there is no unsettled swap of that space.
        LodestoneError: both versions failed at every query; the first error.
    """
    swap = next((one for one in await asyncio.to_thread(unsettled_swaps, runtime.catalog, space) if has_versions(one)), None)
    if swap is None:
        raise NotFoundError(f"no swap of the space {space!r} is going on", hint="lodestone models swap --status")
    sides = SwapVersions.of(swap)
    asked = await asyncio.to_thread(_asked, runtime.catalog, queries, k)
    versions = {"old": projection_of(sides.old, runtime), "new": projection_of(sides.new, runtime)}
    alone = all(projection.text_encoder is not None for projection in versions.values())
    answers = {name: await _answers(runtime, space, projection, asked, alone) for name, projection in versions.items()}
    report: dict[str, Any] = {"k": k, "queries": _counted(asked, answers)}
    report |= _compared("overlap", answers["old"].all_spaces, answers["new"].all_spaces, k)
    report |= _compared("space_overlap", answers["old"].one_space, answers["new"].one_space, k)
    collections = (versions["old"].collection, versions["new"].collection)
    report |= await asyncio.to_thread(_neighbours, runtime.store, collections, pictures, k)
    if judged := {name: _judged(asked, answers[name].all_spaces, k) for name in versions if any(one.relevant for one in asked)}:
        report["judged"] = {"queries": sum(bool(one.relevant) for one in asked), **judged}
    return report


def _asked(catalog: Catalog, most: int, k: int) -> list[_Asked]:
    """The latest recorded searches in words. Of one wording the newest; what was said of any of its answers counts."""
    said = _said(catalog)
    found: dict[str, _Asked] = {}
    offset = 0
    while len(found) < most and (page := catalog.queries(offset, _PAGE)):
        offset += len(page)
        for row in page:
            if row.kind != "words" or (row.text not in found and len(found) == most):
                continue
            right, wrong = said.get(row.query_id, (frozenset(), frozenset()))
            if row.text in found:
                known = found[row.text]
                found[row.text] = _Asked(known.request, known.relevant | right, known.irrelevant | wrong)
            elif (record := catalog.query(row.query_id)) is not None:
                found[row.text] = _Asked(_again(Trace.from_bytes(record.trace), k), right, wrong)
    return list(found.values())


def _said(catalog: Catalog) -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    said: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
    offset = 0
    while page := catalog.feedback(offset, _PAGE):
        offset += len(page)
        for row in page:
            right, wrong = said.get(row.query_id, (frozenset(), frozenset()))
            said[row.query_id] = (right | set(row.relevant), wrong | set(row.irrelevant))
    return said


def _again(trace: Trace, k: int) -> SearchRequest:
    """The request, for the text pass alone: what guides show is drawn anew at every search, and would hide the difference."""
    request = SearchRequest.model_validate(trace.request)
    limit = max(k, _JUDGED_DEPTH)
    changes = {"guides": 0, "generators": [], "limit": limit, "offset": 0, "deadline_ms": _PATIENCE_MS, "explain": False}
    return request.model_copy(update=changes)


async def _answers(runtime: Runtime, space: str, projection: Projection, asked: Sequence[_Asked], alone: bool) -> _Answers:
    """Both kinds of questions to one version. The other spaces are in the version that is served."""
    if not asked:
        return _Answers()
    projections: Mapping[str, Projection] = {**await asyncio.to_thread(runtime.serving_projections), space: projection}
    engine = await asyncio.to_thread(lambda: runtime.engine(projections, shadow=True))
    await engine.warm_up()
    free = asyncio.Semaphore(_AT_ONCE)
    errors: list[LodestoneError] = []
    whole = await asyncio.gather(*(_ask(engine, one.request, free, errors) for one in asked))
    if len(errors) == len(asked):
        raise errors[0]
    only = [one.request.model_copy(update={"spaces": [space]}) for one in asked] if alone else []
    return _Answers(whole, await asyncio.gather(*(_ask(engine, request, free, errors) for request in only)))


async def _ask(
    engine: QueryEngine, request: SearchRequest, free: asyncio.Semaphore, errors: list[LodestoneError]
) -> SearchResponse | None:
    async with free:
        try:
            return await engine.answer(request)
        except LodestoneError as error:  # counted as failed: its corpus may be gone since
            errors.append(error)
            return None


def _counted(asked: Sequence[_Asked], answers: Mapping[str, _Answers]) -> dict[str, int]:
    failed = {name: sum(response is None for response in one.all_spaces) for name, one in answers.items()}
    return {"asked": len(asked), "failed_old": failed["old"], "failed_new": failed["new"]}


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
    """Each sampled picture's neighbours in both versions, itself left out. Ids are hashes: the first are a random sample."""
    sample = next(iter(store.scroll(collections[0], batch_size=max(pictures, 1))), None)
    if sample is None or not pictures:
        return {}
    found: list[dict[str, list[str]]] = []
    for collection in collections:
        points = store.retrieve(collection, list(sample.ids[:pictures]))
        questions = [VectorQuery(vector=vector, limit=k + 1) for vector in points.vectors]
        answers = store.search(collection, questions) if questions else []
        found.append({id_: [one for one in near.ids if one != id_][:k] for id_, near in zip(points.ids, answers, strict=True)})
    both = [id_ for id_ in found[0] if id_ in found[1]]
    return {"neighbours": _overlaps([(found[0][id_], found[1][id_]) for id_ in both])} if both else {}


def _judged(asked: Sequence[_Asked], responses: Sequence[SearchResponse | None], k: int) -> dict[str, float]:
    right: list[list[bool]] = []
    wrong = 0
    totals: list[int] = []
    for one, response in zip(asked, responses, strict=True):
        if response is None:
            continue
        ids = _ids(response)
        wrong += len(set(ids[:k]) & one.irrelevant)
        if one.relevant:
            right.append([id_ in one.relevant for id_ in ids] + [False] * (_JUDGED_DEPTH - len(ids)))
            totals.append(len(one.relevant))
    if not right:
        return {"wrong_in_first": wrong}
    matrix, all_right = np.array([row[:_JUDGED_DEPTH] for row in right]), np.array(totals)
    return {
        "average_precision": round(float(average_precision(matrix, totals=all_right).mean()), 4),
        "recall": round(float(recall_at(matrix, k, totals=all_right).mean()), 4),
        "reciprocal_rank": round(float(reciprocal_rank(matrix).mean()), 4),
        "wrong_in_first": wrong,
    }
