"""A home served over real HTTP by this process: the app of a replica, without Ray. Commands find it as they find any."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog
import uvicorn

from lodestone.config.home import Home
from lodestone.config.settings import Settings
from lodestone.home.running_service.address import ServiceAddress
from lodestone.home.running_service.client import ServiceClient
from lodestone.services.use_cases import Services
from lodestone_serve.http.application import create_app
from lodestone_serve.inference.home import home_services
from lodestone_serve.traffic.connections import connection_protocol

TOKEN = "a-token-of-tests"


@dataclass(frozen=True)
class Served:
    """A served home."""

    services: Services
    address: ServiceAddress

    def client(self) -> ServiceClient:
        return ServiceClient(self.address)


@contextmanager
def served_here(settings: Settings) -> Iterator[Served]:
    """Serve the home of `settings` on a free port of loopback until the block ends.

    What it warns of goes to standard error, and no line for each request: standard output is that of the commands under test.
    """
    before = structlog.get_config()
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.__stderr__),
        cache_logger_on_first_use=False,
    )
    services = home_services(settings)
    app = create_app(services, settings=settings.serve, token=TOKEN)
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=0, http=connection_protocol(), log_level="warning", lifespan="on")
    )
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the service did not start"
        thread.join(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    address = ServiceAddress(f"http://127.0.0.1:{port}", os.getpid(), TOKEN, "test", datetime.now(UTC))
    address.write(Home(settings.home))
    try:
        yield Served(services, address)
    finally:
        address.withdraw(Home(settings.home))
        server.should_exit = True
        thread.join(60)
        structlog.configure(**before)
