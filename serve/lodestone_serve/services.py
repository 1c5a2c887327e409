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

from lodestone_schemas.api import (
    CorpusPage,
    Event,
    ImageInfo,
    SearchOptions,
    SearchRequest,
    SearchResponse,
    SyncProgress,
    SyncRequest,
)
from lodestone_schemas.service import ServiceStatus


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that may be sent as it is. `etag` changes whenever its bytes do."""

    path: Path
    media_type: str
    etag: str


class Services(Protocol):
    """Everything that a route can ask for. All methods are safe to call concurrently from one event loop."""

    async def open(self) -> None:
        """Load models, open store and catalog; called once, before the first request."""

    async def close(self) -> None:
        """Release everything. Idempotent."""

    def events(self, request: SearchRequest) -> AsyncIterator[Event]:
        """The query's events; closing the iterator stops the query."""

    async def answer(self, request: SearchRequest) -> SearchResponse:
        """The query's final answer."""

    async def similar(self, image_id: str, options: SearchOptions) -> SearchResponse:
        """Pictures like an indexed one; `NotFoundError` for an unknown id."""

    async def by_picture(self, picture: bytes, options: SearchOptions) -> SearchResponse:
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

    async def status(self) -> ServiceStatus:
        """What answers right now. Never raises: a part that fails is a check that is not ok."""

    def sync(self, request: SyncRequest) -> AsyncIterator[SyncProgress]:
        """Bring the collections in line with catalog and Parquet; ends with `done` or `error`. One runs at a time."""
