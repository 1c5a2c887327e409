"""API models of feedback, tags, guide engines and trust."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from lodestone_schemas.base import NEXT_CURSOR, ImageId, Model


class FeedbackRequest(Model):
    """Says which pictures of an answer were right, and which were not."""

    query_id: str = Field(max_length=64)
    relevant: list[ImageId] = Field(default_factory=list, max_length=1_000, description="Image ids.")
    irrelevant: list[ImageId] = Field(default_factory=list, max_length=1_000, description="Image ids.")
    eta: float | None = Field(None, gt=0, le=1, description="Learning rate; default: setting.")


class FeedbackResult(Model):
    """Reports what feedback changed."""

    query_id: str
    topic: str
    applied: bool = Field(description="False when exactly this feedback was given before: nothing changes twice.")
    event_id: str | None = Field(None, description="Names the change of trust; null when there was none.")
    before: dict[str, float] = Field(description="Space to trust before.")
    after: dict[str, float] = Field(description="Space to trust after.")
    ignored: list[str] = Field(default_factory=list, description="Image ids that the query's lists do not hold.")


class TagRequest(Model):
    """Requests a tag on pictures, given by hand."""

    image_ids: list[ImageId] = Field(min_length=1, max_length=1_000)
    text: str = Field(max_length=200)


class TagInfo(Model):
    """Describes one tag of one picture."""

    tag_id: str
    image_id: str
    text: str
    source: str = Field(
        description="user: given by hand; feedback: the picture was called right for these words; implicit: a search was sure "
        "of it."
    )
    score: float | None = None
    query_id: str | None = None
    created_at: datetime


class TagList(Model):
    """Lists the tags that were given."""

    tags: list[TagInfo]


class TagText(Model):
    """Counts the pictures that have a tag of one text."""

    text: str
    pictures: int


class TagTexts(Model):
    """Lists the texts of tags, those of most pictures first."""

    texts: list[TagText]


class TagPage(Model):
    """Holds one page of tags."""

    tags: list[TagInfo]
    next_offset: int | None = None
    next_cursor: str | None = Field(None, description=NEXT_CURSOR)


class EngineInfo(Model):
    """Describes one guide engine and its state."""

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


class EngineList(Model):
    """Lists all guide engines, in the order in which they are asked."""

    engines: list[EngineInfo]
    cache: dict[str, float] = Field(description="entries, bytes, limit_bytes, hits, semantic_hits, misses, hit_rate")


class TrustInfo(Model):
    """Holds the trust weights of one topic."""

    topic: str
    words: list[str] = Field(description="Queries that are typical of it.")
    queries: int
    weights: dict[str, float] = Field(description="Space to trust, 1 being neutral; their mean is 1.")


class TrustPage(Model):
    """Lists learned trust, topic by topic."""

    topics: list[TrustInfo]


class TrustEventInfo(Model):
    """Describes one change of trust."""

    event_id: str
    created_at: datetime
    kind: Literal["feedback", "reset", "import", "undo"]
    topic: str | None = Field(None, description="The topic that it is about; null for all or several.")
    cause: str = Field("", description="Of feedback: the query's id. Of an undo: the id of the event that it undoes.")
    before: dict[str, float] = Field(default_factory=dict, description="Space to trust before, where one topic changed.")
    after: dict[str, float] = Field(default_factory=dict, description="Space to trust after, where one topic changed.")


class TrustEventPage(Model):
    """Holds one page of changes of trust, newest first."""

    events: list[TrustEventInfo]
    next_offset: int | None = None
