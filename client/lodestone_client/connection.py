"""Connection settings that both clients share: address, key and limits."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import httpx

from lodestone_client.problems import CA_VARIABLE, URL_VARIABLE
from lodestone_client.retrying import RetryPolicy
from lodestone_schemas.errors import ConfigurationError, InvalidRequestError
from lodestone_schemas.version import __version__

KEY_VARIABLE: Final = "LODESTONE_API_KEY"
CONNECT_S: Final = 5.0
MOST_BYTES: Final = 1 << 30  # of one answer held in memory


@dataclass(frozen=True, slots=True)
class Connection:
    """One service, as one caller reaches it.

    Attributes:
        url: Without a slash at its end.
        headers: Of every request; the key among them, so they are not shown.
        timeout_s: Seconds for a whole answer, all its attempts together; between two events of a stream.
        connect_s: Seconds to be connected.
        policy: How often it insists.
        proxies: Whether the environment's proxies count.
        trust: Whose certificates count; None: those of public authorities, of SSL_CERT_FILE, and of LODESTONE_CA_FILE.
    """

    url: str
    headers: Mapping[str, str] = field(repr=False)
    timeout_s: float
    connect_s: float
    policy: RetryPolicy
    proxies: bool
    trust: ssl.SSLContext | None = None

    @classmethod
    def to(
        cls,
        url: str | None,
        *,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
        connect_s: float = CONNECT_S,
        policy: RetryPolicy | None = None,
        proxies: bool = True,
        trust: ssl.SSLContext | None = None,
    ) -> Connection:
        """Check what a caller gave, and take the rest from the environment.

        Raises:
            ConfigurationError: no URL is given, or it is none that can be asked.
            InvalidRequestError: the key can be none, or the timeout is not positive.
        """
        from_environment = url is None
        url = _checked_url(url or os.environ.get(URL_VARIABLE, ""))
        # A key of the environment belongs to the environment's URL: it is never sent to another one.
        if api_key is None and (from_environment or url == os.environ.get(URL_VARIABLE, "").rstrip("/")):
            api_key = os.environ.get(KEY_VARIABLE)
        if timeout_s <= 0:
            raise InvalidRequestError(f"a timeout of {timeout_s} seconds leaves no time", hint="give a positive number")
        own = {"User-Agent": f"lodestone/{__version__}", **(headers or {})}
        if api_key:
            own["Authorization"] = f"Bearer {_checked_key(api_key)}"
        return cls(url, own, timeout_s, connect_s, policy or RetryPolicy(), proxies, trust)

    @property
    def tls(self) -> ssl.SSLContext | bool:
        """How a server proves its identity. Reading the machine's authorities takes 50 ms, which plain HTTP does not need.

        Raises:
            ConfigurationError: a file of authorities cannot be read.
        """
        if self.trust is not None:
            return self.trust
        return _authorities(self.proxies) if self.url.startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    def timeout(self, seconds: float | None) -> httpx.Timeout:
        """Return httpx's time-outs for one request that may take `seconds`; None for no limit."""
        return httpx.Timeout(seconds, connect=self.connect_s if seconds is None else min(self.connect_s, seconds))


def _authorities(proxies: bool) -> ssl.SSLContext:
    own = os.environ.get(CA_VARIABLE, "")
    named = CA_VARIABLE if own else "SSL_CERT_FILE"
    try:
        context = httpx.create_ssl_context(trust_env=proxies)
        if own:
            context.load_verify_locations(cafile=own)
    except OSError as error:  # ssl.SSLError is one: no certificate in it
        given = own or os.environ.get(named, "")
        raise ConfigurationError(
            f"{named} names {given!r}, which holds no certificates: {error}", hint="name a PEM file of the authorities to trust"
        ) from error
    return context


def _checked_url(given: str) -> str:
    if not given:
        raise ConfigurationError(
            "no service is named", hint=f"give its URL (https://…), or set {URL_VARIABLE}; without one, use the library itself"
        )
    try:
        url = httpx.URL(given.strip())
    except httpx.InvalidURL as error:
        raise ConfigurationError(f"{given[:200]!r} is no URL: {error}", hint="write it as https://pictures.example") from error
    if url.scheme not in {"http", "https"} or not url.host:
        raise ConfigurationError(f"{given[:200]!r} is no URL of a service", hint="write it as https://pictures.example")
    if url.userinfo:  # it would be shown in messages
        raise ConfigurationError(
            f"the URL of {url.host!r} holds a user or a password", hint=f"give the key apart, by {KEY_VARIABLE}"
        )
    if url.query or url.fragment:
        raise ConfigurationError(f"{given[:200]!r} has a query or a fragment", hint="give the address alone")
    return str(url).rstrip("/")


def _checked_key(key: str) -> str:
    if not key.isascii() or not key.isprintable() or " " in key:
        raise InvalidRequestError(
            "the API key holds characters that no key has", hint="copy it again, without spaces and line ends"
        )
    return key
