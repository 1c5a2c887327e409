"""How do guides make an answer better? Draw, embed, judge, search and fuse them, all at once or until more change nothing.

Guides are drawn from the hub while the query's deadline and budget last. Those unlike the others are rejected (outliers.py).
In adaptive mode every round is fused, and drawing ends when the first results are stable (stopping.py). What does not fit into
the time left is dropped: guides first, then spaces. Nothing here can take the text pass away: failures become warnings.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.clock import remaining, within
from lodestone.generators.base import Guide, GuideRequest
from lodestone.generators.engines.exemplar import Exemplar
from lodestone.generators.query_notes import describe_failure
from lodestone.query.captions import CaptionEvidence, CaptionMatches
from lodestone.query.guide_search import FusionSettings, embed_guides, fit, searches_of
from lodestone.query.outliers import UMAP_FROM, OutlierReport, judge_guides
from lodestone.query.outliers import warm_up as warm_up_outliers
from lodestone.query.resolve import CAPTIONS_ALIAS, TAGS_ALIAS, ResolvedQuery
from lodestone.query.responses import Query
from lodestone.query.stages import EncodedTexts, Encoder, GuideSource
from lodestone.query.stopping import StableTopK
from lodestone.retrieval.rescoring import ListSearch
from lodestone.retrieval.searcher import Found, Ranking, Searcher

ROUND: Final = 2  # guides a round in adaptive mode: one search a space serves both
FIRST_MAP_S: Final = 60.0  # the first map of guides in a process takes 10 to 30 seconds, longer beside other work


@dataclass(slots=True)
class GuideState:
    """What became of the guides of one query.

    Attributes:
        guides: All that came, in order.
        vectors: Guide id -> collection -> (dim,) float32.
        found: Guide id -> its lists, not weighted yet.
        judged: What the outlier filter said of `guides`, in order.
        dropped: Ids for which there was no time.
        ranking: Text pass and guides fused; None while no guide counts.
        searches: The weighted searches of the guides in `ranking`.
        stopped: Why drawing ended early, if it did.
        captions: What captions say of the candidates; None without captions.
    """

    guides: list[Guide] = field(default_factory=list)
    vectors: dict[str, dict[str, NDArray[np.float32]]] = field(default_factory=dict)
    found: dict[str, Found] = field(default_factory=dict)
    judged: OutlierReport | None = None
    dropped: set[str] = field(default_factory=set)
    ranking: Ranking | None = None
    searches: tuple[ListSearch, ...] = ()
    stopped: str = ""
    captions: CaptionMatches | None = None

    @property
    def rejected(self) -> set[str]:
        """Ids of guides that are unlike the others."""
        if self.judged is None:
            return set()
        return _rejected(self.guides, self.judged)


class GuideStage:
    """Stages generate, embed guides, outliers, search and fuse of one query engine.

    Args:
        hub: Draws guides.
        encoder: Embeds their pixels.
        searcher: Searches and fuses.
        fusion: Fitted numbers.
        captions: Weighs what captions say for and against pictures; None: they are only guides.
        text_encoder: Whose vectors captions have.
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

    async def run(
        self, query: Query, texts: EncodedTexts, before: Ranking, drawn: GuideState
    ) -> AsyncGenerator[list[Guide], None]:
        """Guides as they come; `drawn` holds what they led to when the iterator is exhausted.

        Args:
            query: Its plan, clock, weights and log.
            texts: The encoded query.
            before: The text pass.
            drawn: Empty; filled here.
        """
        plan = query.plan
        stable = StableTopK(bound=plan.guides) if plan.adaptive else None
        if stable is not None:
            stable.update(before.fused.ids, guides=0)
        await self._guarded(self._ask_captions(query, texts, drawn), query)
        try:
            async with aclosing(self._batches(query, texts, before, drawn, stable)) as batches:
                async for batch in batches:
                    yield batch
        except Exception as error:  # noqa: BLE001  (guides are wanted, never needed)
            query.log.failed(f"further guides are left out: {describe_failure(error)}")
        if (stable is None and drawn.guides) or (drawn.captions is not None and drawn.ranking is None):
            await self._guarded(self._step(query, before, drawn), query)

    async def _batches(
        self, query: Query, texts: EncodedTexts, before: Ranking, drawn: GuideState, stable: StableTopK | None
    ) -> AsyncGenerator[list[Guide], None]:
        """Guides as the hub draws them; in adaptive mode, each round is fused and may be the last."""
        plan = query.plan
        waiting = time.monotonic()
        batches = self._hub.draw(
            _request(plan, texts),
            # That an engine is disabled is news only to who asked for it.
            engines=[name for name in plan.generators if plan.named or self._hub.enabled(name)],
            batch=ROUND if plan.adaptive else None,
            deadline=plan.deadline,
            budget=plan.budget,
            log=query.log,
        )
        async with aclosing(batches):
            async for batch in batches:
                query.stopwatch.add("generate", time.monotonic() - waiting)
                if batch:
                    yield batch
                    await self._guarded(self._take(query, batch, drawn), query)
                    if stable is not None and await self._guarded(self._step(query, before, drawn), query):
                        ranking = drawn.ranking or before
                        if stable.update(ranking.fused.ids, guides=len(drawn.guides)):
                            drawn.stopped = _why(stable, len(drawn.guides), plan)
                            break
                waiting = time.monotonic()

    async def _guarded(self, work: Awaitable[None], query: Query) -> bool:
        """Whether the step was carried out; a failure costs the guides, never the answer."""
        with query.stopwatch.stage("guides"):
            try:
                await within(work, query.plan.deadline)
            except TimeoutError:
                query.log.left_out("guides: out of time")
            except Exception as error:  # noqa: BLE001  (models and filters raise anything; the text pass stands)
                query.log.failed(f"guides are left out: {describe_failure(error)}")
            else:
                return True
        return False

    async def _take(self, query: Query, batch: Sequence[Guide], drawn: GuideState) -> None:
        drawn.guides += batch
        drawn.dropped |= {guide.guide_id for guide in batch}  # until their vectors are there
        collections, deadline = query.plan.spaces.values(), query.plan.deadline
        vectors = await embed_guides(batch, encoder=self._encoder, collections=collections, deadline=deadline)
        drawn.vectors |= vectors
        drawn.dropped -= vectors.keys()
        for guide in batch:
            if guide.pixels is not None:
                await asyncio.to_thread(self._hub.keep_vectors, guide, vectors[guide.guide_id])

    async def _step(self, query: Query, before: Ranking, drawn: GuideState) -> None:
        """Search the guides that are new, judge all, fuse those that count with the text pass.

        A step that fails or comes too late leaves the ranking of the one before, and what was said of its guides.
        """
        await self._search(query, before, drawn)
        judged = await asyncio.to_thread(self._judge, query, drawn) if query.plan.outliers else None
        rejected = set() if judged is None else _rejected(drawn.guides, judged)
        accepted = [one for one in drawn.guides if one.guide_id in drawn.found and one.guide_id not in rejected]
        weighted = searches_of(
            accepted, drawn.vectors, spaces=query.plan.spaces, space_weights=query.weights, settings=self._fusion
        )
        weight = {(one.guide, one.space): one.weight for one in weighted}
        found = Found(before.lists, before.searches)
        for guide in accepted:
            found += _weighted(drawn.found[guide.guide_id], weight)
        searches = found.searches[len(before.searches) :]
        captions, ranking = drawn.captions, None
        if searches or (captions is not None and await asyncio.to_thread(captions.speak, before.fused.ids)):
            ranking = await self._searcher.combine(found, query.rules, query.stopwatch, scorer=captions)
            ranking = replace(ranking, dropped=(*before.dropped, *ranking.dropped))
        drawn.judged, drawn.searches, drawn.ranking = judged, searches, ranking

    def _judge(self, query: Query, drawn: GuideState) -> OutlierReport:
        vectors, background = {}, {}
        for space, collection in query.plan.spaces.items():
            rows = [drawn.vectors.get(guide.guide_id, {}).get(collection) for guide in drawn.guides]
            dim = next((len(row) for row in rows if row is not None), None)
            if dim is not None:
                vectors[space] = np.stack([np.full(dim, np.nan, np.float32) if row is None else row for row in rows])
                background[space] = self._searcher.background(collection)
        maps = self._mapped or remaining(query.plan.deadline) > FIRST_MAP_S
        if len(drawn.guides) >= UMAP_FROM and not maps:
            query.log.left_out(
                f"the map of the guides: not prepared; set query.guides to {UMAP_FROM} or more, or allow more time"
            )
        report = judge_guides(
            vectors,
            query.weights,
            background=background,
            threshold=query.plan.outlier_threshold,
            seed=query.plan.seed,
            maps=maps,
        )
        self._mapped = self._mapped or report.rule == "umap_lof"
        return report

    async def _ask_captions(self, query: Query, texts: EncodedTexts, drawn: GuideState) -> None:
        plan, vector = query.plan, texts.encoded.get(self._text_encoder)
        if self._captions is None or not self._captions.counts or Exemplar.name not in plan.generators:
            return  # captions are asked for by the engine whose guides they are
        if plan.captions is not None and vector is not None:
            ask = self._captions.ask
            drawn.captions = await asyncio.to_thread(ask, vector[0], plan.captions, filter_=plan.filter, limit=plan.depths[0])

    async def _search(self, query: Query, before: Ranking, drawn: GuideState) -> None:
        plan, log = query.plan, query.log
        settled = drawn.found.keys() | drawn.dropped
        new = [one for one in drawn.guides if one.guide_id in drawn.vectors and one.guide_id not in settled]
        kept, width = fit(
            len(new),
            len(plan.spaces),
            seconds_a_list=query.stopwatch.seconds("search") / max(1, len(before.lists) + _searched(drawn)),
            left=remaining(plan.deadline),
        )
        strongest = sorted(new, key=lambda guide: -guide.weight)[:kept]
        if kept < len(new):
            drawn.dropped |= {one.guide_id for one in new} - {one.guide_id for one in strongest}
            log.left_out(f"{len(new) - kept} of {len(drawn.guides)} guides: out of time")
        if not strongest:
            return
        best = sorted(plan.spaces, key=lambda space: (-query.weights[space], space))[:width]
        for space in plan.spaces:
            if space not in best:
                log.left_out(f"space {space!r} for guides: out of time")
        searches = searches_of(
            strongest,
            drawn.vectors,
            spaces={space: plan.spaces[space] for space in best},
            space_weights=dict.fromkeys(best, 1.0),
            settings=self._fusion,
        )
        found = await self._searcher.search(searches, query.rules, query.stopwatch)
        for space in found.late:
            log.left_out(f"space {space!r} for guides: out of time")
        for guide in strongest:
            lists = tuple(one for one in found.lists if one.guide == guide.guide_id)
            there = {one.space for one in lists}
            mine = tuple(one for one in found.searches if one.guide == guide.guide_id and one.space in there)
            drawn.found[guide.guide_id] = Found(lists, mine)


