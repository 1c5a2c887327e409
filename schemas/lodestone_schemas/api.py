"""Which messages cross the HTTP interface? Requests, answers, streamed events and problems, shared by engine, API and CLI."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MAX_QUERY_CHARS = 1_000
MAX_LIMIT = 200
MAX_OFFSET = 1_000
MAX_GUIDES = 64


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SearchFilters(_Model):
    """Restricts a search; all given conditions hold together. Evaluated inside the vector store."""

    corpora: list[str] = Field(default_factory=list, max_length=100, description="Names of corpora; empty for all.")
    roots: list[str] = Field(default_factory=list, max_length=100, description="Names of roots; empty for all.")
    path_prefix: str | None = Field(None, max_length=4096, description="Folder inside the root, e.g. `2024/summer`.")
    taken_from: datetime | None = Field(None, description="Taken at or after this moment (UTC where no offset is given).")
    taken_to: datetime | None = Field(None, description="Taken before this moment.")


class SearchOptions(_Model):
    """What every kind of search takes besides its query."""

    limit: int = Field(20, ge=1, le=MAX_LIMIT, description="Pictures a page.")
    offset: int = Field(0, ge=0, le=MAX_OFFSET, description="Pictures to skip (paging).")
    filters: SearchFilters = Field(default_factory=SearchFilters)
    spaces: list[str] | None = Field(None, max_length=16, description="Spaces to search; default: the profile's.")
    fusion: str | None = Field(None, max_length=64, description="Fusion method; default: the profile's.")
    deadline_ms: int | None = Field(None, ge=1, le=600_000, description="Time allowed for the whole answer.")
    explain: bool = Field(False, description="Attach to each hit the lists that put it there.")


class SearchRequest(SearchOptions):
    """Search in words."""

    query: str = Field(max_length=MAX_QUERY_CHARS, description="What the picture shows, in words.")
    generators: list[str] | None = Field(None, max_length=16, description="Guide generators; default: the profile's.")
    guides: int | None = Field(None, ge=0, le=MAX_GUIDES, description="Most guides to use; 0 for the text pass alone.")
    seed: int = Field(0, ge=0, le=2**31 - 1)


class Contribution(_Model):
    """One (guide, space) list in which a hit stood."""

    guide: str
    space: str
    rank: int = Field(ge=1)
    score: float
    weight: float


class Hit(_Model):
    """One found picture. `score` orders hits of one answer only; it is not comparable between queries."""

    rank: int = Field(ge=1)
    image_id: str
    score: float
    corpus: str
    root: str
    uri: str = Field(description="Path inside the root; never a path of the server's disk.")
    width: int
    height: int
    taken_at: datetime | None = None
    captions: list[str] = Field(default_factory=list)
    thumbnail: str = Field(description="Where the thumbnail is served.")
    contributions: list[Contribution] | None = None


class GuideInfo(_Model):
    """One guide that was used: who made it, how much it counts, where it comes from."""

    guide_id: str
    engine: str
    weight: float
    provenance: dict[str, Any]


class SearchResponse(_Model):
    """One page of an answer."""

    query_id: str
    stage: Literal["text", "guides", "picture"]
    hits: list[Hit]
    next_offset: int | None = Field(None, description="Offset of the next page; null at the end.")
    fusion: str
    space_weights: dict[str, float]
    guides: list[GuideInfo] = Field(default_factory=list)
    dropped: list[str] = Field(default_factory=list, description="What the deadline or a failure made Lodestone leave out.")
    warnings: list[str] = Field(default_factory=list)
    timings_ms: dict[str, float] = Field(default_factory=dict, description="Milliseconds of each stage.")


class PlanEvent(_Model):
    """First event: what will be done."""

    type: Literal["plan"] = "plan"
    query_id: str
    spaces: dict[str, str] = Field(description="Space to collection, resolved once.")
    space_weights: dict[str, float]
    generators: list[str]
    guides: int
    fusion: str


class ResultsEvent(_Model):
    """A complete answer as good as known so far; a later one replaces it."""

    type: Literal["results"] = "results"
    response: SearchResponse


class GuideEvent(_Model):
    """A guide has arrived."""

    type: Literal["guide"] = "guide"
    query_id: str
    guide: GuideInfo


class DoneEvent(_Model):
    """Last event of a successful query: the final answer."""

    type: Literal["done"] = "done"
    response: SearchResponse


class Problem(BaseModel):
    """RFC 9457 problem details. `code` is stable; `hint` names the next step. Extension members are allowed."""

    model_config = ConfigDict(extra="allow", frozen=True)

    type: str = Field("about:blank", description="URI of the documentation of this kind of problem.")
    title: str
    status: int
    detail: str = ""
    instance: str = ""
    code: str
    hint: str = ""


class ErrorEvent(_Model):
    """Last event of a query that failed after streaming began."""

    type: Literal["error"] = "error"
    problem: Problem


Event = Annotated[PlanEvent | ResultsEvent | GuideEvent | DoneEvent | ErrorEvent, Field(discriminator="type")]


class ImageInfo(_Model):
    """What is known about one picture."""

    image_id: str
    corpus: str
    root: str
    uri: str
    hash: str
    size: int = Field(description="Bytes.")
    width: int
    height: int
    format: str
    taken_at: datetime | None = None
    latitude: float | None = None
    longitude: float | None = None
    captions: list[str] = Field(default_factory=list)
    thumbnail: str


class RootInfo(_Model):
    """One indexed folder."""

    name: str
    images: int


class CorpusInfo(_Model):
    """One corpus: pictures that were indexed under one name."""

    name: str
    corpus_id: str
    images: int
    failures: int
    roots: list[RootInfo]
    created_at: datetime


class CorpusPage(_Model):
    """One page of the list of corpora."""

    corpora: list[CorpusInfo]
    next_offset: int | None = None


class SyncRequest(_Model):
    """Ask the owner of the store to bring its collections in line with catalog and Parquet files (internal)."""

    run_id: str | None = None


class SyncProgress(_Model):
    """One step of a sync: `done` of `total` slices of a collection, or its end."""

    type: Literal["progress", "done", "error"] = "progress"
    stage: str = ""
    collection: str = ""
    done: int = 0
    total: int = 0
    problem: Problem | None = None
