"""The wait for a query's record: answers do not wait for it, looking back does."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lodestone.services.sessions.session import HomeSession

_OTHERS_WRITE_S: Final = (0.05, 0.1, 0.2, 0.4)  # between looks for a query that another replica has just answered


async def wait_until_recorded(session: HomeSession, query_id: str) -> None:
    """Return once the query is recorded, by this process or by another replica; after a second, return in any case."""
    await session.settled(query_id)
    catalog = session.runtime.catalog
    if catalog.path is None:  # a server's
        for pause in _OTHERS_WRITE_S:
            if await asyncio.to_thread(catalog.has_query, query_id):
                break
            await asyncio.sleep(pause)
