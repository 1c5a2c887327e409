"""Directories and their background indexing: listed, added, switched, brought up to date and removed.

Check of the folders on the service's machine that an API key may have indexed. The setting `serve.index_folders` names one
folder for each corpus; only folders below it may be added. Pictures that are indexed can be looked at, so without this check a
key that may index could read every picture that the service can read.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lodestone.access.caller import Caller
from lodestone.access.visibility import EVERYTHING, Visibility
from lodestone.directories.queue import Reason
from lodestone.directories.service import DirectoryService
from lodestone.directories.upkeep import order_for
from lodestone.errors import ForbiddenError, NotFoundError
from lodestone.paging import PageRequest
from lodestone.services.limits import own, within
from lodestone.sources.boundaries import boundaries_of
from lodestone_schemas.directories import (
    DirectoryAdded,
    DirectoryChange,
    DirectoryInfo,
    DirectoryPage,
    DirectoryRelocation,
    DirectoryRequest,
    DirectorySplit,
    JobInfo,
    JobList,
)

if TYPE_CHECKING:
    from lodestone.services.sessions.session import HomeSession


class DirectoryUseCases:
    """Manages the directories of one home. Those of corpora that the caller does not see are unknown to them; so are jobs."""

    def __init__(self, session: HomeSession) -> None:
        self._session = session

    def page(self, page: PageRequest, caller: Caller) -> DirectoryPage:
        """Return one page of the directories that the caller sees, by corpus and name.

        Raises:
            InvalidRequestError: no such cursor.
        """
        return self._service().page(
            page.offset, page.limit, cursor=page.cursor, busy=self._session.busy(), corpora=caller.visibility.corpora
        )

    def get(self, directory_id: str, caller: Caller) -> DirectoryInfo:
        """Return one directory.

        Raises:
            NotFoundError: the directory is unknown or not seen.
        """
        missing = NotFoundError(
            f"there is no directory {directory_id!r}", hint="see /v1/directories", directory_id=directory_id
        )
        busy = self._session.busy()
        describe = self._service().describe
        return own(caller, lambda: describe(directory_id, busy=busy), lambda directory: directory.corpus, missing)

    def add(self, request: DirectoryRequest, caller: Caller) -> DirectoryAdded:
        """Add a folder and have it indexed in the background; one that is there already stays.

        Raises:
            ForbiddenError: the folder lies outside what `serve.index_folders` names for the caller.
            UnknownNameError: the corpus is not seen.
            NotFoundError, InvalidRequestError: see `DirectoryService.add`.
        """
        with within(caller, request.corpus):
            folders = self._session.runtime.settings.serve.index_folders
            path = check_folder(request.path, request.corpus, folders, caller.visibility)
            catalog = self._session.runtime.catalog
            former = {root.root_id: root.path for root in catalog.roots(None)}
            boundaries = boundaries_of(self._session.runtime.settings)
            root = self._service().add(path, corpus=request.corpus, watch=request.watch, boundaries=boundaries)
            job = self._index(root.root_id, "added") if request.index else None
            return DirectoryAdded(
                directory=self._service().describe(root.root_id, busy=self._session.busy()),
                job=job,
                relocated=former.get(root.root_id, root.path) != root.path,
            )

    async def relocate(self, directory_id: str, request: DirectoryRelocation, caller: Caller) -> DirectoryAdded:
        """Tell where a directory's folder is now: its pictures keep their ids, and are not embedded again. Raises as `get`.

        Raises:
            ForbiddenError: the folder lies outside what `serve.index_folders` names for the caller.
            NotFoundError, InvalidRequestError, StoreLockedError: see `relocate_directory`.
        """
        from lodestone.directories.changes import relocate_directory

        directory = await asyncio.to_thread(self.get, directory_id, caller)
        runtime = self._session.runtime
        path = check_folder(request.path, directory.corpus, runtime.settings.serve.index_folders, caller.visibility)
        root = await asyncio.to_thread(runtime.catalog.root, directory_id)
        await asyncio.to_thread(self._session.withdraw, root.path)
        async with self._session.changing:
            boundaries = boundaries_of(runtime.settings)
            relocation = await asyncio.to_thread(relocate_directory, runtime, directory_id, path, boundaries=boundaries)
            if relocation.merged is not None:
                await self._session.load()
        job = self._index(relocation.root.root_id, "asked") if request.index else None
        described = await asyncio.to_thread(self._service().describe, relocation.root.root_id, busy=self._session.busy())
        return DirectoryAdded(directory=described, job=job, relocated=True)

    def change(self, directory_id: str, change: DirectoryChange, caller: Caller) -> DirectoryInfo:
        """Switch a directory; in force with the next query. Raises as `get`.

        Raises:
            InvalidRequestError: it cannot be watched.
        """
        self._check_seen(directory_id, caller)
        self._service().change(directory_id, change)
        return self.get(directory_id, caller)

    def index(self, directory_id: str, caller: Caller, *, retry_failed: bool = False) -> JobInfo:
        """Have a directory brought up to date in the background. Raises as `get`.

        Args:
            directory_id: The directory.
            caller: Whoever asks.
            retry_failed: Whether unchanged files that failed before are tried again.

        Raises:
            ServiceUnavailableError: nothing indexes in the background of this process.
        """
        self._check_seen(directory_id, caller)
        return self._index(directory_id, "asked", retry_failed=retry_failed)

    async def split(self, directory_id: str, request: DirectorySplit, caller: Caller) -> DirectoryInfo:
        """Make a folder inside a directory a directory of its own, which can be disabled, watched or removed. Raises as `get`.

        Raises:
            NotFoundError, InvalidRequestError, StoreLockedError: see `split_directory`.
        """
        from lodestone.directories.changes import split_directory

        await asyncio.to_thread(self._check_seen, directory_id, caller)
        runtime = self._session.runtime
        async with self._session.changing:
            part, moved = await asyncio.to_thread(split_directory, runtime, directory_id, request.folder)
            if moved:
                await self._session.load()
        return await asyncio.to_thread(self.get, part.root_id, caller)

    async def remove(self, directory_id: str, caller: Caller) -> None:
        """Forget a directory. What is being indexed of it stops; directories around it leave it out. Raises as `get`."""
        from lodestone.directories.changes import leave_out_around, remove_directory

        await asyncio.to_thread(self._check_seen, directory_id, caller)
        runtime = self._session.runtime
        root = await asyncio.to_thread(runtime.catalog.root, directory_id)
        await asyncio.to_thread(self._session.withdraw, root.path)
        async with self._session.changing:
            await asyncio.to_thread(remove_directory, runtime, directory_id)
            await asyncio.to_thread(leave_out_around, runtime.catalog, root)
            await self._session.load()

    def jobs(self, caller: Caller) -> JobList:
        """Return the background indexing of corpora that the caller sees, oldest first."""
        return JobList(jobs=[job for job in self._session.queue.jobs() if caller.visibility.sees(job.corpus)])

    def cancel_job(self, job_id: str, caller: Caller) -> JobInfo:
        """Take back or stop one job; what is finished is kept.

        Raises:
            NotFoundError: the job is unknown or not seen.
        """
        if caller.visibility != EVERYTHING and all(job.job_id != job_id for job in self.jobs(caller).jobs):
            raise NotFoundError(f"there is no job {job_id!r}", hint="see /v1/jobs", job_id=job_id)
        return self._session.queue.cancel(job_id)

    def _check_seen(self, directory_id: str, caller: Caller) -> None:
        if caller.visibility != EVERYTHING:
            self.get(directory_id, caller)

    def _service(self) -> DirectoryService:
        runtime = self._session.runtime
        return DirectoryService(runtime.catalog, runtime.home)

    def _index(self, root_id: str, reason: Reason, *, retry_failed: bool = False) -> JobInfo:
        catalog = self._session.runtime.catalog
        order = order_for(catalog, catalog.root(root_id), reason=reason, retry_failed=retry_failed)
        return self._session.queue.submit(order)


ALL: Final = "*"


def check_folder(path: str, corpus: str, folders: Mapping[str, Path], visibility: Visibility) -> str:
    """Check that the caller may add the folder at `path` to `corpus`, and return the path to add.

    For a caller who is limited to a folder, that is the path below this folder, without links: whoever can exchange a link
    elsewhere on the way would otherwise choose what is indexed later.

    Args:
        path: Absolute path of the folder, as the caller sent it.
        corpus: Name of the corpus that the folder would belong to.
        folders: Maps a corpus to the folder around everything that may be added to it; `*` stands for callers who see all
            corpora.
        visibility: Visibility of the caller; a caller who sees everything may add any folder.

    Raises:
        ForbiddenError: The folder lies elsewhere. The message is the same whether the folder exists or not.
    """
    if visibility.corpora is None and visibility.all_queries:
        return path
    allowed_root = folders.get(corpus) or (folders.get(ALL) if visibility.corpora is None else None)
    if allowed_root is not None and "\0" not in path and Path(path).is_absolute():
        # Links are followed, because they may lead out of the allowed folder.
        real, allowed = Path(os.path.realpath(path)), Path(os.path.realpath(allowed_root))
        if real.is_relative_to(allowed):
            return os.path.abspath(allowed_root / real.relative_to(allowed))  # noqa: PTH100 - not resolve(): its own path is kept
    raise ForbiddenError(
        f"the folder {path[:200]!r} may not be added to the corpus {corpus!r}",
        hint="the setting serve.index_folders names the folder for each corpus; a key with the scope `admin` may add any",
        corpus=corpus,
    )
