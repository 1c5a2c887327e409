"""API keys, written `lodestone_<key_id>_<secret>`: creation, parsing, digests and rotation.

The secret has 256 random bits, so a single SHA-256 of the key is stored: the secret cannot be guessed, and no slow hash delays
a request. The key id is not secret. A rotated key keeps its name, scopes and owner: `ab12…` becomes `ab12…-2`.
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
    """An API key as the catalog stores it, with a digest in place of the secret.

    Attributes:
        key_id: Public id: 16 hexadecimal digits, followed by `-n` after the first rotation.
        name: Name that tells people what the key is for.
        digest: SHA-256 of the whole written key, hexadecimal.
        scopes: What the key may do.
        corpora: Names of the corpora that the key sees; None means all.
        rate: Allowed rate of requests, e.g. `600/minute`; None means the service's setting.
        created_at: Time of creation, with a time zone.
        expires_at: Time from which the key is invalid; None means never.
        revoked_at: Time since which the key is revoked, or None.
        last_used_at: Time of the last use, accurate to a minute.
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
        """Return the name of the key's holder in records and rate limits, which stays the same through all rotations."""
        return f"key:{self.key_id.partition('-')[0]}"

    def invalid(self, now: datetime) -> str:
        """Return why the key is invalid at `now` (`revoked` or `expired`), or "" if it is valid."""
        if self.revoked_at is not None and self.revoked_at <= now:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else ""

    def is_of(self, written: str) -> bool:
        """Return True if `written` is this key, in the same time wherever the two differ."""
        return hmac.compare_digest(digest_of(written), self.digest)

    def info(self) -> KeyInfo:
        """Return the public facts about the key, without its digest."""
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
        """Create a key that is valid from now on, and return it with its written form.

        The written form holds the secret. It is not stored, so it cannot be read again later.

        Raises:
            InvalidRequestError: The request has no name, no scope, an invalid rate or end, too many corpora, or `admin` for
                some corpora.
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
        """Create the key that replaces this one, and return it with its written form."""
        key_id = f"{self.key_id.partition('-')[0]}-{generation}"
        written = _written(key_id)
        return replace(self, key_id=key_id, digest=digest_of(written), created_at=now, last_used_at=None), written

    @property
    def generation(self) -> int:
        """Return 1 for a new key, and one more for every rotation."""
        return int(self.key_id.partition("-")[2] or 1)


def key_id_of(written: str) -> str | None:
    """Return the key id in a written key, or None if the text is not a key."""
    match = _WRITTEN.fullmatch(written)
    return None if match is None else match[1]


def digest_of(written: str) -> str:
    """Return the digest of a written key: SHA-256, 64 hexadecimal digits."""
    return hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest()


def checked(request: KeyRequest, *, now: datetime) -> None:
    """Raise `InvalidRequestError` if no key can be made from the request, as `ApiKey.new` describes."""
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
