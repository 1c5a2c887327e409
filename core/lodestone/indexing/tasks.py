"""What does one unit of embedding work look like on its way to a worker, and what comes back?

Everything here is small, frozen and picklable: a task names its pictures and the parts of the slice that are missing, a
receipt says what is on disk now. Pixels and vectors never travel: workers read files and write Parquet by themselves.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lodestone.backbones.base import Backbone
from lodestone.catalog.records import Receipt
from lodestone.errors import LodestoneError
from lodestone.files.area import FileArea
from lodestone.text_encoders.base import TextEncoder

META_PART: Final = "meta"
_NAME_CHARACTERS: Final = 64  # of a model's name in a file name
EMBEDDED_SOURCES: Final = ("xmp", "iptc")  # caption sources inside the picture's own file: read again whenever its pixels are


@dataclass(frozen=True, slots=True)
class SliceRow:
    """One picture to embed.

    Attributes:
        image_id: Its id.
        hash: BLAKE3 hex of the content that was planned; other content on disk is a `file_changed` failure.
        path: Its locator (see sources/base.py): a path for the operating system (may hold surrogates), a URL, or a place inside
            an archive or table.
        uri: Its name inside the root.
        size: Bytes.
        mtime_ns: Last change, nanoseconds since the epoch.
        captions: (source, text) pairs that are known already.
    """

    image_id: str
    hash: str
    path: str
    uri: str
    size: int
    mtime_ns: int
    captions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class SliceTask:
    """One slice and the parts of it that have no receipt.

    Attributes:
        slice_id: Its id in the catalog.
        corpus_id: Names the folder of its files.
        fingerprint: Names its files.
        rows: The pictures that are still in it.
        parts: Missing parts, e.g. `meta`, `captions-minilm-…`, `efficientnet-lite0-…`. Without `meta` and backbones among
            them no pixel is read.
        attempt: Which try of this run it is, from 1.
        isolate: A worker died at this slice before: pictures are decoded one by one in a child process that may die.
    """

    slice_id: str
    corpus_id: str
    fingerprint: str
    rows: tuple[SliceRow, ...]
    parts: tuple[str, ...]
    attempt: int = 1
    isolate: bool = False


@dataclass(frozen=True, slots=True)
class RowFailure:
    """A picture that could not be used: `code` is a stable word (`truncated`, `file_changed`, …)."""

    image_id: str
    uri: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class SliceReceipt:
    """What a worker did for one task.

    Attributes:
        slice_id: The task's.
        receipts: One for each of the task's parts, all on disk.
        failures: Pictures that were left out.
        embedded: Pictures whose pixels went through the models just now (0 when everything was adopted).
        adopted: Parts that were found on disk, sound, and not computed again.
        seconds: Time spent.
        error: What ended the slice early; then `receipts` holds what was finished before. `WorkerDiedError` when its worker
            is gone: every executor says it so.
        worker: Who did it, `host:pid`; "" where the executor does not know.
    """

    slice_id: str
    receipts: tuple[Receipt, ...]
    failures: tuple[RowFailure, ...] = ()
    embedded: int = 0
    adopted: tuple[str, ...] = ()
    seconds: float = 0.0
    error: LodestoneError | None = None
    worker: str = ""


@dataclass(frozen=True, slots=True)
class EmbedSettings:
    """Everything that a worker needs to know; no catalog, no store.

    Attributes:
        backbones: Names in the backbone registry.
        text_encoder: Name in the text encoder registry.
        models: Directory of the model cache.
        embeddings: The area of Parquet slices.
        thumbnails: The area of thumbnails.
        thumbnail_px: Longer side of thumbnails.
        batch_size: Pictures a model pass.
        max_decoded_bytes: See `imaging.decode`.
        model_threads: Threads of one model pass; 0 for the runtime's choice.
        decode_threads: Pictures decoded at once while the models run.
    """

    backbones: tuple[str, ...]
    text_encoder: str
    models: Path
    embeddings: FileArea
    thumbnails: FileArea
    thumbnail_px: int = 384
    batch_size: int = 4
    max_decoded_bytes: int = 512 << 20
    model_threads: int = 1
    decode_threads: int = 1


@dataclass(frozen=True, slots=True)
class SliceParts:
    """Names of the parts that a complete slice has. They hold versions: another version of a model makes another part.

    Attributes:
        captions: Captions.
        backbones: Backbone's name -> part.
        extra: Parts of backbones that a model swap needs. A slice that is looked at for the first time gets them too; that
            older ones lack them makes no slice unfinished.
    """

    captions: str
    backbones: dict[str, str] = field(default_factory=dict)
    extra: tuple[str, ...] = ()

    @classmethod
    def of(cls, backbones: Sequence[Backbone], text_encoder: TextEncoder, *, extra: Sequence[Backbone] = ()) -> SliceParts:
        """The parts for these models in their present versions."""
        parts = {backbone.name: backbone_part(backbone) for backbone in backbones}
        return cls(captions_part(text_encoder), parts, tuple(backbone_part(backbone) for backbone in extra))

    def names(self) -> tuple[str, ...]:
        """All parts: `meta` is written last, so that a slice with it has been looked at completely."""
        return (*self.backbones.values(), self.captions, META_PART)

    def missing(self, done: Container[str]) -> tuple[str, ...]:
        """Parts to make of a slice that has those in `done`."""
        extra = () if META_PART in done else self.extra
        return tuple(part for part in (*extra, *self.names()) if part not in done)


def backbone_part(backbone: Backbone) -> str:
    """Part (and file) name of a backbone's outputs."""
    return f"{file_safe(backbone.name)}-{backbone.version}"


def captions_part(encoder: TextEncoder) -> str:
    """Part (and collection) name of captions encoded by this version of a text encoder."""
    return f"captions-{file_safe(encoder.name)}-{encoder.version}"


def this_worker() -> str:
    """`host:pid` of this process: how attempts and runs name who does the work."""
    return f"{socket.gethostname()}:{os.getpid()}"


def file_safe(name: str) -> str:
    """A model's name as part of a file name: `timm:/models/eva` has characters that none may have. Versions tell them apart."""
    return re.sub(r"[^A-Za-z0-9._@+-]+", "-", name)[-_NAME_CHARACTERS:].strip("-._@+") or "model"
