"""The service on a local Ray of its own: Serve's proxy on loopback, and the deployments that the settings name."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import math
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lodestone.config.settings import Settings
from lodestone.errors import LodestoneError, ServiceUnavailableError
from lodestone_client.problems import error_of
from lodestone_serve.graph.stages import APPLICATION, deployment_options, most_resources
from lodestone_serve.graph.tls import tls_options
from lodestone_serve.hosting.listening import share
from lodestone_serve.hosting.local_ray import local_ray
from lodestone_serve.traffic.proxy_middleware import proxy_variables

Options = Mapping[str, Mapping[str, Any]]


@contextlib.contextmanager
def ray_serve(
    settings: Settings,
    listener: socket.socket,
    *,
    token: str,
    ray_started: Callable[[], None],
    options: Options | None = None,
) -> Iterator[None]:
    """Serve the home of `settings` on the port of a bound socket until the block ends; inside the block it is deployed.

    Args:
        settings: Settings of the home.
        listener: Bound; it holds the port, and the proxy listens beside it.
        token: Secret of the internal routes.
        ray_started: Called once Ray runs, which installs handlers of its own for signals.
        options: Deployment -> its options, as a serveConfigV2 has them; None for those of `deployment_options`.

    Raises:
        LodestoneError: a replica cannot open the home, or Ray Serve did not start.
    """
    share(listener)
    host, port = listener.getsockname()[:2]
    http = {"host": host, "port": port, **tls_options(settings.serve)}
    with local_ray(_resources(options or deployment_options(settings)), environment=proxy_variables(settings)) as temporary:
        ray_started()
        try:
            _start(settings, http, token, temporary / "failure.json", options=options)
            yield
        finally:
            _shut_down()


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


def _resources(options: Options) -> dict[str, float]:
    """Return what this machine's own Ray must offer for all replicas at once; a CPU is a scheduling slot here, not a core."""
    needed = most_resources(options)
    return {**needed, "CPU": max(2.0, math.ceil(needed.get("CPU", 0.0)))}
