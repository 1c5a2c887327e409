"""API models of access control over HTTP: scopes, API keys, and what a caller may do."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class Scope(StrEnum):
    """Names what a key allows its holder to do. Each scope stands alone, except `admin`, which includes all."""

    SEARCH = "search"  # search; read pictures, corpora and one's own queries
    FEEDBACK = "feedback"  # judge answers and tag pictures
    INDEX = "index"  # add, change and remove corpora and directories; runs
    ADMIN = "admin"  # everything, keys and all users' queries included


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class UnlockRequest(_Model):
    """Asks for a pass of this machine's user, by the code that `lodestone serve --open` handed over."""

    code: str = Field(min_length=20, max_length=200, description="It counts once, and for two minutes.")


class Pass(_Model):
    """Holds a pass, which counts as the token of service.json on the service's own machine."""

    token: str = Field(description="To be sent in the header X-Lodestone-Token.")
    expires_at: datetime


class KeyInfo(_Model):
    """Describes one API key, without its secret."""

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
    """Requests a new key."""

    name: str = Field(min_length=1, max_length=200, description="What it is for.")
    scopes: list[Scope] = Field(default_factory=lambda: [Scope.SEARCH], max_length=8)
    corpora: list[str] | None = Field(None, max_length=100, description="Corpora that it sees, by name; null: all.")
    allow_unknown_corpora: bool = Field(False, description="Take names of corpora that do not exist yet.")
    rate: str | None = Field(None, max_length=40, description="Requests, e.g. 600/minute; null: the service's setting.")
    expires_at: datetime | None = Field(None, description="Not valid from then on; null: never.")


class KeyRotation(_Model):
    """Requests a new key that replaces an old one."""

    overlap_s: int = Field(3_600, ge=0, le=30 * 86_400, description="Seconds for which the old one stays valid.")


class KeyPage(_Model):
    """Holds one page of API keys, newest first."""

    keys: list[KeyInfo]
    next_offset: int | None = None


class KeyCreated(_Model):
    """Holds a new key. Its secret is shown this once."""

    key: KeyInfo
    secret: str = Field(description="Send it as `Authorization: Bearer …`.")


class AccessInfo(_Model):
    """Describes what the caller may do, and what there is to choose from. The service's own pages ask for it."""

    scopes: list[Scope] = Field(description="All that the caller may do; `admin` brings the others with it.")
    paths: bool = Field(
        False, description="Whether the caller is on the service's machine and may ask where pictures' files are."
    )
    compositions: list[str] = Field(
        default_factory=list, description="Names that `composition` of a search takes, `default` first."
    )
    weights: dict[str, dict[str, float]] = Field(
        default_factory=dict,
        description="Composition to the weight of all parts of a kind together (words, picture, unlike, without) where "
        "a search gives none.",
    )
