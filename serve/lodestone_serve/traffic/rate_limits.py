"""How often may one key, or one address, ask? So many requests in a sliding window, counted by this process.

Counters are kept for as many askers as there is room for; those who asked longest ago are forgotten first. An address is what
the connection says, never a header: behind a proxy all share one, so ask for keys there.
"""

from __future__ import annotations

import ipaddress
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

from lodestone.errors import RateLimitedError
from lodestone_serve.auth.principal import ANYBODY, Principal
from lodestone_serve.responses.problems import problem_of, problem_response
from lodestone_serve.telemetry.metrics import Metrics

MOST_ASKERS: Final = 4_096
_IPV6_NET: Final = 64  # bits: what one customer has
_FREE: Final = frozenset({"/healthz", "/readyz", "/metrics", "/openapi.json"})


class RateLimits:
    """Middleware: answers 429 `rate_limited` to whoever asks too often, and tells everybody how much is left.

    Args:
        app: What to protect.
        rate: Of askers without a rate of their own, e.g. `600/minute`; None: any number.
        metrics: Counts refusals.
        most_askers: Askers that are counted at once.
    """

    def __init__(self, app: ASGIApp, *, rate: str | None, metrics: Metrics, most_askers: int = MOST_ASKERS) -> None:
        self._app = app
        self._rate = rate
        self._metrics = metrics
        self._most_askers = most_askers
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())
        self._askers: OrderedDict[str, RateLimitItem] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        principal: Principal = scope.get("state", {}).get("principal", ANYBODY)
        rate = principal.rate or self._rate
        if scope["type"] != "http" or rate is None or principal.local or scope["path"] in _FREE:
            await self._app(scope, receive, send)
            return
        item, asker = _parsed(rate), _asker(principal, scope)
        await self._know(asker, item)
        allowed = await self._limiter.hit(item, asker)
        headers = await self._headers(item, asker)
        if not allowed:
            self._metrics.shed.labels("rate_limited").inc()
            error = _refusal(item, await self._reset_s(item, asker))
            await problem_response(problem_of(error, instance=scope["path"]), headers)(scope, receive, send)
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

    async def _headers(self, item: RateLimitItem, asker: str) -> dict[str, str]:
        """As draft-ietf-httpapi-ratelimit-headers has them."""
        stats = await self._limiter.get_window_stats(item, asker)
        reset = max(1, math.ceil(stats.reset_time - time.time()))
        return {
            "RateLimit-Policy": f'"default";q={item.amount};w={item.get_expiry()}',
            "RateLimit": f'"default";r={max(0, stats.remaining)};t={reset}',
        }

    async def _reset_s(self, item: RateLimitItem, asker: str) -> int:
        stats = await self._limiter.get_window_stats(item, asker)
        return max(1, math.ceil(stats.reset_time - time.time()))


@lru_cache(maxsize=256)
def _parsed(rate: str) -> RateLimitItem:
    return parse(rate)


def _asker(principal: Principal, scope: Scope) -> str:
    if principal.owner:
        return principal.owner
    host = (scope.get("client") or ("unknown", 0))[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return f"address:{host[:64]}"
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return f"address:{ipaddress.ip_network((int(address), _IPV6_NET), strict=False)}"
    return f"address:{getattr(address, 'ipv4_mapped', None) or address}"


def _refusal(item: RateLimitItem, retry_after: int) -> RateLimitedError:
    return RateLimitedError(
        f"more than {item.amount} requests in {item.get_expiry()} s",
        hint=f"try again in {retry_after} s, or ask for a key with a higher rate",
        retry_after=retry_after,
        limit=item.amount,
        window_s=item.get_expiry(),
    )
