"""An asynchronous client for tests that are written once: every call is driven to its end, every iterator step by step."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Iterator
from typing import Any, Self

from lodestone_client import AsyncLodestone


class Driven:
    """Looks like `Lodestone`, and is an `AsyncLodestone` in a loop of its own."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        try:
            self._asker = AsyncLodestone(*arguments, **options)
        except BaseException:
            self._loop.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run_until_complete(self._asker.close())
        self._loop.close()

    def __repr__(self) -> str:
        return repr(self._asker)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._asker, name)

        def call(*arguments: Any, **options: Any) -> Any:
            result = method(*arguments, **options)
            if inspect.isasyncgen(result):
                return self._steps(result)
            return self._loop.run_until_complete(result) if inspect.isawaitable(result) else result

        return call if callable(method) else method

    def _steps(self, items: AsyncGenerator[Any, None]) -> Iterator[Any]:
        try:
            while True:
                try:
                    yield self._loop.run_until_complete(anext(items))
                except StopAsyncIteration:
                    return
        finally:
            self._loop.run_until_complete(items.aclose())
