"""OpenID Connect tokens: signature, issuer, audience and time are checked, and the claims become a principal.

Only asymmetric signatures count: `none`, and secrets shared by signer and reader, would let anybody sign. Keys come from the
address that the issuer's discovery document names, or the settings; never from one that a token names. An unknown key id has
them fetched again, at most every few seconds. While the issuer does not answer, the keys last seen count for an hour.
"""

from __future__ import annotations

import hashlib
import threading
import time
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import jwt
from jwt import PyJWK, PyJWKClient, PyJWKSet
from jwt.exceptions import PyJWKClientError, PyJWTError

from lodestone.access.visibility import MAX_CORPORA
from lodestone.config.serve import AuthSettings
from lodestone.errors import ConfigurationError, ServiceUnavailableError, UnauthorizedError
from lodestone_schemas.access import Scope
from lodestone_serve.auth.principal import Principal
from lodestone_serve.hosts import is_loopback

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
MAX_TOKEN_CHARS: Final = 16_384
LEEWAY_S: Final = 30  # between the issuer's clock and ours
_PATIENCE_S: Final = 3.0
_KEYS_HOLD_S: Final = 300.0
_REFETCH_S: Final = 5.0
_STALE_S: Final = 3_600.0
_LONGEST_OWNER: Final = 200
_SCOPE_PREFIX: Final = "lodestone:"  # a scope may be written so, where an issuer has scopes of others, too