def _rejected(guides: Sequence[Guide], judged: OutlierReport) -> set[str]:
    return {guide.guide_id for guide, out in zip(guides, judged.rejected, strict=False) if out}


def _why(stable: StableTopK, drawn: int, plan: ResolvedQuery) -> str:
    return f"stable after {drawn} of {plan.guides} guides" if stable.reason == "stable" and drawn < plan.guides else ""


def _request(plan: ResolvedQuery, texts: EncodedTexts) -> GuideRequest:
    collections = dict(plan.spaces)
    collections |= {CAPTIONS_ALIAS: plan.captions} if plan.captions else {}
    collections |= {TAGS_ALIAS: plan.tags} if plan.tags else {}
    return GuideRequest(
        query=plan.text,
        prompt=plan.text,
        n=plan.guides,
        seed=plan.seed,
        text_vectors={name: rows[0] for name, rows in texts.encoded.items()},
        collections=collections,
        filter=plan.filter,
        tenant=plan.visibility.tenant,
    )


def _weighted(found: Found, weight: Mapping[tuple[str, str], float]) -> Found:
    return Found(
        tuple(replace(one, weight=weight[one.guide, one.space]) for one in found.lists if (one.guide, one.space) in weight),
        tuple(replace(one, weight=weight[one.guide, one.space]) for one in found.searches if (one.guide, one.space) in weight),
    )


def _searched(drawn: GuideState) -> int:
    return sum(len(one.lists) for one in drawn.found.values())
