"""Only tokens that the issuer signed, for this service and for now, are believed."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from lodestone.config.serve import AuthSettings
from lodestone.errors import ConfigurationError, ServiceUnavailableError, UnauthorizedError
from lodestone_schemas.access import Scope
from lodestone_serve.auth.oidc import MAX_TOKEN_CHARS, TokenReader

AUDIENCE = "lodestone"
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())
STRANGER = rsa.generate_private_key(public_exponent=65537, key_size=2048)


class Issuer:
    """A discovery document and keys on loopback; `keys` may be changed, `down` makes it fail."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.keys = {"first": RSA.public_key(), "curve": EC.public_key()}
        self.fetched = 0
        self.down = False
        self.document: dict[str, Any] = {"issuer": url, "jwks_uri": f"{url}/keys"}

    def jwks(self) -> dict[str, Any]:
        told = []
        for kid, key in self.keys.items():
            kind = RSAAlgorithm if isinstance(key, rsa.RSAPublicKey) else ECAlgorithm
            told.append({**json.loads(kind.to_jwk(key)), "kid": kid, "use": "sig"})
        return {"keys": told}

    def settings(self, **more: Any) -> AuthSettings:
        return AuthSettings(oidc_issuer=self.url, oidc_audience=AUDIENCE, **more)

    def claims(self, **more: Any) -> dict[str, Any]:
        now = int(time.time())
        told = {"iss": self.url, "aud": AUDIENCE, "sub": "ada", "exp": now + 300, "iat": now, "scope": "search feedback"}
        return {name: value for name, value in {**told, **more}.items() if value is not None}

    def token(self, *, key: Any = RSA, kid: str | None = "first", algorithm: str = "RS256", **claims: Any) -> str:
        return jwt.encode(self.claims(**claims), key, algorithm, headers={} if kid is None else {"kid": kid})


@contextmanager
def _served() -> Iterator[Issuer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.fetched += self.path == "/keys"
            found = {"/.well-known/openid-configuration": issuer.document, "/keys": issuer.jwks()}.get(self.path)
            self.send_response(503 if issuer.down else 200 if found is not None else 404)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(found).encode())

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer = Issuer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with _served() as issuer:
        yield issuer


def refusal(reader: TokenReader, token: str) -> str:
    with pytest.raises(UnauthorizedError) as caught:
        reader.read(token)
    assert token not in caught.value.message
    return caught.value.message


def unsigned(header: dict[str, Any], claims: dict[str, Any]) -> str:
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in (header, claims)]
    return ".".join([*parts, ""])


def test_a_token_names_its_subject_with_its_scopes_and_corpora(issuer: Issuer) -> None:
    reader = TokenReader(issuer.settings())
    found = reader.read(issuer.token())
    assert (found.owner, found.scopes, found.corpora) == ("oidc:ada", {Scope.SEARCH, Scope.FEEDBACK}, None)
    by_curve = issuer.token(
        key=EC, kid="curve", algorithm="ES256", scope=["lodestone:index", "openid"], lodestone_corpora=["a"]
    )
    found = reader.read(by_curve)
    assert (found.scopes, found.corpora) == ({Scope.INDEX}, {"a"})
    assert issuer.fetched == 1


@pytest.mark.parametrize("none", [None, []])
def test_a_claim_that_names_no_corpora_shows_none(issuer: Issuer, none: object) -> None:
    claims = issuer.claims(scope="admin search") | {"lodestone_corpora": none}
    found = TokenReader(issuer.settings()).read(jwt.encode(claims, RSA, "RS256", headers={"kid": "first"}))
    assert found.corpora == frozenset()
    assert Scope.ADMIN not in found.scopes
    assert not found.caller.visibility.sees("anything")


def test_admin_within_some_corpora_is_everything_that_can_be_kept_to_them(issuer: Issuer) -> None:
    found = TokenReader(issuer.settings()).read(issuer.token(scope="admin", lodestone_corpora=["a"]))
    assert found.scopes == {Scope.SEARCH, Scope.FEEDBACK, Scope.INDEX}
    assert not found.caller.sees_whole_home


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"exp": 1_000}, "expired"),
        ({"nbf": 9_999_999_999}, "not valid yet"),
        ({"aud": "another"}, "another service"),
        ({"iss": "https://evil.example"}, "another issuer"),
        ({"exp": None}, "exp"),
        ({"sub": None}, "sub"),
        ({"aud": None}, "aud"),
        ({"scope": 3}, "scope"),
        ({"lodestone_corpora": [1]}, "lodestone_corpora"),
        ({"lodestone_corpora": [str(one) for one in range(101)]}, "more than 100"),
    ],
)
def test_claims_that_do_not_hold_are_refused(issuer: Issuer, claims: dict[str, Any], why: str) -> None:
    assert why in refusal(TokenReader(issuer.settings()), issuer.token(**claims))


