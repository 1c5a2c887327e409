"""Request and report of an index run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from lodestone.errors import LodestoneError
from lodestone.files.urls import is_url
from lodestone.indexing.run_progress import limiting_stage, stage_progress
from lodestone.indexing.stage_stats import StageShare
from lodestone.indexing.sync.collections import SyncReport


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """Request for an index run.

    Attributes:
        paths: Folders, single files, tables, archives, patterns of these; URLs (as text).
        corpus: Name that the pictures are indexed under; made when new.
        captions: Table of captions (see `CaptionTable.load`).
        retry_failed: Also retry unchanged pictures that failed before.
        exclude: Patterns of what is left out of the directories from now on, in gitignore's syntax.
        resume: Finish an earlier run of the corpus instead, with that run's request: its id, or "" for the last one.
    """

    paths: tuple[Path | str, ...] = ()
    corpus: str = "default"
    captions: Path | None = None
    retry_failed: bool = False
    resume: str | None = None
    exclude: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return what a run's row stores of the request, JSON-serialisable.

        Paths are absolute, because it may be resumed from elsewhere.
        """
        return {
            "paths": [_absolute(path) for path in self.paths],
            "corpus": self.corpus,
            "captions": None if self.captions is None else _absolute(self.captions),
            "retry_failed": self.retry_failed,
            "exclude": list(self.exclude),
        }

    @classmethod
    def remembered(cls, row: Mapping[str, Any]) -> Self:
        """Return the request that a run's row stores."""
        captions = row.get("captions")
        return cls(
            paths=tuple(path if is_url(path) else Path(path) for path in row.get("paths", ())),
            corpus=str(row.get("corpus", "default")),
            captions=Path(captions) if captions else None,
            retry_failed=bool(row.get("retry_failed", False)),
            exclude=tuple(row.get("exclude", ())),
        )


@dataclass(frozen=True, slots=True)
class IndexReport:
    """Report of a finished index run.

    Attributes:
        run_id: Id of its row in the catalog.
        corpus: Name of the corpus.
        counts: Numbers of files by outcome: found, new, changed, moved, touched, back, unchanged, retried, unreadable, gone,
            recaptioned; metadata_read (pictures of an older version whose headers were read again), metadata_unreadable (those
            whose headers could not be read); embedded (pictures that went through the models), failed (pictures that could not
            be used), incomplete (pictures whose files end early, found by what could be decoded; only where there are any),
            added (pictures that were embedded before and got a further part; only where there are any).
        images: Pictures of the corpus that can be found now.
        seconds: Duration of the whole run.
        embed_seconds: Duration of the embedding stage, start-up of workers included.
        executor: Executor that embedded: inline, processes, ray, or none.
        adopted: Parts that a killed run had left on disk and that were kept.
        completed: Pictures that it embedded, or whose files a killed run had left complete on disk.
        resumed: Id of the run that this one finished, "" for none.
        retries: Slices that were retried.
        deaths: Workers that crashed.
        problems: Errors of paths that could not be indexed at all; the others were.
        warnings: Sentences for the user.
        left_out: Files and folders that are not indexed on purpose, by kind: videos, recycle bins, matches of patterns, …
        sync: What happened to the collections; None when the service did it.
        stages: Work of fetching, decoding, embedding and writing, over all workers; empty if nothing was embedded.
        nothing_left: Whether a run was to be resumed that had left nothing. `run_id` is then that run's, and no other was made.
    """

    run_id: str
    corpus: str
    counts: Mapping[str, int]
    images: int
    seconds: float
    embed_seconds: float = 0.0
    executor: str = "none"
    adopted: int = 0
    completed: int = 0
    resumed: str = ""
    retries: int = 0
    deaths: int = 0
    problems: tuple[LodestoneError, ...] = ()
    warnings: tuple[str, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    sync: SyncReport | None = field(default=None, repr=False)
    stages: tuple[StageShare, ...] = ()
    nothing_left: bool = False

    @property
    def limited_by(self) -> str | None:
        """Return the stage that the others waited for while pictures were embedded; None for none."""
        return limiting_stage(self.stages)

    @property
    def rate(self) -> float:
        """Return the pictures embedded per second, over the whole run."""
        return self.counts.get("embedded", 0) / self.seconds if self.seconds > 0 else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the report as a JSON-serialisable dictionary."""
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
            "completed": self.completed,
            "resumed": self.resumed,
            "nothing_left": self.nothing_left,
            "retries": self.retries,
            "worker_deaths": self.deaths,
            "stages": [stage_progress(share).model_dump() for share in self.stages],
            "limited_by": self.limited_by,
            "problems": [{"code": p.code, "message": p.message, "hint": p.hint} for p in self.problems],
            "warnings": list(self.warnings),
            "left_out": dict(self.left_out),
        }


def _absolute(path: Path | str) -> str:
    if is_url(str(path)):
        return str(path)
    # not resolve(): a root that is itself a link keeps its name
    return os.path.abspath(path)  # noqa: PTH100
