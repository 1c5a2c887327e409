"""Routes for whoever runs the service: alive, ready, status and metrics."""

from __future__ import annotations

import time
from typing import Final

from fastapi import APIRouter
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST

from lodestone import __version__
from lodestone.config.home import Home
from lodestone.home.running_service.address import instance_of, read_address
from lodestone.services.limits import shown
from lodestone.services.operations import OperationUseCases
from lodestone.services.redaction import redact_status
from lodestone_schemas.service import Alive, Check, ServiceStatus
from lodestone_serve.auth.principal import RequestCaller
from lodestone_serve.responses.pages import json_answer
from lodestone_serve.responses.problems import problem, problem_response
from lodestone_serve.routes.threads import in_thread
from lodestone_serve.telemetry.metrics import Metrics
from lodestone_serve.traffic.shared_rates import SharedRates

PUBLISHED: Final = "home"
"""Name of the check that the home's service.json names this service."""


def check_published(home: Home, instance: str) -> Check:
    """Return whether the home's service.json names this service, by which commands of this machine find it. Blocks.

    Args:
        home: The home.
        instance: Name of this service.
    """
    started = time.perf_counter()
    address = read_address(home)
    detail = ""
    if address is None:
        detail = "the home's service.json is not there or damaged, so commands of this machine do not find the service"
    elif instance_of(address.token) != instance:
        detail = "the home's service.json names another service"
    return Check(ok=not detail, milliseconds=round((time.perf_counter() - started) * 1000, 2), detail=detail)


def state_router(
    use_cases: OperationUseCases,
    metrics: Metrics,
    instance: str,
    rates: SharedRates | None = None,
    *,
    published_in: Home | None = None,
) -> APIRouter:
    """Return the router of the service's own state.

    Args:
        use_cases: They know the home.
        metrics: Sent at /metrics.
        instance: Name of this service.
        rates: What all replicas count together; None for a single replica.
        published_in: Home whose service.json names this service; None for one that no file names.
    """
    router = APIRouter(tags=["operations"])
    alive = Alive(version=__version__, instance=instance)

    async def _status(caller: RequestCaller) -> ServiceStatus:
        status = _with_rates(await use_cases.status(caller), rates)
        if published_in is None:
            return status
        check = await in_thread(check_published, published_in, instance)
        checked = status.model_copy(update={"ready": status.ready and check.ok, "checks": {**status.checks, PUBLISHED: check}})
        return shown(caller, checked, redact_status)  # reasons are for those who can do something about it

    @router.get("/healthz")
    async def healthz() -> Alive:
        """Answers as long as the process does."""
        return alive

    @router.get("/readyz", response_model=ServiceStatus)
    async def readyz(caller: RequestCaller) -> Response:
        """200 when models, store and catalog have just answered, else a 503 problem naming those that have not."""
        status = await _status(caller)
        if status.ready:
            return _json(status)
        failing = sorted(name for name, check in status.checks.items() if not check.ok)
        checks = {name: check.model_dump() for name, check in status.checks.items()}
        return problem_response(
            problem(503, "not_ready", f"not answering: {', '.join(failing)}", instance="/readyz", extra={"checks": checks})
        )

    @router.get("/v1/status", response_model=ServiceStatus)
    async def status(caller: RequestCaller) -> Response:
        """The same, always 200: for people and for `lodestone status`."""
        return _json(await _status(caller))

    @router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def exposition() -> Response:
        """Return the metrics in the text format of Prometheus."""
        return Response(content=metrics.exposition(), media_type=CONTENT_TYPE_LATEST)

    return router


def _with_rates(status: ServiceStatus, rates: SharedRates | None) -> ServiceStatus:
    """Return the status with a check of the shared rates, which never makes a replica unready: it counts by itself then."""
    if rates is None:
        return status
    detail = "" if rates.answers else "counted by each replica alone: the shared counter does not answer"
    return status.model_copy(update={"checks": {**status.checks, "rates": Check(ok=True, milliseconds=0.0, detail=detail)}})


def _json(status: ServiceStatus) -> Response:
    return json_answer(status)
