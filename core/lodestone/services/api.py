"""The interface that a command works by: a home of this process, or a service elsewhere, with the same methods and answers.

`LocalClient` implements it over the use cases of an opened home, `lodestone_client.Lodestone` over HTTP.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from lodestone_schemas.access import KeyCreated, KeyInfo, KeyPage, KeyRequest, KeyRotation
from lodestone_schemas.api import (
    BrowseRequest,
    CorpusInfo,
    CorpusPage,
    CorpusRenamed,
    DuplicatesRequest,
    EngineList,
    Event,
    FeedbackRequest,
    FeedbackResult,
    ImageInfo,
    ImagePage,
    PictureTags,
    QueryExplanation,
    QueryInfo,
    QueryPage,
    ReplayResult,
    SearchOptions,
    SearchRequest,
    SearchResponse,
    SyncProgress,
    SyncRequest,
    TagInfo,
    TagList,
    TagPage,
    TagRequest,
    TagTexts,
    TrustEventPage,
    TrustPage,
    VerifyRequest,
)
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
from lodestone_schemas.openai import DrawingList, DrawingRequest, EmbeddingList, EmbeddingsRequest, ModelInfo, ModelList
from lodestone_schemas.runs import FailureInfo, FailurePage, RunInfo, RunPage, RunStateName
from lodestone_schemas.service import ServiceStatus
from lodestone_schemas.swaps import ShadowRequest, ShadowResult


class SearchApi(Protocol):
    """Searching, looking at what is there, and teaching. Every method raises `LodestoneError`."""

    def search(self, request: SearchRequest | str) -> SearchResponse:
        """Return the final answer to a query in words, or to one composed of words and indexed pictures."""

    def stream(self, request: SearchRequest | str) -> Iterator[Event]:
        """Yield the events of a query in words; closing the iterator stops the query."""

    def similar(self, image_id: str, options: SearchOptions | None = None) -> SearchResponse:
        """Return pictures like an indexed one."""

    def by_picture(self, picture: bytes, options: SearchOptions | None = None, *, more: Sequence[bytes] = ()) -> SearchResponse:
        """Return pictures like the one in `picture`, a picture file's content, and like those in `more`."""

    def tag_picture(self, picture: bytes) -> PictureTags:
        """Return the labels, quality and safety score of `picture`, a picture file's content. Nothing is kept."""

    def tag_image(self, image_id: str) -> PictureTags:
        """Return the labels, quality and safety score of an indexed picture."""

    def image(self, image_id: str) -> ImageInfo:
        """Return what is known about a picture."""

    def images(self, corpus: str, limit: int = 50, *, cursor: str | None = None) -> ImagePage:
        """Return one page of a corpus's pictures, by root and path."""

    def browse(self, request: BrowseRequest) -> ImagePage:
        """Return one page of the pictures that pass filters: newest first, those without a date last."""

    def iter_images(self, corpus: str) -> Iterator[ImageInfo]:
        """Yield all pictures of a corpus."""

    def thumbnail(self, image_id: str) -> bytes:
        """Return a small version of a picture, a file's content."""

    def content(self, image_id: str) -> bytes:
        """Return the picture's own file."""

    def corpora(self, offset: int = 0, limit: int = 50, *, cursor: str | None = None) -> CorpusPage:
        """Return one page of the corpora, by name."""

    def iter_corpora(self) -> Iterator[CorpusInfo]:
        """Yield all corpora, by name."""

    def queries(self, offset: int = 0, limit: int = 50, *, cursor: str | None = None) -> QueryPage:
        """Return one page of recorded queries, newest first."""

    def iter_queries(self) -> Iterator[QueryInfo]:
        """Yield all recorded queries, newest first."""

    def explain(self, query_id: str) -> QueryExplanation:
        """Return everything that was recorded of a query."""

    def replay(self, query_id: str, *, fresh: bool = False) -> ReplayResult:
        """Return a recorded query's ranking once more; `fresh`: asked again of the collection as it is now."""

    def guide_picture(self, query_id: str, guide_id: str) -> bytes:
        """Return the picture of a query's guide, while the guide cache keeps it."""

    def feedback(self, request: FeedbackRequest, *, idempotency_key: str | None = None) -> FeedbackResult:
        """Learn from which pictures of an answer were right and which were not."""

    def trust(self) -> TrustPage:
        """Return learnt trust, topic by topic."""

    def trust_events(self, offset: int = 0, limit: int = 50, *, topic: str | None = None) -> TrustEventPage:
        """Return one page of what changed trust, newest first."""

    def generators(self) -> EngineList:
        """Return the guide engines, their breakers, and the state of the guide cache."""

    def tags(
        self,
        offset: int = 0,
        limit: int = 50,
        *,
        cursor: str | None = None,
        corpus: str | None = None,
        image_id: str | None = None,
        text: str | None = None,
        source: str | None = None,
    ) -> TagPage:
        """Return one page of tags, newest first."""

    def tag_texts(self, limit: int = 100, *, source: str | None = None) -> TagTexts:
        """Return the texts of tags with their numbers of pictures, those of most pictures first."""

    def iter_tags(
        self, *, corpus: str | None = None, image_id: str | None = None, text: str | None = None, source: str | None = None
    ) -> Iterator[TagInfo]:
        """Yield all tags of a kind, newest first."""

    def add_tags(self, request: TagRequest, *, idempotency_key: str | None = None) -> TagList:
        """Tag pictures by hand; a tag that is there stays as it is."""

    def remove_tag(self, tag_id: str, *, idempotency_key: str | None = None) -> None:
        """Remove one tag of a picture."""

    def models(self) -> ModelList:
        """Return all models: spaces, text encoders, backbones and generators."""

    def model(self, model_id: str) -> ModelInfo:
        """Return one model by its id."""

    def embeddings(self, request: EmbeddingsRequest) -> EmbeddingList:
        """Return vectors of words, or of pictures as `data:` URLs."""

    def generate_images(self, request: DrawingRequest) -> DrawingList:
        """Return pictures that a generator draws; it may cost something."""


