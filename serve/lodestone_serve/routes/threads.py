"""The step from a route to a use case that blocks: it runs in a thread, and the event loop goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(use_case: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Return what a use case that blocks answers; it runs in a thread of the event loop's executor."""
    return await asyncio.to_thread(use_case, *arguments, **options)
