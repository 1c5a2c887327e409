"""Management of a home in this process: corpora, directories, runs, keys and syncs, as a part of `LocalClient`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from lodestone.access.caller import LOCAL_CALLER, Caller
from lodestone.paging import PageRequest
from lodestone_client.paging import PagedList

if TYPE_CHECKING:
    from lodestone.services.use_cases import Services
    from lodestone_schemas.access import KeyCreated, KeyInfo, KeyPage, KeyRequest, KeyRotation
    from lodestone_schemas.api import CorpusRenamed, DuplicatesRequest, SyncProgress, SyncRequest, VerifyRequest
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
    from lodestone_schemas.runs import FailureInfo, FailurePage, RunInfo, RunPage, RunStateName
    from lodestone_schemas.service import ServiceStatus
    from lodestone_schemas.swaps import ShadowRequest, ShadowResult

T = TypeVar("T")
_PAGE: Final = 200


class LocalManagement:
    """Runs use cases to their end, in an event loop of its own, and implements `ManagementApi`.

    Args:
        services: The use cases.
        caller: Who asks for them.
    """

    def __init__(self, services: Services, *, caller: Caller = LOCAL_CALLER) -> None:
        self._services = services
        self._caller = caller
        self._runner = asyncio.Runner()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the session of the use cases. Idempotent."""
        if not self._closed:
            self._closed = True
            self._runner.run(self._services.session.close())
            self._runner.close()

    def rename_corpus(self, name: str, new: str) -> CorpusRenamed:
        """Call a corpus by another name; pictures and vectors stay, and keys that named it see it as before."""
        return self._run(self._services.corpora.rename(name, new, self._caller))

    def remove_corpus(self, name: str) -> None:
        """Remove a corpus everywhere. The pictures themselves are not touched."""
        self._run(self._services.corpora.remove(name, self._caller))

    def directories(self, offset: int = 0, limit: int = 50, *, cursor: str | None = None) -> DirectoryPage:
        """Return one page of the directories, by corpus and name."""
        return self._services.directories.page(PageRequest(limit, offset, cursor), self._caller)

    def iter_directories(self) -> Iterator[DirectoryInfo]:
        """Yield all directories, by corpus and name."""
        return PagedList(
            lambda offset, cursor: self.directories(offset, _PAGE, cursor=cursor), lambda page: page.directories
        ).items()

    def directory(self, directory_id: str) -> DirectoryInfo:
        """Return one directory by its id."""
        return self._services.directories.get(directory_id, self._caller)

    def add_directory(self, request: DirectoryRequest, *, idempotency_key: str | None = None) -> DirectoryAdded:  # noqa: ARG002 - nothing is sent twice
        """Add a folder and have it indexed in the background; one that is there already stays."""
        return self._services.directories.add(request, self._caller)

    def change_directory(
        self,
        directory_id: str,
        change: DirectoryChange,
        *,
        idempotency_key: str | None = None,  # noqa: ARG002 - as above
    ) -> DirectoryInfo:
        """Switch a directory on or off, or its watching."""
        return self._services.directories.change(directory_id, change, self._caller)

    def split_directory(
        self,
        directory_id: str,
        request: DirectorySplit,
        *,
        idempotency_key: str | None = None,  # noqa: ARG002 - nothing is sent twice
    ) -> DirectoryInfo:
        """Make a folder inside a directory a directory of its own, which can be disabled, watched or removed."""
        return self._run(self._services.directories.split(directory_id, request, self._caller))

    def relocate_directory(
        self,
        directory_id: str,
        request: DirectoryRelocation,
        *,
        idempotency_key: str | None = None,  # noqa: ARG002 - nothing is sent twice
    ) -> DirectoryAdded:
        """Tell where a directory's folder is now; its pictures keep their ids, tags and captions."""
        return self._run(self._services.directories.relocate(directory_id, request, self._caller))

    def index_directory(
        self,
        directory_id: str,
        *,
        retry_failed: bool = False,
        idempotency_key: str | None = None,  # noqa: ARG002 - nothing is sent twice
    ) -> JobInfo:
        """Have a directory brought up to date in the background, and failed files tried again if that is wished."""
        return self._services.directories.index(directory_id, self._caller, retry_failed=retry_failed)

    def remove_image(self, image_id: str, *, idempotency_key: str | None = None) -> None:  # noqa: ARG002 - nothing is sent twice
        """Remove everything that is kept of a picture; its file is not touched."""
        self._run(self._services.pictures.remove(image_id, self._caller))

    def remove_directory(self, directory_id: str, *, idempotency_key: str | None = None) -> None:  # noqa: ARG002 - nothing is sent twice
        """Forget a directory; what is being indexed of it is stopped."""
        self._run(self._services.directories.remove(directory_id, self._caller))

    def jobs(self) -> JobList:
        """Return what is indexed in the background."""
        return self._services.directories.jobs(self._caller)

    def cancel_job(self, job_id: str) -> JobInfo:
        """Take back or stop one piece of background indexing."""
        return self._services.directories.cancel_job(job_id, self._caller)

    def runs(
        self,
        offset: int = 0,
        limit: int = 50,
        *,
        cursor: str | None = None,
        corpus: str | None = None,
        kind: str | None = None,
        state: RunStateName | None = None,
    ) -> RunPage:
        """Return one page of runs, newest first."""
        from lodestone.services.runs import RunFilters

        filters = RunFilters(None if corpus is None else frozenset({corpus}), kind, state)
        return self._services.runs.page(filters, PageRequest(limit, offset, cursor), self._caller)

    def iter_runs(
        self, *, corpus: str | None = None, kind: str | None = None, state: RunStateName | None = None
    ) -> Iterator[RunInfo]:
        """Yield all runs of a kind, newest first."""

        def fetch(offset: int, cursor: str | None) -> RunPage:
            return self.runs(offset, _PAGE, cursor=cursor, corpus=corpus, kind=kind, state=state)

        return PagedList(fetch, lambda page: page.runs).items()

    def run(self, run_id: str) -> RunInfo:
        """Return one run by its id."""
        return self._services.runs.get(run_id, self._caller)

    def cancel_run(self, run_id: str) -> RunInfo:
        """Ask a run to stop; what is finished is kept."""
        return self._services.runs.cancel(run_id, self._caller)

    def run_failures(self, run_id: str, limit: int = 50, *, cursor: str | None = None) -> FailurePage:
        """Return one page of the files that failed in a run."""
        return self._services.runs.failures(run_id, PageRequest(limit, cursor=cursor), self._caller)

    def iter_run_failures(self, run_id: str) -> Iterator[FailureInfo]:
        """Yield all files that failed in a run."""
        return PagedList(lambda _, cursor: self.run_failures(run_id, _PAGE, cursor=cursor), lambda page: page.failures).items()

    def keys(self, offset: int = 0, limit: int = 50) -> KeyPage:
        """Return one page of API keys, without their secrets, newest first."""
        return self._services.keys.page(PageRequest(limit, offset), self._caller)

    def create_key(self, request: KeyRequest) -> KeyCreated:
        """Make a key; its secret is in this answer, and nowhere else."""
        return self._services.keys.create(request, self._caller)

    def rotate_key(self, key_id: str, rotation: KeyRotation | None = None) -> KeyCreated:
        """Put a new key in a key's place; the old one stays valid for a while."""
        from lodestone_schemas.access import KeyRotation

        return self._services.keys.rotate(key_id, rotation or KeyRotation(), self._caller)

    def revoke_key(self, key_id: str) -> KeyInfo:
        """End an API key now."""
        return self._services.keys.revoke(key_id, self._caller)

    def status(self) -> ServiceStatus:
        """Return what answers right now."""
        return self._run(self._services.operations.status(self._caller))

    def shadow(self, request: ShadowRequest) -> ShadowResult:
        """Compare both versions of a space that is being swapped; may take minutes."""
        return self._run(self._services.operations.shadow(request, self._caller))

    def find_duplicates(self, request: DuplicatesRequest | None = None) -> Iterator[SyncProgress]:
        """Look for copies of pictures; yield every step, the last one `done` with the counts of each corpus."""
        from lodestone_schemas.api import DuplicatesRequest

        return self._each(self._services.operations.find_duplicates(request or DuplicatesRequest(), self._caller))

    def verify(self, request: VerifyRequest | None = None) -> Iterator[SyncProgress]:
        """Compare the collections with what was embedded; the last step has the facts of each collection."""
        from lodestone_schemas.api import VerifyRequest

        return self._each(self._services.operations.verify(request or VerifyRequest(), self._caller))

    def sync(self, request: SyncRequest | None = None) -> Iterator[SyncProgress]:
        """Bring the collections in line; yield every step, the last one `done`."""
        from lodestone_schemas.api import SyncRequest

        return self._each(self._services.operations.sync(request or SyncRequest(), self._caller))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def _each(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        """Yield what an asynchronous generator yields; it is closed with this iterator."""

        async def next_item() -> T:
            return await anext(items)

        try:
            while True:
                try:
                    yield self._runner.run(next_item())
                except StopAsyncIteration:
                    return
        finally:
            self._runner.run(items.aclose())
