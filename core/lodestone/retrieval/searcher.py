"""Searcher: from vectors to one ranking, by searching every list, completing scores where the fusion needs them, and fusing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.clock import Stopwatch, remaining, within
from lodestone.errors import StoreError, UnknownNameError
from lodestone.retrieval.calibration import ScoreCalibration
from lodestone.retrieval.fuser import Fuser, LocalFuser
from lodestone.retrieval.fusion import NEED_ALL_SCORES, FusedList, RankedList
from lodestone.retrieval.merging import LargeCollections, merged, search_merged
from lodestone.retrieval.rescoring import ListSearch, Scorer, by_collection, complete
from lodestone.store.base import Filter, VectorQuery, VectorStore
from lodestone.store.limits import MERGE_ABOVE

Scores = NDArray[np.float32]

# Engines whose searches hold the GIL: threads slow each other down (two spaces of 10,000: 2.9 ms in turn, 4.0 ms at once).
_HOLD_THE_GIL: Final = frozenset({"qdrant-edge"})


@dataclass(frozen=True, slots=True)
class Ranking:
    """One fused ranking and what it was made of.

    Attributes:
        fused: All candidates, best first.
        lists: The list that each search found.
        searches: The searches behind `lists`.
        completed: What was fused: one list a space with all candidates' exact scores if the fusion reads scores, else `lists`.
        dropped: What was left out for lack of time.
        similarities: Of a composed query, each part's similarity with every candidate, the most similar first.
    """

    fused: FusedList
    lists: tuple[RankedList, ...] = ()
    searches: tuple[ListSearch, ...] = ()
    completed: tuple[RankedList, ...] = ()
    dropped: tuple[str, ...] = ()
    similarities: tuple[RankedList, ...] = ()


@dataclass(frozen=True, slots=True)
class RankingRules:
    """How a ranking is made.

    Attributes:
        fusion: Key of `FUSIONS`.
        depths: Candidates from each list, ascending (see `fuse_in_tiers`).
        filter: The store's filter; None when nothing is restricted.
        deadline: Absolute, seconds on `time.monotonic()`'s clock.
    """

    fusion: str
    depths: tuple[int, ...]
    filter: Filter | None
    deadline: float


@dataclass(frozen=True, slots=True)
class Found:
    """Results of searching.

    Attributes:
        lists: What the searches found in time.
        searches: The requested searches, late ones too.
        late: Spaces that did not answer in time.
    """

    lists: tuple[RankedList, ...] = ()
    searches: tuple[ListSearch, ...] = ()
    late: tuple[str, ...] = ()

    def __add__(self, other: Found) -> Found:
        return Found(self.lists + other.lists, self.searches + other.searches, tuple(dict.fromkeys(self.late + other.late)))


class Searcher:
    """Searches the store in threads and fuses what it finds.

    Args:
        store: Where the vectors are.
        calibration: Measures what a unit of score is worth.
        fuser: Fuses the lists; None for this process.
        merge_above: Points of a collection from which its guides are merged into one search.
    """

    def __init__(
        self,
        store: VectorStore,
        calibration: ScoreCalibration,
        *,
        fuser: Fuser | None = None,
        merge_above: int = MERGE_ABOVE,
    ) -> None:
        self._fuser = fuser or LocalFuser()
        self._store = store
        self._large = LargeCollections(store, merge_above)
        self._calibration = calibration
        self._parallel = store.capabilities().engine not in _HOLD_THE_GIL

    async def rank(
        self,
        searches: Sequence[ListSearch],
        rules: RankingRules,
        stopwatch: Stopwatch,
        *,
        extra: Sequence[RankedList] = (),
        reweigh: Callable[[Mapping[str, float]], Mapping[str, float]] | None = None,
    ) -> Ranking | None:
        """Search, complete and fuse, as `search` and then `combine` do.

        Args:
            searches: The lists to search; one batched call a collection.
            rules: How the ranking is made.
            stopwatch: Counts `search`, `rescore` and `fuse`.
            extra: Lists without a vector behind them (tags).
            reweigh: Best score found in each space -> weight of each space: replaces the weights of the searches.

        Returns:
            The ranking; None when the deadline passed before anything was found. Late spaces are left out and dropped.
        """
        found = await self.search(searches, rules, stopwatch)
        if not found.lists and not any(one.ids for one in extra):
            return None
        if reweigh is not None:
            weights = reweigh({one.space: float(one.scores[0]) for one in found.lists if len(one.ids)})
            found = replace(
                found,
                lists=tuple(replace(one, weight=weights[one.space]) for one in found.lists),
                searches=tuple(replace(one, weight=weights[one.space]) for one in found.searches),
            )
        return await self.combine(found, rules, stopwatch, extra=extra)

    async def search(self, searches: Sequence[ListSearch], rules: RankingRules, stopwatch: Stopwatch) -> Found:
        """Search every list for which there is time."""
        with stopwatch.stage("search"):
            return await self._search(searches, by_collection(searches), rules)

    async def combine(
        self,
        found: Found,
        rules: RankingRules,
        stopwatch: Stopwatch,
        *,
        extra: Sequence[RankedList] = (),
        scorer: Scorer | None = None,
    ) -> Ranking:
        """Make one ranking of what was found: complete the scores where the fusion reads them, then fuse.

        Args:
            found: The searches' lists.
            rules: How the ranking is made.
            stopwatch: Counts `rescore` and `fuse`.
            extra: Lists without a vector behind them (tags).
            scorer: Scores the candidates beside the spaces (captions); its own list takes part.
        """
        extra = extra if scorer is None else (*extra, scorer.found)
        lists = (*found.lists, *(one for one in extra if one.ids and one.weight > 0))
        dropped = [f"space {space!r}: out of time" for space in found.late]
        completed: Sequence[RankedList] = lists
        if rules.fusion in NEED_ALL_SCORES:
            with stopwatch.stage("rescore"):
                try:
                    completed = await self._completed(found, lists, scorer, rules)
                except TimeoutError:
                    dropped.append("exact scores of all candidates: out of time")
        with stopwatch.stage("fuse"):
            fused = await self._fuser.fuse(rules.fusion, lists, completed, depths=rules.depths, deadline=rules.deadline)
        return Ranking(fused, lists, found.searches, tuple(completed), tuple(dropped))

    async def _completed(
        self, found: Found, lists: Sequence[RankedList], scorer: Scorer | None, rules: RankingRules
    ) -> Sequence[RankedList]:
        collections = {search.collection for search in found.searches}
        if scorer is None and all(self._store.instant(collection) for collection in collections):
            return complete(self._store, found.searches, lists)
        work = asyncio.to_thread(complete, self._store, found.searches, lists, scorer=scorer)
        return await within(work, rules.deadline)

    def known_background(self, collection: str) -> Scores | None:
        """Return what `background` returns, if it is in memory; None otherwise. It does not block."""
        return self._calibration.known(collection)

    def background(self, collection: str) -> Scores:
        """Return (m, dim) float32 vectors of ordinary pictures of a collection, always the same ones. Blocking."""
        return self._calibration.sample(collection)

    def inner_products(self, searches: Sequence[ListSearch], image_ids: Sequence[str]) -> dict[tuple[str, str], Scores]:
        """Map (guide, space) to the (len(image_ids),) float32 scores of these pictures, NaN where one is missing. Blocking.

        A collection that is gone, as after a model swap was finished, has no scores any more: its pairs are left out.
        """
        scores: dict[tuple[str, str], Scores] = {}
        for collection, group in by_collection(searches).items():
            try:
                points = self._store.retrieve(collection, image_ids, with_payload=False)
            except UnknownNameError:
                continue
            row = {image_id: number for number, image_id in enumerate(points.ids)}
            products = points.vectors @ np.stack([one.vector for one in group]).T
            for column, one in enumerate(group):
                scores[one.guide, one.space] = np.array(
                    [products[row[image_id], column] if image_id in row else np.nan for image_id in image_ids], np.float32
                )
        return scores

    async def _search(
        self, searches: Sequence[ListSearch], groups: Mapping[str, Sequence[ListSearch]], rules: RankingRules
    ) -> Found:
        lists: list[RankedList] = []
        late: list[str] = []
        if self._parallel:
            tasks = [asyncio.create_task(asyncio.to_thread(self._one, name, group, rules)) for name, group in groups.items()]
            try:
                await asyncio.wait(tasks, timeout=remaining(rules.deadline))
                for task, group in zip(tasks, groups.values(), strict=True):
                    if task.done():
                        lists += task.result()
                    else:
                        late.append(group[0].space)
            finally:
                for task in tasks:
                    task.cancel()
            return Found(tuple(lists), tuple(searches), tuple(late))
        answered: dict[str, list[RankedList]] = {}

        def search_in_turn() -> None:
            for name, group in groups.items():
                if remaining(rules.deadline) > 0:
                    answered[name] = self._one(name, group, rules)

        with suppress(TimeoutError):
            await within(asyncio.to_thread(search_in_turn), rules.deadline)
        in_time = dict(answered)  # the thread may go on, unheard
        for name, group in groups.items():
            if name in in_time:
                lists += in_time[name]
            else:
                late.append(group[0].space)
        return Found(tuple(lists), tuple(searches), tuple(late))

    def _one(self, collection: str, group: Sequence[ListSearch], rules: RankingRules) -> list[RankedList]:
        queries = [
            VectorQuery(one.vector, limit=one.depth or rules.depths[-1], filter=rules.filter, recurring=one.recurring)
            for one in group
        ]
        try:
            fewer = merged(group) if len(group) > 1 and collection in self._large else group
            if len(fewer) < len(group):
                answers = search_merged(self._store, collection, group, fewer, queries)
            else:
                answers = self._store.search(collection, queries)
        except UnknownNameError as error:  # the alias is there, what it stands for was deleted
            raise StoreError(
                f"the collection {collection!r} of the space {group[0].space!r} is gone from the vector store",
                hint="`lodestone index` or `lodestone verify --repair` loads it again; no model runs for that",
                collection=collection,
            ) from error
        apart = {one.guide for one in fewer}  # guides with a search of their own
        scales = self._calibration.scales(collection, np.stack([one.vector for one in group]))
        return [
            RankedList(one.guide, one.space, one.weight, answer.ids, answer.scores, float(scale), one.guide not in apart)
            for one, answer, scale in zip(group, answers, scales, strict=True)
        ]
