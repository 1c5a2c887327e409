"""Certificates of authorities that are read once: httpx reads all of them for every client, whatever address it is for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import pytest

_NAMED: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")


@pytest.fixture(scope="session", autouse=True)
def shared_trust() -> Iterator[None]:
    """Let clients that trust the authorities of the machine, and none that the environment names, share one context.

    Reading them takes 20 ms of a processor. No test changes a context, and httpx sets nothing in it but protocols.
    """
    from httpx._transports import default

    make = default.create_ssl_context

    @cache
    def usual() -> Any:
        return make()

    def create_ssl_context(verify: Any = True, cert: Any = None, trust_env: bool = True) -> Any:
        if verify is True and cert is None and not any(name in os.environ for name in _NAMED):
            return usual()
        return make(verify=verify, cert=cert, trust_env=trust_env)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(default, "create_ssl_context", create_ssl_context)
        yield
