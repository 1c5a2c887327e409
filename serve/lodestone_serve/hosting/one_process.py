"""The service in this process: the application and its front under uvicorn, without Ray; for one machine.

The front is that of Ray Serve's proxies (`traffic.proxy_middleware`): it keeps deadlines, refuses what there is no time for,
and guards connections. A crash of the process ends the service; whoever started it starts it again.
"""

from __future__ import annotations

import asyncio
import math
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import structlog
import uvicorn

from lodestone.config.home import Home
from lodestone.config.settings import Settings
from lodestone.errors import LodestoneError, ServiceUnavailableError
from lodestone.models.hardware import cores
from lodestone.services.sessions.serving import ServingSession
from lodestone.services.sessions.session import Answering
from lodestone.services.use_cases import make_services
from lodestone.store.edge.store import EdgeStore
from lodestone_serve.graph.stages import DRAIN_SLACK_S
from lodestone_serve.graph.tls import tls_options
from lodestone_serve.hosting.answering.messages import Observed
from lodestone_serve.hosting.answering.pool import AnsweringPool, SpreadAnswers
from lodestone_serve.hosting.process_setup import prepare_process
from lodestone_serve.http.application import create_app
from lodestone_serve.inference.shared_passes import LocalStages
from lodestone_serve.telemetry.metrics import Metrics, RecordMetrics
from lodestone_serve.traffic.connections import connection_protocol
from lodestone_serve.traffic.proxy_middleware import Front, Waits

_POLL_S: Final = 0.01
MOST_PROCESSES: Final = 16
"""Processes that `serve.processes = 0` starts at most: each takes some 320 MB."""

_log = structlog.get_logger("lodestone.serve")


@contextmanager
def one_process(settings: Settings, listener: socket.socket, *, token: str, ended: Callable[[], None]) -> Iterator[None]:
    """Serve the home of `settings` on a bound socket until the block ends; inside the block the home is open.

    Args:
        settings: Settings of the home.
        listener: Bound, and not listening yet. It is closed at the end.
        token: Secret of the internal routes.
        ended: Called when the server has ended, from its thread: by itself it does so only after an error.

    Raises:
        LodestoneError: the home cannot be opened, or the server ended by itself.
    """
    prepare_process(settings)
    session = _Session(settings, metrics := Metrics())
    app = create_app(
        make_services(session),
        settings=settings.serve,
        token=token,
        published_in=Home(settings.home),
        metrics=metrics,
        deadline_ms=settings.query.deadline_ms,
    )
    waits = Waits(settings.query.deadline_ms / 1000, settings.serve.patience_s)
    tls: dict[str, Any] = {**tls_options(settings.serve)}
    drain_s = settings.query.deadline_ms / 1000 + settings.serve.streams.grace_s + DRAIN_SLACK_S
    server = uvicorn.Server(
        uvicorn.Config(
            Front(app, waits=waits),
            http=connection_protocol(most=settings.serve.load.connections),
            ws="none",
            lifespan="on",
            access_log=False,
            log_config=None,
            timeout_graceful_shutdown=math.ceil(drain_s),
            **tls,
        )
    )
    serving = _Serving(server, listener, ended)
    serving.start()
    try:
        serving.wait_until_open(session)
        yield
    finally:
        server.should_exit = True
        serving.join()
    if serving.failure is not None:
        raise ServiceUnavailableError(
            f"the service ended by itself: {serving.failure}", hint="see logs/service.log in the home"
        ) from serving.failure


class _Serving(threading.Thread):
    """The thread of the server's event loop; the main thread keeps the signals.

    Attributes:
        failure: Why the loop ended by itself; None while it has not.
    """

    def __init__(self, server: uvicorn.Server, listener: socket.socket, ended: Callable[[], None]) -> None:
        super().__init__(name="lodestone-serve", daemon=True)
        self.failure: Exception | None = None
        self._server = server
        self._listener = listener
        self._ended = ended

    def run(self) -> None:
        """Run the event loop until the server ends."""
        try:
            with asyncio.Runner(loop_factory=self._server.config.get_loop_factory()) as runner:
                runner.run(self._server.serve(sockets=[self._listener]))
        except SystemExit:  # uvicorn's, where the home could not be opened: the session has the reason
            self.failure = ServiceUnavailableError("the application did not start")
        except Exception as error:  # noqa: BLE001 - whatever it is, the main thread raises it
            _log.exception("the service ended by itself")
            self.failure = error
        finally:
            self._listener.close()
            self._ended()

    def wait_until_open(self, session: _Session) -> None:
        """Return when the home is open and the server accepts connections, however long lost collections take to load again.

        Raises:
            LodestoneError: the home cannot be opened.
        """
        while not self._server.started:
            self.join(_POLL_S)
            if session.failure is not None:
                raise session.failure
            if not self.is_alive():
                raise ServiceUnavailableError(
                    f"the service did not come up: {self.failure}", hint="see logs/service.log in the home"
                )


class _Session(ServingSession):
    """A session whose models are shared by its queries, which hands some of these to further processes.

    Attributes:
        failure: Why it cannot open; None unless opening has failed.
    """

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        records = RecordMetrics(metrics.records_waiting, metrics.records_lost)
        super().__init__(
            settings,
            observe_engines=metrics.engines,
            observe_records=records,
            stages=lambda runtime: LocalStages(
                runtime, observe=metrics.text_batch.observe, observe_pictures=metrics.picture_batch.observe
            ),
        )
        self.failure: LodestoneError | None = None
        self._metrics = metrics
        self._observers = {
            "engines": metrics.engines,
            "records": records,
            "texts": metrics.text_batch,
            "pictures": metrics.picture_batch,
        }
        self._pool: AnsweringPool | None = None
        self._answers: SpreadAnswers | None = None

    async def open(self) -> None:
        """Open, or keep the reason; further processes are started, and answer when they are warm."""
        try:
            await super().open()
            self._start_workers()
        except LodestoneError as error:
            self.failure = error
            raise
        except Exception as error:
            _log.exception("the service cannot start")
            self.failure = ServiceUnavailableError(
                f"the service cannot start: {type(error).__name__}: {error}",
                hint="logs/service.log in the home has the details",
            )
            raise

    async def close(self) -> None:
        """End the further processes, then close the home."""
        pool, self._pool, self._answers = self._pool, None, None
        if pool is not None:
            await pool.close()
        await super().close()

    async def answering(self, *, warm: bool = True) -> Answering:
        """Return what answers searches: this process and the further ones, or this one alone."""
        return self._answers or await super().answering(warm=warm)

    async def settled(self, query_id: str | None = None) -> None:
        """Wait for records, those of the further processes too."""
        if self._pool is not None:
            await self._pool.settled(query_id)
        await super().settled(query_id)

    def _start_workers(self) -> None:
        settings = self._settings
        self._metrics.answering.set(1)
        further = further_processes(settings)
        if further < 1:
            return
        store = self.runtime.store if isinstance(self.runtime.store, EdgeStore) else None
        self._pool = AnsweringPool(settings, store, self._take, self._metrics)
        self._answers = SpreadAnswers(self._pool, lambda: self.live.answering.engine)
        self._pool.start(further)

    def _take(self, observed: Observed) -> None:
        """Count what a further process has measured as if it had been here."""
        getattr(self._observers[observed.observer], observed.method)(*observed.arguments)


def further_processes(settings: Settings) -> int:
    """Return how many processes answer searches beside the one that owns the home."""
    return (settings.serve.processes or min(cores(), MOST_PROCESSES)) - 1
