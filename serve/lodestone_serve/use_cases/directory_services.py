"""How does one opened home manage its directories? The part of `Services` over the catalog and the background work."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from lodestone.access.folders import check_folder
from lodestone.access.visibility import EVERYTHING, Visibility
from lodestone.directories.queue import Reason
from lodestone.directories.service import DirectoryService
from lodestone.directories.upkeep import order_for
from lodestone_schemas.directories import (
    DirectoryAdded,
    DirectoryChange,
    DirectoryInfo,
    DirectoryPage,
    DirectoryRequest,
    JobInfo,
    JobList,
)

if TYPE_CHECKING:
    from lodestone.home.runtime import Runtime
    from lodestone.query.engine import QueryEngine
    from lodestone_serve.use_cases.background import Background


class DirectoryServices(ABC):
    """Mixed into `HomeServices`."""

    @abstractmethod
    def opened(self) -> tuple[Runtime, QueryEngine]:
        """See `MemoryServices.opened`."""

    @abstractmethod
    def background(self) -> Background:
        """What works beside the queries; `ServiceUnavailableError` before and after."""

    @abstractmethod
    async def forget_directory(self, root_id: str) -> None:
        """Remove a directory and bring the collections in line, while nothing else changes them."""

    async def directories(
        self, offset: int, limit: int, *, cursor: str | None = None, visibility: Visibility = EVERYTHING
    ) -> DirectoryPage:
        """See `Services.directories`."""
        busy = self.background().queue.busy()
        return await asyncio.to_thread(
            lambda: self._book().page(offset, limit, cursor=cursor, busy=busy, visibility=visibility)
        )

    async def directory(self, directory_id: str) -> DirectoryInfo:
        """See `Services.directory`."""
        busy = self.background().queue.busy()
        return await asyncio.to_thread(lambda: self._book().describe(directory_id, busy=busy))

    async def add_directory(self, request: DirectoryRequest, *, visibility: Visibility = EVERYTHING) -> DirectoryAdded:
        """See `Services.add_directory`."""

        def add() -> DirectoryAdded:
            check_folder(request.path, request.corpus, self.opened()[0].settings.serve.index_folders, visibility)
            root = self._book().add(request.path, corpus=request.corpus, watch=request.watch)
            job = self._index(root.root_id, "added") if request.index else None
            busy = self.background().queue.busy()
            return DirectoryAdded(directory=self._book().describe(root.root_id, busy=busy), job=job)

        return await asyncio.to_thread(add)

    async def change_directory(self, directory_id: str, change: DirectoryChange) -> DirectoryInfo:
        """See `Services.change_directory`."""
        await asyncio.to_thread(lambda: self._book().change(directory_id, change))
        return await self.directory(directory_id)

    async def index_directory(self, directory_id: str) -> JobInfo:
        """See `Services.index_directory`."""
        return await asyncio.to_thread(lambda: self._index(directory_id, "asked"))

    async def remove_directory(self, directory_id: str) -> None:
        """See `Services.remove_directory`."""
        runtime, _ = self.opened()
        root = await asyncio.to_thread(runtime.catalog.root, directory_id)
        await asyncio.to_thread(self.background().queue.withdraw, root.path)
        await self.forget_directory(directory_id)

    async def jobs(self) -> JobList:
        """See `Services.jobs`."""
        return JobList(jobs=self.background().queue.jobs())

    async def cancel_job(self, job_id: str) -> JobInfo:
        """See `Services.cancel_job`."""
        return await asyncio.to_thread(self.background().queue.cancel, job_id)

    def _book(self) -> DirectoryService:
        runtime, _ = self.opened()
        return DirectoryService(runtime.catalog, runtime.home)

    def _index(self, root_id: str, reason: Reason) -> JobInfo:
        runtime, _ = self.opened()
        root = runtime.catalog.root(root_id)
        return self.background().queue.submit(order_for(runtime.catalog, root, reason=reason))
