"""Calls that change nothing: searches, and reading of pictures, corpora, queries, runs, models and the service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from lodestone_client.call import Call, Repeat, as_bytes, as_model
from lodestone_schemas.access import KeyPage
from lodestone_schemas.api import (
    BrowseRequest,
    CorpusPage,
    EngineList,
    ImageInfo,
    ImagePage,
    PictureTags,
    QueryExplanation,
    QueryPage,
    ReplayResult,
    SearchOptions,
    SearchRequest,
    SearchResponse,
    TagPage,
    TagTexts,
    TrustEventPage,
    TrustPage,
    UrlSearchRequest,
)
from lodestone_schemas.directories import DirectoryInfo, DirectoryPage, JobList
from lodestone_schemas.openai import DrawingList, DrawingRequest, EmbeddingList, EmbeddingsRequest, ModelInfo, ModelList
from lodestone_schemas.runs import FailurePage, RunInfo, RunPage, RunStateName
from lodestone_schemas.service import Alive, ServiceStatus

_PICTURES = ("image/",)


def part(text: str) -> str:
    """Quote one part of a path, whatever characters it has."""
    return quote(text, safe="")


def page(offset: int, limit: int, cursor: str | None, **more: str | None) -> dict[str, Any]:
    """Return the query parameters of one page: the one that a cursor names, or the one at an offset."""
    return {"limit": limit, "cursor": cursor, "offset": offset if cursor is None and offset else None, **more}


def search(request: SearchRequest | str) -> Call[SearchResponse]:
    """Return the call that searches in words, or by a composed query."""
    return Call("POST", "/v1/search", as_model(SearchResponse), body=request_of(request))


def request_of(request: SearchRequest | str) -> SearchRequest:
    """Return a request; plain words become one."""
    return SearchRequest(query=request) if isinstance(request, str) else request


def similar(image_id: str, options: SearchOptions | None) -> Call[SearchResponse]:
    """Return the call that searches by an indexed picture."""
    path = f"/v1/images/{part(image_id)}/similar"
    return Call("GET", path, as_model(SearchResponse), body=options or SearchOptions(), in_query=True)


def by_picture(picture: bytes, options: SearchOptions | None, more: Sequence[bytes] = ()) -> Call[SearchResponse]:
    """Return the call that searches by the content of picture files, and by what a `SearchRequest` names besides."""
    body = options or SearchOptions()
    return Call("POST", "/v1/search/image", as_model(SearchResponse), body=body, picture=picture, further=tuple(more))


def tag_picture(picture: bytes) -> Call[PictureTags]:
    """Return the call that tags the content of a picture file."""
    return Call("POST", "/v1/images/tags", as_model(PictureTags), picture=picture)


def tag_image(image_id: str) -> Call[PictureTags]:
    """Return the call that tags an indexed picture."""
    return Call("GET", f"/v1/images/{part(image_id)}/tags", as_model(PictureTags))


def by_url(url: str, options: SearchOptions | None) -> Call[SearchResponse]:
    """Return the call that searches by a picture that the service fetches."""
    request = UrlSearchRequest(url=url, options=options or SearchOptions())
    return Call("POST", "/v1/search/url", as_model(SearchResponse), body=request)


def image(image_id: str) -> Call[ImageInfo]:
    """Return the call for the facts of a picture."""
    return Call("GET", f"/v1/images/{part(image_id)}", as_model(ImageInfo))


def images(corpus: str, limit: int, cursor: str | None) -> Call[ImagePage]:
    """Return the call for a page of a corpus's pictures."""
    return Call("GET", "/v1/images", as_model(ImagePage), params=page(0, limit, cursor, corpus=corpus))


def browse(request: BrowseRequest) -> Call[ImagePage]:
    """Return the call for a page of the pictures that pass filters."""
    return Call("POST", "/v1/images/browse", as_model(ImagePage), body=request)


def thumbnail(image_id: str) -> Call[bytes]:
    """Return the call for a picture's small version."""
    return Call("GET", f"/v1/images/{part(image_id)}/thumbnail", as_bytes(*_PICTURES))


def content(image_id: str) -> Call[bytes]:
    """Return the call for a picture's own file."""
    return Call("GET", f"/v1/images/{part(image_id)}/content", as_bytes(*_PICTURES, "application/octet-stream"))


def corpora(offset: int, limit: int, cursor: str | None) -> Call[CorpusPage]:
    """Return the call for a page of corpora, ordered by name."""
    return Call("GET", "/v1/corpora", as_model(CorpusPage), params=page(offset, limit, cursor))


def directories(offset: int, limit: int, cursor: str | None) -> Call[DirectoryPage]:
    """Return the call for a page of directories, ordered by corpus and name."""
    return Call("GET", "/v1/directories", as_model(DirectoryPage), params=page(offset, limit, cursor))


def directory(directory_id: str) -> Call[DirectoryInfo]:
    """Return the call for one directory."""
    return Call("GET", f"/v1/directories/{part(directory_id)}", as_model(DirectoryInfo))


