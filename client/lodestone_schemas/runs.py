"""API models of index and training runs, and of the files that failed in them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from lodestone_schemas.base import NEXT_CURSOR, Model

RunStateName = Literal["running", "done", "failed", "interrupted", "cancelled"]


class StageProgress(Model):
    """Describes the work of one stage of embedding since the run began."""

    stage: str = Field(description="fetch, decode, embed or write.")
    pictures: int
    rate: float = Field(description="Pictures a second.")
    busy: float = Field(description="Share of its time that it worked, 0 to 1.")
    waiting: int = Field(0, description="Pictures that wait for it.")


class GpuUse(Model):
    """Describes the use of one GPU of the driver's machine."""

    gpu: int
    busy: float = Field(description="Share of its time that it worked, 0 to 1.")
    memory_used: int = Field(description="Bytes.")
    memory_size: int = Field(description="Bytes.")


class RunProgress(Model):
    """Describes how far a run is, as its driver last told."""

    stage: str
    detail: str = ""
    done: int = 0
    total: int = Field(0, description="0 while unknown.")
    rate: float = Field(0.0, description="Pictures (while loading: points) a second, of late.")
    seconds_left: float | None = Field(None, description="Of this stage; null while unknown.")
    limited_by: str | None = Field(
        None, description="The stage that the others wait for: fetch, decode, embed, write or load; null for none."
    )
    stages: list[StageProgress] = Field(default_factory=list, description="The stages of embedding, over all workers.")
    gpus: list[GpuUse] = Field(default_factory=list)


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
    progress: RunProgress | None = Field(None, description="How far it is, or was when it was last heard of.")
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
