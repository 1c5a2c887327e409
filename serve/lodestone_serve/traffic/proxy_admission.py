"""Admission in the proxy: it refuses the queries that the replicas would refuse, before they cost anything there.

A query that reaches a busy replica waits for its event loop, its key and its turn to be refused, and costs nearly as much as an
answer. A proxy has a process of its own. It counts the queries that it has passed on and that are not answered yet, and knows
from the replicas' reports how long each holds a slot. So it knows how long one more would wait.

It refuses on no other ground than the replicas themselves: no place is left, or the turn would come too late for the query's
own deadline. It never refuses while it waits for no answer, or while the reports are old, so that wrong reports are corrected.
While several senders ask, the last quarter of the queue is kept for those that have less than their share of it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from starlette.datastructures import Headers
from starlette.types import Scope

from lodestone.errors import OverloadedError
from lodestone_serve.policy import AdmissionRule, policy_for
from lodestone_serve.traffic.admission_middleware import priority_of
from lodestone_serve.traffic.askers import network_of
from lodestone_serve.traffic.load_reports import LoadReport, way_back_s
from lodestone_serve.traffic.prepared_problems import PreparedProblem
from lodestone_serve.traffic.tickets import Priority

FRESH_S: Final = 10.0
"""Seconds for which a report counts."""

_SHARED: Final = 0.75  # share of the queue that senders with more than their share of it may fill while others ask
_MOST_CREDENTIALS: Final = 4_096
CREDENTIALS: Final = ("authorization", "x-api-key", "cookie")
"""Headers that name the sender of a request."""


@dataclass(slots=True, eq=False)
class Passing:
    """One query at the proxy.

    Attributes:
        route: Method and path of its row, as metrics name it.
        priority: Its priority.
        asker: By whom it is sent: a valid key or token, or else an address.
        credential: What was sent as key or token, hashed; None for nothing.
        arrived: When it came, on the clock of `time.monotonic`.
        until: When it counts no more, whatever becomes of its answer; set when it is passed on.
        here: Whether it is passed on and not answered.
    """

    route: str
    priority: Priority
    asker: int
    credential: int | None
    arrived: float
    until: asyncio.TimerHandle | None = None
    here: bool = False


class ProxyAdmission:
    """Counts the queries that one proxy has passed on, and says which ones to refuse. For one event loop.

    Args:
        clock: Returns seconds; for tests.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._reports: dict[str, tuple[float, LoadReport]] = {}
        self._passed: Counter[Priority] = Counter()
        self._of_askers: Counter[int] = Counter()
        self._elsewhere = 0  # queries that wait for the same replicas, and came by other proxies
        self._valid: OrderedDict[int, None] = OrderedDict()
        self._refused: Counter[str] = Counter()

    def arriving(self, scope: Scope) -> Passing | None:
        """Return the query that a request is; None for all other requests, and for those of other sites' pages.

        The answers to other sites' pages need headers that only the service knows.
        """
        policy = policy_for(scope["method"], scope["path"])
        if policy.admission is not AdmissionRule.QUERY:
            return None
        headers = Headers(scope=scope)
        if is_from_another_site(headers):
            return None
        credential = next((hash((name, headers[name])) for name in CREDENTIALS if name in headers), None)
        if credential is not None and credential in self._valid:
            asker = credential
        else:
            asker = hash(network_of((scope.get("client") or ("", 0))[0]))
        return Passing(policy.name, priority_of(headers), asker, credential, self._clock())

    def without_place(self, query: Passing) -> PreparedProblem | None:
        """Return the refusal of a query for which no place is left, whatever its deadline; None otherwise."""
        reports = self._fresh()
        if not reports or self._ahead(query) < sum(report.places for report in reports):
            return None
        return self._refuse(query, reports)

    def too_late(self, query: Passing, allowed_s: float) -> PreparedProblem | None:
        """Return the refusal of a query whose turn would come too late; None otherwise.

        Args:
            query: The query.
            allowed_s: Seconds that it allows, from its arrival.
        """
        reports = self._fresh()
        if not reports:
            return None
        slots = sum(report.slots for report in reports)
        turn_s = sum(report.held_s for report in reports) / len(reports) / slots
        if turn_s <= 0:
            return None
        words_s = max(report.words_s for report in reports)
        sending_s = max(report.sending_s for report in reports)
        left_s = query.arrived + allowed_s - way_back_s(allowed_s, sending_s) - words_s - self._clock()
        most = slots + left_s / turn_s - 1  # so many before it, and its turn comes just in time
        if self._ahead(query) < max(slots, most * self._part(query, most)):
            return None
        return self._refuse(query, reports)

    def passed_on(self, query: Passing, allowed_s: float) -> None:
        """Count a query that goes to a replica, at most until its deadline: streams may be read more slowly than they work."""
        query.here = True
        self._passed[query.priority] += 1
        self._of_askers[query.asker] += 1
        left_s = max(0.0, query.arrived + allowed_s - self._clock())
        query.until = asyncio.get_running_loop().call_later(left_s, self.ended, query)

    def ended(self, query: Passing) -> None:
        """Count a query no more. Idempotent."""
        if not query.here:
            return
        query.here = False
        if query.until is not None:
            query.until.cancel()
        self._passed[query.priority] -= 1
        self._of_askers[query.asker] -= 1
        if not self._of_askers[query.asker]:
            del self._of_askers[query.asker]

    def answered(self, query: Passing, status: int, load: bytes | None) -> None:
        """Take the report that came with the answer to a query, and note whether its key or token is valid."""
        if query.credential is not None and status < 400:
            self._valid[query.credential] = None
            self._valid.move_to_end(query.credential)
            if len(self._valid) > _MOST_CREDENTIALS:
                self._valid.popitem(last=False)
        report = None if load is None else LoadReport.decode(load)
        if report is not None:
            self._reports[report.replica] = (self._clock(), report)
            busy = sum(known.busy for known in self._fresh_reports())
            self._elsewhere = max(0, busy - self._passed[Priority.INTERACTIVE] - self._passed[Priority.BATCH])

    def take_refused(self) -> dict[str, int]:
        """Return how many queries were refused since the last call, by route."""
        refused, self._refused = self._refused, Counter()
        return dict(refused)

    def _ahead(self, query: Passing) -> int:
        """Return the number of queries that run or wait before this one; interactive ones wait for no batch."""
        own = self._passed[Priority.INTERACTIVE]
        return self._elsewhere + own + (self._passed[Priority.BATCH] if query.priority is Priority.BATCH else 0)

    def _part(self, query: Passing, most: float) -> float:
        """Return the part of the queue that the sender may fill."""
        askers = len(self._of_askers) + (query.asker not in self._of_askers)
        return 1.0 if askers == 1 or self._of_askers[query.asker] < most / askers else _SHARED

    def _fresh(self) -> list[LoadReport]:
        """Return the reports that count; none while no answer is awaited that would correct them."""
        return self._fresh_reports() if self._passed.total() else []

    def _fresh_reports(self) -> list[LoadReport]:
        oldest = self._clock() - FRESH_S
        if any(at < oldest for at, _ in self._reports.values()):
            self._reports = {name: known for name, known in self._reports.items() if known[0] >= oldest}
        return [report for _, report in self._reports.values()]

    def _refuse(self, query: Passing, reports: list[LoadReport]) -> PreparedProblem:
        self._refused[query.route] += 1
        return overloaded(max(report.retry_after for report in reports))


def is_from_another_site(headers: Headers) -> bool:
    """Return whether a page of another site sends a request: its answer needs headers that only the service knows."""
    origin = headers.get("origin")
    return origin is not None and origin.partition("://")[2] != headers.get("host")


@lru_cache(maxsize=64)
def overloaded(retry_after: int) -> PreparedProblem:
    """Return the refusal of a query for which too many others are waiting.

    Args:
        retry_after: Seconds to wait before the next try.
    """
    return PreparedProblem(
        OverloadedError(
            "too many queries are waiting for an answer within this query's deadline",
            hint=f"try again in {retry_after} s",
            retry_after=retry_after,
        )
    )
