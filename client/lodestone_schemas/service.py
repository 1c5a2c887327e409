"""API models of the service's liveness, readiness and status, shared by the service and its clients."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Alive(_Model):
    """Reports that the process answers; it says nothing about models or store."""

    status: Literal["ok"] = "ok"
    version: str
    instance: str = Field(description="Names this run of the service; it changes with every start.")


class Check(_Model):
    """Reports on one part that must answer before queries can be served."""

    ok: bool
    milliseconds: float
    detail: str = ""


class ServiceStatus(_Model):
    """Reports whether queries can be answered now, and from what."""

    ready: bool
    version: str
    profile: str
    started_at: datetime
    images: int = Field(description="Pictures that can be found.")
    checks: dict[str, Check] = Field(description="Name of a part (models, store, catalog) to what it answered.")
    idle: dict[str, str] = Field(
        default_factory=dict,
        description="Parts of a query (gate, outliers) that are switched on and can do nothing in this home, and why.",
    )
