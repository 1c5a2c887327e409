"""Which messages cross the HTTP interface? Requests, answers, streamed events and problems, shared by engine, API and CLI."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MAX_QUERY_CHARS = 1_000
MAX_LIMIT = 200
MAX_OFFSET = 1_000
MAX_GUIDES = 64
ImageId = Annotated[str, Field(max_length=64)]  # bounded, and so checked to be text: lone surrogates are refused


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
    collapse: bool = Field(False, description="Of pictures known to be copies of each other, show the best alone.")


class SearchRequest(SearchOptions):
    """Search in words."""

    query: str = Field(max_length=MAX_QUERY_CHARS, description="What the picture shows, in words.")
    generators: list[str] | None = Field(None, max_length=16, description="Guide generators; default: the profile's.")
    guides: int | None = Field(None, ge=0, le=MAX_GUIDES, description="Most guides to use; 0 for the text pass alone.")
    seed: int = Field(0, ge=0, le=2**31 - 1)
    topic: str | None = Field(
        None, max_length=200, description="Topic whose trust weights count; default: the nearest learnt one."
    )
    gate: bool | None = Field(
        None, description="Let the complexity gate stop simple queries after the text pass; default: setting."
    )
    outliers: bool | None = Field(None, description="Leave out guides that are unlike the others; default: setting.")
    adaptive: bool | None = Field(None, description="Draw guides until the first results are stable; default: setting.")
    trust: bool = Field(True, description="Let learnt trust weigh the spaces.")
    tags: bool = Field(True, description="Let tags speak for pictures and make guides of them.")
    budget: float | None = Field(None, ge=0, description="Most that paid generators may cost for this query; default: setting.")


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
    copies: int = Field(0, ge=0, description="Candidates further down that are copies of it, left out for `collapse`.")


class GateDecision(_Model):
    """What the complexity gate made of the text pass (NEEDLE, F.1). A simple query is answered without guides."""

    verdict: Literal["simple", "complex"]
    predicted_ap: float = Field(description="Average precision that the model expects of the text pass, in [0, 1].")
    threshold: float = Field(description="A query is simple from this predicted AP on.")
    why: str = Field(description="In a sentence.")
    features: dict[str, float] = Field(default_factory=dict)
    model: str = Field("", description="Version of the fitted model.")


class GuideInfo(_Model):
    """One guide: who made it, how much it counts, where it comes from, and whether it was used."""

    guide_id: str
    engine: str
    weight: float
    provenance: dict[str, Any]
    status: Literal["used", "rejected", "dropped"] = Field(
        "used", description="rejected: unlike the other guides; dropped: no time or no need for it."
    )
    outlier_score: float | None = Field(None, description="How unlike the others it is; rejected above 1.")
    cached: Literal["exact", "semantic"] | None = Field(
        None, description="Came from the guide cache, and how it was found there."
    )
    cost: float = Field(0.0, description="What its engine charged, in the unit of the engine's setting.")
    picture: str | None = Field(None, description="Where its picture is served; null for a guide without one.")


class SearchResponse(_Model):
    """One page of an answer."""

    query_id: str
    stage: Literal["text", "guides", "picture"]
    hits: list[Hit]
    next_offset: int | None = Field(None, description="Offset of the next page; null at the end.")
    fusion: str
    space_weights: dict[str, float]
    guides: list[GuideInfo] = Field(default_factory=list)
    gate: GateDecision | None = Field(None, description="Null where no gate was asked.")
    topic: str | None = Field(None, description="Topic whose trust weights counted.")
    trust: dict[str, float] = Field(default_factory=dict, description="Space to learnt trust, 1 being neutral.")
    cost: float = Field(0.0, description="What engines charged for this query, also for calls that brought nothing.")
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


class FeedbackRequest(_Model):
    """Which pictures of an answer were right, and which were not."""

    query_id: str = Field(max_length=64)
    relevant: list[ImageId] = Field(default_factory=list, max_length=1_000, description="Image ids.")
    irrelevant: list[ImageId] = Field(default_factory=list, max_length=1_000, description="Image ids.")
    eta: float | None = Field(None, gt=0, le=1, description="Learning rate; default: setting.")


class FeedbackResult(_Model):
    """What feedback changed."""

    query_id: str
    topic: str
    applied: bool = Field(description="False when exactly this feedback was given before: nothing changes twice.")
    event_id: str | None = Field(None, description="Names the change of trust; null when there was none.")
    before: dict[str, float] = Field(description="Space to trust before.")
    after: dict[str, float] = Field(description="Space to trust after.")
    ignored: list[str] = Field(default_factory=list, description="Image ids that the query's lists do not hold.")


class TagRequest(_Model):
    """Put a tag on pictures by hand."""

    image_ids: list[ImageId] = Field(min_length=1, max_length=1_000)
    text: str = Field(max_length=200)


class TagList(_Model):
    """Tags that were put."""

    tags: list[TagInfo]


class TagInfo(_Model):
    """One tag of one picture."""

    tag_id: str
    image_id: str
    text: str
    source: str = Field(description="implicit: a query that found it; user: given by hand.")
    score: float | None = None
    query_id: str | None = None
    created_at: datetime


class TagPage(_Model):
    """One page of tags."""

    tags: list[TagInfo]
    next_offset: int | None = None


class EngineInfo(_Model):
    """One guide engine and how it fares."""

    name: str
    kind: str
    version: str
    enabled: bool
    priority: int = Field(description="Engines of the lowest number are asked first, together; the next when those fall short.")
    cost: float = Field(description="Per picture.")
    timeout_s: float
    breaker: Literal["closed", "open", "half_open"]
    guides: int = Field(description="Given since the start.")
    failures: int = Field(description="Since the start.")
    last_error: str | None = None


class EngineList(_Model):
    """All guide engines, in the order in which they are asked."""

    engines: list[EngineInfo]
    cache: dict[str, float] = Field(description="entries, bytes, limit_bytes, hits, semantic_hits, misses, hit_rate")


class TrustInfo(_Model):
    """Trust weights of one topic."""

    topic: str
    words: list[str] = Field(description="Queries that are typical of it.")
    queries: int
    weights: dict[str, float] = Field(description="Space to trust, 1 being neutral; their mean is 1.")


class TrustPage(_Model):
    """Learnt trust, topic by topic."""

    topics: list[TrustInfo]


class QueryInfo(_Model):
    """One recorded query in a list."""

    query_id: str
    created_at: datetime
    kind: Literal["words", "similar", "picture"]
    text: str
    topic: str | None
    summary: dict[str, Any]


class QueryPage(_Model):
    """One page of recorded queries, newest first."""

    queries: list[QueryInfo]
    next_offset: int | None = None


class ListInfo(_Model):
    """One (guide, space) list of a query."""

    guide: str
    space: str
    weight: float
    scale: float
    found: int
    best: float | None


class HitPart(_Model):
    """What one (guide, space) list gave to one hit. The parts of a hit sum to its score."""

    guide: str
    space: str
    rank: int | None = Field(
        None, description="Place in the list; null where the picture was scored there without being listed."
    )
    score: float = Field(description="Inner product.")
    weight: float
    part: float = Field(description="Share of the hit's score.")


class ExplainedHit(_Model):
    """Why a picture stands where it stands."""

    rank: int
    image_id: str
    score: float
    explained: float = Field(description="Sum of the parts over the score: 1 when everything is accounted for.")
    parts: list[HitPart]


class QueryExplanation(_Model):
    """Everything that is known of one answered query."""

    query_id: str
    created_at: datetime
    kind: Literal["words", "similar", "picture"]
    text: str
    request: dict[str, Any]
    plan: dict[str, Any]
    gate: GateDecision | None
    prompts: dict[str, str] = Field(default_factory=dict, description="Engine to prompt.")
    topic: str | None
    trust: dict[str, float]
    guides: list[GuideInfo]
    lists: list[ListInfo]
    hits: list[ExplainedHit]
    dropped: list[str]
    warnings: list[str]
    timings_ms: dict[str, float]


class ReplayResult(_Model):
    """A query's ranking, made once more from what was recorded of it."""

    query_id: str
    identical: bool = Field(description="Whether ids, order and scores are the recorded ones.")
    ids: list[str]
    scores: list[float]
    fresh: bool = Field(description="Whether the collection was searched again, as it is now.")
    moved: list[str] = Field(default_factory=list, description="Ids whose place differs from the record.")


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
    """Ask the owner of the store to bring its collections in line with catalog and Parquet files (internal).

    `build` has it make the graphs of large collections; false while many more points are on their way.
    """

    run_id: str | None = None
    build: bool = True


class SyncProgress(_Model):
    """One step of a sync: `done` of `total` slices of a collection, or its end."""

    type: Literal["progress", "done", "error"] = "progress"
    stage: str = ""
    collection: str = ""
    done: int = 0
    total: int = 0
    problem: Problem | None = None
