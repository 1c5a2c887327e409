"""Records that the catalog returns: plain frozen dataclasses, free of SQLAlchemy."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self


class ImageState(StrEnum):
    """State of a picture: known and not embedded, embedded, not usable, gone."""

    PENDING = "pending"
    ACTIVE = "active"
    FAILED = "failed"
    GONE = "gone"


SHOWN: Final = frozenset({ImageState.ACTIVE, ImageState.PENDING})
"""States of pictures that searches show: a changed file is pending until it is embedded anew, and shown meanwhile."""


class RunState(StrEnum):
    """State of a run, which is either running or ended in one of four ways."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Corpus:
    """Corpus: pictures that are indexed under one name."""

    corpus_id: str
    name: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Root:
    """Root of a corpus: an indexed folder or, depending on `kind`, a bucket's prefix, a table or an archive.

    `path` is absolute on the machine that indexes, or a URL. Pictures of a root that is not enabled are kept and not found.
    """

    root_id: str
    corpus_id: str
    name: str
    path: str
    kind: str = "folder"  # folder, object, table, tar
    enabled: bool = True
    watched: bool = False
    scanned_at: datetime | None = None  # start of the last run that scanned all of it
    exclude: str = ""  # patterns of what is left out, one a line, in gitignore's syntax

    @property
    def patterns(self) -> tuple[str, ...]:
        """Return the patterns of what is left out."""
        return tuple(self.exclude.splitlines())


@dataclass(frozen=True, slots=True)
class ImageRecord:
    """Record of one picture, in the order of the columns of the table `images`.

    `uri` is its path inside the root (sources/uris.py), `hash` is BLAKE3 hex, and `slice_id` is its current slice.
    `metadata_version` is that of the reader that filled time, place and camera (`imaging.metadata.METADATA_VERSION`); it is 0
    when the file's header is still to be read, and negative when it could not be read.
    """

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
    utc_offset_minutes: int | None = None  # local time minus UTC where it was taken
    taken_subsec_ms: int | None = None  # milliseconds to add to `taken_at`, 0 to 999
    camera_make: str | None = None
    camera_model: str | None = None
    metadata_version: int = 0
    taken_precision: str | None = None  # year, month, day or second: how much of the time is known; `taken_at` is its beginning
    taken_source: str | None = None  # what the time was read from (`imaging.dates.DateSource`)
    taken_zone: str | None = None  # what says the offset: stated, or gps
    decoded_share: float | None = None  # of a picture whose file ends early, in [0, 1]; None for a complete one


class WaitingPicture(NamedTuple):
    """What the planning of slices needs to know of a picture; as in `ImageRecord`."""

    image_id: str
    hash: str


class PlannedPicture(NamedTuple):
    """What a worker needs to know of a picture in order to embed it; as in `ImageRecord`."""

    image_id: str
    root_id: str
    uri: str
    hash: str
    size: int
    mtime_ns: int
    position: int | None


class ImageFields(NamedTuple):
    """What a vector collection holds of a picture besides its vector, and its state; as in `ImageRecord`."""

    image_id: str
    corpus_id: str
    root_id: str
    uri: str
    taken_at: int | None
    utc_offset_minutes: int | None
    taken_precision: str | None
    latitude: float | None
    longitude: float | None
    camera_make: str | None
    camera_model: str | None
    width: int
    height: int
    state: ImageState


@dataclass(frozen=True, slots=True)
class Container:
    """Archive or table of a root whose pictures were all listed while its content was `token`."""

    root_id: str
    uri: str
    token: str
    items: int


@dataclass(frozen=True, slots=True)
class CaptionRecord:
    """Record of one caption of a picture; `source` is sidecar, xmp, iptc or table."""

    image_id: str
    source: str
    text: str


