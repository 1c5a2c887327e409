"""What does an index run ask for, and what does it answer?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lodestone.errors import LodestoneError
from lodestone.indexing.sync import SyncReport


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """What to index.

    Attributes:
        paths: Folders, or single files.
        corpus: Name that the pictures are indexed under; made when new.
        captions: Table of captions (see `CaptionTable.load`).
        retry_failed: Try unchanged pictures again that failed before.
    """

    paths: tuple[Path, ...]
    corpus: str = "default"
    captions: Path | None = None
    retry_failed: bool = False


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What an index run did.

    Attributes:
        run_id: Its row in the catalog.
        corpus: Name of the corpus.
        counts: Files by what became of them: found, new, changed, moved, touched, back, unchanged, retried, unreadable, gone,
            recaptioned; embedded (pictures that went through the models), failed (pictures that could not be used).
        images: Pictures of the corpus that can be found now.
        seconds: Of the whole run.
        embed_seconds: Of the embedding stage, start-up of workers included.
        executor: Who embedded: inline, ray, or none.
        adopted: Parts that a killed run had left on disk and that were kept.
        problems: Paths that could not be indexed at all; the others were.
        warnings: Things that the user should know.
        sync: What happened to the collections; None when the service did it.
    """

    run_id: str
    corpus: str
    counts: Mapping[str, int]
    images: int
    seconds: float
    embed_seconds: float = 0.0
    executor: str = "none"
    adopted: int = 0
    problems: tuple[LodestoneError, ...] = ()
    warnings: tuple[str, ...] = ()
    sync: SyncReport | None = field(default=None, repr=False)

    @property
    def rate(self) -> float:
        """Pictures embedded a second, over the whole run."""
        return self.counts.get("embedded", 0) / self.seconds if self.seconds > 0 else 0.0

    def as_dict(self) -> dict[str, Any]:
        """JSON-serialisable."""
        return {
            "run_id": self.run_id,
            "corpus": self.corpus,
            "images": self.images,
            "counts": dict(self.counts),
            "seconds": round(self.seconds, 3),
            "embed_seconds": round(self.embed_seconds, 3),
            "images_per_second": round(self.rate, 2),
            "executor": self.executor,
            "adopted_parts": self.adopted,
            "problems": [{"code": p.code, "message": p.message, "hint": p.hint} for p in self.problems],
            "warnings": list(self.warnings),
        }
