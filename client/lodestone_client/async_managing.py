"""Management calls of `AsyncLodestone`: directories, runs, keys and the state of the service."""

from __future__ import annotations

from collections.abc import AsyncIterator

from lodestone_client import read_calls, write_calls
from lodestone_client.async_transport import AsyncTransport
from lodestone_client.call import Call
from lodestone_client.paging import AsyncPagedList
from lodestone_client.problems import error_of, unavailable
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
from lodestone_schemas.service import Alive, ServiceStatus
from lodestone_schemas.swaps import ShadowRequest, ShadowResult


class AsyncManaging(AsyncTransport):
    """The part of `AsyncLodestone` that manages a service."""

    async def rename_corpus(self, name: str, new: str) -> CorpusRenamed:
        """Call a corpus by another name. Nothing is indexed again, and keys that named it see it as before."""
        return await self._run(write_calls.rename_corpus(name, new))

    async def remove_corpus(self, name: str) -> None:
        """Remove a corpus everywhere. The picture files themselves are not touched."""
        await self._run(write_calls.remove_corpus(name))

    async def directories(self, offset: int = 0, limit: int = 50, *, cursor: str | None = None) -> DirectoryPage:
        """Return one page of the directories."""
        return await self._run(read_calls.directories(offset, limit, cursor))

    def iter_directories(self) -> AsyncIterator[DirectoryInfo]:
        """Yield all directories, page by page."""
        return AsyncPagedList(
            lambda offset, cursor: self.directories(offset, 200, cursor=cursor), lambda page: page.directories
        ).items()

    async def directory(self, directory_id: str) -> DirectoryInfo:
        """Return one directory by its id."""
        return await self._run(read_calls.directory(directory_id))

    async def add_directory(self, request: DirectoryRequest, *, idempotency_key: str | None = None) -> DirectoryAdded:
        """Add a folder of the service's machine and index it in the background. A directory that exists stays as it is."""
        return await self._run(write_calls.add_directory(request, idempotency_key))

    async def change_directory(
        self, directory_id: str, change: DirectoryChange, *, idempotency_key: str | None = None
    ) -> DirectoryInfo:
        """Switch a directory, or its watching, on or off."""
        return await self._run(write_calls.change_directory(directory_id, change, idempotency_key))

    async def split_directory(
        self, directory_id: str, request: DirectorySplit, *, idempotency_key: str | None = None
    ) -> DirectoryInfo:
        """Make a folder inside a directory a directory of its own, which can be disabled, watched or removed."""
        return await self._run(write_calls.split_directory(directory_id, request, idempotency_key))

    async def relocate_directory(
        self, directory_id: str, request: DirectoryRelocation, *, idempotency_key: str | None = None
    ) -> DirectoryAdded:
        """Tell where a directory's folder is now; its pictures keep their ids, tags and captions."""
        return await self._run(write_calls.relocate_directory(directory_id, request, idempotency_key))

    async def index_directory(
        self, directory_id: str, *, retry_failed: bool = False, idempotency_key: str | None = None
    ) -> JobInfo:
        """Have the service bring a directory up to date in the background, and try failed files again if that is wished."""
        return await self._run(write_calls.index_directory(directory_id, idempotency_key, retry_failed=retry_failed))

    async def remove_image(self, image_id: str, *, idempotency_key: str | None = None) -> None:
        """Remove everything that the service keeps of a picture; its file is not touched."""
        await self._run(write_calls.remove_image(image_id, idempotency_key))

    async def remove_directory(self, directory_id: str, *, idempotency_key: str | None = None) -> None:
        """Forget a directory, and stop what is being indexed of it."""
        await self._run(write_calls.remove_directory(directory_id, idempotency_key))

    async def jobs(self) -> JobList:
        """Return the service's background indexing jobs."""
        return await self._run(read_calls.jobs())

    async def cancel_job(self, job_id: str) -> JobInfo:
        """Cancel one background indexing job."""
        return await self._run(write_calls.cancel_job(job_id))

    async def runs(
        self,
        offset: int = 0,
        limit: int = 50,
        *,
        cursor: str | None = None,
        corpus: str | None = None,
        kind: str | None = None,
        state: RunStateName | None = None,
    ) -> RunPage:
        """Return one page of index and training runs, newest first."""
        return await self._run(read_calls.runs(offset, limit, cursor, corpus=corpus, kind=kind, state=state))

    def iter_runs(
        self, *, corpus: str | None = None, kind: str | None = None, state: RunStateName | None = None
    ) -> AsyncIterator[RunInfo]:
        """Yield all runs that match, newest first."""

        async def fetch(offset: int, cursor: str | None) -> RunPage:
            return await self.runs(offset, 200, cursor=cursor, corpus=corpus, kind=kind, state=state)

        return AsyncPagedList(fetch, lambda page: page.runs).items()

    async def run(self, run_id: str) -> RunInfo:
        """Return one run by its id."""
        return await self._run(read_calls.run(run_id))

    async def cancel_run(self, run_id: str) -> RunInfo:
        """Ask a run to stop; what it has finished is kept."""
        return await self._run(write_calls.cancel_run(run_id))

    async def run_failures(self, run_id: str, limit: int = 50, *, cursor: str | None = None) -> FailurePage:
        """Return one page of the files that failed in a run."""
        return await self._run(read_calls.run_failures(run_id, limit, cursor))

    def iter_run_failures(self, run_id: str) -> AsyncIterator[FailureInfo]:
        """Yield all files that failed in a run."""
        return AsyncPagedList(
            lambda _, cursor: self.run_failures(run_id, 200, cursor=cursor), lambda page: page.failures
        ).items()

    async def alive(self) -> Alive:
        """Return which run of the service answers."""
        return await self._run(read_calls.alive())

    async def ready(self) -> ServiceStatus:
        """Return the status of a service that is ready; raise ServiceUnavailableError otherwise. This is sent only once."""
        return await self._run(read_calls.ready())

    async def metrics(self) -> str:
        """Return the service's metrics in Prometheus's text format."""
        text = await self._run(read_calls.metrics())
        return text.decode()

    async def keys(self, offset: int = 0, limit: int = 50) -> KeyPage:
        """Return one page of API keys, without their secrets, newest first."""
        return await self._run(read_calls.keys(offset, limit))

    async def create_key(self, request: KeyRequest) -> KeyCreated:
        """Create a key; its secret is in this answer and nowhere else."""
        return await self._run(write_calls.create_key(request))

    async def rotate_key(self, key_id: str, rotation: KeyRotation | None = None) -> KeyCreated:
        """Replace a key by a new one; the old one stays valid for a while."""
        return await self._run(write_calls.rotate_key(key_id, rotation))

    async def revoke_key(self, key_id: str) -> KeyInfo:
        """Revoke a key; it ends everywhere within seconds."""
        return await self._run(write_calls.revoke_key(key_id))

    async def status(self) -> ServiceStatus:
        """Return the current state of the service's parts."""
        return await self._run(read_calls.status())

    async def shadow(self, request: ShadowRequest) -> ShadowResult:
        """Have the service compare both versions of a space that is being swapped; this may take minutes."""
        return await self._run(write_calls.shadow(request))

    def find_duplicates(self, request: DuplicatesRequest | None = None) -> AsyncIterator[SyncProgress]:
        """Have the service look for copies; yield every step, the last one `done` with the counts of each corpus."""
        return self._steps(write_calls.find_duplicates(request))

    def verify(self, request: VerifyRequest | None = None) -> AsyncIterator[SyncProgress]:
        """Have the service compare its collections with what was embedded; the last step has the facts of each collection."""
        return self._steps(write_calls.verify(request))

    def sync(self, request: SyncRequest | None = None) -> AsyncIterator[SyncProgress]:
        """Have the service bring its collections in line; yield every step, the last one `done`."""
        return self._steps(write_calls.sync(request))

    async def _steps(self, call: Call[None]) -> AsyncIterator[SyncProgress]:
        ended = False
        async for line in self._lines(call):
            step = write_calls.progress_of(line)
            if step.type == "error" and step.problem is not None:
                raise error_of(step.problem.model_dump())
            ended = step.type == "done"
            yield step
        if not ended:
            raise unavailable(self.url, "it went away during a sync")
