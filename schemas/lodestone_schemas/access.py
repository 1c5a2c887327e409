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


class KeyPage(_Model):
    """One page of API keys, newest first."""

    keys: list[KeyInfo]
    next_offset: int | None = None


class KeyCreated(_Model):
    """A new key. Its secret is shown this once."""

    key: KeyInfo
    secret: str = Field(description="Send it as `Authorization: Bearer …`.")
