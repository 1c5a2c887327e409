"""Desk of a bulk run: the actor on the driver's node with the feed of tasks and the ledger of what workers have begun.

Everything that the parts of a run tell each other beside the dataset goes through it. It is pinned to the driver's node: a run
does not outlive its driver, and so loses no feed and no ledger with any other node. Where it is killed, the dataset fails and
the run ends; a resumed one goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lodestone.indexing.tasks import Advance
from lodestone_jobs.feed import TaskFeed, Ticketed
from lodestone_jobs.ledger import Ledger, RefusedSlice, WorkerPlace

_PULL_SECONDS: Final = 20.0  # longest time that a lane without tasks holds a call


@dataclass(frozen=True, slots=True)
class DeskNews:
    """What the desk has heard from the workers.

    Attributes:
        ready: Workers whose models are loaded and whose nodes live.
        failed_starts: Workers that died before any of them was ready.
        advances: Progress of slices since the last news, the last one of each slice.
    """

    ready: int
    failed_starts: int
    advances: tuple[Advance, ...]


class Desk:
    """Body of the actor. All its methods run in one event loop.

    Args:
        lanes: Number of read tasks of the dataset.
    """

    def __init__(self, lanes: int) -> None:
        self._feed = TaskFeed(lanes)
        self._ledger = Ledger(_live_nodes)
        self._changed = asyncio.Condition()
        self._starting: dict[str, WorkerPlace] = {}  # by actor, which has another process after its restart
        self._ready: dict[str, WorkerPlace] = {}
        self._was_ready = False
        self._failed_starts = 0
        self._advances: dict[str, Advance] = {}

    # The driver

    async def give(self, tasks: Sequence[bytes]) -> None:
        """Hand out pickled tasks."""
        async with self._changed:
            self._feed.give(tasks)
            self._changed.notify_all()

    async def close(self) -> None:
        """End the feed: the dataset ends with what was handed out."""
        async with self._changed:
            self._feed.is_over = True
            self._changed.notify_all()

    async def news(self, received: Sequence[int]) -> DeskNews:
        """Return what the workers have told since the last call.

        Args:
            received: Tickets whose receipts the driver has: nothing about them is kept.
        """
        self._feed.forget(received)
        self._ledger.forget(received)
        live = _live_nodes()
        self._ready = {actor: place for actor, place in self._ready.items() if place.node in live}
        advances, self._advances = tuple(self._advances.values()), {}
        return DeskNews(len(self._ready), 0 if self._was_ready else self._failed_starts, advances)

    # Read tasks

    async def pull(self, lane: int, index: int) -> list[Ticketed] | None:
        """Return what a lane has from `index` on, as `TaskFeed.pull` does, and wait for it."""
        async with self._changed:
            try:
                async with asyncio.timeout(_PULL_SECONDS):
                    await self._changed.wait_for(lambda: self._feed.pull(lane, index) != [])
            except TimeoutError:
                return []
            return self._feed.pull(lane, index)

    # Workers

    async def arrive(self, actor: str, place: WorkerPlace) -> None:
        """Note that a worker starts to load its models; one of the same actor that had not finished with that is dead."""
        before = self._starting.get(actor)
        if before is not None and before.process != place.process:
            self._failed_starts += 1
        self._starting[actor] = place
        self._ready.pop(actor, None)

    async def be_ready(self, actor: str) -> None:
        """Note that a worker has loaded its models."""
        place = self._starting.pop(actor, None)
        if place is not None:
            self._ready[actor] = place
            self._was_ready = True

    async def begin(self, ticket: int, place: WorkerPlace, ended: Sequence[int]) -> RefusedSlice | None:
        """Return None if a worker may begin a slice, as `Ledger.begin` does."""
        return self._ledger.begin(ticket, place, ended)

    async def report(self, advances: Iterable[Advance], ended: Iterable[int]) -> None:
        """Take the progress of a worker's slices, and which of them are finished."""
        self._ledger.end(ended)
        self._advances.update((advance.slice_id, advance) for advance in advances)


def _live_nodes() -> frozenset[str]:
    import ray

    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return frozenset(node["NodeID"] for node in nodes if node["Alive"])
