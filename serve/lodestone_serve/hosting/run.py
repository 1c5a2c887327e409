"""Lifecycle of the service, from start to signal: its own local Ray, Serve on loopback, service.json while it answers."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import logging
import math
import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

import httpx

from lodestone import __version__
from lodestone.config.home import Home
from lodestone.config.own_profiles import choose_profile
from lodestone.config.settings import Settings
from lodestone.errors import ConfigurationError, LodestoneError, ServiceUnavailableError, StoreLockedError
from lodestone.home.running_service.address import TOKEN_HEADER, ServiceAddress, find_service
from lodestone.store.ownership import StoreOwnership
from lodestone_client.problems import error_of
from lodestone_serve.auth.exposure import checked_exposure
from lodestone_serve.graph.stages import APPLICATION, deployment_options, most_resources
from lodestone_serve.graph.tls import checked_certificate, tls_options
from lodestone_serve.hosting.local_ray import local_ray
from lodestone_serve.routes.operations import PUBLISHED
from lodestone_serve.traffic.proxy_middleware import proxy_variables

Options = Mapping[str, Mapping[str, Any]]
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_READY_S = 120.0
_POLL_S = 0.1


def serve_forever(
    settings: Settings, *, options: Options | None = None, ready_callback: Callable[[str], None] = lambda _: None
) -> None:
    """Serve the home of `settings` until SIGINT or SIGTERM.

    Args:
        settings: Settings of the home, with host, port and limits.
        options: Deployment -> its options, as a serveConfigV2 has them; None for those of `deployment_options`.
        ready_callback: Called once with the URL, when queries are answered and service.json is published.

    Raises:
        ConfigurationError: the host is not this machine's own, or the port is taken.
        StoreLockedError: another process owns the home's store; names it.
        HomeVersionError, ModelUnavailableError, …: the home cannot be opened as it is.
        ServiceUnavailableError: Ray Serve did not start.
    """
    home = Home(settings.home)
    host = checked_exposure(settings.serve)
    choose_profile(settings.profile, settings.profiles)
    home.prepare()
    _refuse_second_owner(home, settings)
    certificate = checked_certificate(settings.serve)
    reserved = _reserve(host, settings.serve.port)
    port = int(reserved.getsockname()[1])
    url = _url(settings, host, port)
    address = ServiceAddress(url, os.getpid(), secrets.token_urlsafe(32), __version__, datetime.now(UTC), certificate)
    stop = _Stop()
    with contextlib.ExitStack() as stack:
        stack.enter_context(reserved)
        stack.enter_context(_handled(stop))
        stack.enter_context(_interruptible(stop))
        resources = _resources(options or deployment_options(settings))
        temporary = stack.enter_context(local_ray(resources, environment=proxy_variables(settings)))
        stop.install()  # again, because Ray has installed its own handler
        stack.callback(_shut_down)
        _start(settings, _http(settings, host, port), address.token, temporary / "failure.json", options=options)
        _wait_until_ready(address)
        stop.starting = False
        if not stop.is_set():
            address.write(home)
            stack.callback(address.withdraw, home)
            ready_callback(url)
            stop.wait()


class _Stop(threading.Event):
    """Event set by the first SIGINT or SIGTERM. During start-up, that signal also interrupts the current wait."""

    starting = True

    def install(self) -> None:
        """Install the handler of both signals. Does nothing outside the main thread, which owns them."""
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                signal.signal(number, self._handle)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        first = not self.is_set()
        self.set()
        if self.starting and first:
            raise KeyboardInterrupt


@contextlib.contextmanager
def _handled(stop: _Stop) -> Iterator[None]:
    """Send signals to `stop` until the very end: a second Ctrl-C must not interrupt the shutdown that the first one began."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    stop.install()
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                signal.signal(number, handler)


@contextlib.contextmanager
def _interruptible(stop: _Stop) -> Iterator[None]:
    """End quietly on a signal during start-up, as on a later one."""
    try:
        yield
    except KeyboardInterrupt:
        if not stop.is_set():
            raise


def _start(
    settings: Settings, http: Mapping[str, Any], token: str, failure_file: Path, *, options: Options | None = None
) -> None:
    from ray import serve
    from ray.serve.config import HTTPOptions, ProxyLocation
    from ray.serve.schema import LoggingConfig

    from lodestone_serve.graph.application import build

    logging.getLogger("ray.serve").setLevel(logging.WARNING)  # after its import, which sets it to INFO
    quiet = LoggingConfig(log_level="WARNING", enable_access_log=False)
    serve.start(proxy_location=ProxyLocation.HeadOnly, http_options=HTTPOptions(**http), logging_config=quiet)
    application = build(settings, token=token, failure_file=failure_file, options=options)
    try:
        serve.run(application, name=APPLICATION, logging_config=quiet)
    except RuntimeError as error:
        raise _reason(failure_file, str(error)) from error


def _reason(failure_file: Path, otherwise: str) -> LodestoneError:
    try:
        return error_of(json.loads(failure_file.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return ServiceUnavailableError(f"the service did not come up: {otherwise}", hint="see logs/service.log in the home")


def _shut_down() -> None:
    from ray import serve

    # Ray prints to standard output that the shutdown interrupted its own shutdown call.
    with contextlib.redirect_stdout(io.StringIO()):
        serve.shutdown()  # type: ignore[no-untyped-call]  # stops the replica gracefully: requests end, the store is flushed and released


def _wait_until_ready(address: ServiceAddress) -> None:
    """Return when the service answers queries; the app is deployed by now, so this waits for the proxy's first check of it.

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


def _resources(options: Options) -> dict[str, float]:
    """Return what this machine's own Ray must offer for all replicas at once; a CPU is a scheduling slot here, not a core."""
    needed = most_resources(options)
    return {**needed, "CPU": max(2.0, math.ceil(needed.get("CPU", 0.0)))}


def _http(settings: Settings, host: str, port: int) -> dict[str, Any]:
    return {"host": host, "port": port, **tls_options(settings.serve)}


def _url(settings: Settings, host: str, port: int) -> str:
    own = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    scheme = "http" if settings.serve.tls_certificate is None else "https"
    return f"{scheme}://{f'[{own}]' if ':' in own else own}:{port}"


def _reserve(host: str, port: int) -> socket.socket:
    """Bind `port`, or a free one for 0, and hold it: Ray takes seconds to start, and uses ports meanwhile.

    The socket never listens, so no connection reaches it. Serve's proxy binds with SO_REUSEPORT, and so may share it; a process
    that asks for exclusive use of the port cannot.
    """
    holder = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port in TIME_WAIT is free; one being listened on is not
    try:
        holder.bind((host, port))
    except OSError as error:
        holder.close()
        if error.errno not in {errno.EADDRINUSE, errno.EACCES, errno.EADDRNOTAVAIL}:
            raise
        raise ConfigurationError(
            f"cannot listen on {host}:{port}: {error.strerror}",
            hint="stop what uses the port, or choose another: --port 0 picks a free one",
            setting="serve.port",
        ) from error
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # after binding: another service must not have joined
    return holder


def _refuse_second_owner(home: Home, settings: Settings) -> None:
    """Raise if another process owns the store, before Ray is started.

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
