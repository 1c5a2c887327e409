"""Replicas that share a counter ask it seldom, stay within the rate together, and count alone when it is gone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.asgi_caller import Call
from tests.support.fake_services import FakeServices
from tests.unit.serve.traffic.test_limits import asked_by, fine, key_of

from lodestone.catalog.service.rate_windows import TokenGrant
from lodestone.config.serve import GraphSettings, ServeSettings, StageSettings
from lodestone.errors import CatalogError
from lodestone_serve.http.application import create_app
from lodestone_serve.telemetry.metrics import Metrics
from lodestone_serve.traffic import shared_rates
from lodestone_serve.traffic.rate_limits import RateLimits
from lodestone_serve.traffic.shared_rates import AWAY_S, LARGEST_LEASE, SharedRates


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Counter:
    """A counter of one window; it can go away, or hang."""

    def __init__(self) -> None:
        self.taken: dict[str, int] = {}
        self.asked = 0
        self.gone = False
        self.hang: asyncio.Event | None = None

    async def take(self, sender: str, *, amount: int, window_s: int, wanted: int) -> TokenGrant:
        self.asked += 1
        if self.hang is not None:
            await self.hang.wait()
        if self.gone:
            raise CatalogError("the server is gone")
        granted = min(wanted, amount - self.taken.get(sender, 0))
        self.taken[sender] = self.taken.get(sender, 0) + granted
        return TokenGrant(granted, amount - self.taken[sender], float(window_s))


def replica(counter: Counter, clock: Clock, metrics: Metrics | None = None) -> SharedRates:
    return SharedRates(counter, metrics or Metrics(), most_senders=10, clock=clock)


async def let_in(rates: SharedRates, times: int, *, sender: str = "key:a", amount: int = 100) -> int:
    allowances = [await rates.take(sender, amount=amount, window_s=60) for _ in range(times)]
    return sum(allowance is not None and allowance.allowed for allowance in allowances)


async def test_replicas_together_let_in_what_the_rate_allows_and_ask_seldom() -> None:
    counter, clock = Counter(), Clock()
    replicas = [replica(counter, clock) for _ in range(3)]
    allowed = 0
    for _ in range(200):
        for one in replicas:
            allowed += await let_in(one, 1)
    held = sum(lease.tokens for one in replicas for lease in one._leases.values())
    assert allowed + held == 100
    assert held <= len(replicas) * 100 * LARGEST_LEASE
    assert counter.asked < 40, "600 requests"


async def test_all_requests_that_come_at_once_wait_for_one_lease() -> None:
    counter = Counter()
    rates = replica(counter, Clock())
    found = await asyncio.gather(*(rates.take("key:a", amount=1000, window_s=60) for _ in range(30)))
    assert all(allowance is not None and allowance.allowed for allowance in found)
    assert counter.asked == 1


async def test_who_has_nothing_left_is_looked_up_again_later() -> None:
    counter, clock = Counter(), Clock()
    rates = replica(counter, clock)
    assert await let_in(rates, 20, amount=5) == 5
    asked = counter.asked
    assert await let_in(rates, 50, amount=5) == 0
    assert counter.asked == asked
    counter.taken.clear()
    clock.now += 6.0
    assert await let_in(rates, 1, amount=5) == 1
    assert await let_in(rates, 1, sender="key:b", amount=5) == 1, "others have their own"


async def test_leases_of_a_window_that_is_over_are_worth_nothing() -> None:
    counter, clock = Counter(), Clock()
    rates = replica(counter, clock)
    await let_in(rates, 10)
    held = next(iter(rates._leases.values())).tokens
    assert held > 0
    clock.now += 61.0
    asked = counter.asked
    await let_in(rates, 1)
    assert counter.asked == asked + 1


async def test_a_bounded_number_of_senders_is_known() -> None:
    rates = replica(Counter(), Clock())
    for number in range(50):
        await let_in(rates, 1, sender=f"key:{number}")
    assert len(rates._leases) == 10


async def test_a_replica_counts_alone_while_the_counter_is_gone_and_says_so() -> None:
    counter, clock, metrics = Counter(), Clock(), Metrics()
    shared = replica(counter, clock, metrics)
    limits = RateLimits(fine, rate="4/hour", metrics=metrics, shared=shared)
    http = asked_by(limits, key_of("key:a"))

    async def status() -> int:
        return (await http.get("/v1/corpora")).status_code

    def alone() -> float | None:
        return metrics.registry.get_sample_value("lodestone_rates_local")

    assert (await status(), alone(), shared.answers) == (200, 0, True)
    counter.gone = True
    assert [await status() for _ in range(6)] == [200, 200, 200, 429, 429, 429], "the first one was counted here, too"
    assert (alone(), shared.answers) == (1, False)
    asked = counter.asked
    await status()
    assert counter.asked == asked, "not at every request"
    counter.gone = False
    clock.now += AWAY_S
    assert (await status(), alone(), shared.answers) == (200, 0, True)


async def test_a_counter_that_hangs_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_rates, "PATIENCE_S", 0.01)
    counter = Counter()
    counter.hang = asyncio.Event()
    rates = replica(counter, Clock())
    assert await asyncio.gather(*(rates.take("key:a", amount=9, window_s=60) for _ in range(5))) == [None] * 5
    assert counter.asked == 1
    counter.hang.set()


@pytest.mark.parametrize(("replicas", "shared"), [(1, False), (3, True)])
async def test_several_replicas_share_rates_and_a_status_tells_whether_they_can(
    replicas: int, shared: bool, tmp_path: Path
) -> None:
    class Gone:
        def take(self, *_: object, **__: object) -> TokenGrant:
            raise CatalogError("the server is gone")

    services = FakeServices(tmp_path)
    services.rates = Gone()
    graph = GraphSettings(shape="graph", ingress=StageSettings(max_replicas=replicas))
    settings = ServeSettings(graph=graph, load={"rate": "9/hour"})
    app = create_app(services, settings=settings, token="t")
    call = Call(app, "GET", "/v1/corpora")
    await call.task
    assert call.status == 200
    call = Call(app, "GET", "/readyz")
    await call.task
    assert call.status == 200
    assert (b"counted by each replica alone" in call.body) is shared
