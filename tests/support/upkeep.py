"""A service in this process whose watcher is impatient, for tests of what it does in the background."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.home import settings_for
from tests.support.home_copies import copy_folder

from lodestone.access.caller import LOCAL_CALLER
from lodestone.config.settings import Settings
from lodestone.directories.watch import WatchDelays
from lodestone.services.use_cases import Services, make_services
from lodestone_schemas.api import SearchRequest
from lodestone_serve.inference.home import home_session

IMPATIENT = WatchDelays(quiet=0.3, longest=5.0, look=0.2)
_WAIT_S = 240.0


def copied(indexed: Path, folder: Path, **index: int) -> Settings:
    """Settings of a copy of `indexed` (folders `home` and `pictures`) in `folder`; embeds nothing."""
    copy_folder(indexed, folder)
    with closing(sqlite3.connect(folder / "home" / "catalog.sqlite")) as catalog, catalog:
        catalog.execute("UPDATE roots SET path = ?", (str(folder / "pictures"),))
    return settings_for(folder, upkeep=True, **index)


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[Services]:
    """Services of a home, opened; closed at the end."""
    services = make_services(home_session(settings, delays=IMPATIENT))
    await services.session.open()
    try:
        yield services
    finally:
        await services.session.close()


async def until(condition: Callable[[], object], what: str = "") -> None:
    """Return once `condition()` holds; the loop goes on meanwhile. Fails after four minutes."""
    end = time.monotonic() + _WAIT_S
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < end, f"waited in vain {what}"
        await asyncio.sleep(0.05)


async def settled(services: Services) -> None:
    """Return once the check at the start is over and nothing is being indexed."""
    background = services.session.upkeep
    assert await asyncio.to_thread(background.repaired, _WAIT_S)
    assert await asyncio.to_thread(background.queue.wait, _WAIT_S)


async def found(services: Services, query: str = "coloured dots") -> set[str]:
    """`root/uri` of all pictures that a search finds."""
    response = await services.search.answer(SearchRequest(query=query, limit=200, guides=0), LOCAL_CALLER)
    return {f"{hit.root}/{hit.uri}" for hit in response.hits}


@dataclass
class Asker:
    """Asks again and again until it is stopped; keeps what went wrong."""

    services: Services
    answers: int = 0
    errors: list[str] = field(default_factory=list)

    async def run(self) -> None:
        while True:
            try:
                await self.services.search.answer(SearchRequest(query="coloured dots", limit=5, guides=0), LOCAL_CALLER)
                self.answers += 1
            except Exception as error:  # noqa: BLE001 - the test fails with it
                self.errors.append(repr(error))
            await asyncio.sleep(0.1)


@asynccontextmanager
async def asked_meanwhile(services: Services) -> AsyncIterator[Asker]:
    """Have queries answered while the block runs; afterwards none may have failed."""
    asker = Asker(services)
    task = asyncio.create_task(asker.run())
    try:
        yield asker
    finally:
        task.cancel()
    assert asker.errors == []
    assert asker.answers > 0
