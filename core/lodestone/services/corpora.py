"""Corpora: listed in pages, and removed with everything that was made of their pictures."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lodestone.access.caller import Caller
from lodestone.paging import PageRequest, decode_cursor, encode_cursor
from lodestone.services.limits import within
from lodestone_schemas.api import CorpusPage

if TYPE_CHECKING:
    from lodestone.services.sessions.session import HomeSession


class CorpusUseCases:
    """Lists and removes the corpora of one home."""

    def __init__(self, session: HomeSession) -> None:
        self._session = session

    def page(self, page: PageRequest, caller: Caller) -> CorpusPage:
        """Return one page of the corpora that the caller sees, by name.

        Raises:
            InvalidRequestError: no such cursor.
        """
        from lodestone.catalog.overview import corpus_overview

        catalog = self._session.runtime.catalog
        after = None if page.cursor is None else decode_cursor("corpora", page.cursor, str)[0]
        rows = catalog.corpora(page.offset, page.limit + 1, after=after, names=caller.visibility.corpora)
        corpora = [corpus_overview(catalog, row) for row in rows[: page.limit]]
        more = len(rows) > page.limit
        return CorpusPage(
            corpora=corpora,
            next_offset=page.offset + page.limit if more and page.cursor is None else None,
            next_cursor=encode_cursor("corpora", corpora[-1].name) if more else None,
        )

    async def remove(self, name: str, caller: Caller) -> None:
        """Remove a corpus everywhere. It waits for a running sync: both change the same collections.

        Raises:
            UnknownNameError: the corpus is unknown or not seen; lists those that are seen.
        """
        from lodestone.indexing.run.remove import remove_corpus

        with within(caller, name):
            async with self._session.changing:
                await asyncio.to_thread(remove_corpus, self._session.runtime, name)
