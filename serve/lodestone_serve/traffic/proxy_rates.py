"""Rate limits in the proxy: a sender that a replica has just refused for its rate is refused here for a moment.

A request that a replica refuses costs its event loop the look-up of the key and an answer. A proxy has a process of its own. It
counts nothing and looks up no key: it learns from the replicas' refusals. A sender is known by a hash of what it sent as key or
token together with its address, so nobody is refused for what somebody else did, whichever of the two a replica counts by.

A refusal here lasts as long as the rate takes to let one more request in, and at most five seconds. Then the next request asks
the replica again. So a sender gets no less than its rate, and a key whose rate was raised is not refused for long.
"""

from __future__ import annotations

import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from starlette.datastructures import Headers
from starlette.types import Scope

from lodestone_serve.policy import policy_for
from lodestone_serve.traffic.askers import network_of
from lodestone_serve.traffic.prepared_problems import PreparedProblem
from lodestone_serve.traffic.proxy_admission import CREDENTIALS, is_from_another_site
from lodestone_serve.traffic.rate_headers import RateState

_MOST_SENDERS: Final = 4_096
_PAUSE_S: Final = (0.1, 5.0)  # least and most seconds for which a sender is refused without asking
_REFUSED_STATUS: Final = 429
_LOCAL: Final = "x-lodestone-token"  # Lodestone's own commands on this machine, which have no rate


@dataclass(frozen=True, slots=True)
class _Refused:
    """The last refusal of a sender by a replica; times are those of the clock."""

    state: RateState
    until: float
    reset_at: float


@dataclass(frozen=True, slots=True)
class LimitedRequest:
    """A request that counts for a rate: its route, and a hash of everything by which a replica may know the sender."""

    route: str
    sender: int


class ProxyRates:
    """Remembers which senders were refused. For one event loop.

    Args:
        clock: Returns seconds; for tests.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._senders: OrderedDict[int, _Refused] = OrderedDict()
        self._counts: Counter[str] = Counter()

    def arriving(self, scope: Scope) -> LimitedRequest | None:
        """Return a request that counts for a rate; None for all others, and for those of other sites' pages."""
        policy = policy_for(scope["method"], scope["path"])
        if not policy.rate_limited:
            return None
        headers = Headers(scope=scope)
        if _LOCAL in headers or is_from_another_site(headers):
            return None
        network = network_of((scope.get("client") or ("", 0))[0])
        return LimitedRequest(policy.name, hash((network, *(headers.get(name) for name in CREDENTIALS))))

    def refusal(self, request: LimitedRequest) -> tuple[PreparedProblem, dict[str, str]] | None:
        """Return the answer and its headers for a sender that was refused just now; None for all others."""
        known = self._senders.get(request.sender)
        now = self._clock()
        if known is None or now >= known.until:
            return None
        self._counts[request.route] += 1
        state = replace(known.state, reset_s=max(1, math.ceil(known.reset_at - now)))
        return _prepared(state), state.headers()

    def answered(self, request: LimitedRequest, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Note whether a replica refused the request because nothing is left of its sender's rate."""
        if status != _REFUSED_STATUS:
            self._senders.pop(request.sender, None)
            return
        state = RateState.of(headers)
        if state is None or state.remaining:
            return
        now = self._clock()
        least, most = _PAUSE_S
        pause = min(most, state.reset_s, max(least, state.window_s / state.amount))
        self._senders[request.sender] = _Refused(state, now + pause, now + state.reset_s)
        self._senders.move_to_end(request.sender)
        if len(self._senders) > _MOST_SENDERS:
            self._senders.popitem(last=False)

    def take_refused(self) -> dict[str, int]:
        """Return how many requests were refused since the last call, by route."""
        counts, self._counts = self._counts, Counter()
        return dict(counts)


@lru_cache(maxsize=256)
def _prepared(state: RateState) -> PreparedProblem:
    return PreparedProblem(state.refusal())
