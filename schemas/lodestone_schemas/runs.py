"""API models of index and training runs, and of the files that failed in them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from lodestone_schemas.base import NEXT_CURSOR, Model

RunStateName = Literal["running", "done", "failed", "interrupted", "cancelled"]


class RunInfo(Model):
    """Describes one run. Its paths are left out, because they name places on the service's machines."""

    run_id: str
    kind: str = Field(description="index, train-bridge, …")
    corpus: str | None = Field(description="The corpus that it is about; null for none or all.")
    state: RunStateName
    stage: str
    started_at: datetime
    finished_at: datetime | None = None
    heartbeat_at: datetime | None = Field(None, description="When its driver was last heard of.")
    cancel_requested: bool = False
    counts: dict[str, Any] = Field(default_factory=dict)
    failures: int | None = Field(None, description="Files that last failed in it; null in lists.")
    error: str = Field("", description="Why it did not succeed.")


class RunPage(Model):
    """Holds one page of runs, newest first."""

    runs: list[RunInfo]
    next_offset: int | None = None
    next_cursor: str | None = Field(None, description=NEXT_CURSOR)


class FailureInfo(Model):
    """Describes one file that could not be used."""

    corpus: str | None = None
    root: str
    uri: str = Field(description="Path inside the root.")
    code: str
    message: str
    image_id: str | None = None


class FailurePage(Model):
    """Holds one page of the files that last failed in a run."""

    failures: list[FailureInfo]
    next_cursor: str | None = Field(None, description=NEXT_CURSOR)
