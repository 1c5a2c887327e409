"""The HTTP app: `create_app` wires routes, limits, guards and errors around the use cases.

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
from lodestone.access.caller import LOCAL_CALLER
from lodestone.config.settings import ServeSettings
from lodestone.home.service_address import instance_of
from lodestone.services.use_cases import Services
from lodestone_serve.auth.authentication import KEY_HEADER, Authentication, Authenticator
from lodestone_serve.http.description import describe
from lodestone_serve.http.ledger import CatalogLedger
from lodestone_serve.http.request_context import RequestContextMiddleware
from lodestone_serve.responses import problems
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
from lodestone_serve.streaming.batch_search import Batches
from lodestone_serve.streaming.streams import NDJSON, Streams
from lodestone_serve.telemetry.metrics import Metrics
from lodestone_serve.telemetry.sampling import Sampler
from lodestone_serve.telemetry.tracing import Tracing
from lodestone_serve.traffic.admission import DEADLINE_MS, Admission
from lodestone_serve.traffic.admission_middleware import Admitted
from lodestone_serve.traffic.fetching import Fetcher
from lodestone_serve.traffic.idempotency import Idempotency
from lodestone_serve.traffic.rate_limits import RateLimits
from lodestone_serve.traffic.request_guards import UPLOAD_SLACK_BYTES, BodyLimits, PromptBodies, SiteGuard, checked_exposure

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
    """Build the app. Its lifespan opens and closes the session of `services`.

    Args:
        services: The use cases that the routes call.
        settings: Host name to answer for, and limits.
        token: Secret of the internal routes.
        metrics: Where to count; a new set by default.
        tracing: Makes spans; as `settings.telemetry` says by default. Closed with the app.
        echo_request_id: Answer with the request's id; Serve's proxy does that itself.
        deadline_ms: Of queries that name none.
    """
    checked_exposure(settings)
    authenticator = Authenticator(lambda: services.keys.store(LOCAL_CALLER), settings.auth, token=token)
    metrics = metrics or Metrics()
    streams = Streams(settings.streams, metrics)
    tracing = tracing or Tracing(settings.telemetry)
    sampler = Sampler(services.operations, metrics.home)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        await services.session.open()
        sampler.start()
        try:
            yield
        finally:
            await streams.close()
            await sampler.close()
            await authenticator.close()
            await services.session.close()
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
    _include_routes(app, services, settings, metrics=metrics, streams=streams, instance=instance_of(token))
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
    app.add_middleware(Idempotency, ledger=CatalogLedger(services.writes), metrics=metrics)
    app.add_middleware(RateLimits, rate=settings.load.rate, metrics=metrics)
    app.add_middleware(PromptBodies, large={*uploads, EMBEDDINGS}, unhurried={BATCH_SEARCH})
    app.add_middleware(Authentication, authenticator=authenticator)
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
    app.add_middleware(RequestContextMiddleware, metrics=metrics, tracing=tracing, echo=echo_request_id)
    return app


def _include_routes(
    app: FastAPI, services: Services, settings: ServeSettings, *, metrics: Metrics, streams: Streams, instance: str
) -> None:
    fetcher = Fetcher(enabled=settings.fetch_urls, max_bytes=settings.max_upload_mb * 2**20)
    app.include_router(search_router(services.search, metrics, fetcher))
    app.include_router(streams_router(services.search, streams))
    app.include_router(images_router(services.pictures))
    app.include_router(corpora_router(services.corpora))
    app.include_router(directories_router(services.directories))
    app.include_router(queries_router(services.queries))
    app.include_router(learning_router(services.learning, services.tags))
    app.include_router(operations_router(services.operations, metrics, instance))
    app.include_router(internal_router(services.operations, services.corpora))
    batches = Batches(ongoing=settings.load.batch_ongoing, most_lines=settings.load.batch_lines)
    app.include_router(batch_router(services.search, batches, metrics))
    app.include_router(openai_router(services.models))
    app.include_router(models_router(services.models))
    app.include_router(runs_router(services.runs))
    app.include_router(keys_router(services.keys))


def _operation_id(route: APIRoute) -> str:
    return route.name
