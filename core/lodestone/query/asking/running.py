"""A query under way: its resolved form, its clock and its notes, and the deadlines of its stages."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Final, TypeVar

from lodestone.clock import Stopwatch, remaining, within
from lodestone.errors import DeadlineExceededError
from lodestone.query.asking.resolved import ResolvedQuery
from lodestone.query_notes import QueryNotes
from lodestone.retrieval.searcher import RankingRules

_ANSWER_S: Final = 0.02  # to finish an answer, besides reading the page
_MOST_RESERVED: Final = 0.3  # of the time left, for that
_HYDRATE_S: Final = 0.05  # where this query has not read a page yet
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RunningQuery:
    """A resolved query and its two accumulators; all else that stages learn, they return.

    Attributes:
        resolved: Everything that the answer depends on.
        stopwatch: Counts the time of each stage.
        notes: Collects what failed, what was left out and what it cost, at any depth, also where a stage was cut off.
    """

    resolved: ResolvedQuery
    stopwatch: Stopwatch
    notes: QueryNotes

    @property
    def search_deadline(self) -> float:
        """Deadline for searches and guides, absolute: early enough to read out what they find by the query's own deadline."""
        deadline = self.resolved.deadline
        reading_out = 2 * (self.stopwatch.seconds("hydrate") or _HYDRATE_S) + _ANSWER_S
        return deadline - min(reading_out, _MOST_RESERVED * remaining(deadline))

    def rules(self, deadline: float) -> RankingRules:
        """Return how the query's rankings are made, up to an absolute deadline."""
        return RankingRules(self.resolved.fusion, self.resolved.depths, self.resolved.filter, deadline)

    async def in_time(self, work: Awaitable[T], doing: str) -> T:
        """Return the result of `work`.

        Args:
            work: What the answer cannot do without.
            doing: What it does, for the error.

        Raises:
            DeadlineExceededError: the deadline passed.
        """
        try:
            return await within(work, self.resolved.deadline)
        except TimeoutError as error:
            raise too_late(doing) from error


def too_late(doing: str) -> DeadlineExceededError:
    """Return the error of a query whose deadline passed before anything was found."""
    return DeadlineExceededError(
        f"the deadline passed while {doing}, before anything was found", hint="allow more time: deadline_ms"
    )
