"""Client of the home on this machine for commands: its running service does what needs the store or models, if there is one.

Everything else is read from the catalog in this process, so that a command starts quickly and works beside a service.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from lodestone.access.caller import LOCAL_CALLER, Caller
from lodestone.services.lazy import lazy_services
from lodestone.services.local import LocalClient
from lodestone.services.sessions.in_process import InProcessSession

if TYPE_CHECKING:
    from lodestone.directories.queue import RunQueue
    from lodestone.home.runtime import Runtime
    from lodestone.services.use_cases import Services
    from lodestone_client import Lodestone
    from lodestone_schemas.api import (
        CorpusRenamed,
        DuplicatesRequest,
        EngineList,
        FeedbackRequest,
        FeedbackResult,
        PictureTags,
        ReplayResult,
        SearchOptions,
        SearchRequest,
        SearchResponse,
        SyncProgress,
        VerifyRequest,
    )
    from lodestone_schemas.directories import (
        DirectoryAdded,
        DirectoryInfo,
        DirectoryRelocation,
        DirectoryRequest,
        DirectorySplit,
        JobInfo,
        JobList,
    )

    FindService = Callable[[], Lodestone | None]


class HomeClient(LocalClient):
    """Implements `LodestoneApi` for a home on this machine, for one thread.

    Args:
        services: The use cases.
        caller: Who asks for them.
        find_service: Returns a client of the service that owns this home; None when none is running.
    """

    def __init__(self, services: Services, *, caller: Caller = LOCAL_CALLER, find_service: FindService = lambda: None) -> None:
        super().__init__(services, caller=caller)
        self._find_service = find_service

    @classmethod
    def over(cls, runtime: Runtime, *, queue: RunQueue | None = None, find_service: FindService = lambda: None) -> Self:
        """Return a client of the opened home of `runtime`, for this machine's user; see `LocalClient.over`."""
        return cls(lazy_services(_CommandSession(runtime, queue, find_service)), find_service=find_service)

    def search(self, request: SearchRequest | str) -> SearchResponse:
        """Return the final answer to a query in words, from the service or from models of this process."""
        service = self._find_service()
        return super().search(request) if service is None else service.search(request)

    def similar(self, image_id: str, options: SearchOptions | None = None) -> SearchResponse:
        """Return pictures like an indexed one, from the service or from the store opened here."""
        service = self._find_service()
        return super().similar(image_id, options) if service is None else service.similar(image_id, options)

    def by_picture(self, picture: bytes, options: SearchOptions | None = None, *, more: Sequence[bytes] = ()) -> SearchResponse:
        """Return pictures like the one in `picture`, and in `more`, from the service or from models of this process."""
        service = self._find_service()
        asked = super().by_picture if service is None else service.by_picture
        return asked(picture, options, more=more)

    def tag_picture(self, picture: bytes) -> PictureTags:
        """Return what is found out about the picture in `picture`, by the service or by models of this process."""
        service = self._find_service()
        return super().tag_picture(picture) if service is None else service.tag_picture(picture)

    def tag_image(self, image_id: str) -> PictureTags:
        """Return what is found out about an indexed picture, by the service or by models of this process."""
        service = self._find_service()
        return super().tag_image(image_id) if service is None else service.tag_image(image_id)

    def replay(self, query_id: str, *, fresh: bool = False) -> ReplayResult:
        """Return a recorded query's ranking once more; with `fresh` from the service, if there is one."""
        service = self._find_service() if fresh else None  # the record is in the catalog
        return super().replay(query_id, fresh=fresh) if service is None else service.replay(query_id, fresh=fresh)

    def feedback(self, request: FeedbackRequest, *, idempotency_key: str | None = None) -> FeedbackResult:
        """Learn from feedback in the service, or here with the tags delivered at once."""
        service = self._find_service()
        if service is None:
            return super().feedback(request, idempotency_key=idempotency_key)
        return service.feedback(request, idempotency_key=idempotency_key)

    def generators(self) -> EngineList:
        """Return the guide engines with the service's counts, or as this home configures them."""
        service = self._find_service()
        return super().generators() if service is None else service.generators()

    def find_duplicates(self, request: DuplicatesRequest | None = None) -> Iterator[SyncProgress]:
        """Look for copies of pictures, in the service or here."""
        service = self._find_service()
        return super().find_duplicates(request) if service is None else service.find_duplicates(request)

    def verify(self, request: VerifyRequest | None = None) -> Iterator[SyncProgress]:
        """Compare the collections with what was embedded, in the service or here."""
        service = self._find_service()
        return super().verify(request) if service is None else service.verify(request)

    def rename_corpus(self, name: str, new: str) -> CorpusRenamed:
        """Call a corpus by another name, in the service or here: the service may be about to index it."""
        service = self._find_service()
        return super().rename_corpus(name, new) if service is None else service.rename_corpus(name, new)

    def remove_corpus(self, name: str) -> None:
        """Remove a corpus everywhere, in the service or here."""
        service = self._find_service()
        if service is None:
            super().remove_corpus(name)
        else:
            service.remove_corpus(name)

    def add_directory(self, request: DirectoryRequest, *, idempotency_key: str | None = None) -> DirectoryAdded:
        """Add a folder; the service indexes it in the background. Without one there is no job, and nothing is indexed."""
        from lodestone_schemas.directories import DirectoryAdded

        added = super().add_directory(request.model_copy(update={"index": False}))
        directory = added.directory
        service = self._find_service()
        job = None
        if request.index and service is not None:
            job = service.index_directory(directory.directory_id, idempotency_key=idempotency_key)
            directory = self.directory(directory.directory_id)
        return DirectoryAdded(directory=directory, job=job, relocated=added.relocated)

    def split_directory(
        self, directory_id: str, request: DirectorySplit, *, idempotency_key: str | None = None
    ) -> DirectoryInfo:
        """Make a folder inside a directory one of its own, in the service or here."""
        service = self._find_service()
        if service is None:
            return super().split_directory(directory_id, request, idempotency_key=idempotency_key)
        return service.split_directory(directory_id, request, idempotency_key=idempotency_key)

    def relocate_directory(
        self, directory_id: str, request: DirectoryRelocation, *, idempotency_key: str | None = None
    ) -> DirectoryAdded:
        """Tell where a directory's folder is now, in the service or here; without a service nothing is indexed."""
        service = self._find_service()
        if service is None:
            here = request.model_copy(update={"index": False})
            return super().relocate_directory(directory_id, here, idempotency_key=idempotency_key)
        path = os.path.abspath(Path(request.path).expanduser())  # noqa: PTH100 - not resolve(): a linked folder keeps its name
        there = request.model_copy(update={"path": path})
        return service.relocate_directory(directory_id, there, idempotency_key=idempotency_key)

    def index_directory(self, directory_id: str, *, retry_failed: bool = False, idempotency_key: str | None = None) -> JobInfo:
        """Have the service bring a directory up to date; ServiceUnavailableError without one."""
        service = self._find_service()
        if service is None:
            return super().index_directory(directory_id, retry_failed=retry_failed, idempotency_key=idempotency_key)
        return service.index_directory(directory_id, retry_failed=retry_failed, idempotency_key=idempotency_key)

    def remove_image(self, image_id: str, *, idempotency_key: str | None = None) -> None:
        """Remove everything that is kept of a picture, in the service or here."""
        service = self._find_service()
        if service is None:
            super().remove_image(image_id, idempotency_key=idempotency_key)
        else:
            service.remove_image(image_id, idempotency_key=idempotency_key)

    def remove_directory(self, directory_id: str, *, idempotency_key: str | None = None) -> None:
        """Forget a directory, in the service or here."""
        service = self._find_service()
        if service is None:
            super().remove_directory(directory_id, idempotency_key=idempotency_key)
        else:
            service.remove_directory(directory_id, idempotency_key=idempotency_key)

    def jobs(self) -> JobList:
        """Return what the service indexes in the background; nothing without one."""
        from lodestone_schemas.directories import JobList

        service = self._find_service()
        return JobList(jobs=[]) if service is None else service.jobs()


class _CommandSession(InProcessSession):
    """The home of a command, beside a service or without one."""

    def __init__(self, runtime: Runtime, queue: RunQueue | None, find_service: FindService) -> None:
        super().__init__(runtime, queue=queue)
        self._find_service = find_service

    async def tags_changed(self) -> None:
        """Have the tags that have just changed found: by the service, or by delivering them here."""
        await asyncio.to_thread(deliver_tags, self.runtime, self._find_service())


def deliver_tags(runtime: Runtime, service: Lodestone | None) -> None:
    """Bring the tags' collection up to date: in the service, or else in this process, which then needs the store.

    Raises:
        StoreLockedError: another process owns the store.
    """
    if service is None:
        runtime.deliver_tags()
        return
    for _ in service.sync():
        pass