def test_a_token_without_a_scope_of_ours_may_do_nothing(issuer: Issuer) -> None:
    assert TokenReader(issuer.settings()).read(issuer.token(scope=None)).scopes == frozenset()


def test_forged_signatures_are_refused(issuer: Issuer) -> None:
    reader = TokenReader(issuer.settings())
    assert "signature" in refusal(reader, issuer.token(key=STRANGER))
    head, _, signature = issuer.token().split(".")
    changed = base64.urlsafe_b64encode(json.dumps(issuer.claims(scope="admin")).encode()).rstrip(b"=").decode()
    assert "signature" in refusal(reader, f"{head}.{changed}.{signature}")
    assert "signature" in refusal(reader, issuer.token(key=EC, kid="first", algorithm="ES256"))  # a key of another kind


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "HS256", "HS512", "", "RS256x"])
def test_unsigned_tokens_and_shared_secrets_are_refused(issuer: Issuer, algorithm: str) -> None:
    reader = TokenReader(issuer.settings())
    assert "signed with" in refusal(reader, unsigned({"alg": algorithm, "kid": "first"}, issuer.claims()))


def test_a_public_key_is_no_secret_to_sign_with(issuer: Issuer) -> None:
    public = RSA.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    head = unsigned({"alg": "HS256", "kid": "first"}, issuer.claims())
    import hashlib
    import hmac

    mac = hmac.new(public, head.rstrip(".").encode(), hashlib.sha256).digest()
    forged = head + base64.urlsafe_b64encode(mac).rstrip(b"=").decode()
    assert "HS256" in refusal(TokenReader(issuer.settings()), forged)


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "lodestone_0_0", "e" * (MAX_TOKEN_CHARS + 1), "é.é.é", "..", "\0"])
def test_what_is_no_token_is_refused(issuer: Issuer, token: str) -> None:
    with pytest.raises(UnauthorizedError):
        TokenReader(issuer.settings()).read(token)
    assert issuer.fetched == 0


def test_an_unknown_key_is_fetched_again_but_not_at_every_request(issuer: Issuer) -> None:
    reader = TokenReader(issuer.settings(), refetch_s=600.0)
    reader.read(issuer.token())
    for _ in range(20):
        assert "does not name" in refusal(reader, issuer.token(kid="unknown"))
    assert issuer.fetched == 1
    issuer.keys = {"second": STRANGER.public_key()}
    fresh = issuer.token(key=STRANGER, kid="second")
    assert "does not name" in refusal(reader, fresh)
    reader._refetch_s = 0.0  # the time is over
    assert reader.read(fresh).owner == "oidc:ada"
    assert issuer.fetched == 2
    assert "does not name" in refusal(reader, issuer.token())  # the key that was taken back


def test_an_issuer_that_fails_is_an_unavailable_service_until_keys_were_seen(issuer: Issuer) -> None:
    reader = TokenReader(issuer.settings(), refetch_s=0.0)
    issuer.down = True
    with pytest.raises(ServiceUnavailableError):
        reader.read(issuer.token())
    issuer.down = False
    assert reader.read(issuer.token()).owner == "oidc:ada"
    issuer.down = True
    assert reader.read(issuer.token()).owner == "oidc:ada"
    assert "does not name" in refusal(reader, issuer.token(kid="unknown"))


def test_the_discovery_document_must_be_the_issuers_own(issuer: Issuer) -> None:
    issuer.document = {"issuer": "https://evil.example", "jwks_uri": f"{issuer.url}/keys"}
    with pytest.raises(ServiceUnavailableError, match="not of the issuer"):
        TokenReader(issuer.settings()).read(issuer.token())
    issuer.document = {"issuer": issuer.url, "jwks_uri": "file:///etc/passwd"}
    with pytest.raises((ConfigurationError, ServiceUnavailableError)):
        TokenReader(issuer.settings()).read(issuer.token())


def test_keys_that_a_token_names_itself_are_not_fetched(issuer: Issuer) -> None:
    with _served() as evil:
        evil.keys = {"first": STRANGER.public_key()}
        headers = {"kid": "first", "jku": f"{evil.url}/keys", "x5u": f"{evil.url}/keys"}
        token = jwt.encode(issuer.claims(), STRANGER, "RS256", headers=headers)
        assert "signature" in refusal(TokenReader(issuer.settings()), token)
        assert evil.fetched == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"oidc_issuer": "https://id.example"},
        {"oidc_issuer": "http://id.example", "oidc_audience": "a"},
        {"oidc_issuer": "https://user:pw@id.example", "oidc_audience": "a"},
        {"oidc_issuer": "https://id.example", "oidc_audience": "a", "oidc_jwks_url": "file:///keys"},
        {"oidc_issuer": "https://[", "oidc_audience": "a"},
    ],
)
def test_settings_that_would_believe_too_much_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError):
        TokenReader(AuthSettings(**settings))
