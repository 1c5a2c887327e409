"""How do vectors become one ranking? Search every list, complete the scores where the fusion wants them, fuse."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from lodestone.query.calibration import Calibration
from lodestone.query.clock import Stopwatch, remaining, within
from lodestone.query.fusion import NEED_ALL_SCORES, FusedList, RankedList, fuse_in_tiers
from lodestone.query.rescore import ListSearch, by_collection, complete
from lodestone.store.base import Filter, VectorQuery, VectorStore

# Engines whose searches hold the GIL: threads get in each other's way (two spaces of 10,000: 2.9 ms in turn, 4.0 ms at once).
_HOLD_THE_GIL: Final = frozenset({"qdrant-edge"})


@dataclass(frozen=True, slots=True)
class Ranking:
    """One fused answer and what it was made of.

    Attributes:
        fused: All candidates, best first.
        lists: What each search found.
        searches: The searches behind `lists`.
        dropped: What there was no time for.
    """

    fused: FusedList
    lists: tuple[RankedList, ...] = ()
    searches: tuple[ListSearch, ...] = ()
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RankingRules:
    """How a ranking is made: `fusion` by name, `depths` (see `fuse_in_tiers`), the store's filter and the absolute deadline."""

    fusion: str
    depths: tuple[int, ...]
    filter: Filter | None
    deadline: float


@dataclass(slots=True)
class _Found:
    lists: list[RankedList] = field(default_factory=list)
    late: list[str] = field(default_factory=list)  # spaces


class Searcher:
    """Searches the store in threads.

    Args:
        store: Where the vectors are.
        calibration: Says what a unit of score is worth.
    """

    def __init__(self, store: VectorStore, calibration: Calibration) -> None:
        self._store = store
        self._calibration = calibration
        self._parallel = store.capabilities().engine not in _HOLD_THE_GIL

    async def rank(
        self,
        searches: Sequence[ListSearch],
        rules: RankingRules,
        stopwatch: Stopwatch,
        *,
        before: Ranking | None = None,
        reweigh: Callable[[Mapping[str, float]], Mapping[str, float]] | None = None,
    ) -> Ranking | None:
        """Search, complete and fuse.

        Args:
            searches: The lists to search; one batched call a collection.
            rules: How.
            stopwatch: Counts `search`, `rescore` and `fuse`.
            before: An earlier ranking whose lists take part again without being searched again.
            reweigh: Best score found in each space -> weight of each space: replaces the weights of the searches.

        Returns:
            None when the deadline passed before anything was found. Spaces that were late are left out, and `dropped` says so.
        """
        with stopwatch.stage("search"):
            found = await self._search(by_collection(searches), rules)
        if not found.lists:
            return None
        if reweigh is not None:
            weights = reweigh({one.space: float(one.scores[0]) for one in found.lists if len(one.ids)})
            found.lists = [replace(one, weight=weights[one.space]) for one in found.lists]
            searches = [replace(one, weight=weights[one.space]) for one in searches]
        lists = (*(before.lists if before else ()), *found.lists)
        asked = (*(before.searches if before else ()), *searches)
        dropped = [*(before.dropped if before else ()), *(f"space {space!r}: out of time" for space in found.late)]
        completed: Sequence[RankedList] = lists
        if rules.fusion in NEED_ALL_SCORES:
            with stopwatch.stage("rescore"):
                try:
                    completed = await within(asyncio.to_thread(complete, self._store, asked, lists), rules.deadline)
                except TimeoutError:
                    dropped.append("exact scores of all candidates: out of time")
        with stopwatch.stage("fuse"):
            fused = fuse_in_tiers(rules.fusion, lists, completed, depths=rules.depths)
        return Ranking(fused, lists, asked, tuple(dropped))

    async def _search(self, groups: Mapping[str, Sequence[ListSearch]], rules: RankingRules) -> _Found:
        found = _Found()
        if self._parallel:
            tasks = [asyncio.create_task(asyncio.to_thread(self._one, name, group, rules)) for name, group in groups.items()]
            try:
                await asyncio.wait(tasks, timeout=remaining(rules.deadline))
                for task, group in zip(tasks, groups.values(), strict=True):
                    if task.done():
                        found.lists += task.result()
                    else:
                        found.late.append(group[0].space)
            finally:
                for task in tasks:
                    task.cancel()
            return found
        for name, group in groups.items():
            try:
                found.lists += await within(asyncio.to_thread(self._one, name, group, rules), rules.deadline)
            except TimeoutError:
                found.late.append(group[0].space)
        return found

    def _one(self, collection: str, group: Sequence[ListSearch], rules: RankingRules) -> list[RankedList]:
        answers = self._store.search(
            collection, [VectorQuery(one.vector, limit=one.depth or rules.depths[-1], filter=rules.filter) for one in group]
        )
        scales = self._calibration.scales(collection, np.stack([one.vector for one in group]))
        return [
            RankedList(one.guide, one.space, one.weight, answer.ids, answer.scores, float(scale))
            for one, answer, scale in zip(group, answers, scales, strict=True)
        ]
