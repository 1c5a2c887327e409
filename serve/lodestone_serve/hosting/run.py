"""Lifecycle of the service, from start to signal, in this process or on a Ray of its own; service.json while it answers."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime

import httpx

from lodestone import __version__
from lodestone.config.home import Home
from lodestone.config.own_profiles import choose_profile
from lodestone.config.settings import Settings
from lodestone.errors import ConfigurationError, ServiceUnavailableError, StoreLockedError
from lodestone.home.running_service.address import TOKEN_HEADER, ServiceAddress, find_service
from lodestone.store.ownership import StoreOwnership
from lodestone_serve.auth.exposure import checked_exposure
from lodestone_serve.graph.stages import check_graph
from lodestone_serve.graph.tls import checked_certificate
from lodestone_serve.hosting.listening import reserve, url_of
from lodestone_serve.hosting.ray_serve import Options, ray_serve
from lodestone_serve.hosting.signals import Stop, handled
from lodestone_serve.routes.operations import PUBLISHED

_READY_S = 120.0
_POLL_S = 0.1


def serve_forever(
    settings: Settings, *, options: Options | None = None, ready_callback: Callable[[str], None] = lambda _: None
) -> None:
    """Serve the home of `settings` until SIGINT or SIGTERM.

    Args:
        settings: Settings of the home, with host, port and limits.
        options: Deployment -> its options, as a serveConfigV2 has them, for Ray; None for those of `deployment_options`.
        ready_callback: Called once with the URL, when queries are answered and service.json is published.

    Raises:
        ConfigurationError: the host is not this machine's own, the port is taken, or the engine cannot host the graph.
        StoreLockedError: another process owns the home's store; names it.
        HomeVersionError, ModelUnavailableError, …: the home cannot be opened as it is.
        ServiceUnavailableError: the service did not start, or ended by itself.
    """
    home = Home(settings.home)
    host = checked_exposure(settings.serve)
    choose_profile(settings.profile, settings.profiles)
    on_ray = needs_ray(settings, options=options)
    home.prepare()
    _refuse_second_owner(home, settings)
    certificate = checked_certificate(settings.serve)
    listener = reserve(host, settings.serve.port)
    url = url_of(listener, tls=settings.serve.tls_certificate is not None)
    address = ServiceAddress(url, os.getpid(), secrets.token_urlsafe(32), __version__, datetime.now(UTC), certificate)
    stop = Stop()
    with contextlib.ExitStack() as stack:
        stack.enter_context(listener)
        stack.enter_context(handled(stop))
        stack.enter_context(_host(settings, listener, address.token, stop, on_ray=on_ray, options=options))
        _wait_until_ready(address)
        stop.starting = False
        if not stop.is_set():
            address.write(home)
            stack.callback(address.withdraw, home)
            ready_callback(url)
            stop.wait()


def needs_ray(settings: Settings, *, options: Options | None = None) -> bool:
    """Return whether the service is hosted by Ray Serve, as the setting `serve.engine` and the graph's shape say.

    Args:
        settings: Settings of the home.
        options: Deployment -> its options, where a serveConfigV2 names them.

    Raises:
        ConfigurationError: the graph cannot be built as the settings ask, or one process cannot host it.
    """
    check_graph(settings)
    graph, engine = settings.serve.graph, settings.serve.engine
    reason = next(
        (
            reason
            for reason, holds in (
                ("its configuration is Ray's own (YAML)", options is not None),
                ("serve.graph.shape is graph", graph.shape == "graph"),
                ("serve.graph.llm needs a deployment", graph.llm is not None),
            )
            if holds
        ),
        None,
    )
    if engine == "process" and reason is not None:
        raise ConfigurationError(
            f"one process cannot host this service: {reason}",
            hint="leave serve.engine at auto, or set it to ray",
            setting="serve.engine",
        )
    on_ray = engine == "ray" or reason is not None
    if on_ray and settings.serve.processes != 1:
        raise ConfigurationError(
            f"serve.processes is {settings.serve.processes}, and this service runs on Ray: {reason or 'serve.engine is ray'}",
            hint="on Ray, replicas answer side by side: set serve.graph.ingress.max_replicas, and leave serve.processes at 1",
            setting="serve.processes",
        )
    return on_ray


def _host(
    settings: Settings, listener: socket.socket, token: str, stop: Stop, *, on_ray: bool, options: Options | None
) -> contextlib.AbstractContextManager[None]:
    if on_ray:
        return ray_serve(settings, listener, token=token, ray_started=stop.install, options=options)
    from lodestone_serve.hosting.one_process import one_process

    return one_process(settings, listener, token=token, ended=stop.set)


def _wait_until_ready(address: ServiceAddress) -> None:
    """Return when the service answers queries; a proxy of Ray's may not have checked the app that it has deployed.

    `/readyz` says no until the address is published, which follows this.
    """
    url, trust = address.url, address.trust
    deadline, last = time.monotonic() + _READY_S, "no answer"
    while time.monotonic() < deadline:
        try:
            answer = httpx.get(
                f"{url}/v1/status",
                timeout=_READY_S,
                trust_env=False,
                verify=trust is None or trust,
                headers={TOKEN_HEADER: address.token},
            )
            last = answer.text[:500]
            if answer.is_success and all(check["ok"] for name, check in answer.json()["checks"].items() if name != PUBLISHED):
                return
        except (httpx.HTTPError, ValueError, KeyError) as error:
            last = str(error)
        time.sleep(_POLL_S)
    raise ServiceUnavailableError(
        f"the service at {url} is not ready after {_READY_S:g} s: {last}", hint="see logs/service.log"
    )


def _refuse_second_owner(home: Home, settings: Settings) -> None:
    """Raise if another process owns the store, before anything is started.

    Raises:
        StoreLockedError: another process owns it.
    """
    running = find_service(home)
    if running is not None:
        raise StoreLockedError(
            f"this home is served already: {running.url} (pid {running.pid})",
            hint="use that service, or stop it first",
            pid=running.pid,
            url=running.url,
        )
    if settings.store.kind == "edge":
        probe = StoreOwnership(home.store, command="lodestone serve", timeout=settings.store.lock_timeout_s)
        probe.acquire()
        probe.release()
