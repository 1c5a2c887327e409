"""How is the HTTP app put together? `create_app` wires routes, limits, guards and errors around one `Services` object.

From the outside in: request context (id, metrics, last resort), site guard, CORS, authentication, rate limits, idempotency,
body limits, admission, routes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.routing import APIRoute

from lodestone import __version__
from lodestone.config.settings import ServeSettings
from lodestone.home.service_address import instance_of
from lodestone_serve.auth.authentication import KEY_HEADER, Authentication, Authenticator
from lodestone_serve.http import problems
from lodestone_serve.http.batch_search import Batches
from lodestone_serve.http.fetching import Fetcher
from lodestone_serve.http.openapi import describe
from lodestone_serve.http.request_context import RequestContext
from lodestone_serve.http.streams import NDJSON, Streams
from lodestone_serve.routes.batch import BATCH_SEARCH, batch_router
from lodestone_serve.routes.corpora import corpora_router
from lodestone_serve.routes.directories import directories_router
from lodestone_serve.routes.images import images_router
from lodestone_serve.routes.internal import internal_router
from lodestone_serve.routes.keys import keys_router
from lodestone_serve.routes.learning import learning_router
from lodestone_serve.routes.models import models_router
from lodestone_serve.routes.openai import EMBEDDINGS, openai_router
from lodestone_serve.routes.operations import operations_router
from lodestone_serve.routes.queries import queries_router
from lodestone_serve.routes.runs import runs_router
from lodestone_serve.routes.search import IMAGE_SEARCH, search_router
from lodestone_serve.routes.streams import streams_router
from lodestone_serve.telemetry.metrics import Metrics
from lodestone_serve.telemetry.sampling import Sampler
from lodestone_serve.telemetry.tracing import Tracing
from lodestone_serve.traffic.admission import DEADLINE_MS, Admission
from lodestone_serve.traffic.admission_middleware import Admitted
from lodestone_serve.traffic.idempotency import Idempotency, WriteLedger
from lodestone_serve.traffic.rate_limits import RateLimits
from lodestone_serve.traffic.request_guards import UPLOAD_SLACK_BYTES, BodyLimits, PromptBodies, SiteGuard, checked_exposure
from lodestone_serve.use_cases.services import Services

# Headers that pages of other origins may send and read, beside those that browsers always allow.
_ASKED_WITH = ["Content-Type", "Idempotency-Key", "If-None-Match", "Last-Event-ID", "Priority", "X-Request-ID", "traceparent"]
_ANSWERED_WITH = ["ETag", "Idempotency-Replayed", "RateLimit", "RateLimit-Policy", "Retry-After", "X-Request-ID"]
_PREFLIGHT_S = 600


def create_app(
    services: Services,
    *,
    settings: ServeSettings,
    token: str,
    metrics: Metrics | None = None,
    tracing: Tracing | None = None,
    echo_request_id: bool = True,
    deadline_ms: int = DEADLINE_MS,
) -> FastAPI:
    """Build the app. Its lifespan opens and closes `services`.

    Args:
        services: What the routes ask.
        settings: Host name to answer for, and limits.
        token: Secret of the internal routes.
        metrics: Where to count; a new set by default.
        tracing: Makes spans; as `settings.telemetry` says by default. Closed with the app.
        echo_request_id: Answer with the request's id; Serve's proxy does that itself.
        deadline_ms: Of queries that name none.
    """
    checked_exposure(settings)
    authenticator = Authenticator(services, settings.auth, token=token)
    metrics = metrics or Metrics()
    streams = Streams(settings.streams, metrics)
    tracing = tracing or Tracing(settings.telemetry)
    sampler = Sampler(services, metrics.home)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        await services.open()
        sampler.start()
        try:
            yield
        finally:
            await streams.close()
            await sampler.close()
            await authenticator.close()
            await services.close()
            await asyncio.to_thread(tracing.close)

    app = FastAPI(
        title="Lodestone",
        version=__version__,
        summary="Find pictures by what you mean.",
        lifespan=lifespan,
        openapi_url=None,  # `describe` serves it; pages that show it would load scripts from elsewhere
        redirect_slashes=False,
        generate_unique_id_function=_operation_id,
    )
    app.include_router(search_router(metrics, Fetcher(enabled=settings.fetch_urls, max_bytes=settings.max_upload_mb * 2**20)))
    app.include_router(streams_router(streams))
    app.include_router(images_router())
    app.include_router(corpora_router())
    app.include_router(directories_router())
    app.include_router(queries_router())
    app.include_router(learning_router())
    app.include_router(operations_router(metrics, instance_of(token)))
    app.include_router(internal_router())
    batches = Batches(ongoing=settings.load.batch_ongoing, most_lines=settings.load.batch_lines)
    app.include_router(batch_router(batches, metrics))
    app.include_router(openai_router())
    app.include_router(models_router())
    app.include_router(runs_router())
    app.include_router(keys_router())
    problems.install(app)
    describe(app)

    admission = Admission(limits=settings, metrics=metrics, deadline_ms=deadline_ms)
    uploads = {IMAGE_SEARCH: settings.max_upload_mb * 2**20 + UPLOAD_SLACK_BYTES}
    # Starlette runs the one added last first.
    app.add_middleware(Admitted, admission=admission, uploads={*uploads, EMBEDDINGS})
    others = {
        BATCH_SEARCH: (NDJSON, settings.load.batch_mb * 2**20),
        EMBEDDINGS: ("application/json", settings.max_upload_mb * 2**20),
    }
    app.add_middleware(BodyLimits, uploads=uploads, others=others)
    _limit_askers(app, services, settings, metrics)
    app.add_middleware(PromptBodies, large={*uploads, EMBEDDINGS}, unhurried={BATCH_SEARCH})
    app.add_middleware(Authentication, services=services, authenticator=authenticator)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["GET", "POST", "PATCH", "DELETE"],
            allow_headers=["Authorization", KEY_HEADER, *_ASKED_WITH],
            expose_headers=_ANSWERED_WITH,
            max_age=_PREFLIGHT_S,
        )
    app.add_middleware(SiteGuard, settings=settings)
    app.add_middleware(RequestContext, metrics=metrics, tracing=tracing, echo=echo_request_id)
    return app


def _limit_askers(app: FastAPI, services: Services, settings: ServeSettings, metrics: Metrics) -> None:
    if isinstance(services, WriteLedger):
        app.add_middleware(Idempotency, ledger=services, metrics=metrics)
    app.add_middleware(RateLimits, rate=settings.load.rate, metrics=metrics)


def _operation_id(route: APIRoute) -> str:
    return route.name
