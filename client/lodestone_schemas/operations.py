"""Table of operations: everything that a user of Lodestone can ask for, with its message, its answer and where it is asked.

An operation is declared once, as a method of `Operations`: its parameters, the type of its answer and, in `operation`, its row:
route, use case, scopes, and the command that asks for it. Every face is made of these rows or held to them: the routes and
their policies, the OpenAPI document, both Python clients, the client of a home in this process, and the commands.
"""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from lodestone_schemas.access import Scope
from lodestone_schemas.operation_rows import CommandPlace, Declared, Row, answers, operations_of, streams

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lodestone_schemas.access import KeyCreated, KeyInfo, KeyPage, KeyRequest, KeyRotation
    from lodestone_schemas.api import (
        BrowseRequest,
        CorpusPage,
        CorpusRenamed,
        DuplicatesRequest,
        EngineList,
        Event,
        Facets,
        FacetsRequest,
        FeedbackRequest,
        FeedbackResult,
        ImageInfo,
        ImagePage,
        PictureTags,
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
    from lodestone_schemas.runs import FailurePage, RunInfo, RunPage, RunStateName
    from lodestone_schemas.service import Alive, ServiceStatus
    from lodestone_schemas.swaps import ShadowRequest, ShadowResult
    from lodestone_schemas.timeline import EventPage, EventsRequest


# What changes something needs the right to look, too; Lodestone's own commands and administration do not.
READ: Final = (Scope.SEARCH,)
TEACH: Final = (Scope.SEARCH, Scope.FEEDBACK)
MANAGE: Final = (Scope.SEARCH, Scope.INDEX)
INDEX: Final = (Scope.INDEX,)
ADMINISTER: Final = (Scope.ADMIN,)


_PICTURES: Final = ("image/",)
_SERVED: Final = CommandPlace.SERVICE_FIRST


class Operations:
    """The operations of every face: a service over HTTP, both Python clients, and a home in this process."""

    # -- searches, and what a picture shows

    @answers(Row("POST /v1/search", "search.answer", scopes=READ, where=_SERVED, command="search"))
    def search(self, request: SearchRequest | str) -> SearchResponse:
        """Return the final answer to a query in words, or to one composed of words and indexed pictures."""

    @streams(Row("POST /v1/search/stream", "search.events", scopes=READ, no_command="a terminal shows the final answer"))
    def stream(self, request: SearchRequest | str) -> Iterator[Event]:
        """Yield the events of a query in words; closing the iterator stops the query.

        Over HTTP an `error` event is raised as its error. Where a connection breaks, the stream is taken up after the last
        event. Where the service no longer has it, the query is asked anew for the rest of its deadline: its events begin
        again with a plan.
        """

    @answers(Row("GET /v1/images/{image_id}/similar", "search.similar", scopes=READ, where=_SERVED, command="similar"))
    def similar(self, image_id: str, options: SearchOptions | None = None) -> SearchResponse:
        """Return the pictures most like an indexed one."""

    @answers(Row("POST /v1/search/image", "search.by_picture", scopes=READ, where=_SERVED, command="similar"))
    def by_picture(self, picture: bytes, options: SearchOptions | None = None, *, more: Sequence[bytes] = ()) -> SearchResponse:
        """Return the pictures most like the one in `picture`, the content of a picture file, and like those in `more`.

        Options that are a `SearchRequest` may ask for words and other parts as well.
        """

    @answers(Row("POST /v1/images/tags", "tagging.of_picture", scopes=READ, where=_SERVED, command="tags suggest"))
    def tag_picture(self, picture: bytes) -> PictureTags:
        """Return the labels, quality and safety score of `picture`, the content of a picture file. Nothing is kept."""

    @answers(Row("GET /v1/images/{image_id}/tags", "tagging.of_image", scopes=READ, where=_SERVED, command="tags suggest"))
    def tag_image(self, image_id: str) -> PictureTags:
        """Return the labels, quality and safety score of an indexed picture."""

    @answers(
        Row(
            "GET /v1/images/{image_id}",
            "pictures.image",
            scopes=READ,
            no_command="`explain` and `search -o json` tell it of each hit",
        )
    )
    def image(self, image_id: str) -> ImageInfo:
        """Return what is known about one picture."""

    @answers(Row("GET /v1/images", "pictures.page", scopes=READ, command="browse"))
    def images(self, corpus: str, limit: int = 50, *, cursor: str | None = None) -> ImagePage:
        """Return one page of a corpus's pictures, ordered by root and path."""

    @answers(Row("POST /v1/images/facets", "pictures.facets", scopes=READ, where=_SERVED, command="facets"))
    def facets(self, request: FacetsRequest) -> Facets:
        """Return places, times, cameras or another kind of facts of the pictures that pass filters, and how many have each."""

    @answers(Row("POST /v1/events", "timeline.events", scopes=READ, command="events"))
    def events(self, request: EventsRequest) -> EventPage:
        """Return one page of the events or trips of the pictures that pass filters, the newest first."""

    @answers(Row("POST /v1/images/browse", "pictures.browse", scopes=READ, where=_SERVED, command="browse"))
    def browse(self, request: BrowseRequest) -> ImagePage:
        """Return one page of the pictures that pass filters, without words: newest first, those without a date last."""

    @answers(Row("GET /v1/images/{image_id}/thumbnail", "pictures.thumbnail", scopes=READ, command="search", media=_PICTURES))
    def thumbnail(self, image_id: str) -> bytes:
        """Return a small version of a picture, as the content of a file."""

    @answers(
        Row(
            "GET /v1/images/{image_id}/content",
            "pictures.content",
            scopes=READ,
            no_command="the file is on the disk",
            media=(*_PICTURES, "application/octet-stream"),
        )
    )
    def content(self, image_id: str) -> bytes:
        """Return the content of the picture's own file."""

    @answers(
        Row("DELETE /v1/images/{image_id}", "pictures.remove", scopes=MANAGE, endless=True, where=_SERVED, command="forget")
    )
    def remove_image(self, image_id: str, *, idempotency_key: str | None = None) -> None:
        """Remove everything that is kept of a picture: vectors, captions, tags, thumbnail, its place in recorded queries.

        Its file is not touched. As long as that stays in an indexed folder, the next index run finds it as a new picture.
        """

    @answers(Row("GET /v1/corpora", "corpora.page", scopes=READ, command="corpus list"))
    def corpora(self, offset: int = 0, limit: int = 50, *, cursor: str | None = None) -> CorpusPage:
        """Return one page of the corpora, ordered by name."""

    @answers(
        Row(
            "PATCH /v1/corpora/{name:path}",
            "corpora.rename",
            scopes=INDEX,
            once=True,
            endless=True,
            where=_SERVED,
            command="corpus rename",
        )
    )
    def rename_corpus(self, name: str, new: str) -> CorpusRenamed:
        """Call a corpus by another name. Nothing is indexed again, and keys that named it see it as before."""

    @answers(
        Row(
            "DELETE /v1/corpora/{name:path}",
            "corpora.remove",
            scopes=INDEX,
            once=True,
            endless=True,
            where=_SERVED,
            command="corpus remove",
        )
    )
    def remove_corpus(self, name: str) -> None:
        """Remove a corpus everywhere: vectors, embeddings, thumbnails, catalog. The pictures themselves are not touched."""

    @answers(Row("GET /v1/directories", "directories.page", scopes=READ, command="directory list"))
    def directories(self, offset: int = 0, limit: int = 50, *, cursor: str | None = None) -> DirectoryPage:
        """Return one page of the directories, ordered by corpus and name."""

    @answers(Row("GET /v1/directories/{directory_id}", "directories.get", scopes=READ, command="directory describe"))
    def directory(self, directory_id: str) -> DirectoryInfo:
        """Return one directory by its id."""

    @answers(Row("POST /v1/directories", "directories.add", scopes=MANAGE, status=201, command="directory add"))
    def add_directory(self, request: DirectoryRequest, *, idempotency_key: str | None = None) -> DirectoryAdded:
        """Add a folder of the service's machine; it is indexed in the background. A directory that exists stays as it is."""

    @answers(Row("PATCH /v1/directories/{directory_id}", "directories.change", scopes=MANAGE, command="directory enable"))
    def change_directory(
        self, directory_id: str, change: DirectoryChange, *, idempotency_key: str | None = None
    ) -> DirectoryInfo:
        """Switch a directory on or off, or its watching; in force with the next query."""

    @answers(
        Row(
            "POST /v1/directories/{directory_id}/split",
            "directories.split",
            scopes=MANAGE,
            endless=True,
            where=_SERVED,
            command="directory add",
        )
    )
    def split_directory(
        self, directory_id: str, request: DirectorySplit, *, idempotency_key: str | None = None
    ) -> DirectoryInfo:
        """Make a folder inside a directory a directory of its own, which can be switched off, watched or removed."""

    @answers(
        Row(
            "POST /v1/directories/{directory_id}/relocate",
            "directories.relocate",
            scopes=MANAGE,
            endless=True,
            where=_SERVED,
            command="directory relocate",
        )
    )
    def relocate_directory(
        self, directory_id: str, request: DirectoryRelocation, *, idempotency_key: str | None = None
    ) -> DirectoryAdded:
        """Tell where a directory's folder is now. Its pictures keep their ids, tags and captions."""

    @answers(
        Row(
            "POST /v1/directories/{directory_id}/index",
            "directories.index",
            scopes=MANAGE,
            status=202,
            where=_SERVED,
            command="directory index",
        )
    )
    def index_directory(self, directory_id: str, *, retry_failed: bool = False, idempotency_key: str | None = None) -> JobInfo:
        """Bring a directory up to date in the background, and try failed files again if that is wished."""

    @answers(
        Row(
            "DELETE /v1/directories/{directory_id}",
            "directories.remove",
            scopes=MANAGE,
            endless=True,
            where=_SERVED,
            command="directory remove",
        )
    )
    def remove_directory(self, directory_id: str, *, idempotency_key: str | None = None) -> None:
        """Forget a directory: vectors, thumbnails, catalog. What is being indexed of it is stopped.

        The pictures themselves are not touched.
        """

    @answers(Row("GET /v1/jobs", "directories.jobs", scopes=READ, where=_SERVED, command="directory jobs"))
    def jobs(self) -> JobList:
        """Return the background indexing: what goes on, what waits, and what has ended last."""

    @answers(
        Row("DELETE /v1/jobs/{job_id}", "directories.cancel_job", scopes=MANAGE, where=_SERVED, command="directory cancel")
    )
    def cancel_job(self, job_id: str) -> JobInfo:
        """Take back background indexing that waits, or stop what goes on; what is finished is kept."""

    @answers(Row("GET /v1/runs", "runs.page", scopes=READ, command="runs list"))
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
        """Return one page of index and training runs, newest first."""

    @answers(Row("GET /v1/runs/{run_id}", "runs.get", scopes=READ, command="runs show"))
    def run(self, run_id: str) -> RunInfo:
        """Return one run by its id."""

    @answers(Row("POST /v1/runs/{run_id}/cancel", "runs.cancel", scopes=MANAGE, command="runs cancel"))
    def cancel_run(self, run_id: str) -> RunInfo:
        """Ask a run to stop. It does within seconds, and keeps what it finished; one that has ended stays as it is."""

    @answers(Row("GET /v1/runs/{run_id}/failures", "runs.failures", scopes=READ, command="runs export-failures"))
    def run_failures(self, run_id: str, limit: int = 50, *, cursor: str | None = None) -> FailurePage:
        """Return one page of the files that last failed in a run, ordered by place."""

    @answers(Row("GET /v1/queries", "queries.page", scopes=READ, command="explain"))
    def queries(self, offset: int = 0, limit: int = 50, *, cursor: str | None = None) -> QueryPage:
        """Return one page of recorded queries, newest first."""

    @answers(Row("GET /v1/queries/{query_id}", "queries.explain", scopes=READ, command="explain"))
    def explain(self, query_id: str) -> QueryExplanation:
        """Return why a query was answered as it was: plan, gate, guides, lists, weights, and the parts of each hit's score."""

    @answers(Row("POST /v1/queries/{query_id}/replay", "queries.replay", scopes=READ, command="replay"))
    def replay(self, query_id: str, *, fresh: bool = False) -> ReplayResult:
        """Return a recorded query's ranking once more; with `fresh`, asked again of the collection as it is now."""

    @answers(
        Row(
            "GET /v1/queries/{query_id}/guides/{guide_id:path}",
            "queries.guide_picture",
            scopes=READ,
            command="explain",
            media=_PICTURES,
        )
    )
    def guide_picture(self, query_id: str, guide_id: str) -> bytes:
        """Return the picture of a query's guide, while the guide cache keeps it."""

    @answers(Row("POST /v1/feedback", "learning.feedback", scopes=TEACH, where=_SERVED, command="feedback"))
    def feedback(self, request: FeedbackRequest, *, idempotency_key: str | None = None) -> FeedbackResult:
        """Say which pictures of an answer were right and which were not; saying it twice changes nothing."""

    @answers(Row("POST /v1/feedback/withdraw", "learning.withdraw", scopes=TEACH, where=_SERVED, command="feedback"))
    def withdraw_feedback(self, request: FeedbackRequest, *, idempotency_key: str | None = None) -> FeedbackResult:
        """Take feedback back: trust and tags become what they would be without it; doing it twice changes nothing."""

    @answers(Row("GET /v1/tags", "tags.page", scopes=READ, command="tags list"))
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

    @answers(Row("GET /v1/tags/texts", "tags.texts", scopes=READ, command="tags texts"))
    def tag_texts(self, limit: int = 100, *, source: str | None = None) -> TagTexts:
        """Return the texts of tags with their numbers of pictures, those of most pictures first."""

    @answers(Row("POST /v1/tags", "tags.add", scopes=TEACH, command="tags add"))
    def add_tags(self, request: TagRequest, *, idempotency_key: str | None = None) -> TagList:
        """Tag pictures by hand; a tag that is there stays as it is."""

    @answers(Row("DELETE /v1/tags/{tag_id}", "tags.remove", scopes=TEACH, command="tags remove"))
    def remove_tag(self, tag_id: str, *, idempotency_key: str | None = None) -> None:
        """Remove one tag by its id."""

    @answers(Row("GET /v1/trust", "learning.trust", scopes=READ, command="trust show"))
    def trust(self) -> TrustPage:
        """Return how far each space is trusted, topic by topic."""

    @answers(Row("GET /v1/trust/events", "learning.trust_events", scopes=READ, command="trust events"))
    def trust_events(self, offset: int = 0, limit: int = 50, *, topic: str | None = None) -> TrustEventPage:
        """Return one page of what changed trust, newest first, for those who see everybody's queries."""

    @answers(Row("GET /v1/generators", "learning.generators", scopes=READ, where=_SERVED, command="generator list"))
    def generators(self) -> EngineList:
        """Return the guide engines, their breakers, and the state of the guide cache."""

    @answers(Row("GET /v1/models", "models.all", scopes=READ, command="models list"))
    def models(self) -> ModelList:
        """Return all spaces, text encoders, backbones and generators, with their versions."""

    @answers(Row("GET /v1/models/{model_id:path}", "models.get", scopes=READ, no_command="`models list` shows all of them"))
    def model(self, model_id: str) -> ModelInfo:
        """Return one model by its id."""

    @answers(Row("POST /v1/embeddings", "models.embed", scopes=READ, no_command="vectors are read by programs"))
    def embeddings(self, request: EmbeddingsRequest) -> EmbeddingList:
        """Return vectors of words, or of pictures given as `data:` URLs."""

    @answers(Row("POST /v1/images/generations", "models.draw", scopes=READ, once=True, command="generator test"))
    def generate_images(self, request: DrawingRequest) -> DrawingList:
        """Have a generator draw pictures. This may cost money, so it is never sent twice."""

    @answers(Row("GET /v1/keys", "keys.page", scopes=ADMINISTER, command="keys list"))
    def keys(self, offset: int = 0, limit: int = 50) -> KeyPage:
        """Return one page of API keys, without their secrets, newest first; also those that are not valid any more."""

    @answers(Row("POST /v1/keys", "keys.create", scopes=ADMINISTER, status=201, once=True, command="keys create"))
    def create_key(self, request: KeyRequest) -> KeyCreated:
        """Make a key. Its secret is in this answer, and nowhere else."""

    @answers(
        Row("POST /v1/keys/{key_id}/rotate", "keys.rotate", scopes=ADMINISTER, status=201, once=True, command="keys rotate")
    )
    def rotate_key(self, key_id: str, rotation: KeyRotation | None = None) -> KeyCreated:
        """Put a new key in a key's place; the old one stays valid for a while, so that nothing stops meanwhile."""

    @answers(Row("DELETE /v1/keys/{key_id}", "keys.revoke", scopes=ADMINISTER, command="keys revoke"))
    def revoke_key(self, key_id: str) -> KeyInfo:
        """End a key; in force everywhere within five seconds."""

    @answers(Row("GET /v1/status", "operations.status", command="status"))
    def status(self) -> ServiceStatus:
        """Return what answers right now, part by part."""

    @answers(Row("POST /v1/internal/shadow", "operations.shadow", scopes=INDEX, once=True, endless=True, command="models swap"))
    def shadow(self, request: ShadowRequest) -> ShadowResult:
        """Compare both versions of a space that is being swapped, by recorded queries; this may take minutes."""

    @streams(
        Row(
            "POST /v1/internal/duplicates",
            "operations.find_duplicates",
            scopes=INDEX,
            endless=True,
            where=_SERVED,
            command="duplicates find",
        )
    )
    def find_duplicates(self, request: DuplicatesRequest | None = None) -> Iterator[SyncProgress]:
        """Look for copies of pictures; yield every step, the last one `done` with the counts of each corpus."""

    @streams(Row("POST /v1/internal/verify", "operations.verify", scopes=INDEX, endless=True, where=_SERVED, command="verify"))
    def verify(self, request: VerifyRequest | None = None) -> Iterator[SyncProgress]:
        """Compare the collections with what was embedded; the last step has the facts of each collection."""

    @streams(Row("POST /v1/internal/sync", "operations.sync", scopes=INDEX, endless=True, command="index"))
    def sync(self, request: SyncRequest | None = None) -> Iterator[SyncProgress]:
        """Bring the collections in line with the catalog; yield every step, the last one `done`."""


class ServiceOperations:
    """The operations of a service alone: a home in this process has nothing to answer them by."""

    @answers(
        Row("POST /v1/search/url", scopes=READ, no_command="a browser downloads the picture, and `similar` takes the file")
    )
    def by_url(self, url: str, options: SearchOptions | None = None) -> SearchResponse:
        """Return the pictures most like the one at a public address, where the service allows that (`serve.fetch_urls`)."""

    @answers(Row("GET /healthz", command="doctor"))
    def alive(self) -> Alive:
        """Return which run of the service answers."""

    @answers(Row("GET /readyz", once=True, no_command="for whatever keeps the service running; `doctor` asks for the status"))
    def ready(self) -> ServiceStatus:
        """Return the status of a service that is ready; raise ServiceUnavailableError otherwise. This is sent only once."""


OPERATIONS: Final[Mapping[str, Declared]] = operations_of(Operations)
"""The operations of every face, by name."""

SERVICE_OPERATIONS: Final[Mapping[str, Declared]] = operations_of(ServiceOperations)
"""The operations of a service alone, by name."""
