"""How does a task that runs as long as the service end? It is cancelled, and waited for whatever it says."""

from __future__ import annotations

import asyncio
from typing import Any


async def stop(task: asyncio.Task[Any] | None) -> None:
    """Cancel a task and return when nothing of it runs any more; None: there is none."""
    if task is not None:
        task.cancel()
        await asyncio.wait([task])
