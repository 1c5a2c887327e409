"""API models of synchronising the collections, between Lodestone's own commands and the owner of the store."""

from __future__ import annotations

from typing import Literal

from lodestone_schemas.base import Model
from lodestone_schemas.problems import Problem


class SyncRequest(Model):
    """Requests that the owner of the store synchronises its collections with catalog and Parquet files (internal).

    `build` also builds the graphs of large collections; it is false while many more points are to come.
    """

    run_id: str | None = None
    build: bool = True


class SyncProgress(Model):
    """Reports one step of a sync: `done` of `total` slices of a collection, or its end."""

    type: Literal["progress", "done", "error"] = "progress"
    stage: str = ""
    collection: str = ""
    done: int = 0
    total: int = 0
    problem: Problem | None = None
