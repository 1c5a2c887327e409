"""Replicas in several processes stay within a rate together, on a real PostgreSQL server."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from lodestone.catalog.catalog import Catalog
from lodestone.errors import CatalogError

pytestmark = pytest.mark.server

DAY_S = 86_400

# One replica: asks as fast as it can, and prints how often it was let in, and how often it asked the server.
REPLICA = """
import asyncio, sys
from lodestone.catalog.catalog import Catalog
from lodestone_serve.telemetry.metrics import Metrics
from lodestone_serve.traffic import shared_rates
from lodestone_serve.traffic.shared_rates import SharedRates

shared_rates.PATIENCE_S = 60.0  # the machine may be busy
catalog = Catalog.open(sys.argv[1])
asked = 0

class Counter:
    async def take(self, sender, **wanted):
        global asked
        asked += 1
        return await asyncio.to_thread(catalog.take_tokens, sender, **wanted)

async def main():
    rates = SharedRates(Counter(), Metrics(), most_senders=10)
    allowed = 0
    for _ in range(600):
        allowance = await rates.take("key:a", amount=200, window_s=86_400)
        assert allowance is not None
        allowed += allowance.allowed
    held = sum(lease.tokens for lease in rates._leases.values())
    print(allowed, held, asked)

asyncio.run(main())
"""


def test_two_processes_let_in_no_more_than_the_rate(postgres_url: str) -> None:
    Catalog.open(postgres_url).close()
    replicas = [
        subprocess.Popen([sys.executable, "-c", REPLICA, postgres_url], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    told = [tuple(int(number) for number in replica.communicate(timeout=240)[0].split()) for replica in replicas]
    allowed = sum(one[0] for one in told)
    assert 200 - 2 * 10 <= allowed <= 200, told  # at most a twentieth of the rate is held by each
    assert allowed + sum(one[1] for one in told) == 200
    assert sum(one[2] for one in told) < 200, "1,200 requests"


def test_many_threads_take_each_token_once(postgres_url: str) -> None:
    with Catalog.open(postgres_url) as catalog, ThreadPoolExecutor(8) as pool:
        together = threading.Barrier(8)

        def take(number: int) -> int:
            if number < 8:
                together.wait(180)
            return catalog.take_tokens("key:a", amount=50, window_s=DAY_S, wanted=3).granted

        assert sum(pool.map(take, range(40))) == 50
        assert catalog.take_tokens("key:b", amount=50, window_s=DAY_S, wanted=3).granted == 3
        grant = catalog.take_tokens("key:a", amount=60, window_s=DAY_S, wanted=4)
        assert (grant.granted, grant.remaining) == (4, 6), "the rate was raised"
        assert 0 < grant.left_s <= DAY_S


def test_the_window_before_counts_as_far_as_it_reaches_into_this_one(postgres_server, postgres_url: str) -> None:
    with Catalog.open(postgres_url) as catalog:
        catalog.take_tokens("key:a", amount=100, window_s=DAY_S, wanted=1)
        with catalog._engine.connect() as connection:
            connection.exec_driver_sql(
                "INSERT INTO rate_windows SELECT sender, window_s, number - 1, 100, 0, ends_at FROM rate_windows"
            )
            connection.commit()
        grant = catalog.take_tokens("key:a", amount=100, window_s=DAY_S, wanted=100)
        reaches = 100 * grant.left_s / DAY_S
        assert abs(1 + grant.granted + reaches - 100) <= 2


def test_a_catalog_without_a_server_says_that_it_cannot_count(tmp_path) -> None:
    with Catalog.open(tmp_path / "catalog.sqlite") as catalog, pytest.raises(CatalogError):
        catalog.take_tokens("key:a", amount=1, window_s=60, wanted=1)


def test_a_server_that_is_gone_is_reported_at_once(postgres_server) -> None:
    url = postgres_server.create_database()  # of its own: other tests share the other one

    async def taken(catalog: Catalog) -> None:
        async with asyncio.timeout(60):
            await asyncio.to_thread(catalog.take_tokens, "key:a", amount=9, window_s=60, wanted=1)

    with Catalog.open(url) as catalog:
        catalog.take_tokens("key:a", amount=9, window_s=60, wanted=1)
        postgres_server.drop_database(url)
        with pytest.raises(CatalogError):
            asyncio.run(taken(catalog))
