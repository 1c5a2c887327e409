"""Messages between the driver and the embedding workers: tasks, receipts and settings.

Everything here is small, frozen and picklable. A task names its pictures and the missing parts of the slice; a receipt names
the files that are on disk now. Pixels and vectors are not sent: workers read files and write Parquet themselves.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from lodestone.backbones.base import Backbone
from lodestone.catalog.records import Receipt
from lodestone.errors import LodestoneError
from lodestone.files.area import FileArea
from lodestone.files.beneath import Enclosure
from lodestone.indexing.stage_stats import StageShare
from lodestone.text_encoders.base import TextEncoder

META_PART: Final = "meta"
_NAME_CHARACTERS: Final = 64  # most characters of a model's name in a file name
# Caption sources inside the picture's own file: read again whenever its pixels are.
EMBEDDED_SOURCES: Final = ("xmp", "iptc", "exif", "comment", "keywords")


class SliceRow(NamedTuple):
    """A picture that is to be embedded. A tuple, because hundreds of thousands travel to the workers, and tuples cost least.

    Attributes:
        image_id: Id of the picture.
        hash: BLAKE3 hex of the content that was planned; other content on disk is a `file_changed` failure.
        path: Locator of the file (see sources/base.py): a path for the operating system (may hold surrogates), a URL, or a
            place inside
            an archive or table.
        uri: Name of the file inside the root.
        size: Size in bytes.
        mtime_ns: Time of the last change, nanoseconds since the epoch.
        captions: (source, text) pairs that are known already.
        within: The folder that a local file must lie in when it is opened; None for none.
    """

    image_id: str
    hash: str
    path: str
    uri: str
    size: int
    mtime_ns: int
    captions: tuple[tuple[str, str], ...] = ()
    within: Enclosure | None = None


@dataclass(frozen=True, slots=True)
class SliceTask:
    """Task to make the parts of one slice that have no receipt.

    Attributes:
        slice_id: Id of the slice in the catalog.
        corpus_id: Names the folder of its files.
        fingerprint: Names its files.
        rows: The pictures that are still in it.
        parts: Missing parts by the names of their files, e.g. `meta`, `captions-minilm-…`, `efficientnet-lite0-…`. If none of
            them opens the pictures' files (see parts/contract.py), no pixel is read.
        attempt: Number of the attempt in this run, from 1.
        isolate: True when a worker crashed at this slice alone: pictures are then decoded one by one in a child process.
        alone: True when a worker crashed while it had this slice and others: it is then tried without company, so that
            another crash tells which one it was.
        done: Receipts of the parts that the slice has already.
    """

    slice_id: str
    corpus_id: str
    fingerprint: str
    rows: tuple[SliceRow, ...]
    parts: tuple[str, ...]
    attempt: int = 1
    isolate: bool = False
    alone: bool = False
    done: tuple[Receipt, ...] = ()

    @property
    def needs_a_worker(self) -> bool:
        """Return whether no other slice may be in flight beside it in the same worker."""
        return self.alone or self.isolate


@dataclass(frozen=True, slots=True)
class RowFailure:
    """A picture that could not be used; `code` is a stable word (`truncated`, `file_changed`, …)."""

    image_id: str
    uri: str
    code: str
    message: str


SliceProgressCallback = Callable[[str, int], None]
"""Called with a slice's id and the number of its pictures that are done so far: with all their outputs and captions."""


def ignore_progress(_slice_id: str, _pictures: int) -> None:
    """Ignore the progress of a slice."""


@dataclass(frozen=True, slots=True)
class Advance:
    """Progress of a slice: `pictures` of it are done."""

    slice_id: str
    pictures: int


@dataclass(frozen=True, slots=True)
class SliceReceipt:
    """Result of a worker's task.

    Attributes:
        slice_id: Id of the task's slice.
        receipts: One for each of the task's parts, all on disk.
        failures: Pictures that were left out.
        embedded: Pictures whose pixels went through the models just now (0 when everything was adopted).
        adopted: Parts that were found intact on disk and not computed again.
        seconds: Duration of the work.
        error: Error that ended the slice early; then `receipts` holds what was finished before. Every executor reports a
            crashed worker as `WorkerDiedError`.
        worker: `host:pid` of the worker; "" where the executor does not know.
        stages: Work of each stage of this worker so far, over all its slices; empty where the executor does not know.
        most_in_pass: Pictures that the memory of this worker's GPU has room for in one pass; 0 where it never ran out.
        postponed: Name of a part -> why the slice lacks it until a later run.
    """

    slice_id: str
    receipts: tuple[Receipt, ...]
    failures: tuple[RowFailure, ...] = ()
    embedded: int = 0
    adopted: tuple[str, ...] = ()
    seconds: float = 0.0
    error: LodestoneError | None = None
    worker: str = ""
    stages: tuple[StageShare, ...] = ()
    most_in_pass: int = 0
    postponed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EmbedSettings:
    """Settings with everything that a worker needs to know; it has no catalog and no store.

    Attributes:
        backbones: Names in the backbone registry.
        text_encoder: Name in the text encoder registry.
        models: Directory of the model cache.
        embeddings: Area of the Parquet slices.
        thumbnails: Area of the thumbnails.
        thumbnail_px: Longer side of thumbnails, pixels.
        batch_size: Pictures per model pass; 0 for the choice of the worker's machine.
        max_decoded_bytes: See `imaging.decode`.
        model_threads: Threads of one model pass; 0 for the runtime's choice.
        decode_threads: Pictures decoded at once while the models run.
        decode_processes: Whether each of them is decoded in a child process; None for the choice of the worker's machine.
        compile_models: Whether image models of torch are compiled.
        gpu_decode: Whether ordinary JPEGs are decoded on the worker's GPU.
        slices_in_flight: Slices that a worker has in flight; 0 for the choice of its machine.
        reads: Requests for pictures to object stores at once; 0 for the default.
        eager: Whether a worker loads its models before the first slice. Without it, each is loaded when a slice lacks its part.
    """

    backbones: tuple[str, ...]
    text_encoder: str
    models: Path
    embeddings: FileArea
    thumbnails: FileArea
    thumbnail_px: int = 384
    batch_size: int = 0
    max_decoded_bytes: int = 512 << 20
    model_threads: int = 1
    decode_threads: int = 1
    decode_processes: bool | None = None
    gpu_decode: bool = False
    compile_models: bool = False
    slices_in_flight: int = 0
    reads: int = 0
    eager: bool = True


def backbone_part(backbone: Backbone) -> str:
    """Return the part (and file) name of a backbone's outputs."""
    return f"{file_safe(backbone.name)}-{backbone.version}"


def captions_part(encoder: TextEncoder) -> str:
    """Return the part (and collection) name of captions encoded by this version of a text encoder."""
    return f"captions-{file_safe(encoder.name)}-{encoder.version}"


def this_worker() -> str:
    """Return `host:pid` of this process, which attempts and runs store as their worker."""
    return f"{socket.gethostname()}:{os.getpid()}"


def file_safe(name: str) -> str:
    """Return a model's name as part of a file name.

    Characters that file names cannot have (`timm:/models/eva`) become "-". Names that become equal are told apart by versions.
    """
    return re.sub(r"[^A-Za-z0-9._@+-]+", "-", name)[-_NAME_CHARACTERS:].strip("-._@+") or "model"
