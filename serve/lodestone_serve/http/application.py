"""Assembly of the HTTP application: `create_app` puts routes, limits, guards and errors around the use cases.

From the outside in: replica guard (queries without time or place), request context (id, metrics, last resort), site guard,
CORS, authentication, rate limits, idempotency, body limits, admission, routes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.routing import APIRoute

from lodestone import __version__
from lodestone.access.caller import LOCAL_CALLER
from lodestone.config.home import Home
from lodestone.config.settings import ServeSettings
from lodestone.home.running_service.address import instance_of
from lodestone.services.composed_queries import usual_weights
from lodestone.services.use_cases import Services
from lodestone_serve.auth.authentication import KEY_HEADER, Authentication, Authenticator
from lodestone_serve.auth.exposure import checked_exposure
from lodestone_serve.auth.passes import SameMachine, UnlockPasses
from lodestone_serve.http.description import describe
from lodestone_serve.http.guarded_routes import include_guarded
from lodestone_serve.http.ledger import CatalogLedger, CatalogRates
from lodestone_serve.http.request_context import RequestContextMiddleware
from lodestone_serve.responses import problems
from lodestone_serve.routes.access import access_router
from lodestone_serve.routes.batch import batch_router
from lodestone_serve.routes.browser_pages import browser_router
from lodestone_serve.routes.images import images_router, tagging_router
from lodestone_serve.routes.internal import internal_router
from lodestone_serve.routes.lists import corpora_router, directories_router, runs_router, tags_router
from lodestone_serve.routes.openai import openai_router
from lodestone_serve.routes.operation_routes import operations_router
from lodestone_serve.routes.operations import state_router
from lodestone_serve.routes.queries import queries_router
from lodestone_serve.routes.search import search_router
from lodestone_serve.routes.search_page import search_page_router
from lodestone_serve.routes.sessions import sessions_router, unlocking_router
from lodestone_serve.routes.streams import streams_router
from lodestone_serve.streaming.batch_search import Batches
from lodestone_serve.streaming.streams import Streams
from lodestone_serve.telemetry.metrics import Metrics
from lodestone_serve.telemetry.sampling import Sampler
from lodestone_serve.telemetry.tracing import Tracing
from lodestone_serve.traffic.admission import DEADLINE_MS, Admission
from lodestone_serve.traffic.admission_middleware import Admitted
from lodestone_serve.traffic.fetching import Fetcher
from lodestone_serve.traffic.idempotency import Idempotency
from lodestone_serve.traffic.rate_limits import MOST_ASKERS, RateLimits
from lodestone_serve.traffic.replica_guard import ReplicaGuard
from lodestone_serve.traffic.request_guards import BodyLimits, PromptBodies, SiteGuard
from lodestone_serve.traffic.shared_rates import SharedRates

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
    published_in: Home | None = None,
) -> FastAPI:
    """Build the application. Its lifespan opens and closes the session of `services`.

    Args:
        services: The use cases that the routes call.
        settings: Host names to answer for, and limits.
        token: Secret of service.json, which Lodestone's own commands send.
        metrics: Counts requests; a new set by default.
        tracing: Makes spans; as `settings.telemetry` says by default. It is closed with the application.
        echo_request_id: Whether answers carry the request's id; Serve's proxy adds it by itself.
        deadline_ms: Milliseconds that a query is allowed when it names no deadline.
        published_in: Home whose service.json is to name this service before it is ready; None for a service that commands of
            this machine do not find by a file.

    Raises:
        RoutePolicyError: A route has no row in the table of policies, or a row has no route.
        ConfigurationError: The settings would let anybody in who reaches the service.
    """
    checked_exposure(settings)
    passes = UnlockPasses(token, settings)
    authenticator = Authenticator(lambda: services.keys.store(LOCAL_CALLER), settings.auth, token=token, passes=passes)
    metrics = metrics or Metrics()
    streams = Streams(settings.streams, metrics)
    tracing = tracing or Tracing(settings.telemetry)
    sampler = Sampler(services.operations, metrics.home)
    counter = CatalogRates(services.rates) if settings.graph.ingress.max_replicas > 1 else None
    rates = None if counter is None else SharedRates(counter, metrics, most_senders=MOST_ASKERS)

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
            if counter is not None:
                counter.close()
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
    describe(app)
    home = lambda: services.session.runtime.home  # noqa: E731 - it is opened later
    by_hand = (
        state_router(services.operations, metrics, instance_of(token), rates, published_in=published_in),
        *_routers(services, settings, metrics=metrics, streams=streams),
        sessions_router(authenticator.sessions, asks=authenticator.asks),
        unlocking_router(passes, home),
    )
    include_guarded(app, (*by_hand, operations_router(services, by_hand)))
    problems.install(app)

    admission = Admission(limits=settings, metrics=metrics, deadline_ms=deadline_ms)
    # Starlette runs the one added last first.
    app.add_middleware(Admitted, admission=admission)
    app.add_middleware(BodyLimits, settings=settings)
    app.add_middleware(Idempotency, ledger=CatalogLedger(services.writes), metrics=metrics)
    app.add_middleware(RateLimits, rate=settings.load.rate, metrics=metrics, shared=rates)
    app.add_middleware(PromptBodies)
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
    app.add_middleware(ReplicaGuard, admission=admission, metrics=metrics)
    return app


def _routers(services: Services, settings: ServeSettings, *, metrics: Metrics, streams: Streams) -> tuple[APIRouter, ...]:
    fetcher = Fetcher(enabled=settings.fetch_urls, max_bytes=settings.max_upload_mb * 2**20)
    same_machine = SameMachine(settings)
    batches = Batches(ongoing=settings.load.batch_ongoing, most_lines=settings.load.batch_lines)
    return (
        search_router(services.search, metrics, fetcher),
        streams_router(services.search, streams),
        images_router(services.pictures, same_machine),
        tagging_router(services.tagging),
        corpora_router(services.corpora),
        directories_router(services.directories),
        queries_router(services.queries),
        tags_router(services.tags),
        internal_router(services.operations),
        batch_router(services.search, batches, metrics),
        openai_router(services.models),
        runs_router(services.runs),
        access_router(same_machine, lambda: usual_weights(services.session.runtime)),
        browser_router(),
        search_page_router(),
    )


def _operation_id(route: APIRoute) -> str:
    return route.name
