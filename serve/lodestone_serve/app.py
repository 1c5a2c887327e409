"""What runs on Ray Serve? One deployment, `App`: ingress, engine, models and the embedded store, in exactly one replica.

On two cores every further hop costs more than it brings (4 ms each, measured; 33 ms for seven), and the embedded store has one
owner. So there is one replica, updates stop the old one before the new one starts, and texts are batched inside it.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog
from fastapi import FastAPI
from ray import serve

from lodestone.config.settings import Settings
from lodestone.errors import LodestoneError
from lodestone_schemas.api import Problem
from lodestone_serve.api import create_app
from lodestone_serve.home_services import HomeServices
from lodestone_serve.local_ray import keep_replica_on_loopback
from lodestone_serve.logs import log_to
from lodestone_serve.metrics import Metrics
from lodestone_serve.problems import problem, problem_of

DEPLOYMENT = "App"
# Health checks, metrics and pictures need room beside the queries, whose own limits are kept inside (admission.py).
_BESIDE_QUERIES = 128
_HEALTH_PATIENCE_S = 10.0
_log = structlog.get_logger("lodestone.serve")


class App:
    """The replica. Serve calls `check_health`; everything else goes through the ASGI app."""

    async def check_health(self) -> None:
        """Fail when threads no longer get their turn: then nothing is answered, and only a new replica helps."""
        await asyncio.wait_for(asyncio.to_thread(_nothing), _HEALTH_PATIENCE_S)


def _nothing() -> None:
    return


def build(settings: Settings, *, token: str = "", failure_file: Path | None = None) -> serve.Application:
    """The Serve application for one home.

    Args:
        settings: Of the home; sent to the replica.
        token: Secret of the internal routes; a random one by default, so that nobody can use them.
        failure_file: Where a replica that cannot start leaves the reason, as problem details.
    """
    limits = settings.serve
    deployed = serve.deployment(
        name=DEPLOYMENT,
        num_replicas=1,
        max_ongoing_requests=limits.max_ongoing + limits.max_queued + _BESIDE_QUERIES,
        max_constructor_retry_count=1,
        ray_actor_options={"num_cpus": 1},
        health_check_period_s=5,
        health_check_timeout_s=30,
        graceful_shutdown_wait_loop_s=0.2,
        graceful_shutdown_timeout_s=20,
    )
    return deployed(serve.ingress(_app_maker(settings, token or secrets.token_urlsafe(32), failure_file))(App)).bind()


def _app_maker(settings: Settings, token: str, failure_file: Path | None) -> Callable[[], FastAPI]:
    def make_app() -> FastAPI:
        keep_replica_on_loopback()
        warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")  # of blemishes in pictures' metadata
        log_to(settings.home / "logs", settings.log_level)
        metrics = Metrics()
        services = _Announced(
            settings, observe_batch=metrics.text_batch.observe, observe_engines=metrics.engines, failure_file=failure_file
        )
        return create_app(services, settings=settings.serve, token=token, metrics=metrics, echo_request_id=False)

    return make_app


class _Announced(HomeServices):
    """Services that leave a note when they cannot open: Serve passes on a traceback, and only to its own log."""

    def __init__(self, settings: Settings, *, failure_file: Path | None, **options: Any) -> None:  # noqa: ANN401
        super().__init__(settings, **options)
        self._failure_file = failure_file

    async def open(self) -> None:
        """Open, or say why not."""
        try:
            await super().open()
        except LodestoneError as error:
            self._leave(problem_of(error))
            raise
        except Exception as error:
            _log.exception("the service cannot start")
            detail = f"the service cannot start: {type(error).__name__}: {error}"
            self._leave(problem(500, "internal_error", detail, hint="logs/service.log in the home has the details"))
            raise

    def _leave(self, found: Problem) -> None:
        if self._failure_file is not None:
            self._failure_file.write_text(json.dumps(found.model_dump(), default=str), encoding="utf-8")
