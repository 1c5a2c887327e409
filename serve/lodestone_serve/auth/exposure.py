"""Check of where the service may be bound: nobody reaches it from elsewhere without being asked for a key."""

from __future__ import annotations

from urllib.parse import urlsplit

from lodestone.config.serve import ServeSettings
from lodestone.errors import ConfigurationError
from lodestone_serve.auth.oidc import TokenReader
from lodestone_serve.hosts import ANY, is_loopback


def checked_exposure(settings: ServeSettings) -> str:
    """Return the host to bind to, once the settings protect whatever can reach it.

    Raises:
        ConfigurationError: Other machines or other sites' pages could reach the service, and it would ask for no key; or it
            would answer for no name that others can use; or the settings of the token issuer cannot be used.
    """
    host, asks = settings.host, settings.auth.asks
    if not is_loopback(host):
        if not asks:
            raise ConfigurationError(
                f"serve.host {host!r} is not this machine's own, and nobody would be asked for a key",
                hint="set serve.auth.keys (lodestone keys create makes some) or serve.auth.oidc_issuer, or bind to 127.0.0.1",
                setting="serve.host",
            )
        if not settings.public_hosts:
            raise ConfigurationError(
                f"serve.host {host!r} is not this machine's own, and the service would answer for no name of it",
                hint="name those that clients use: serve.public_hosts",
                setting="serve.public_hosts",
            )
    if not asks and ANY in settings.public_hosts:
        raise ConfigurationError(
            "serve.public_hosts `*` without keys would let any web page ask, under a name of its own",
            hint="name the hosts, or set serve.auth.keys",
            setting="serve.public_hosts",
        )
    if settings.auth.oidc_issuer is not None:
        TokenReader(settings.auth)  # raises for settings by which no token can be read, while the service starts
    for origin in settings.cors_origins:
        _check_origin(origin, asks=asks)
    return host


def _check_origin(origin: str, *, asks: bool) -> None:
    if origin == ANY:
        if not asks:
            raise ConfigurationError(
                "serve.cors_origins `*` without keys would let any web page search your pictures",
                hint="name the origins, or set serve.auth.keys",
                setting="serve.cors_origins",
            )
        return
    try:
        parts = urlsplit(origin)
        plain = parts.scheme in {"http", "https"} and parts.hostname and f"{parts.scheme}://{parts.netloc}" == origin
    except ValueError:
        plain = False
    if not plain:
        raise ConfigurationError(
            f"serve.cors_origins has {origin!r}, which is no origin",
            hint="write it like https://photos.example.org, without a path",
            setting="serve.cors_origins",
        )
