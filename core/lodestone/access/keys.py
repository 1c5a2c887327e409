"""What is an API key? `lodestone_<key_id>_<secret>`: how one is made, written, read, checked and shown.

The secret has 256 random bits, so one SHA-256 of it is all that needs to be kept: nobody guesses it, and no slow hash has to
hold up a request. The id is no secret. A rotated key keeps its name, its rights and its owner: `ab12…` becomes `ab12…-2`.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Self

from lodestone.access.visibility import MAX_CORPORA
from lodestone.errors import InvalidRequestError
from lodestone_schemas.access import KeyInfo, Scope

if TYPE_CHECKING:
    from lodestone_schemas.access import KeyRequest

PREFIX: Final = "lodestone"
_ID_BYTES: Final = 8
_SECRET_BYTES: Final = 32
_MOST_NAME: Final = 200  # characters
_WRITTEN: Final = re.compile(r"lodestone_([0-9a-f]{16}(?:-[1-9][0-9]{0,8})?)_([A-Za-z0-9_-]{43})")
_RATE: Final = re.compile(r"[1-9]\d{0,8} ?/ ?(second|minute|hour|day)")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One key as the catalog keeps it: a digest instead of its secret.

    Attributes:
        key_id: Public name: 16 hexadecimal digits, and `-n` from the first rotation on.
        name: For people.
        digest: SHA-256 of the whole key, hexadecimal.
        scopes: What it may do.
        corpora: Names of the corpora that it sees; None: all.
        rate: Requests, e.g. `600/minute`; None: the service's setting.
        created_at: Aware.
        expires_at: Not valid from then on; None: never.
        revoked_at: Since when it is not valid any more.
        last_used_at: To within a minute.
    """

    key_id: str
    name: str
    digest: str
    scopes: tuple[Scope, ...]
    corpora: tuple[str, ...] | None
    rate: str | None
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None

    @property
    def owner(self) -> str:
        """Names its holder in records and limits, through all rotations."""
        return f"key:{self.key_id.partition('-')[0]}"

    def invalid(self, now: datetime) -> str:
        """Why it is not valid at `now`: `revoked` or `expired`; "" for a valid one."""
        if self.revoked_at is not None and self.revoked_at <= now:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else ""

    def is_of(self, written: str) -> bool:
        """Whether `written` is this key; takes the same time wherever they differ."""
        return hmac.compare_digest(digest_of(written), self.digest)

    def info(self) -> KeyInfo:
        """What may be told of it."""
        return KeyInfo(
            key_id=self.key_id,
            name=self.name,
            scopes=list(self.scopes),
            corpora=None if self.corpora is None else list(self.corpora),
            rate=self.rate,
            created_at=self.created_at,
            expires_at=self.expires_at,
            revoked_at=self.revoked_at,
            last_used_at=self.last_used_at,
        )

    @classmethod
    def new(cls, request: KeyRequest, *, now: datetime | None = None) -> tuple[Self, str]:
        """A key of now, and how it is written: that is known here, and nowhere afterwards.

        Raises:
            InvalidRequestError: no name, no scope, a rate or an end that are none, too many corpora, `admin` for some corpora.
        """
        now = now or datetime.now(UTC)
        checked(request, now=now)
        key_id = secrets.token_hex(_ID_BYTES)
        written = _written(key_id)
        corpora = None if request.corpora is None else tuple(sorted(set(request.corpora)))
        scopes = tuple(scope for scope in Scope if scope in request.scopes)
        key = cls(key_id, request.name.strip(), digest_of(written), scopes, corpora, request.rate, now, request.expires_at)
        return key, written

    def rotated(self, generation: int, *, now: datetime) -> tuple[Self, str]:
        """The key that takes this one's place, and how it is written."""
        key_id = f"{self.key_id.partition('-')[0]}-{generation}"
        written = _written(key_id)
        return replace(self, key_id=key_id, digest=digest_of(written), created_at=now, last_used_at=None), written

    @property
    def generation(self) -> int:
        """1, and one more with every rotation."""
        return int(self.key_id.partition("-")[2] or 1)


def key_id_of(written: str) -> str | None:
    """The id in a key as it is written; None for anything that is no key."""
    found = _WRITTEN.fullmatch(written)
    return None if found is None else found[1]


def digest_of(written: str) -> str:
    """What is kept of a key: SHA-256, 64 hexadecimal digits."""
    return hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest()


def checked(request: KeyRequest, *, now: datetime) -> None:
    """Refuse what makes no key; see `ApiKey.new`."""
    if not request.name.strip() or not request.name.isprintable() or len(request.name) > _MOST_NAME:
        raise InvalidRequestError(f"a key cannot be called {request.name[:100]!r}", hint="say what it is for, e.g. `photo app`")
    if not request.scopes:
        raise InvalidRequestError("the key may do nothing", hint=f"give it a scope: {', '.join(Scope)}")
    if request.rate is not None and not _RATE.fullmatch(request.rate):
        raise InvalidRequestError(
            f"{request.rate[:40]!r} is no rate", hint="write it like 600/minute: second, minute, hour, day"
        )
    if request.expires_at is not None and _aware(request.expires_at) <= now:
        raise InvalidRequestError(f"the key would end at {request.expires_at}, which is past", hint="choose a time to come")
    if request.corpora is not None:
        _check_corpora(request.corpora, request.scopes)


def _aware(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise InvalidRequestError(f"the time {moment} has no time zone", hint="write it like 2027-01-01T00:00:00Z")
    return moment


def _check_corpora(corpora: Iterable[str], scopes: Iterable[Scope]) -> None:
    names = set(corpora)
    if Scope.ADMIN in set(scopes):
        raise InvalidRequestError(
            "the scope `admin` cannot be kept to some corpora: it makes keys for all of them",
            hint="leave the corpora out, or give the scopes search, feedback and index",
        )
    if not 1 <= len(names) <= MAX_CORPORA:
        raise InvalidRequestError(
            f"the key would see {len(names)} corpora", hint=f"name 1 to {MAX_CORPORA}, or leave them out to let it see all"
        )


def _written(key_id: str) -> str:
    return f"{PREFIX}_{key_id}_{secrets.token_urlsafe(_SECRET_BYTES)}"