@dataclass(frozen=True, slots=True)
class SliceRecord:
    """Fixed set of pictures, never changed; `fingerprint` is computed from its (image id, hash) rows."""

    slice_id: str
    corpus_id: str
    fingerprint: str
    rows: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof that one part of a slice is on disk; `part` is `meta`, `captions` or a backbone's `name@version`."""

    slice_id: str
    part: str
    path: str  # relative to the home's embeddings folder
    rows: int
    size: int  # bytes
    checksum: str  # BLAKE3 hex of the file
    seconds: float


@dataclass(frozen=True, slots=True)
class Failure:
    """Record of a file that could not be used in a run; the run continued without it."""

    run_id: str
    root_id: str
    uri: str
    code: str
    message: str
    image_id: str | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """Record of one index or training run."""

    run_id: str
    kind: str
    corpus_id: str | None
    state: RunState
    stage: str
    started_at: datetime
    finished_at: datetime | None
    counts: dict[str, Any]
    error: str = ""
    request: dict[str, Any] = field(default_factory=dict)  # the request, so that it can be repeated
    worker: str = ""  # host:pid of the driver
    heartbeat_at: datetime | None = None
    cancel_requested: bool = False
    progress: dict[str, Any] = field(default_factory=dict)  # `lodestone_schemas.runs.RunProgress`, as last told; empty before


class AttemptState(StrEnum):
    """State of an attempt at a slice: running, all receipts recorded, an error was returned, the worker crashed."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    DIED = "died"


@dataclass(frozen=True, slots=True)
class SliceAttempt:
    """Record of one attempt at a slice; `attempt` counts from 1 over all runs."""

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
    """Record of a picture that has copies; `kind` is exact or near, `distance` is to the representative (0 for itself)."""

    image_id: str
    kind: str
    corpus_id: str
    group_id: str  # the representative's image id
    distance: float


class SwapState(StrEnum):
    """State of a model swap: filling the new collection, comparing both, active, final, undone, cancelled, failed."""

    BACKFILL = "backfill"
    SHADOW = "shadow"
    PROMOTED = "promoted"
    FINISHED = "finished"
    ROLLED_BACK = "rolled_back"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SwapRecord:
    """Record of one model swap of one space; `target` is the new model as the command named it."""

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
    """Learnt artifact, e.g. a bridge: a folder under the home's artifacts. At most one of a kind is active."""

    kind: str
    version: str
    path: str  # relative to the home's artifacts folder
    active: bool
    metrics: dict[str, Any]
    created_at: datetime


@dataclass(frozen=True, slots=True)
class TagRecord:
    """Record of one tag of a picture; `source` is implicit (a query found it) or user. The catalog sets id and corpus."""

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
        """Create a tag to be added; `Catalog.add_tags` returns it with its id and its picture's corpus."""
        return cls("", image_id, "", text, source, score, query_id, datetime.now(UTC))

    def moved_to(self, image_id: str) -> Self:
        """Return the tag as another picture's, to be added."""
        return replace(self, image_id=image_id)


@dataclass(frozen=True, slots=True)
class TagChange:
    """Change of a picture's tags; `seq` identifies the change, so that a later one does not count as delivered."""

    seq: int
    image_id: str


@dataclass(frozen=True, slots=True)
class EngineState:
    """State that was set for one guide engine at run time; None follows the settings."""

    enabled: bool | None = None
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class WriteKey:
    """Key by which a repeated write is recognised: its `owner`, the client's `key` (up to 255 characters), and the request."""

    owner: str
    key: str
    fingerprint: str  # hex digest of the request


@dataclass(frozen=True, slots=True)
class WriteRecord:
    """Record of a write that was requested with a key.

    Attributes:
        owner: Owner of the key; equal keys of different owners are independent.
        key: Key as the client chose it.
        fingerprint: Hex digest of the request.
        status: HTTP status of the answer; None while there is none.
        body: Body of the answer.
        created_at: Time of the first request.
    """

    owner: str
    key: str
    fingerprint: str
    status: int | None
    body: bytes | None
    created_at: datetime
