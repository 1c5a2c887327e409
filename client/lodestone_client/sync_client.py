# Made of async_client.py by `python -m scripts.sync_client`: change that one.
"""Client for ordinary code: `Lodestone` has a method for each operation, and raises problems as typed errors."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import httpx

from lodestone_client import batches
from lodestone_client.call import Call, as_bytes
from lodestone_client.calls import call_of, progress_of
from lodestone_client.connection import Connection
from lodestone_client.problems import error_of, unavailable
from lodestone_client.reading import Reading
from lodestone_client.retrying import RetryPolicy
from lodestone_client.sync_api import LodestoneApi
from lodestone_client.sync_transport import Transport
from lodestone_schemas.api import Event, SearchRequest, SyncProgress
from lodestone_schemas.batch import BatchAnswer
from lodestone_schemas.operation_rows import Declared
from lodestone_schemas.operations import ServiceOperations


class Lodestone(Transport, ServiceOperations, LodestoneApi):
    """Client of one service, safe to use from several threads. Close it, or use it as a context manager.

    Args:
        url: Of the service; default: LODESTONE_URL.
        api_key: Its key or token; default: LODESTONE_API_KEY, for the URL of the environment alone.
        timeout_s: Seconds for a whole answer, further attempts included; a query with a longer deadline is waited for.
        policy: How often, and after which pauses, a call is sent again.
        headers: Further headers of every request.
        transport: httpx's own, e.g. with certificates of one's own.

    Every method raises what the service's problem says as the same `LodestoneError` it was there, and
    `ServiceUnavailableError` when nobody answers, or somebody else than Lodestone.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        timeout_s: float = 60.0,
        policy: RetryPolicy | None = None,
        headers: Mapping[str, str] | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        connection = Connection.to(url, api_key=api_key, timeout_s=timeout_s, policy=policy, headers=headers)
        super().__init__(connection, transport=transport)

    def resume(self, query_id: str, last_event_id: str = "") -> Iterator[Event]:
        """Yield the events of a query that was sent before, for example by a process that has ended.

        Raises:
            NotFoundError: the service has forgotten it (`serve.streams.keep_s`), or another replica has it.
        """
        return self._events(Reading(None, query_id=query_id, last_id=last_event_id))

    def search_many(self, requests: Iterable[SearchRequest | str]) -> Iterator[BatchAnswer]:
        """Yield the answers to many queries, in the order in which they are ready; `line` counts the requests from 1.

        A query that fails is an answer with a `problem`. Requests are read as answers are: it may be an endless iterator.
        """
        for window in batches.windows(requests):
            while window.open:
                before = len(window.open)
                for line in self._lines(window.call()):
                    answer = window.take(line)
                    if answer is not None:
                        yield self._display.attached(answer)
                window.check(before, self.url)

    def metrics(self) -> str:
        """Return the service's metrics in Prometheus's text format."""
        text = self._run(Call("GET", "/metrics", as_bytes("text/plain", "application/openmetrics-text")))
        return text.decode()

    def _perform(self, operation: Declared, arguments: inspect.BoundArguments) -> Any:  # noqa: ANN401 - the operation's answer
        return self._run(call_of(operation, arguments))

    def _perform_steps(self, operation: Declared, arguments: inspect.BoundArguments) -> Iterator[Any]:
        if operation.name == "stream":  # events come as server-sent events, and are resumed
            return self._events(Reading(operation.values(arguments)["request"]))
        return self._steps(call_of(operation, arguments))

    def _steps(self, call: Call[None]) -> Iterator[SyncProgress]:
        ended = False
        for line in self._lines(call):
            step = progress_of(line)
            if step.type == "error" and step.problem is not None:
                raise error_of(step.problem.model_dump())
            ended = step.type == "done"
            yield step
        if not ended:
            raise unavailable(self.url, "it went away during a sync")
