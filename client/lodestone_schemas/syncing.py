"""API models of synchronising the collections, between Lodestone's own commands and the owner of the store."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from lodestone_schemas.base import Model
from lodestone_schemas.problems import Problem


class SyncRequest(Model):
    """Requests that the owner of the store synchronises its collections with catalog and Parquet files (internal).

    `build` also builds the graphs of large collections; it is false while many more points are to come.
    """

    run_id: str | None = None
    build: bool = True


class DuplicatesRequest(Model):
    """Requests that the owner of the store looks for copies: files of equal content, and pictures that look alike."""

    corpus: str | None = Field(None, max_length=200, description="Only this corpus; null: all.")
    space: str | None = Field(None, max_length=200, description="Where pictures are compared; null: the profile's first.")
    distance: float = Field(0.4, ge=0, le=1, description="Which pictures are compared: 1 - cosine of vectors.")
    restart: bool = Field(False, description="Begin anew, even where a stopped search could go on.")


class VerifyRequest(Model):
    """Requests that the owner of the store compares its collections with catalog and Parquet files; nothing is changed."""

    sample: int | None = Field(1_000, ge=0, description="Vectors of each collection that are compared; null: all.")


class SyncProgress(Model):
    """Reports one step of a sync or other work on the collections: `done` of `total`, or its end with what it found."""

    type: Literal["progress", "done", "error"] = "progress"
    stage: str = ""
    collection: str = ""
    done: int = 0
    total: int = 0
    problem: Problem | None = None
    result: list[dict[str, Any]] | None = Field(None, description="Of the last step, where there is something to tell.")