class ManagementApi(Protocol):
    """Managing corpora, directories, runs and keys, and looking after the home. Every method raises `LodestoneError`."""

    def rename_corpus(self, name: str, new: str) -> CorpusRenamed:
        """Call a corpus by another name; pictures and vectors stay, and keys that named it see it as before."""

    def remove_corpus(self, name: str) -> None:
        """Remove a corpus everywhere. The pictures themselves are not touched."""

    def directories(self, offset: int = 0, limit: int = 50, *, cursor: str | None = None) -> DirectoryPage:
        """Return one page of the directories, by corpus and name."""

    def iter_directories(self) -> Iterator[DirectoryInfo]:
        """Yield all directories, by corpus and name."""

    def directory(self, directory_id: str) -> DirectoryInfo:
        """Return one directory by its id."""

    def add_directory(self, request: DirectoryRequest, *, idempotency_key: str | None = None) -> DirectoryAdded:
        """Add a folder and have it indexed in the background; one that is there already stays."""

    def change_directory(
        self, directory_id: str, change: DirectoryChange, *, idempotency_key: str | None = None
    ) -> DirectoryInfo:
        """Switch a directory on or off, or its watching."""

    def split_directory(
        self, directory_id: str, request: DirectorySplit, *, idempotency_key: str | None = None
    ) -> DirectoryInfo:
        """Make a folder inside a directory a directory of its own, which can be disabled, watched or removed."""

    def relocate_directory(
        self, directory_id: str, request: DirectoryRelocation, *, idempotency_key: str | None = None
    ) -> DirectoryAdded:
        """Tell where a directory's folder is now; its pictures keep their ids, tags and captions."""

    def index_directory(self, directory_id: str, *, retry_failed: bool = False, idempotency_key: str | None = None) -> JobInfo:
        """Have a directory brought up to date in the background, and failed files tried again if that is wished."""

    def remove_image(self, image_id: str, *, idempotency_key: str | None = None) -> None:
        """Remove everything that is kept of a picture; its file is not touched."""

    def remove_directory(self, directory_id: str, *, idempotency_key: str | None = None) -> None:
        """Forget a directory; what is being indexed of it is stopped."""

    def jobs(self) -> JobList:
        """Return what is indexed in the background."""

    def cancel_job(self, job_id: str) -> JobInfo:
        """Take back or stop one piece of background indexing."""

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

    def iter_runs(
        self, *, corpus: str | None = None, kind: str | None = None, state: RunStateName | None = None
    ) -> Iterator[RunInfo]:
        """Yield all runs of a kind, newest first."""

    def run(self, run_id: str) -> RunInfo:
        """Return one run by its id."""

    def cancel_run(self, run_id: str) -> RunInfo:
        """Ask a run to stop; what is finished is kept."""

    def run_failures(self, run_id: str, limit: int = 50, *, cursor: str | None = None) -> FailurePage:
        """Return one page of the files that failed in a run."""

    def iter_run_failures(self, run_id: str) -> Iterator[FailureInfo]:
        """Yield all files that failed in a run."""

    def keys(self, offset: int = 0, limit: int = 50) -> KeyPage:
        """Return one page of API keys, without their secrets, newest first."""

    def create_key(self, request: KeyRequest) -> KeyCreated:
        """Make a key; its secret is in this answer, and nowhere else."""

    def rotate_key(self, key_id: str, rotation: KeyRotation | None = None) -> KeyCreated:
        """Put a new key in a key's place; the old one stays valid for a while."""

    def revoke_key(self, key_id: str) -> KeyInfo:
        """End an API key now."""

    def status(self) -> ServiceStatus:
        """Return what answers right now."""

    def shadow(self, request: ShadowRequest) -> ShadowResult:
        """Compare both versions of a space that is being swapped; may take minutes."""

    def find_duplicates(self, request: DuplicatesRequest | None = None) -> Iterator[SyncProgress]:
        """Look for copies of pictures; yield every step, the last one `done` with the counts of each corpus."""

    def verify(self, request: VerifyRequest | None = None) -> Iterator[SyncProgress]:
        """Compare the collections with what was embedded; the last step has the facts of each collection."""

    def sync(self, request: SyncRequest | None = None) -> Iterator[SyncProgress]:
        """Bring the collections in line; yield every step, the last one `done`."""

    def close(self) -> None:
        """Release connections, and whatever else was opened."""


class LodestoneApi(SearchApi, ManagementApi, Protocol):
    """All that a command can ask for, wherever the home is."""
