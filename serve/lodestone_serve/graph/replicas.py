"""Common start-up of all stages' replicas: settings are read where they run, logs are set up, and failures are noted.

Bodies that reach a replica with their request, so that it need not ask the proxy for them. For each request, a replica of Ray
Serve calls the proxy back twice: for the body, and for the news that the client has left. Each call is a task of an actor, and
costs two processes more than parsing and validating the request. Our middleware in the proxy has the whole body before it
passes a request on, and puts it into the ASGI scope. That a client has left is known without the second call: the proxy
cancels its request, and with it the task that answers here.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import pickle
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from lodestone.config.settings import Settings, load_settings
from lodestone.errors import LodestoneError
from lodestone_schemas.api import Problem
from lodestone_serve.graph.stages import APP, INGRESS
from lodestone_serve.responses.problems import problem, problem_of
from lodestone_serve.telemetry.logs import LOG_NAME, log_to
from lodestone_serve.telemetry.ray_metrics import deployment_of_replica
from lodestone_serve.traffic.arrivals import BODY

HEALTH_PATIENCE_S = 10.0
_log = structlog.get_logger("lodestone.serve")


@dataclass(frozen=True, slots=True)
class Host:
    """Start-up parameters of a replica, above all its settings.

    Attributes:
        read: Returns the settings, as this process sees them: secrets come from its own environment.
        on_loopback: The service is for this machine alone.
        failure_file: File in which a replica that cannot start leaves the reason, as problem details.
    """

    read: Callable[[], Settings]
    on_loopback: bool = False
    failure_file: Path | None = None

    def prepare(self) -> Settings:
        """Set up loopback, warnings and logs, and return the settings. To be called first in a replica, before it is ready."""
        if self.on_loopback:
            keep_replica_on_loopback()
        take_carried_bodies()
        warnings.filterwarnings(
            "ignore", category=UserWarning, module=r"PIL\."
        )  # warnings about minor faults in pictures' metadata
        settings = self.read()
        log_to(settings.home / "logs", settings.log_level, name=_log_name(), on_stderr=settings.serve.telemetry.json_logs)
        return settings

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Write a note when the block fails: Serve only passes on a traceback, and only to its own log."""
        try:
            yield
        except LodestoneError as error:
            self._leave(problem_of(error))
            raise
        except Exception as error:
            _log.exception("the service cannot start")
            detail = f"the service cannot start: {type(error).__name__}: {error}"
            self._leave(problem(500, "internal_error", detail, hint=f"logs/{_log_name()} in the home has the details"))
            raise

    def _leave(self, reason: Problem) -> None:
        if self.failure_file is not None:
            self.failure_file.write_text(json.dumps(reason.model_dump(), default=str), encoding="utf-8")


def known(settings: Settings) -> Callable[[], Settings]:
    """Return a reader of settings that are sent to the replicas unchanged; for one machine."""
    return partial(_same, settings)


def read_anew(flags: dict[str, Any]) -> Callable[[], Settings]:
    """Return a reader with which each replica loads its own settings: these values over its own environment."""
    return partial(_loaded, flags)


class Replica:
    """Base of the deployments' classes: the check by which Serve replaces a replica that can no longer answer."""

    async def check_health(self) -> None:
        """Raise when threads no longer get to run: then nothing is answered, and only a new replica helps."""
        await asyncio.wait_for(asyncio.to_thread(_nothing), HEALTH_PATIENCE_S)


def with_own_threads(settings: Settings) -> Settings:
    """Return settings with as many threads as the replica has CPUs, unless they are set.

    The runtime would otherwise use the whole machine.
    """
    if settings.models.threads:
        return settings
    import ray

    context: Any = ray.get_runtime_context()
    cpus = context.get_assigned_resources().get("CPU", 1.0)
    return settings.model_copy(update={"models": settings.models.model_copy(update={"threads": max(1, int(cpus))})})


def _log_name() -> str:
    deployment = deployment_of_replica()
    return LOG_NAME if deployment in {None, APP, INGRESS} else f"{deployment}.log".lower()


def _same(settings: Settings) -> Settings:
    return settings


def _loaded(flags: dict[str, Any]) -> Settings:
    return load_settings(flags).settings


def _nothing() -> None:
    return


def keep_replica_on_loopback() -> None:
    """Have Serve open this replica's own gRPC port on loopback; to be called in the replica before it is ready.

    Ray 2.60 opens that port on every network card, asks there for no token, and unpickles what comes in: whoever reaches it
    runs code as this user. It has no setting. Where a later Ray has no such function, the replica fails instead of opening it.
    """
    replica: Any = importlib.import_module("ray.serve._private.replica")
    add_port: Callable[[Any, str], int] = replica.add_port_to_grpc_server

    def on_loopback(server: Any, address: str) -> int:  # noqa: ANN401 - one of gRPC's or Ray's servers
        return add_port(server, address.replace("[::]", "127.0.0.1"))

    if add_port.__name__ != on_loopback.__name__:
        replica.add_port_to_grpc_server = on_loopback


def take_carried_bodies() -> None:
    """Have Serve's replica take bodies from the scope; to be called in the replica before it is ready.

    Requests without a body in their scope are read as before. Ray 2.60 has no setting for this. Where a later Ray has no such
    property, the replica fails to start.
    """
    request: Any = importlib.import_module("ray.serve._private.common").StreamingHTTPRequest
    asking: Callable[[Any], Any] = request.receive_asgi_messages.fget

    def carried_or_asked(asked: Any) -> Any:  # noqa: ANN401 - Ray's own
        body = asked.asgi_scope.pop(BODY, None)
        return asking(asked) if body is None else CarriedBody(body)

    if asking.__name__ != carried_or_asked.__name__:
        request.receive_asgi_messages = property(carried_or_asked)


class CarriedBody:
    """A body as a replica receives it: one message, and then none until the request ends.

    Args:
        body: The whole body.
    """

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body

    async def __call__(self, _metadata: object) -> bytes:
        """Return the pickled messages that Serve's proxy would return."""
        body, self._body = self._body, None
        if body is None:
            await asyncio.get_running_loop().create_future()
        return pickle.dumps([{"type": "http.request", "body": body, "more_body": False}])
