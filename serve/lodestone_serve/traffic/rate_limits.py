"""Rate limits of keys and addresses: a number of requests in a sliding window, counted by this process or by all replicas.

Counters are kept for a bounded number of senders; the one that sent its last request longest ago is forgotten first. The
address is that of the connection, never one that a header names. Behind a proxy all clients share one address, so ask for keys
there.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from functools import lru_cache
from typing import Final

from limits import RateLimitItem, parse
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import SlidingWindowCounterRateLimiter
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lodestone_serve.policy import policy_of
from lodestone_serve.responses.problems import problem_of, problem_response
from lodestone_serve.telemetry.metrics import Metrics
from lodestone_serve.traffic.askers import Asker, asker_of, network_of
from lodestone_serve.traffic.rate_headers import RateState
from lodestone_serve.traffic.shared_rates import Allowance, SharedRates

MOST_ASKERS: Final = 4_096


class RateLimits:
    """Middleware that answers 429 `rate_limited` to requests beyond the rate, and says in all answers how many are left.

    Args:
        app: The application to protect.
        rate: The rate of senders that have none of their own, such as `600/minute`; None for no limit.
        metrics: Counts the refusals.
        most_askers: Number of senders that are counted at once.
        shared: Counts for all replicas together; None where there is one replica. While it does not answer, this one counts by
            itself.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        rate: str | None,
        metrics: Metrics,
        most_askers: int = MOST_ASKERS,
        shared: SharedRates | None = None,
    ) -> None:
        self._app = app
        self._rate = rate
        self._metrics = metrics
        self._most_askers = most_askers
        self._shared = shared
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())
        self._askers: OrderedDict[str, RateLimitItem] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        asker = asker_of(scope)
        rate = asker.rate or self._rate
        if scope["type"] != "http" or rate is None or asker.local or not policy_of(scope).rate_limited:
            await self._app(scope, receive, send)
            return
        item, name = _parsed(rate), _name(asker, scope)
        await self._know(name, item)
        allowance = await self._allowance(item, name)
        reset_s = max(1, math.ceil(allowance.reset_s))
        state = RateState(item.amount, item.get_expiry(), allowance.remaining if allowance.allowed else 0, reset_s)
        headers = state.headers()
        if not allowance.allowed:
            self._metrics.shed.labels("rate_limited").inc()
            await problem_response(problem_of(state.refusal(), instance=scope["path"]), headers)(scope, receive, send)
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(headers)
            await send(message)

        await self._app(scope, receive, answer)

    async def _know(self, asker: str, item: RateLimitItem) -> None:
        before = self._askers.pop(asker, None)
        if before is not None and before != item:  # the key's rate was changed
            await self._limiter.clear(before, asker)
        self._askers[asker] = item
        if len(self._askers) > self._most_askers:
            longest_ago, its = self._askers.popitem(last=False)
            await self._limiter.clear(its, longest_ago)

    async def _allowance(self, item: RateLimitItem, asker: str) -> Allowance:
        """Return whether the request may come in, by the count of all replicas or else by this one's own."""
        shared = None
        if self._shared is not None:
            shared = await self._shared.take(asker, amount=item.amount, window_s=item.get_expiry())
        if shared is not None and not shared.allowed:
            return shared
        allowed = await self._limiter.hit(item, asker)  # also while all count, so that it is known when they cannot
        if shared is not None:
            return shared
        stats = await self._limiter.get_window_stats(item, asker)
        return Allowance(allowed, max(0, stats.remaining), stats.reset_time - time.time())


@lru_cache(maxsize=256)
def _parsed(rate: str) -> RateLimitItem:
    return parse(rate)


def _name(asker: Asker, scope: Scope) -> str:
    if asker.owner:
        return asker.owner
    return f"address:{network_of((scope.get('client') or ('unknown', 0))[0])}"
