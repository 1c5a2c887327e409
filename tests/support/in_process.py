"""A home's services in this process, and its app asked without a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from lodestone.config.settings import Settings
from lodestone.services.use_cases import Services
from lodestone_serve.http.application import create_app
from lodestone_serve.inference.home import home_services


@asynccontextmanager
async def opened_services(settings: Settings) -> AsyncIterator[Services]:
    """The services of the home of `settings`, open until the block ends."""
    services = home_services(settings)
    await services.session.open()
    try:
        yield services
    finally:
        await services.session.close()


def app_of(services: Services, settings: Settings) -> Any:
    """The app of a replica with these services; its token is `secret`."""
    return create_app(services, settings=settings.serve, token="secret")


def client_of(app: Any) -> httpx.AsyncClient:
    """A client of an app, which gets status 500 where the app raises; close it, or use it as a context manager."""
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7860")
