"""Interface for asynchronous code to everything that can be asked; `sync_api` is made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lodestone_client.paging import AsyncPagedList
from lodestone_schemas.operation_rows import AsyncPerformer
from lodestone_schemas.operations import Operations

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lodestone_schemas.api import CorpusInfo, ImageInfo, QueryInfo, TagInfo, TagPage
    from lodestone_schemas.directories import DirectoryInfo
    from lodestone_schemas.runs import FailureInfo, RunInfo, RunPage, RunStateName

_ROWS = 200  # of a page


class AsyncLodestoneApi(Operations, AsyncPerformer):
    """All operations, and whole lists of what they return in pages. Every method raises `LodestoneError`."""

    def iter_images(self, corpus: str) -> AsyncIterator[ImageInfo]:
        """Yield all pictures of a corpus."""
        return AsyncPagedList(lambda _, cursor: self.images(corpus, _ROWS, cursor=cursor), lambda page: page.images).items()

    def iter_corpora(self) -> AsyncIterator[CorpusInfo]:
        """Yield all corpora, by name."""
        return AsyncPagedList(
            lambda offset, cursor: self.corpora(offset, _ROWS, cursor=cursor), lambda page: page.corpora
        ).items()

    def iter_directories(self) -> AsyncIterator[DirectoryInfo]:
        """Yield all directories, by corpus and name."""
        return AsyncPagedList(
            lambda offset, cursor: self.directories(offset, _ROWS, cursor=cursor), lambda page: page.directories
        ).items()

    def iter_queries(self) -> AsyncIterator[QueryInfo]:
        """Yield all recorded queries, newest first."""
        return AsyncPagedList(
            lambda offset, cursor: self.queries(offset, _ROWS, cursor=cursor), lambda page: page.queries
        ).items()

    def iter_tags(
        self,
        *,
        corpus: str | None = None,
        image_id: str | None = None,
        text: str | None = None,
        source: str | None = None,
    ) -> AsyncIterator[TagInfo]:
        """Yield all tags that match, newest first."""

        async def fetch(offset: int, cursor: str | None) -> TagPage:
            return await self.tags(offset, _ROWS, cursor=cursor, corpus=corpus, image_id=image_id, text=text, source=source)

        return AsyncPagedList(fetch, lambda page: page.tags).items()

    def iter_runs(
        self, *, corpus: str | None = None, kind: str | None = None, state: RunStateName | None = None
    ) -> AsyncIterator[RunInfo]:
        """Yield all runs that match, newest first."""

        async def fetch(offset: int, cursor: str | None) -> RunPage:
            return await self.runs(offset, _ROWS, cursor=cursor, corpus=corpus, kind=kind, state=state)

        return AsyncPagedList(fetch, lambda page: page.runs).items()

    def iter_run_failures(self, run_id: str) -> AsyncIterator[FailureInfo]:
        """Yield all files that failed in a run."""
        return AsyncPagedList(
            lambda _, cursor: self.run_failures(run_id, _ROWS, cursor=cursor), lambda page: page.failures
        ).items()

    async def close(self) -> None:
        """Release connections, and whatever else was opened."""
        raise NotImplementedError
