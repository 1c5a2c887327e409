"""API models of model swaps: a comparison of both versions, and its result."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ShadowRequest(_Model):
    """Requests that recorded queries are sent to both versions of a space that is being swapped."""

    space: str = Field(min_length=1, max_length=200)
    queries: int = Field(200, ge=0, le=10_000, description="Recorded queries asked at most, the latest first.")
    k: int = Field(10, ge=1, le=100, description="Results that are compared.")
    pictures: int = Field(50, ge=0, le=1_000, description="Indexed pictures searched by at most.")


class ShadowResult(_Model):
    """Holds the comparison: overlap of the results, and metrics on pictures that feedback judged."""

    report: dict[str, Any]
