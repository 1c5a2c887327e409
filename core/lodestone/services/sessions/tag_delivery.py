"""Delivery of tags: the collection that searches read catches up with the catalog, behind the answers.

What people said is in the catalog before they are answered. Only its delivery to the collection is behind: the catalog's outbox
holds it, whatever happens to this process, and is taken up again at the next start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import structlog

from lodestone.errors import LodestoneError
from lodestone.services.sessions.tasks import stop

SHOWN_S: Final = 0.25
"""Seconds that a write waits for its delivery: nearly always, what was tagged is found by the next search."""

_LOOK_S: Final = 30.0
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 60.0
_log = structlog.get_logger("lodestone.serve")


class TagDelivery:
    """Brings the tags' collection up to date, again and again until it is. For one event loop.

    Args:
        deliver: Empties the outbox into the collection; blocking.
        first_pause_s: Before a delivery that failed is tried again; doubled each time, up to a minute.
    """

    def __init__(self, deliver: Callable[[], object], *, first_pause_s: float = _FIRST_PAUSE_S) -> None:
        self._deliver = deliver
        self._first_pause_s = first_pause_s
        self._wanted = asyncio.Event()
        self._begun = self._shown = 0  # numbers of the delivery that began last, and of the last that was done
        self._news = asyncio.Event()  # set, and replaced, by every delivery that is done
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, with what was left from before."""
        self._wanted.set()
        self._task = asyncio.create_task(self._run())

    async def changed(self) -> None:
        """Tags have changed in the catalog: have them delivered. Returns when they are, or after a quarter of a second."""
        awaited = self._begun + 1
        self._wanted.set()
        try:
            async with asyncio.timeout(SHOWN_S):
                while self._shown < awaited:
                    await self._news.wait()
        except TimeoutError:
            _log.debug("the tags' collection is behind")

    async def close(self) -> None:
        """Stop; what is not delivered stays in the outbox. Idempotent."""
        task, self._task = self._task, None
        await stop(task)

    async def _run(self) -> None:
        pause = self._first_pause_s
        while True:
            with suppress(TimeoutError):  # other processes may have changed tags, or a writer left before it could say so
                async with asyncio.timeout(_LOOK_S):
                    await self._wanted.wait()
            self._wanted.clear()
            self._begun += 1
            try:
                await asyncio.to_thread(self._deliver)
            except LodestoneError as error:
                _log.warning("tags are not delivered yet", code=error.code, detail=error.message, again_in_s=pause)
            except Exception:  # noqa: BLE001 - it is tried again; the log has everything
                _log.exception("tags are not delivered yet", again_in_s=pause)
            else:
                pause = self._first_pause_s
                self._shown = self._begun
                self._news.set()
                self._news = asyncio.Event()
                continue
            self._wanted.set()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
