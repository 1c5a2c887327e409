"""Corpora: listed in pages, and removed with everything that was made of their pictures."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from lodestone.access.caller import Caller
from lodestone.errors import StoreLockedError
from lodestone.paging import PageRequest, decode_cursor, encode_cursor
from lodestone.services.limits import need_all_corpora, within
from lodestone_schemas.api import CorpusPage, CorpusRenamed

if TYPE_CHECKING:
    from lodestone.services.sessions.session import HomeSession


_TOKENS: Final = "tokens of the OpenID issuer name corpora by their names: change the claim where it names this one"


class CorpusUseCases:
    """Lists, renames and removes the corpora of one home."""

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

    async def rename(self, name: str, new: str, caller: Caller) -> CorpusRenamed:
        """Call a corpus by another name. Keys that named it see it as before.

        Raises:
            ForbiddenError: the caller does not see every corpus: a name must be free among all.
            UnknownNameError: the corpus is unknown.
            InvalidRequestError: the new name cannot be used.
            StoreLockedError: it is being indexed, or waits for that.
        """
        from lodestone.catalog.overview import corpus_overview
        from lodestone.indexing.run.corpus_changes import rename_corpus

        need_all_corpora(caller, "naming a corpus")
        session = self._session
        async with session.changing:
            if name in await asyncio.to_thread(session.busy):
                raise StoreLockedError(
                    f"the corpus {name!r} is being indexed, or waits for that",
                    hint="wait until it has ended, or cancel it: lodestone directory jobs",
                )
            report = await asyncio.to_thread(rename_corpus, session.runtime, name, new)
        overview = await asyncio.to_thread(corpus_overview, session.runtime.catalog, report.corpus)
        notes = [] if session.runtime.settings.serve.auth.oidc_issuer is None else [_TOKENS]
        return CorpusRenamed(corpus=overview, keys=list(report.keys), notes=notes)

    async def remove(self, name: str, caller: Caller) -> None:
        """Remove a corpus everywhere. It waits for a running sync: both change the same collections.

        Raises:
            UnknownNameError: the corpus is unknown or not seen; lists those that are seen.
        """
        from lodestone.indexing.run.corpus_changes import remove_corpus

        with within(caller, name):
            async with self._session.changing:
                await asyncio.to_thread(remove_corpus, self._session.runtime, name)
