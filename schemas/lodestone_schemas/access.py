"""Who may do what over HTTP? Scopes, and what is said of API keys."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class Scope(StrEnum):
    """What a key lets its holder do. Each stands alone, but for `admin`, which holds all."""

    SEARCH = "search"  # search; look at pictures, corpora and one's own queries
    FEEDBACK = "feedback"  # judge answers and tag pictures
    INDEX = "index"  # add, change and remove corpora and directories; runs
    ADMIN = "admin"  # everything, keys and all users' queries included


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class KeyInfo(_Model):
    """One API key, without its secret."""

    key_id: str
    name: str
    scopes: list[Scope]
    corpora: list[str] | None = Field(description="Corpora that it sees; null: all.")
    rate: str | None = Field(None, description="Requests, e.g. 600/minute; null: the service's setting.")
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = Field(None, description="To within a minute.")


class KeyRequest(_Model):
    """Make a key."""

    name: str = Field(min_length=1, max_length=200, description="What it is for.")
    scopes: list[Scope] = Field(default_factory=lambda: [Scope.SEARCH], max_length=8)
    corpora: list[str] | None = Field(None, max_length=100, description="Corpora that it sees, by name; null: all.")
    rate: str | None = Field(None, max_length=40, description="Requests, e.g. 600/minute; null: the service's setting.")
    expires_at: datetime | None = Field(None, description="Not valid from then on; null: never.")


class KeyRotation(_Model):
    """Put a new key in a key's place."""

    overlap_s: int = Field(3_600, ge=0, le=30 * 86_400, description="Seconds for which the old one stays valid.")


class KeyPage(_Model):
    """One page of API keys, newest first."""

    keys: list[KeyInfo]
    next_offset: int | None = None


class KeyCreated(_Model):
    """A new key. Its secret is shown this once."""

    key: KeyInfo
    secret: str = Field(description="Send it as `Authorization: Bearer …`.")
