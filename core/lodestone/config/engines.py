"""Settings of guide engines (`[generators.NAME]` in `lodestone.toml`) and of the guide cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from lodestone.config.section import SettingsSection


class EngineSettings(SettingsSection):
    """Settings that describe one guide engine."""

    kind: str = Field(
        description="exemplar, prior, diffusers, openai, imagen, replicate, http, or an installed plug-in's name."
    )
    enabled: bool = True
    priority: int = Field(0, ge=0, le=1_000, description="Lowest first, equal ones together; higher ones fill what is missing.")
    guides: int | None = Field(None, ge=1, le=64, description="Guides of one query at most; default: an equal share.")
    size: int = Field(256, ge=16, le=4096, description="Side of its pictures, pixels; default: the profile's.")
    cost: float = Field(0.0, ge=0, le=1e9, description="Per picture, in any one unit.")
    timeout_s: float = Field(30.0, gt=0, le=600, description="Seconds one call may take.")
    concurrency: int = Field(4, ge=1, le=64, description="Calls at once.")
    breaker_failures: int = Field(3, ge=1, le=100, description="Failures in a row that take it out of use.")
    breaker_seconds: float = Field(30.0, gt=0, le=86_400, description="Seconds until it is tried again.")
    model: str | None = Field(None, description="Model name, or a local directory.")
    url: str | None = Field(None, description="Where an HTTP engine is.")
    key_env: str | None = Field(None, description="Environment variable with the credential.")
    key_file: Path | None = Field(None, description="File with the credential.")
    options: dict[str, Any] = Field(default_factory=dict, description="What else this kind takes; see docs/generators.md.")


class GuideCacheSettings(SettingsSection):
    """Settings of the cache that keeps generated guides so that later queries can use them again."""

    limit_mb: int = Field(256, ge=0, description="Size; the longest unused go first. 0 turns the cache off.")
    picture_px: int = Field(256, ge=16, le=1024, description="Longer side of the pictures kept.")
    semantic: float | None = Field(
        None, gt=0, le=1, description="Reuse guides of a query at least this alike (cosine); default: off."
    )
