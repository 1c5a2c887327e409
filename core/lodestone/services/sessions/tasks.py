"""The end of asyncio tasks that run as long as the service."""

from __future__ import annotations

import asyncio
from typing import Any


async def stop(task: asyncio.Task[Any] | None) -> None:
    """Cancel a task and return when nothing of it runs any more. None stands for no task."""
    if task is not None:
        task.cancel()
        await asyncio.wait([task])
