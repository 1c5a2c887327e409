"""What does the service say about itself? Liveness, readiness and status, shared by the service and its clients."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Alive(_Model):
    """The process answers; says nothing about models or store."""

    status: Literal["ok"] = "ok"
    version: str
    instance: str = Field(description="Names this run of the service; it changes with every start.")


class Check(_Model):
    """One thing that must answer before queries can be served."""

    ok: bool
    milliseconds: float
    detail: str = ""


class ServiceStatus(_Model):
    """Whether queries can be answered right now, and what they would be answered from."""

    ready: bool
    version: str
    profile: str
    started_at: datetime
    images: int = Field(description="Pictures that can be found.")
    checks: dict[str, Check] = Field(description="Name of a part (models, store, catalog) to what it answered.")
