"""Which facts does the catalog hand out? Plain frozen records, free of SQLAlchemy."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


class ImageState(StrEnum):
    """Life of a picture: known and not embedded, embedded, not usable, tombstone."""

    PENDING = "pending"
    ACTIVE = "active"
    FAILED = "failed"
    GONE = "gone"


class RunState(StrEnum):
    """Life of a run."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Corpus:
    """Pictures indexed under one name."""

    corpus_id: str
    name: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Root:
    """One indexed folder; `path` is absolute on the machine that indexes."""

    root_id: str
    corpus_id: str
    name: str
    path: str


@dataclass(frozen=True, slots=True)
class ImageRecord:
    """One picture. `uri` is its path inside the root (indexing/uris.py), `hash` BLAKE3 hex, `slice_id` its present slice."""

    image_id: str
    corpus_id: str
    root_id: str
    uri: str
    hash: str
    size: int
    mtime_ns: int
    state: ImageState
    slice_id: str | None = None
    width: int = 0
    height: int = 0
    format: str = ""
    taken_at: int | None = None  # seconds since 1970-01-01T00:00:00Z
    latitude: float | None = None
    longitude: float | None = None


@dataclass(frozen=True, slots=True)
class CaptionRecord:
    """One caption of a picture; `source` is sidecar, xmp, iptc or table."""

    image_id: str
    source: str
    text: str


@dataclass(frozen=True, slots=True)
class SliceRecord:
    """A fixed set of at most 256 pictures; `fingerprint` is over its (image id, hash) rows. Never changed, only added."""

    slice_id: str
    corpus_id: str
    fingerprint: str
    rows: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof that one part of a slice is on disk: `part` is `meta`, `captions` or a backbone's `name@version`."""

    slice_id: str
    part: str
    path: str  # relative to the home's embeddings folder
    rows: int
    size: int  # bytes
    checksum: str  # BLAKE3 hex of the file
    seconds: float


@dataclass(frozen=True, slots=True)
class Failure:
    """A file that could not be used in a run; the run went on without it."""

    run_id: str
    root_id: str
    uri: str
    code: str
    message: str
    image_id: str | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One index or training run."""

    run_id: str
    kind: str
    corpus_id: str | None
    state: RunState
    stage: str
    started_at: datetime
    finished_at: datetime | None
    counts: dict[str, Any]
    error: str = ""


@dataclass(frozen=True, slots=True)
class Artifact:
    """Something learnt here, e.g. a bridge: a folder under the home's artifacts. At most one a kind is active."""

    kind: str
    version: str
    path: str  # relative to the home's artifacts folder
    active: bool
    metrics: dict[str, Any]
    created_at: datetime
