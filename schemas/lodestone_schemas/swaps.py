"""Which messages are about model swaps? What a service is asked to compare, and what it found."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ShadowRequest(_Model):
    """Ask recorded queries of both versions of a space between which a swap is going on."""

    space: str = Field(min_length=1, max_length=200)
    queries: int = Field(200, ge=0, le=10_000, description="Recorded queries asked at most, the latest first.")
    k: int = Field(10, ge=1, le=100, description="Results that are compared.")
    pictures: int = Field(50, ge=0, le=1_000, description="Indexed pictures searched by at most.")


class ShadowResult(_Model):
    """What came of it: overlap of the results, and judged metrics where feedback judges."""

    report: dict[str, Any]
