"""The deployment that answers HTTP: the routes and the engine, and in the shape `app` models and store as well.

On two cores every further hop costs more than it brings, and the embedded store has one owner: there `App` is the whole
service, in exactly one replica, and texts are batched inside it. In the shape `graph` it asks others for models and guides.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

from lodestone.config.home import Home
from lodestone.generators.base import Generator
from lodestone.query.contracts import Encoder, RemoteStages, Tagger
from lodestone.services.sessions.serving import ServingSession
from lodestone.services.use_cases import make_services
from lodestone_serve.graph.adapters import RemoteEncoder, RemoteGenerator
from lodestone_serve.graph.calls import StageCall
from lodestone_serve.graph.fusion import RemoteFuser
from lodestone_serve.graph.policy import BUSY
from lodestone_serve.graph.replicas import Host, Replica
from lodestone_serve.graph.stages import ENCODERS, FUSION, TAGGING, generator_deployment
from lodestone_serve.graph.tagging import RemoteTagger
from lodestone_serve.http.application import create_app
from lodestone_serve.inference.shared_passes import LocalStages
from lodestone_serve.telemetry.metrics import Metrics, RecordMetrics
from lodestone_serve.telemetry.ray_metrics import mirror_of_replica

if TYPE_CHECKING:
    from ray.serve.handle import DeploymentHandle

    from lodestone.config.settings import Settings
    from lodestone.home.runtime import Runtime
    from lodestone.retrieval.fuser import Fuser
    from lodestone.spaces.base import Projection


class App(Replica):
    """A replica of the ingress. Serve calls the methods; requests go through the ASGI app.

    Args:
        host: Where the settings are.
        token: Secret of the internal routes; a random one by default, so that nobody can use them.
        encoders: The models, where they are elsewhere.
        generators: Guide engine -> what draws for it, elsewhere.
        fusion: What fuses the lists of queries, where it is elsewhere.
        tagging: What tags single pictures, where it is elsewhere.
    """

    def __init__(
        self,
        host: Host,
        *,
        token: str = "",
        encoders: DeploymentHandle[Any] | None = None,
        generators: Mapping[str, DeploymentHandle[Any]] | None = None,
        fusion: DeploymentHandle[Any] | None = None,
        tagging: DeploymentHandle[Any] | None = None,
    ) -> None:
        self._host = host
        self._token = token or secrets.token_urlsafe(32)
        self._is_published = bool(token)  # whoever gave it writes it into service.json
        # On one machine, /metrics is this replica's own, and nobody reads what Ray would export.
        self._metrics = Metrics(None if host.on_loopback else mirror_of_replica())
        self._encoders = encoders
        self._generators = dict(generators or {})
        self._fusion = fusion
        self._tagging = tagging

    def __serve_build_asgi_app__(self) -> FastAPI:
        """What Serve serves; its lifespan opens the home, and a replica is ready when it is open."""
        with self._host.noted():
            settings = self._host.prepare()
        metrics = self._metrics
        encoders, generators = self._encoders, self._generators
        fusion, tagging = self._fusion, self._tagging

        def stages(runtime: Runtime) -> RemoteStages:
            if encoders is not None:
                return HandleStages(settings, encoders, generators, fusion=fusion, tagging=tagging)
            return LocalStages(runtime, observe=metrics.text_batch.observe, observe_pictures=metrics.picture_batch.observe)

        session = _AnnouncedSession(
            settings,
            host=self._host,
            observe_engines=metrics.engines,
            observe_records=RecordMetrics(metrics.records_waiting, metrics.records_lost),
            stages=stages,
        )
        return create_app(
            make_services(session),
            settings=settings.serve,
            token=self._token,
            published_in=Home(settings.home) if self._is_published else None,
            metrics=metrics,
            echo_request_id=False,
            deadline_ms=settings.query.deadline_ms,
        )

    def record_autoscaling_stats(self) -> dict[str, float]:
        """What the ingress scales by; see `graph.policy`."""
        registry = self._metrics.registry
        names = ("lodestone_queries_in_flight", "lodestone_queries_waiting")
        return {BUSY: sum(registry.get_sample_value(name) or 0.0 for name in names)}


class HandleStages:
    """Implements `query.stages.RemoteStages` by the handles of other deployments."""

    def __init__(
        self,
        settings: Settings,
        encoders: DeploymentHandle[Any],
        generators: Mapping[str, DeploymentHandle[Any]],
        *,
        fusion: DeploymentHandle[Any] | None = None,
        tagging: DeploymentHandle[Any] | None = None,
    ) -> None:
        self._settings = settings
        self._encoders = StageCall(ENCODERS, encoders, again=True)
        self._generators = dict(generators)
        self._fusion = None if fusion is None else StageCall(FUSION, fusion, again=True)
        self._tagging = None if tagging is None else StageCall(TAGGING, tagging, again=True)

    def encoder(self, projections: Mapping[str, Projection]) -> Encoder:
        """Return an encoder that calls the deployment of encoders."""
        return RemoteEncoder(self._encoders, projections)

    def generator(self, name: str, local: Generator) -> Generator:
        """Return a generator that calls the engine's deployment, or the local one where it has none."""
        handle = self._generators.get(name)
        if handle is None:
            return local
        stage = self._settings.serve.graph.generators.get(name)
        may_sleep = stage is not None and stage.min_replicas == 0
        return RemoteGenerator(StageCall(generator_deployment(name), handle), local, describe=not may_sleep)

    def fuser(self) -> Fuser | None:
        """Return a fuser that calls the deployment of fusion; None where there is none."""
        return None if self._fusion is None else RemoteFuser(self._fusion)

    def tagger(self, local: Tagger) -> Tagger:
        """Return a tagger that calls the deployment of tagging, or the local one where there is none."""
        return local if self._tagging is None else RemoteTagger(self._tagging)


class _AnnouncedSession(ServingSession):
    """A session that leaves a note when it cannot open."""

    def __init__(self, settings: Settings, *, host: Host, **options: Any) -> None:  # noqa: ANN401
        super().__init__(settings, **options)
        self._host = host

    async def open(self) -> None:
        """Open, or say why not."""
        with self._host.noted():
            await super().open()