def jobs() -> Call[JobList]:
    """Return the call for the background indexing jobs."""
    return Call("GET", "/v1/jobs", as_model(JobList))


def queries(offset: int, limit: int, cursor: str | None) -> Call[QueryPage]:
    """Return the call for a page of recorded queries, newest first."""
    return Call("GET", "/v1/queries", as_model(QueryPage), params=page(offset, limit, cursor))


def explain(query_id: str) -> Call[QueryExplanation]:
    """Return the call for one recorded query."""
    return Call("GET", f"/v1/queries/{part(query_id)}", as_model(QueryExplanation))


def replay(query_id: str, *, fresh: bool) -> Call[ReplayResult]:
    """Return the call that ranks a recorded query again."""
    return Call("POST", f"/v1/queries/{part(query_id)}/replay", as_model(ReplayResult), params={"fresh": fresh})


def guide_picture(query_id: str, guide_id: str) -> Call[bytes]:
    """Return the call for the picture of a query's guide."""
    return Call("GET", f"/v1/queries/{part(query_id)}/guides/{part(guide_id)}", as_bytes(*_PICTURES))


def trust() -> Call[TrustPage]:
    """Return the call for the learnt trust, by topic."""
    return Call("GET", "/v1/trust", as_model(TrustPage))


def trust_events(offset: int, limit: int, topic: str | None) -> Call[TrustEventPage]:
    """Return the call for a page of what changed trust, newest first."""
    params = {**page(offset, limit, None), "topic": topic}
    return Call("GET", "/v1/trust/events", as_model(TrustEventPage), params=params)


def generators() -> Call[EngineList]:
    """Return the call for the state of the guide engines."""
    return Call("GET", "/v1/generators", as_model(EngineList))


def tags(
    offset: int,
    limit: int,
    cursor: str | None,
    *,
    corpus: str | None,
    image_id: str | None,
    text: str | None,
    source: str | None,
) -> Call[TagPage]:
    """Return the call for a page of tags, newest first."""
    params = page(offset, limit, cursor, corpus=corpus, image_id=image_id, text=text, source=source)
    return Call("GET", "/v1/tags", as_model(TagPage), params=params)


def tag_texts(source: str | None, limit: int) -> Call[TagTexts]:
    """Return the call for the texts of tags with their numbers of pictures."""
    return Call("GET", "/v1/tags/texts", as_model(TagTexts), params={"source": source, "limit": limit})


def runs(
    offset: int, limit: int, cursor: str | None, *, corpus: str | None, kind: str | None, state: RunStateName | None
) -> Call[RunPage]:
    """Return the call for a page of runs, newest first."""
    return Call("GET", "/v1/runs", as_model(RunPage), params=page(offset, limit, cursor, corpus=corpus, kind=kind, state=state))


def run(run_id: str) -> Call[RunInfo]:
    """Return the call for one run."""
    return Call("GET", f"/v1/runs/{part(run_id)}", as_model(RunInfo))


def run_failures(run_id: str, limit: int, cursor: str | None) -> Call[FailurePage]:
    """Return the call for a page of the files that failed in a run."""
    return Call("GET", f"/v1/runs/{part(run_id)}/failures", as_model(FailurePage), params=page(0, limit, cursor))


def models() -> Call[ModelList]:
    """Return the call for all spaces, text encoders, backbones and generators."""
    return Call("GET", "/v1/models", as_model(ModelList))


def model(model_id: str) -> Call[ModelInfo]:
    """Return the call for one model."""
    return Call("GET", f"/v1/models/{part(model_id)}", as_model(ModelInfo))


def embeddings(request: EmbeddingsRequest) -> Call[EmbeddingList]:
    """Return the call for vectors."""
    return Call("POST", "/v1/embeddings", as_model(EmbeddingList), body=request)


def generate_images(request: DrawingRequest) -> Call[DrawingList]:
    """Return the call that draws pictures. It may cost money: after a lost answer it is not sent again."""
    return Call("POST", "/v1/images/generations", as_model(DrawingList), body=request, repeat=Repeat.NEVER)


def alive() -> Call[Alive]:
    """Return the call that asks whether the process answers."""
    return Call("GET", "/healthz", as_model(Alive))


def ready() -> Call[ServiceStatus]:
    """Return the call that asks whether models, store and catalog answer."""
    return Call("GET", "/readyz", as_model(ServiceStatus), repeat=Repeat.NEVER)


def metrics() -> Call[bytes]:
    """Return the call for the metrics, as Prometheus reads them."""
    return Call("GET", "/metrics", as_bytes("text/plain", "application/openmetrics-text"))


def keys(offset: int, limit: int) -> Call[KeyPage]:
    """Return the call for a page of API keys, newest first."""
    return Call("GET", "/v1/keys", as_model(KeyPage), params=page(offset, limit, None))


def status() -> Call[ServiceStatus]:
    """Return the call for the state of the service's parts."""
    return Call("GET", "/v1/status", as_model(ServiceStatus))
