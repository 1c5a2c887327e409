"""Lists read page by page: by cursor where the service gives one, else by offset."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel

P = TypeVar("P", bound=BaseModel)
I = TypeVar("I")  # noqa: E741 - an item


@dataclass(frozen=True, slots=True)
class PagedList(Generic[P, I]):
    """A list in pages. `fetch` takes the offset and the cursor of a page, `items_of` returns what is on it."""

    fetch: Callable[[int, str | None], P]
    items_of: Callable[[P], Sequence[I]]

    def items(self) -> Iterator[I]:
        """Yield all items; each page is fetched when it is needed."""
        place: tuple[int, str | None] | None = (0, None)
        while place is not None:
            page = self.fetch(*place)
            yield from self.items_of(page)
            place = next_place(page, place)


@dataclass(frozen=True, slots=True)
class AsyncPagedList(Generic[P, I]):
    """A list in pages, for asynchronous code; see `PagedList`."""

    fetch: Callable[[int, str | None], Awaitable[P]]
    items_of: Callable[[P], Sequence[I]]

    async def items(self) -> AsyncIterator[I]:
        """Yield all items; each page is fetched when it is needed."""
        place: tuple[int, str | None] | None = (0, None)
        while place is not None:
            page = await self.fetch(*place)
            for item in self.items_of(page):
                yield item
            place = next_place(page, place)


def next_place(page: BaseModel, place: tuple[int, str | None]) -> tuple[int, str | None] | None:
    """Return offset and cursor of the page after `page`, which began at `place`; None at the end or without progress."""
    cursor = getattr(page, "next_cursor", None)
    if isinstance(cursor, str):
        return None if cursor == place[1] else (0, cursor)
    offset = getattr(page, "next_offset", None)
    return (offset, None) if isinstance(offset, int) and offset > place[0] else None
