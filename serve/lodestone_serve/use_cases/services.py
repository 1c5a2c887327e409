"""What does the HTTP layer need from the rest of Lodestone?

The app is built from one `Services` object, so that routes, limits and errors can be tried without a model or a store, and
the same app runs in a Ray Serve replica and under a plain ASGI server. Every method raises `LodestoneError` for what went
wrong on purpose; anything else is a defect and becomes a 500 without details.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lodestone.access.visibility import EVERYTHING, Visibility
from lodestone.query.request_context import NOW, RequestContext
from lodestone_schemas.api import (
    CorpusPage,
    EngineList,
    Event,
    FeedbackRequest,
    FeedbackResult,
    ImageInfo,
    ImagePage,
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
from lodestone_schemas.openai import DrawingRequest, ModelList
from lodestone_schemas.runs import FailurePage, RunInfo, RunPage, RunStateName
from lodestone_schemas.service import ServiceStatus
from lodestone_schemas.swaps import ShadowRequest, ShadowResult
from lodestone_serve.auth.api_key_cache import KeyStore


@dataclass(frozen=True, slots=True)
class ServedFile:
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


@dataclass(frozen=True, slots=True)
class RunFilters:
    """Which runs to list; None for any. `corpora` are names: with some, runs about no corpus are left out."""

    corpora: frozenset[str] | None = None
    kind: str | None = None
    state: RunStateName | None = None


@dataclass(frozen=True, slots=True)
class Embedded:
    """(n, dim) float32 `vectors`, L2-normalised, and the id of the `model` that made them."""

    model: str
    vectors: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class GeneratedImages:
    """`pictures`, each (h, w, 3) uint8 RGB, by an `engine`; what they `cost`, and what went wrong meanwhile."""

    engine: str
    pictures: Sequence[NDArray[np.uint8]]
    cost: float = 0.0
    warnings: Sequence[str] = ()


class Services(Protocol):
    """Everything that a route can ask for. All methods are safe to call concurrently from one event loop.

    Methods with a `visibility` tell of nothing else than it sees; the others tell of everything, and tenancy.py stands before
    them.
    """

    async def open(self) -> None:
        """Load models, open store and catalog; called once, before the first request."""

    async def close(self) -> None:
        """Release everything. Idempotent."""

    def events(self, request: SearchRequest, *, request_context: RequestContext = NOW) -> AsyncIterator[Event]:
        """The query's events; closing the iterator stops the query."""

    async def answer(self, request: SearchRequest, *, request_context: RequestContext = NOW) -> SearchResponse:
        """The query's final answer."""

    async def similar(self, image_id: str, options: SearchOptions, *, request_context: RequestContext = NOW) -> SearchResponse:
        """Pictures like an indexed one; `NotFoundError` for an unknown id."""

    async def by_picture(
        self, picture: bytes, options: SearchOptions, *, request_context: RequestContext = NOW
    ) -> SearchResponse:
        """Pictures like an uploaded one; `ImageError` when it cannot be decoded within the bounds."""

    async def image(self, image_id: str) -> ImageInfo:
        """What is known about a picture; `NotFoundError` for an unknown id."""

    async def thumbnail(self, image_id: str) -> ServedFile:
        """The picture's thumbnail, made now if it is missing."""

    async def content(self, image_id: str) -> ServedFile:
        """The picture's own file, if it still is what was indexed."""

    async def images(self, corpus: str, limit: int, *, cursor: str | None = None) -> ImagePage:
        """One page of a corpus's pictures, by root and path; `UnknownNameError` lists the corpora that exist."""

    async def corpora(
        self, offset: int, limit: int, *, cursor: str | None = None, visibility: Visibility = EVERYTHING
    ) -> CorpusPage:
        """One page of the corpora, by name. `cursor`: the page's before; `InvalidRequestError` for one that is none."""

    async def remove_corpus(self, name: str) -> None:
        """Remove a corpus everywhere; `UnknownNameError` lists those that exist."""

    async def directories(
        self, offset: int, limit: int, *, cursor: str | None = None, visibility: Visibility = EVERYTHING
    ) -> DirectoryPage:
        """One page of the directories, by corpus and name; `cursor` as of `corpora`."""

    async def directory(self, directory_id: str) -> DirectoryInfo:
        """One directory; `NotFoundError` for an unknown one."""

    async def add_directory(self, request: DirectoryRequest, *, visibility: Visibility = EVERYTHING) -> DirectoryAdded:
        """Add a folder and have it indexed in the background; one that is there already stays.

        Those who do not see everything may add only what lies in `serve.index_folders`; else `ForbiddenError`.
        """

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

    async def queries(
        self, offset: int, limit: int, *, cursor: str | None = None, visibility: Visibility = EVERYTHING
    ) -> QueryPage:
        """One page of recorded queries, newest first; `cursor` as of `corpora`."""

    async def explain(self, query_id: str, *, visibility: Visibility = EVERYTHING) -> QueryExplanation:
        """Everything that was recorded of a query; `NotFoundError` for an unknown or forgotten one."""

    async def replay(self, query_id: str, *, fresh: bool, visibility: Visibility = EVERYTHING) -> ReplayResult:
        """The query's ranking once more: from its record, or asked again."""

    async def guide_picture(self, query_id: str, guide_id: str, *, visibility: Visibility = EVERYTHING) -> GuidePicture:
        """The picture of a query's guide; `NotFoundError` when it is not kept."""

    async def feedback(self, request: FeedbackRequest, *, visibility: Visibility = EVERYTHING) -> FeedbackResult:
        """Learn trust from what was right and what was not."""

    async def trust(self) -> TrustPage:
        """Learnt trust, topic by topic."""

    async def generators(self) -> EngineList:
        """The guide engines and how they fare."""

    async def tags(
        self, filters: TagFilters, offset: int, limit: int, *, cursor: str | None = None, visibility: Visibility = EVERYTHING
    ) -> TagPage:
        """One page of tags; `cursor` as of `corpora`."""

    async def add_tags(self, request: TagRequest) -> TagList:
        """Tag pictures by hand."""

    async def remove_tag(self, tag_id: str, *, visibility: Visibility = EVERYTHING) -> None:
        """Remove a tag; `NotFoundError` for an unknown one."""

    async def runs(self, filters: RunFilters, offset: int, limit: int, *, cursor: str | None = None) -> RunPage:
        """One page of runs, newest first; `cursor` as of `corpora`."""

    async def run(self, run_id: str) -> RunInfo:
        """One run; `NotFoundError` for an unknown one."""

    async def cancel_run(self, run_id: str) -> RunInfo:
        """Ask a run to stop; one that has ended stays as it is. `NotFoundError` for an unknown one."""

    async def run_failures(self, run_id: str, limit: int, *, cursor: str | None = None) -> FailurePage:
        """One page of the files that last failed in a run; `NotFoundError` for an unknown run."""

    async def models(self) -> ModelList:
        """All models: spaces, text encoders, backbones, generators."""

    async def embed(self, model: str, inputs: Sequence[str | bytes]) -> Embedded:
        """Vectors of texts and of encoded pictures, by a space or a text encoder.

        Raises:
            UnknownNameError: no such model.
            InvalidRequestError: the model does not take such an input.
            ImageError: a picture cannot be decoded within the bounds.
        """

    async def draw(self, request: DrawingRequest) -> GeneratedImages:
        """Pictures of a generator, through the hub: its turn, its breaker, its budget.

        Raises:
            UnknownNameError: no such generator.
            InvalidRequestError: it does not draw pictures, or cannot draw these.
            ModelUnavailableError: it gave nothing.
            DeadlineExceededError: there was no time.
        """

    def key_store(self) -> KeyStore:
        """Where API keys are kept; its methods block."""

    async def status(self, *, visibility: Visibility = EVERYTHING) -> ServiceStatus:
        """What answers right now. Never raises: a part that fails is a check that is not ok."""

    async def shadow(self, request: ShadowRequest) -> ShadowResult:
        """Compare both versions of a space that is being swapped; `NotFoundError` when none is."""

    def sync(self, request: SyncRequest) -> AsyncIterator[SyncProgress]:
        """Bring the collections in line with catalog and Parquet; ends with `done` or `error`. One runs at a time."""