class TokenReader:
    """Reads tokens of one issuer. Thread-safe; blocks while it fetches keys.

    Args:
        settings: Issuer, audience and names of claims.
        refetch_s: Seconds between two fetches for unknown key ids, or after a failure.

    Raises:
        ConfigurationError: no audience, or an address that is neither https nor this machine's own.
    """

    def __init__(self, settings: AuthSettings, *, refetch_s: float = _REFETCH_S) -> None:
        if settings.oidc_issuer is None or not settings.oidc_audience:
            raise ConfigurationError(
                "tokens of an issuer need an audience, or those made for other services would open this one",
                hint="set serve.auth.oidc_issuer and serve.auth.oidc_audience",
                setting="serve.auth.oidc_audience",
            )
        self._settings = settings
        self._issuer = _checked_url(settings.oidc_issuer, "serve.auth.oidc_issuer")
        if settings.oidc_jwks_url is not None:
            _checked_url(settings.oidc_jwks_url, "serve.auth.oidc_jwks_url")
        self._refetch_s = refetch_s
        self._client: PyJWKClient | None = None
        self._seen: tuple[float, PyJWKSet] | None = None
        self._failed_at = float("-inf")
        self._lock = threading.Lock()

    def read(self, token: str) -> Principal:
        """The principal that a token names. Blocking.

        Raises:
            UnauthorizedError: forged, expired, not yet valid, for another audience or by another issuer, or malformed.
            ServiceUnavailableError: the issuer's keys cannot be had now.
        """
        if len(token) > MAX_TOKEN_CHARS:
            raise _refused(f"it has {len(token)} characters, at most {MAX_TOKEN_CHARS} are read")
        try:
            header = jwt.get_unverified_header(token)
        except PyJWTError as error:
            raise _refused("it is no JSON web token") from error
        if header.get("alg") not in ALGORITHMS:
            raise _refused(f"it is signed with {str(header.get('alg'))[:20]!r}, not with one of {', '.join(ALGORITHMS)}")
        key = self._key(header.get("kid"))
        try:
            claims = jwt.decode(
                token,
                key.key,
                algorithms=[str(header["alg"])],
                audience=self._settings.oidc_audience,
                issuer=self._issuer,
                leeway=LEEWAY_S,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except PyJWTError as error:
            raise _refused(_why(error)) from error
        except (TypeError, ValueError) as error:  # a key of another kind than the algorithm's
            raise _refused("its signature does not fit the issuer's key") from error
        return principal_of_claims(claims, self._settings)

    def _key(self, kid: object) -> PyJWK:
        """The issuer's key of that id; with no id, the only one there is."""
        if kid is not None and not isinstance(kid, str):
            raise _refused("its key id is no text")
        seen = self._seen
        if seen is not None and time.monotonic() - seen[0] < _KEYS_HOLD_S and (known := _matching(seen[1], kid)) is not None:
            return known  # without waiting for whoever fetches keys for an id that nobody knows
        with self._lock:
            found = _matching(self._keys(), kid)
            if found is None and self._may_refetch():
                found = _matching(self._keys(refresh=True), kid)
        if found is None:
            raise _refused("it is signed with a key that the issuer does not name")
        return found

    def _may_refetch(self) -> bool:
        return self._seen is None or time.monotonic() - self._seen[0] >= self._refetch_s

    def _keys(self, *, refresh: bool = False) -> PyJWKSet:
        now = time.monotonic()
        if self._seen is not None and not refresh and now - self._seen[0] < _KEYS_HOLD_S:
            return self._seen[1]
        if now - self._failed_at >= self._refetch_s:  # else: it has just failed, and would fail again
            try:
                found = self._fetch()
            except (PyJWKClientError, PyJWTError, httpx.HTTPError, ValueError) as error:
                self._failed_at, failure = now, str(error) or type(error).__name__
                if self._seen is None:
                    raise _unanswered(self._issuer, failure) from error
            else:
                self._seen = (time.monotonic(), found)
                return found
        if self._seen is None or now - self._seen[0] > _STALE_S:
            raise _unanswered(self._issuer, "it did not answer a moment ago")
        return self._seen[1]

    def _fetch(self) -> PyJWKSet:
        if self._client is None:
            url = self._settings.oidc_jwks_url or self._discovered()
            # Its own cache is off: it would forget what it has when the issuer does not answer.
            self._client = PyJWKClient(url, cache_jwk_set=False, timeout=_PATIENCE_S)
        return self._client.get_jwk_set(refresh=True)

    def _discovered(self) -> str:
        """Where the discovery document says that the keys are."""
        url = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
        answer = httpx.get(url, timeout=_PATIENCE_S, follow_redirects=False)
        answer.raise_for_status()
        document = answer.json()
        if not isinstance(document, dict) or document.get("issuer") != self._issuer:
            raise ValueError(f"the discovery document at {url} is not of the issuer {self._issuer!r}")
        return _checked_url(str(document.get("jwks_uri")), "jwks_uri of the discovery document")


def principal_of_claims(claims: dict[str, Any], settings: AuthSettings) -> Principal:
    """Return who the claims of a verified token name.

    A token without the claim of corpora sees all of them. One whose claim is null, or names none, sees none. With the claim,
    `admin` becomes what can be kept to corpora: the other scopes.

    Raises:
        UnauthorizedError: no subject, no scope of ours, or a claim that cannot be read.
    """
    subject = claims.get("sub")
    if not isinstance(subject, str) or not subject:
        raise _refused("it names no subject")
    scopes = _scopes(claims.get(settings.oidc_scopes_claim), settings.oidc_scopes_claim)
    name = settings.oidc_corpora_claim
    corpora = _corpora(claims[name], name) if name in claims else None  # only a token without the claim sees all
    if corpora is not None and Scope.ADMIN in scopes:
        scopes = frozenset(Scope) - {Scope.ADMIN}
    owner = f"oidc:{subject}"
    if len(owner) > _LONGEST_OWNER or not owner.isprintable():
        owner = f"oidc:{hashlib.sha256(subject.encode('utf-8', 'surrogatepass')).hexdigest()}"
    return Principal(owner, scopes, corpora)


def _scopes(claim: object, name: str) -> frozenset[Scope]:
    words = claim.split() if isinstance(claim, str) else claim
    if words is None:
        words = []
    if not isinstance(words, list) or not all(isinstance(one, str) for one in words):
        raise _refused(f"its claim {name!r} is neither a text nor a list of texts")
    known = {str(scope): scope for scope in Scope}
    return frozenset(known[bare] for one in words if (bare := one.removeprefix(_SCOPE_PREFIX)) in known)


def _corpora(claim: object, name: str) -> frozenset[str]:
    if claim is None:  # as issuers write an attribute that a user lacks
        return frozenset()
    names = [claim] if isinstance(claim, str) else claim
    if not isinstance(names, list) or not all(isinstance(one, str) and one for one in names):
        raise _refused(f"its claim {name!r} is no list of corpora")
    if len(set(names)) > MAX_CORPORA:
        raise _refused(f"its claim {name!r} names more than {MAX_CORPORA} corpora")
    return frozenset(names)


def _matching(keys: PyJWKSet, kid: str | None) -> PyJWK | None:
    usable = [key for key in keys.keys if key.public_key_use in (None, "sig")]
    if kid is None:
        return usable[0] if len(usable) == 1 else None
    return next((key for key in usable if key.key_id == kid), None)


def _checked_url(url: str, where: str) -> str:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if host is None or parts.username or not (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))):
        raise ConfigurationError(f"{where} is {url[:200]!r}", hint="expected an https address", setting=where)
    return url


def _why(error: PyJWTError) -> str:
    reasons = {
        jwt.ExpiredSignatureError: "it has expired",
        jwt.ImmatureSignatureError: "it is not valid yet",
        jwt.InvalidAudienceError: "it was made for another service (`aud`)",
        jwt.InvalidIssuerError: "another issuer made it (`iss`)",
        jwt.InvalidSignatureError: "its signature is wrong",
    }
    for kind, reason in reasons.items():
        if isinstance(error, kind):
            return reason
    missing = getattr(error, "claim", None)
    return f"it has no claim {missing!r}" if isinstance(missing, str) else "it cannot be read"


def _refused(why: str) -> UnauthorizedError:
    return UnauthorizedError(f"the token is refused: {why}", hint="get a new one from the issuer", reason=why)


def _unanswered(issuer: str, why: str) -> ServiceUnavailableError:
    return ServiceUnavailableError(
        f"the keys of the issuer {issuer!r} cannot be had: {why}", hint="try again in a moment; the issuer may be down"
    )
