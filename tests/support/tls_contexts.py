"""TLS contexts of HTTP clients, made once: each reads the authorities' file, which takes longer than most tests."""

from __future__ import annotations

import os
from functools import cache
from ssl import SSLContext
from typing import Any

import httpx._config
import httpx._transports.default as default

_make = httpx._config.create_ssl_context


def share_tls_contexts() -> None:
    """Let the clients of this process that verify servers in the usual way share a context; others have their own."""
    default.create_ssl_context = _context


def _context(verify: Any = True, cert: Any = None, trust_env: bool = True) -> SSLContext:
    if verify is not True or cert is not None:
        return _make(verify=verify, cert=cert, trust_env=trust_env)
    return _usual(trust_env, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@cache
def _usual(trust_env: bool, _file: str | None, _folder: str | None) -> SSLContext:
    """Return the context of these values of httpx's variables."""
    return _make(trust_env=trust_env)
