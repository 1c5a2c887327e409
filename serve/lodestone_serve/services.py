"""What does the HTTP layer need from the rest of Lodestone?

The app is built from one `Services` object, so that routes, limits and errors can be tried without a model or a store, and
the same app runs in a Ray Serve replica and under a plain ASGI server. Every method raises `LodestoneError` for what went
wrong on purpose; anything else is a defect and becomes a 500 without details.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lodestone.query.asking import NOW, Asking
from lodestone_schemas.api import (
    CorpusPage,
    EngineList,
    Event,
    FeedbackRequest,
    FeedbackResult,
    ImageInfo,
    QueryExplanation,
    QueryPage,
    ReplayResult,
    SearchOptions,
    SearchRequest,
    SearchResponse,
    SyncProgress,
    SyncRequest,
    TagList,
    TagPage,
    TagRequest,
    TrustPage,
)
from lodestone_schemas.directories import (
    DirectoryAdded,
    DirectoryChange,
    DirectoryInfo,
    DirectoryPage,
    DirectoryRequest,
    JobInfo,
    JobList,
)
from lodestone_schemas.service import ServiceStatus
from lodestone_schemas.swaps import ShadowRequest, ShadowResult


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that may be sent as it is, or its bytes. `etag` changes whenever they do."""

    source: Path | bytes
    media_type: str
    etag: str


@dataclass(frozen=True, slots=True)
class GuidePicture:
    """The small picture of a guide."""

    data: bytes
    media_type: str


@dataclass(frozen=True, slots=True)
class TagFilters:
    """Which tags to list; None for any."""

    corpus: str | None = None
    image_id: str | None = None
    text: str | None = None
    source: str | None = None


class Services(Protocol):
    """Everything that a route can ask for. All methods are safe to call concurrently from one event loop."""

    async def open(self) -> None:
        """Load models, open store and catalog; called once, before the first request."""

    async def close(self) -> None:
        """Release everything. Idempotent."""

    def events(self, request: SearchRequest, *, asking: Asking = NOW) -> AsyncIterator[Event]:
        """The query's events; closing the iterator stops the query."""

    async def answer(self, request: SearchRequest, *, asking: Asking = NOW) -> SearchResponse:
        """The query's final answer."""

    async def similar(self, image_id: str, options: SearchOptions, *, asking: Asking = NOW) -> SearchResponse:
        """Pictures like an indexed one; `NotFoundError` for an unknown id."""

    async def by_picture(self, picture: bytes, options: SearchOptions, *, asking: Asking = NOW) -> SearchResponse:
        """Pictures like an uploaded one; `ImageError` when it cannot be decoded within the bounds."""

    async def image(self, image_id: str) -> ImageInfo:
        """What is known about a picture; `NotFoundError` for an unknown id."""

    async def thumbnail(self, image_id: str) -> StoredFile:
        """The picture's thumbnail, made now if it is missing."""

    async def content(self, image_id: str) -> StoredFile:
        """The picture's own file, if it still is what was indexed."""

    async def corpora(self, offset: int, limit: int) -> CorpusPage:
        """One page of the corpora, by name."""

    async def remove_corpus(self, name: str) -> None:
        """Remove a corpus everywhere; `UnknownNameError` lists those that exist."""

    async def directories(self, offset: int, limit: int) -> DirectoryPage:
        """One page of the directories, by corpus and name."""

    async def directory(self, directory_id: str) -> DirectoryInfo:
        """One directory; `NotFoundError` for an unknown one."""

    async def add_directory(self, request: DirectoryRequest) -> DirectoryAdded:
        """Add a folder and have it indexed in the background; one that is there already stays."""

    async def change_directory(self, directory_id: str, change: DirectoryChange) -> DirectoryInfo:
        """Switch a directory; in force with the next query."""

    async def index_directory(self, directory_id: str) -> JobInfo:
        """Have a directory brought up to date in the background."""

    async def remove_directory(self, directory_id: str) -> None:
        """Forget a directory; what is being indexed of it is stopped."""

    async def jobs(self) -> JobList:
        """Background indexing, oldest first."""

    async def cancel_job(self, job_id: str) -> JobInfo:
        """Take back or stop one job; `NotFoundError` for an unknown one."""

    async def queries(self, offset: int, limit: int) -> QueryPage:
        """One page of recorded queries, newest first."""

    async def explain(self, query_id: str) -> QueryExplanation:
        """Everything that was recorded of a query; `NotFoundError` for an unknown or forgotten one."""

    async def replay(self, query_id: str, *, fresh: bool) -> ReplayResult:
        """The query's ranking once more: from its record, or asked again."""

    async def guide_picture(self, query_id: str, guide_id: str) -> GuidePicture:
        """The picture of a query's guide; `NotFoundError` when it is not kept."""

    async def feedback(self, request: FeedbackRequest) -> FeedbackResult:
        """Learn trust from what was right and what was not."""

    async def trust(self) -> TrustPage:
        """Learnt trust, topic by topic."""

    async def generators(self) -> EngineList:
        """The guide engines and how they fare."""

    async def tags(self, filters: TagFilters, offset: int, limit: int) -> TagPage:
        """One page of tags."""

    async def add_tags(self, request: TagRequest) -> TagList:
        """Tag pictures by hand."""

    async def remove_tag(self, tag_id: str) -> None:
        """Remove a tag; `NotFoundError` for an unknown one."""

    async def status(self) -> ServiceStatus:
        """What answers right now. Never raises: a part that fails is a check that is not ok."""

    async def shadow(self, request: ShadowRequest) -> ShadowResult:
        """Compare both versions of a space that is being swapped; `NotFoundError` when none is."""

    def sync(self, request: SyncRequest) -> AsyncIterator[SyncProgress]:
        """Bring the collections in line with catalog and Parquet; ends with `done` or `error`. One runs at a time."""
