"""API models of indexed pictures and corpora."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from lodestone_schemas.base import NEXT_CURSOR, Model


class ImageInfo(Model):
    """Holds what is known about one picture."""

    image_id: str
    corpus: str
    root: str
    uri: str
    hash: str
    size: int = Field(description="Bytes.")
    width: int
    height: int
    format: str
    taken_at: datetime | None = Field(None, description="UTC. Without `utc_offset_minutes`, what the camera's clock showed.")
    utc_offset_minutes: int | None = Field(None, description="Local time minus UTC where the picture was taken.")
    latitude: float | None = Field(None, description="Degrees, north positive.")
    longitude: float | None = Field(None, description="Degrees, east positive.")
    camera_make: str | None = None
    camera_model: str | None = None
    captions: list[str] = Field(default_factory=list)
    thumbnail: str


class ImagePage(Model):
    """Holds one page of a corpus's pictures, by root and path."""

    images: list[ImageInfo]
    next_cursor: str | None = Field(None, description=NEXT_CURSOR)


class RootInfo(Model):
    """Describes one indexed folder."""

    name: str
    images: int


class CorpusInfo(Model):
    """Describes one corpus: pictures that were indexed under one name."""

    name: str
    corpus_id: str
    images: int
    failures: int
    roots: list[RootInfo]
    created_at: datetime


class CorpusPage(Model):
    """Holds one page of the list of corpora."""

    corpora: list[CorpusInfo]
    next_offset: int | None = None
    next_cursor: str | None = Field(None, description=NEXT_CURSOR)
