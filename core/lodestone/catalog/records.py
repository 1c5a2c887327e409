"""Which facts does the catalog hand out? Plain frozen records, free of SQLAlchemy."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Self


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
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Corpus:
    """Pictures indexed under one name."""

    corpus_id: str
    name: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Root:
    """One indexed source: a folder, or where `kind` says so a bucket's prefix, a table or an archive.

    `path` is absolute on the machine that indexes, or a URL. Pictures of a root that is not enabled are kept and not found.
    """

    root_id: str
    corpus_id: str
    name: str
    path: str
    kind: str = "folder"  # folder, object, table, tar
    enabled: bool = True
    watched: bool = False
    scanned_at: datetime | None = None  # when the last run that looked at all of it began


@dataclass(frozen=True, slots=True)
class ImageRecord:
    """One picture. `uri` is its path inside the root (sources/uris.py), `hash` BLAKE3 hex, `slice_id` its present slice."""

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
    position: int | None = None  # inside an archive: the byte where its content begins; inside a table: its row


@dataclass(frozen=True, slots=True)
class Container:
    """An archive or table of a root whose pictures were all listed while its content was `token`."""

    root_id: str
    uri: str
    token: str
    items: int


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
    request: dict[str, Any] = field(default_factory=dict)  # what was asked for, so that it can be asked again
    worker: str = ""  # host:pid of the driver
    heartbeat_at: datetime | None = None
    cancel_requested: bool = False


class AttemptState(StrEnum):
    """What came of one try at a slice: under way, all receipts recorded, an error came back, the worker died."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    DIED = "died"


@dataclass(frozen=True, slots=True)
class SliceAttempt:
    """One try at a slice; `attempt` counts from 1 over all runs."""

    slice_id: str
    attempt: int
    run_id: str
    worker: str  # host:pid
    state: AttemptState
    embedded: int
    failed: int
    started_at: datetime
    seconds: float
    error: str = ""


@dataclass(frozen=True, slots=True)
class DuplicateRecord:
    """A picture that has copies. `kind` is exact or near; `distance` is to the group's representative, 0 for itself."""

    image_id: str
    kind: str
    corpus_id: str
    group_id: str  # the representative's image id
    distance: float


class SwapState(StrEnum):
    """Life of a model swap: filling the new collection, comparing both, in force, for good, undone, given up."""

    BACKFILL = "backfill"
    SHADOW = "shadow"
    PROMOTED = "promoted"
    FINISHED = "finished"
    ROLLED_BACK = "rolled_back"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SwapRecord:
    """One model swap of one space; `target` says to what, as the command named it."""

    swap_id: str
    space: str
    target: str
    old_collection: str
    new_collection: str
    state: SwapState
    created_at: datetime
    updated_at: datetime
    counts: dict[str, Any]
    report: dict[str, Any]
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


@dataclass(frozen=True, slots=True)
class TagRecord:
    """One tag of one picture; `source` is implicit (a query found it) or user. The catalog mints id and corpus."""

    tag_id: str
    image_id: str
    corpus_id: str
    text: str
    source: str
    score: float | None
    query_id: str | None
    created_at: datetime

    @classmethod
    def new(cls, image_id: str, text: str, source: str, *, score: float | None = None, query_id: str | None = None) -> Self:
        """A tag to be added; `Catalog.add_tags` returns it with its id and its picture's corpus."""
        return cls("", image_id, "", text, source, score, query_id, datetime.now(UTC))


@dataclass(frozen=True, slots=True)
class TagChange:
    """A picture whose tags changed; `seq` says which change, so that a later one is not taken for delivered."""

    seq: int
    image_id: str


@dataclass(frozen=True, slots=True)
class EngineState:
    """What was set for one guide engine in use; None leaves it to the settings."""

    enabled: bool | None = None
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class WriteKey:
    """By which a write is known again: who asks (`owner`), the client's `key` (up to 255 characters), and what is asked for."""

    owner: str
    key: str
    fingerprint: str  # hex digest of the request


@dataclass(frozen=True, slots=True)
class WriteRecord:
    """A write that was asked for with a key.

    Attributes:
        owner: Who asked; keys of different owners never meet.
        key: As the client chose it.
        fingerprint: Of the request.
        status: Of the answer; None while there is none.
        body: Of the answer.
        created_at: When it was first asked for.
    """

    owner: str
    key: str
    fingerprint: str
    status: int | None
    body: bytes | None
    created_at: datetime
