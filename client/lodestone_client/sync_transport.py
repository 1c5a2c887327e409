# Made of async_transport.py by `python -m scripts.sync_client`: change that one.
"""Transport for ordinary code over httpx: sends calls and reads their answers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self, TypeVar

import httpx

from lodestone_client.call import NDJSON, Answer, Call, LineSplitter
from lodestone_client.checks import check_kind, check_progress
from lodestone_client.connection import Connection
from lodestone_client.notebook import NotebookDisplay
from lodestone_client.problems import FailedResponse, broken, foreign, refused, unavailable
from lodestone_client.reading import Reading
from lodestone_client.retrying import RetryState
from lodestone_client.server_sent_events import EventDecoder
from lodestone_schemas.api import Event

T = TypeVar("T")

_ENDED = 204  # a stream whose last event came already


class Transport:
    """Sends calls. Safe to use from several threads; a context manager that closes its connections."""

    def __init__(self, connection: Connection, *, transport: httpx.BaseTransport | None = None) -> None:
        self._connection = connection
        self._display = NotebookDisplay(connection, transport)
        self._http = httpx.Client(
            base_url=connection.url,
            headers=dict(connection.headers),
            verify=connection.tls,
            trust_env=connection.proxies,
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._connection.url!r})"

    @property
    def url(self) -> str:
        """Return the address of the service."""
        return self._connection.url

    def close(self) -> None:
        """Close the connections to the service."""
        self._http.close()

    def _run(self, call: Call[T]) -> T:
        """Return the answer to `call`, sent as often as its retry rule and the time allow.

        Raises:
            LodestoneError: what the service's problem says, as its own class.
            ServiceUnavailableError: nobody answers, or somebody else does.
        """
        policy, patience = self._connection.policy, RetryState.of(call, self._connection.timeout_s)
        failures = 0
        while True:
            try:
                return self._once(call, patience)
            except FailedResponse as failed:
                failures += 1
                pause = policy.pause(failed, failures)
                if not policy.again(call, failed, failures) or not patience.allows(pause):
                    raise failed.error from failed
                time.sleep(pause)

    def _once(self, call: Call[T], patience: RetryState) -> T:
        with self._opened(call, patience, patience.left) as answer:
            content = bytearray()
            for chunk in answer.iter_bytes():
                content += chunk
                check_progress(len(content), patience, self.url)
            try:
                return self._display.attached(call.read(Answer(bytes(content), answer.headers)))
            except ValueError as error:
                raise foreign(answer, self.url, str(error)) from error

    def _events(self, reading: Reading) -> Iterator[Event]:
        """Yield a query's events, and resume them after a broken connection. Closing the iterator stops the query."""
        policy, patience = self._connection.policy, RetryState.of(reading.call(), self._connection.timeout_s)
        failures = 0
        while not reading.ended:
            call = reading.call()
            try:
                with self._opened(call, patience, self._between_events(patience)) as answer:
                    if answer.status_code == _ENDED:
                        return
                    check_kind(answer, "text/event-stream", self.url)
                    decoder = EventDecoder()
                    for chunk in answer.iter_bytes():
                        for message in decoder.feed(chunk):
                            event = reading.take(message.data, message.id) if message.data else None
                            if event is not None:
                                failures = 0
                                yield self._display.attached(event)
                if not reading.ended:
                    raise FailedResponse(unavailable(self.url, "it went away in the middle of an answer"))
            except FailedResponse as failed:
                failures += 1
                pause = policy.pause(failed, failures)
                anew = failures < policy.attempts and reading.forgotten(failed)
                if not (anew or policy.again(call, failed, failures)) or not patience.allows(pause):
                    raise failed.error from failed
                time.sleep(pause)

    def _lines(self, call: Call[Any]) -> Iterator[bytes]:
        """Yield the lines of an answer in JSON lines as they arrive. The call is sent again only while no line has arrived."""
        patience = RetryState.of(call, self._connection.timeout_s)
        failures, begun = 0, False
        while True:
            try:
                with self._opened(call, patience, None if call.endless else self._between_events(patience)) as answer:
                    check_kind(answer, NDJSON, self.url)
                    splitter = LineSplitter()
                    for chunk in answer.iter_bytes():
                        for line in splitter.feed(chunk):
                            begun = True
                            yield line
                    if splitter.cut:
                        raise FailedResponse(unavailable(self.url, "it went away in the middle of a line"))
                return
            except FailedResponse as failed:
                failures += 1
                pause = self._connection.policy.pause(failed, failures)
                if begun or not self._connection.policy.again(call, failed, failures) or not patience.allows(pause):
                    raise failed.error from failed
                time.sleep(pause)

    def _between_events(self, patience: RetryState) -> float:
        return max(self._connection.timeout_s, patience.seconds or 0.0)

    @contextmanager
    def _opened(self, call: Call[Any], patience: RetryState, seconds: float | None) -> Iterator[httpx.Response]:
        """Yield a successful response whose content is not read yet; reading it may raise `FailedResponse`."""
        timeout = self._connection.timeout(seconds)
        request = self._http.build_request(call.method, call.path, timeout=timeout, **call.arguments(patience.left_ms()))
        try:
            answer = self._http.send(request, stream=True)
            try:
                if not answer.is_success:
                    answer.read()
                    raise refused(answer, self.url)
                yield answer
            finally:
                answer.close()
        except httpx.HTTPError as error:
            raise broken(error, self.url) from error
