"""Ledger of the slices that workers have begun, which tells a slice that killed its worker from one whose node was lost.

Ray Data restarts dead actors and repeats their calls without end: a picture that kills its worker would do so for ever. So
every call asks the ledger before it begins. A slice that another process has begun, which died while its node lives, is refused
with the error that the run needs (see `SliceBatches` of `lodestone`). One that was lost with its node begins again, and nobody
is blamed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final

from lodestone.errors import WorkerDiedError

_LOST_WITH_NODES: Final = 5  # times that a slice may be lost with a node before it counts as what killed it


@dataclass(frozen=True, slots=True)
class WorkerPlace:
    """A worker process and where it runs.

    Attributes:
        worker: `host:pid`.
        node: Id of its Ray node.
        process: Id of the process; another one of the same container may have its `host:pid`.
    """

    worker: str
    node: str
    process: str


@dataclass(frozen=True, slots=True)
class RefusedSlice:
    """A slice that may not begin, because it has killed a worker before.

    Attributes:
        worker: `host:pid` of the worker that died at it.
        error: What the slice's receipt says.
    """

    worker: str
    error: WorkerDiedError


class Ledger:
    """Knows which worker has begun what. A ticket stands for one attempt of a slice.

    Args:
        live_nodes: Returns the ids of the nodes that live.
    """

    def __init__(self, live_nodes: Callable[[], Collection[str]]) -> None:
        self._live_nodes = live_nodes
        self._begun: dict[int, WorkerPlace] = {}
        self._refused: dict[int, RefusedSlice] = {}  # until the driver has their receipts, which may be lost on the way
        self._lost: Counter[int] = Counter()  # ticket -> times that it was lost with a node
        self._held: dict[str, int] = {}  # process that died -> slices that it had begun

    def begin(self, ticket: int, place: WorkerPlace, ended: Iterable[int] = ()) -> RefusedSlice | None:
        """Note that a worker begins a slice, or refuse it.

        Args:
            ticket: Of the slice.
            place: The worker.
            ended: Tickets that the worker has finished meanwhile.

        Returns:
            None if it may begin.
        """
        self.end(ended)
        if ticket in self._refused:
            return self._refused[ticket]
        before = self._begun.get(ticket)
        if before is not None and before.process != place.process:
            is_lost = before.node not in self._live_nodes()
            self._lost[ticket] += is_lost
            if not is_lost or self._lost[ticket] >= _LOST_WITH_NODES:
                return self._refuse(ticket, before)
        self._begun[ticket] = place
        return None

    def end(self, tickets: Iterable[int]) -> None:
        """Note that slices are finished: their workers may die now."""
        for ticket in tickets:
            self._begun.pop(ticket, None)

    def forget(self, tickets: Iterable[int]) -> None:
        """Drop everything about slices whose receipts the driver has."""
        for ticket in tickets:
            self._begun.pop(ticket, None)
            self._refused.pop(ticket, None)
            self._lost.pop(ticket, None)

    def _refuse(self, ticket: int, before: WorkerPlace) -> RefusedSlice:
        # Counted when the first of them comes back: all of them then say the same.
        held = self._held.setdefault(before.process, sum(place.process == before.process for place in self._begun.values()))
        slices = f"{held} slice" if held == 1 else f"{held} slices"
        error = WorkerDiedError(
            f"worker {before.worker} died with {slices} in flight",
            hint="the slice is tried again; `ray status` and the node's log say whether its memory ran out",
            beside=held - 1,
        )
        refusal = self._refused[ticket] = RefusedSlice(before.worker, error)
        return refusal
