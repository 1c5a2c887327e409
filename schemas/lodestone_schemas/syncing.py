"""Which messages bring the collections in line? Those between Lodestone's own commands and the owner of the store."""

from __future__ import annotations

from typing import Literal

from lodestone_schemas.base import Model
from lodestone_schemas.problems import Problem


class SyncRequest(Model):
    """Ask the owner of the store to bring its collections in line with catalog and Parquet files (internal).

    `build` has it make the graphs of large collections; false while many more points are on their way.
    """

    run_id: str | None = None
    build: bool = True


class SyncProgress(Model):
    """One step of a sync: `done` of `total` slices of a collection, or its end."""

    type: Literal["progress", "done", "error"] = "progress"
    stage: str = ""
    collection: str = ""
    done: int = 0
    total: int = 0
    problem: Problem | None = None
