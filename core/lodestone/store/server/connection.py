"""How are calls made to a Qdrant server or cluster: repeated when it is away for a moment, failing as `StoreError`?"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar, cast

from qdrant_client import QdrantClient, models
from tenacity import RetryCallState, Retrying, retry_if_exception, wait_exponential, wait_random

from lodestone.errors import ConfigurationError, StoreError, UnknownNameError
from lodestone.store.base import PointBatch
from lodestone.store.checks import check_namespace
from lodestone.store.server.engine import (
    CLIENT_ERRORS,
    OLDEST_SERVER,
    as_lodestone_error,
    dense_batch,
    is_missing,
    is_present_already,
    is_transient,
    version_of,
    wait_asked_for,
)
from lodestone.store.server.messages import upsert_message
from lodestone.store.server.nodes import Nodes

# Seconds that a question is repeated for while nobody answers, and longest and shortest wait between two tries.
READ_PATIENCE = 1.5
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.2, 5.0
_SEPARATOR = "."  # no namespace has it, so none is the beginning of another
_BACKOFF = wait_exponential(multiplier=FIRST_WAIT_SECONDS, max=LONGEST_WAIT_SECONDS) + wait_random(0, FIRST_WAIT_SECONDS)
_T = TypeVar("_T")


class CollectionExistsError(StoreError):
    """The collection that was to be created is there already. Seen inside the store only."""


class ServerConnection:
    """A client of the server at `url`, or of a cluster of several, of a version that Lodestone works with.

    Args:
        url: Of its HTTP port; of a cluster, those of several nodes.
        api_key: If the server asks for one.
        prefer_grpc: Use gRPC.
        grpc_port: Where gRPC listens, on every node or on each.
        timeout: Seconds of one call.
        patience: Seconds that a write is repeated while the server is away or busy.
        namespace: In front of every name on the server; names without it do not exist for us.

    Attributes:
        client: For the calls handed to `call`: of a cluster, each goes to a node that answers.
        patience: As given.
        version: Of the server, e.g. `1.16.3`.

    Raises:
        ConfigurationError: There is no url, or another number of ports.
        StoreError: The server does not answer, or is too old.
    """

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        api_key: str | None,
        prefer_grpc: bool,
        grpc_port: int | Sequence[int],
        timeout: float,
        patience: float,
        namespace: str = "",
    ) -> None:
        urls = [url] if isinstance(url, str) else list(url)
        ports = [grpc_port] * len(urls) if isinstance(grpc_port, int) else list(grpc_port)
        if not urls or len(ports) not in (1, len(urls)):
            raise ConfigurationError(
                f"{len(urls)} urls of Qdrant have {len(ports)} gRPC ports", hint="give store.grpc_port once, or once a url"
            )
        self.patience = patience
        self._prefer_grpc = prefer_grpc
        self._url = ", ".join(urls)
        self._prefix = f"{check_namespace(namespace)}{_SEPARATOR}" if namespace else ""
        self._closed = threading.Event()
        self._own = threading.local()
        self._nodes = Nodes(
            urls,
            ports if len(ports) == len(urls) else ports * len(urls),
            api_key=api_key,
            prefer_grpc=prefer_grpc,
            timeout=timeout,
        )
        self.client = cast("QdrantClient", self._nodes)
        try:
            self.version = self._supported_version()
        except BaseException:
            self.close()
            raise

    def call(
        self,
        doing: str,
        method: Callable[[], _T],
        *,
        name: str | None = None,
        patience: float = READ_PATIENCE,
        outlast: bool = False,
    ) -> _T:
        """Make an idempotent call.

        Args:
            doing: What it does, for the message of an error.
            method: The call.
            name: The collection it is about, without the namespace.
            patience: Seconds that it is repeated while the server is away or busy; of several nodes that are away
                each is asked once whatever it is.
            outlast: A server that is busy and says for how long is waited for beyond that.

        Raises:
            UnknownNameError: There is no collection of that `name`.
            CollectionExistsError: There is one that should be created.
            OutOfSpaceError: The server's disk is full.
            StoreError: Anything else.
        """
        self._require_open()
        patient = patience > 0 and getattr(self._own, "patient", False)
        until = time.monotonic() + (self.patience if patient else patience)

        def is_over(state: RetryCallState) -> bool:
            asked = wait_asked_for(_error_of(state))
            if asked and (outlast or patient):
                return False  # it is there, and says when it has room again
            if asked is not None:  # by a node that is there and may be asked again: the others need not be looked for
                return time.monotonic() + asked >= until
            return state.attempt_number >= len(self._nodes) and time.monotonic() >= until

        retrying = Retrying(
            retry=retry_if_exception(is_transient), stop=is_over, wait=self._pause, sleep=self._sleep, reraise=True
        )
        try:
            return retrying(method)
        except CLIENT_ERRORS as error:
            if name is not None and is_missing(error):
                raise UnknownNameError.among("collection", name, self.collections()) from error
            if is_present_already(error):
                raise CollectionExistsError(doing) from error
            raise as_lodestone_error(error, doing=doing, url=self._url) from error

    @contextmanager
    def patient(self) -> Iterator[None]:
        """Calls of this thread inside the block have the patience of writes."""
        before, self._own.patient = getattr(self._own, "patient", False), True
        try:
            yield
        finally:
            self._own.patient = before

    def write(self, doing: str, method: Callable[[], _T], *, name: str | None = None) -> _T:
        """`call` with the patience of writes."""
        return self.call(doing, method, name=name, patience=self.patience, outlast=True)

    def upsert(self, name: str, points: PointBatch, *, ordering: models.WriteOrdering | None) -> None:
        """Insert or replace points, durably."""
        send: Callable[[], object]
        if self._prefer_grpc:
            send = partial(self._nodes.upsert_message, upsert_message(self.at(name), points, ordering=ordering))
        else:
            send = partial(self.client.upsert, self.at(name), dense_batch(points), wait=True, ordering=ordering)
        self.write("writing points", send, name=name)

    def collections(self) -> list[str]:
        """Names of all collections of the namespace, without it, sorted."""
        found = self.call("listing collections", self.client.get_collections)
        return sorted(self.without_namespace(collection.name) for collection in found.collections if self.owns(collection.name))

    def aliases(self) -> dict[str, str]:
        """Aliases of the namespace with their collections, both without it."""
        found = self.call("listing aliases", self.client.get_aliases)
        return {
            self.without_namespace(alias.alias_name): self.without_namespace(alias.collection_name)
            for alias in found.aliases
            if self.owns(alias.alias_name)
        }

    def at(self, name: str) -> str:
        """What a collection or alias of ours is called on the server."""
        return self._prefix + name

    def owns(self, server_name: str) -> bool:
        """Whether a name on the server is of the namespace."""
        return server_name.startswith(self._prefix)

    def without_namespace(self, server_name: str) -> str:
        """What we call a collection or alias of the server's."""
        return server_name.removeprefix(self._prefix)

    def state(self, name: str) -> models.CollectionInfo:
        """The server's account of a collection; raises `UnknownNameError` when there is none."""
        return self.call("reading a collection's state", partial(self.client.get_collection, self.at(name)), name=name)

    def close(self) -> None:
        """Let the connection go. Idempotent."""
        if not self._closed.is_set():
            self._closed.set()
            self._nodes.close()

    def _require_open(self) -> None:
        if self._closed.is_set():
            raise StoreError(f"the connection to {self._url} was closed", hint="open the store again")

    def _sleep(self, seconds: float) -> None:
        self._closed.wait(seconds)
        self._require_open()

    def _pause(self, state: RetryCallState) -> float:
        """Seconds before the next try: none where another node can be asked, what a busy server asks for, or more each time."""
        asked = wait_asked_for(_error_of(state))
        if asked is None and self._nodes.one_is_left and state.attempt_number <= len(self._nodes):
            return 0.0
        return max(asked or 0.0, _BACKOFF(state))

    def _supported_version(self) -> str:
        version = str(self.call("asking for the version", self.client.info).version)
        if version_of(version) < OLDEST_SERVER:
            oldest = ".".join(map(str, OLDEST_SERVER))
            raise StoreError(
                f"Qdrant at {self._url} is version {version}; Lodestone needs {oldest} or later", hint="upgrade the server"
            )
        self.collections()  # the version is told to everybody, this only to those who have the key
        return version


def _error_of(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None
