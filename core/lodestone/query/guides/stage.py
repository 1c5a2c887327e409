"""Guide stage: draws guides, embeds, judges, searches and fuses them, all at once or in rounds until the results are stable.

Guides are drawn from the hub while the query's deadline and budget last. Those unlike the others are rejected (outliers.py).
In adaptive mode every round is fused, and drawing ends when the first results are stable (stopping.py). What does not fit into
the time left is dropped: guides first, then spaces. Nothing here can take the text pass away: failures become warnings.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from lodestone.clock import remaining, within
from lodestone.generators.base import Guide, GuideRequest
from lodestone.generators.engines.exemplar import Exemplar
from lodestone.query.asking.resolved import ResolvedQuery
from lodestone.query.asking.running import RunningQuery
from lodestone.query.contracts import Encoder, GuideSource
from lodestone.query.guides.captions import CaptionEvidence, CaptionMatches
from lodestone.query.guides.outcome import GuideOutcome, rejected_ids
from lodestone.query.guides.outliers import UMAP_FROM, OutlierReport, judge_guides
from lodestone.query.guides.outliers import warm_up as warm_up_outliers
from lodestone.query.guides.search import FusionSettings, embed_guides, fit, searches_of
from lodestone.query.guides.stopping import StableTopK
from lodestone.query_notes import describe_failure
from lodestone.retrieval.searcher import Found, Ranking, Searcher
from lodestone.spaces.names import CAPTIONS, TAGS

ROUND: Final = 2  # guides a round in adaptive mode: one search a space serves both
FIRST_MAP_S: Final = 60.0  # the first map of guides in a process takes 10 to 30 seconds, longer beside other work
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GuideInput:
    """What guides start from.

    Attributes:
        ranking: The text pass.
        weights: Space -> weight, as the text pass found them.
        text_vectors: Text encoder -> (d,) float32 vector of the query's words.
        deadline: Absolute; guides must be searched by then.
    """

    ranking: Ranking
    weights: Mapping[str, float]
    text_vectors: Mapping[str, NDArray[np.float32]]
    deadline: float


class GuideStage:
    """Improves the text pass of one query engine by guides.

    Args:
        hub: Draws guides.
        encoder: Embeds their pixels.
        searcher: Searches and fuses.
        fusion: Fitted numbers.
        captions: Weighs what captions say for and against pictures; None: they are only guides.
        text_encoder: Name of the encoder whose vectors captions have.
    """

    def __init__(
        self,
        *,
        hub: GuideSource,
        encoder: Encoder,
        searcher: Searcher,
        fusion: FusionSettings,
        captions: CaptionEvidence | None = None,
        text_encoder: str = "minilm",
    ) -> None:
        self._hub = hub
        self._encoder = encoder
        self._searcher = searcher
        self._fusion = fusion
        self._captions = captions
        self._text_encoder = text_encoder
        self._mapped = False  # whether guides were laid out on a map before

    def warm_up(self) -> None:
        """Prepare for maps of guides. Blocking, for 10 to 30 seconds."""
        warm_up_outliers()
        self._mapped = True

    async def run(self, query: RunningQuery, given: GuideInput) -> AsyncGenerator[tuple[Guide, ...] | GuideOutcome, None]:
        """Yield batches of guides as they come, and at the end their outcome.

        Args:
            query: The query under way.
            given: Its text pass.
        """
        resolved = query.resolved
        stable = StableTopK(bound=resolved.guiding.most) if resolved.guiding.adaptive else None
        if stable is not None:
            stable.update(given.ranking.fused.ids, guides=0)
        outcome = GuideOutcome(captions=await self._guarded(self._ask_captions(resolved, given), query, given.deadline))
        try:
            async with aclosing(self._rounds(query, given, outcome, stable)) as rounds:
                async for batch, reached in rounds:
                    if batch:
                        yield batch
                    outcome = reached
        except Exception as error:  # noqa: BLE001  (guides are wanted, never needed)
            query.notes.failed(f"further guides are left out: {describe_failure(error)}")
        if (stable is None and outcome.guides) or (outcome.captions is not None and outcome.ranking is None):
            outcome, _ = await self._fused(query, given, outcome)
        if outcome.stopped:
            query.notes.left_out(f"more guides: {outcome.stopped}")
        yield outcome

    async def _rounds(
        self, query: RunningQuery, given: GuideInput, outcome: GuideOutcome, stable: StableTopK | None
    ) -> AsyncGenerator[tuple[tuple[Guide, ...], GuideOutcome], None]:
        """Yield each batch that the hub draws before it is embedded, and then, without a batch, the outcome with it.

        In adaptive mode each round is fused, and may be the last.
        """
        resolved = query.resolved
        waiting = time.monotonic()
        batches = self._hub.draw(
            _request(resolved, given),
            # That an engine is disabled is news only to who asked for it.
            engines=[name for name in resolved.guiding.generators if resolved.guiding.named or self._hub.enabled(name)],
            batch=ROUND if resolved.guiding.adaptive else None,
            deadline=given.deadline,
            budget=resolved.guiding.budget,
            log=query.notes,
        )
        async with aclosing(batches):
            async for batch in batches:
                query.stopwatch.add("generate", time.monotonic() - waiting)
                if batch:
                    outcome = outcome.with_guides(batch)
                    yield tuple(batch), outcome
                    wanted = [guide for guide in batch if guide.guide_id not in resolved.guiding.without]
                    outcome = await self._embedded(query, given, outcome, wanted)
                    enough = False
                    if stable is not None:
                        outcome, complete = await self._fused(query, given, outcome)
                        ranking = outcome.ranking or given.ranking
                        enough = complete and stable.update(ranking.fused.ids, guides=len(outcome.guides))
                        outcome = replace(outcome, stopped=_why(stable, len(outcome.guides), resolved))
                    yield (), outcome
                    if enough:
                        break
                waiting = time.monotonic()

    async def _guarded(self, work: Awaitable[T], query: RunningQuery, deadline: float) -> T | None:
        """Return the result of a step; None for one that failed or was late, which costs the guides, never the answer."""
        with query.stopwatch.stage("guides"), query.notes.doing_without("guides", "guides are left out"):
            return await within(work, deadline)
        return None

    async def _ask_captions(self, resolved: ResolvedQuery, given: GuideInput) -> CaptionMatches | None:
        vector = given.text_vectors.get(self._text_encoder)
        if self._captions is None or not self._captions.counts or Exemplar.name not in resolved.guiding.generators:
            return None  # captions are asked for by the engine whose guides they are
        if resolved.captions is None or vector is None:
            return None
        return await asyncio.to_thread(
            self._captions.ask,
            vector,
            resolved.captions,
            filter_=resolved.filter,
            limit=resolved.depths[0],
            first=next(iter(given.ranking.fused.ids), None),
        )

    async def _embedded(
        self, query: RunningQuery, given: GuideInput, outcome: GuideOutcome, batch: Sequence[Guide]
    ) -> GuideOutcome:
        """Return the outcome with the vectors of a batch; without them where they could not be made in time."""
        collections = query.resolved.spaces.values()
        embedding = embed_guides(batch, encoder=self._encoder, collections=collections, deadline=given.deadline)
        vectors = await self._guarded(embedding, query, given.deadline)
        if vectors is None:
            return outcome
        await self._guarded(self._keep_vectors(batch, vectors), query, given.deadline)
        return outcome.with_vectors(vectors)

    async def _keep_vectors(self, batch: Sequence[Guide], vectors: Mapping[str, Mapping[str, NDArray[np.float32]]]) -> None:
        for guide in batch:
            if guide.pixels is not None:
                await asyncio.to_thread(self._hub.keep_vectors, guide, vectors[guide.guide_id])

    async def _fused(self, query: RunningQuery, given: GuideInput, outcome: GuideOutcome) -> tuple[GuideOutcome, bool]:
        """Search the guides that are new, judge all of them, and fuse those that count with the text pass.

        Returns:
            The outcome, and whether all steps were carried out. A step that fails or comes too late leaves the ranking and
            the judgement of the round before.
        """
        searched = await self._guarded(self._searched(query, given, outcome), query, given.deadline)
        if searched is None:
            return outcome, False
        combined = await self._guarded(self._combined(query, given, searched), query, given.deadline)
        return (searched, False) if combined is None else (combined, True)

    async def _combined(self, query: RunningQuery, given: GuideInput, outcome: GuideOutcome) -> GuideOutcome:
        resolved, before = query.resolved, given.ranking
        judged = await asyncio.to_thread(self._judge, query, given, outcome) if resolved.guiding.outliers else None
        rejected = frozenset[str]() if judged is None else rejected_ids(outcome.guides, judged)
        accepted = [guide for guide in outcome.guides if guide.guide_id in outcome.found and guide.guide_id not in rejected]
        weighted = searches_of(
            accepted, outcome.vectors, spaces=resolved.spaces, space_weights=given.weights, settings=self._fusion
        )
        weight = {(search.guide, search.space): search.weight for search in weighted}
        found = Found(before.lists, before.searches) if self._fusion.words else Found()
        own = len(found.searches)
        for guide in accepted:
            found += _weighted(outcome.found[guide.guide_id], weight)
        searches = found.searches[own:]
        captions, ranking = outcome.captions, None
        if searches or (captions is not None and await asyncio.to_thread(captions.speak, before.fused.ids)):
            ranking = await self._searcher.combine(found, query.rules(given.deadline), query.stopwatch, scorer=captions)
            ranking = replace(ranking, dropped=(*before.dropped, *ranking.dropped))
        return replace(outcome, judged=judged, searches=searches, ranking=ranking)

    def _judge(self, query: RunningQuery, given: GuideInput, outcome: GuideOutcome) -> OutlierReport:
        vectors, background = {}, {}
        for space, collection in query.resolved.spaces.items():
            rows = [outcome.vectors.get(guide.guide_id, {}).get(collection) for guide in outcome.guides]
            dim = next((len(row) for row in rows if row is not None), None)
            if dim is not None:
                vectors[space] = np.stack([np.full(dim, np.nan, np.float32) if row is None else row for row in rows])
                background[space] = self._searcher.background(collection)
        maps = self._mapped or remaining(given.deadline) > FIRST_MAP_S
        if len(outcome.guides) >= UMAP_FROM and not maps:
            query.notes.left_out(
                f"the map of the guides: not prepared; set query.guides to {UMAP_FROM} or more, or allow more time"
            )
        report = judge_guides(
            vectors,
            given.weights,
            background=background,
            threshold=query.resolved.guiding.outlier_threshold,
            seed=query.resolved.guiding.seed,
            maps=maps,
        )
        self._mapped = self._mapped or report.rule == "umap_lof"
        return report

    async def _searched(self, query: RunningQuery, given: GuideInput, outcome: GuideOutcome) -> GuideOutcome:
        """Return the outcome with the lists of the guides that are new, as far as there is time to search them."""
        resolved, notes = query.resolved, query.notes
        new = outcome.unsearched
        kept, width = fit(
            len(new),
            len(resolved.spaces),
            seconds_a_list=query.stopwatch.seconds("search") / max(1, len(given.ranking.lists) + outcome.lists_searched),
            left=remaining(given.deadline),
        )
        strongest = sorted(new, key=lambda guide: -guide.weight)[:kept]
        if kept < len(new):
            late = {guide.guide_id for guide in new} - {guide.guide_id for guide in strongest}
            outcome = replace(outcome, dropped=outcome.dropped | late)
            notes.left_out(f"{len(new) - kept} of {len(outcome.guides)} guides: out of time")
        if not strongest:
            return outcome
        best = sorted(resolved.spaces, key=lambda space: (-given.weights[space], space))[:width]
        for space in resolved.spaces:
            if space not in best:
                notes.left_out(f"space {space!r} for guides: out of time")
        searches = searches_of(
            strongest,
            outcome.vectors,
            spaces={space: resolved.spaces[space] for space in best},
            space_weights=dict.fromkeys(best, 1.0),
            settings=self._fusion,
        )
        found = await self._searcher.search(searches, query.rules(given.deadline), query.stopwatch)
        for space in found.late:
            notes.left_out(f"space {space!r} for guides: out of time")
        return outcome.with_found({guide.guide_id: _of_guide(found, guide.guide_id) for guide in strongest})


def _of_guide(found: Found, guide_id: str) -> Found:
    lists = tuple(ranked for ranked in found.lists if ranked.guide == guide_id)
    in_time = {ranked.space for ranked in lists}
    return Found(lists, tuple(search for search in found.searches if search.guide == guide_id and search.space in in_time))


def _why(stable: StableTopK, drawn: int, resolved: ResolvedQuery) -> str:
    return (
        f"stable after {drawn} of {resolved.guiding.most} guides"
        if stable.reason == "stable" and drawn < resolved.guiding.most
        else ""
    )


def _request(resolved: ResolvedQuery, given: GuideInput) -> GuideRequest:
    collections = dict(resolved.spaces)
    collections |= {CAPTIONS: resolved.captions} if resolved.captions else {}
    collections |= {TAGS: resolved.tags} if resolved.tags else {}
    return GuideRequest(
        query=resolved.text,
        prompt=resolved.text,
        n=resolved.guiding.most,
        seed=resolved.guiding.seed,
        text_vectors=given.text_vectors,
        collections=collections,
        filter=resolved.filter,
        tenant=resolved.visibility.tenant,
    )


def _weighted(found: Found, weight: Mapping[tuple[str, str], float]) -> Found:
    return Found(
        tuple(replace(one, weight=weight[one.guide, one.space]) for one in found.lists if (one.guide, one.space) in weight),
        tuple(replace(one, weight=weight[one.guide, one.space]) for one in found.searches if (one.guide, one.space) in weight),
    )
