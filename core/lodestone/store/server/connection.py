"""Connection to a Qdrant server or cluster, whose calls are repeated while it is away and fail as `StoreError`."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar, cast

from qdrant_client import QdrantClient, models
from tenacity import RetryCallState, Retrying, retry_if_exception, wait_exponential, wait_random_exponential

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

# Seconds for which a read is repeated while no node answers, and shortest and longest wait between two tries.
READ_PATIENCE = 1.5
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.2, 5.0
_SEPARATOR = "."  # no namespace contains it, so no prefix is the beginning of another
# Half of a wait is drawn at random, so that writers which were refused together do not come back together.
_BACKOFF = wait_exponential(multiplier=FIRST_WAIT_SECONDS / 2, max=LONGEST_WAIT_SECONDS / 2) + wait_random_exponential(
    multiplier=FIRST_WAIT_SECONDS / 2, max=LONGEST_WAIT_SECONDS / 2
)
_T = TypeVar("_T")


class CollectionExistsError(StoreError):
    """The collection to be created already exists. Raised only inside the store."""


class ServerConnection:
    """Client of the server at `url`, or of several nodes of a cluster, after a check that its version is supported.

    Args:
        url: URL of its HTTP port, or URLs of several nodes of a cluster.
        api_key: API key, if the server requires one.
        prefer_grpc: Use gRPC.
        grpc_port: Port of gRPC; one for all nodes, or one each.
        timeout: Seconds of one call.
        patience: Seconds that a write is repeated while the server is away or busy.
        namespace: Prefix of every name on the server; names without it are ignored.

    Attributes:
        client: Client for the methods passed to `call`; in a cluster, each call goes to a node that answers.
        patience: Seconds that a write is repeated, as given.
        version: Version of the server, e.g. `1.16.3`.

    Raises:
        ConfigurationError: There is no url, or the number of ports does not match.
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
        """Make an idempotent call, and repeat it while the server is away or busy.

        Args:
            doing: Description of the call, for error messages.
            method: The call.
            name: Collection of the call, without the namespace.
            patience: Seconds that the call is repeated. In a cluster, each node is tried once even if this time has passed.
            outlast: Wait longer than that for a busy server that says how long to wait.

        Raises:
            UnknownNameError: There is no collection of that `name`.
            CollectionExistsError: The collection to be created exists.
            OutOfSpaceError: The server's disk is full.
            StoreError: The call failed in any other way.
        """
        self._require_open()
        patient = patience > 0 and getattr(self._own, "patient", False)
        deadline = time.monotonic() + (self.patience if patient else patience)

        def is_over(state: RetryCallState) -> bool:
            requested_wait = wait_asked_for(_error_of(state))
            if requested_wait and (outlast or patient):
                return False  # the server answers, and says when to try again
            if requested_wait is not None:  # a node answered and can be called again, so the other nodes need not be tried
                return time.monotonic() + requested_wait >= deadline
            return state.attempt_number >= len(self._nodes) and time.monotonic() >= deadline

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
        """Give this thread's calls inside the block the patience of writes."""
        previous, self._own.patient = getattr(self._own, "patient", False), True
        try:
            yield
        finally:
            self._own.patient = previous

    def write(self, doing: str, method: Callable[[], _T], *, name: str | None = None) -> _T:
        """Make an idempotent call with the patience of writes."""
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
        """Return the names of all collections in the namespace, without its prefix, sorted."""
        response = self.call("listing collections", self.client.get_collections)
        return sorted(
            self.without_namespace(collection.name) for collection in response.collections if self.owns(collection.name)
        )

    def aliases(self) -> dict[str, str]:
        """Return the aliases in the namespace with their collections, both without its prefix."""
        response = self.call("listing aliases", self.client.get_aliases)
        return {
            self.without_namespace(alias.alias_name): self.without_namespace(alias.collection_name)
            for alias in response.aliases
            if self.owns(alias.alias_name)
        }

    def at(self, name: str) -> str:
        """Return the server's name of one of our collections or aliases."""
        return self._prefix + name

    def owns(self, server_name: str) -> bool:
        """Return True if a name on the server belongs to the namespace."""
        return server_name.startswith(self._prefix)

    def without_namespace(self, server_name: str) -> str:
        """Return our name of a collection or alias on the server."""
        return server_name.removeprefix(self._prefix)

    def state(self, name: str) -> models.CollectionInfo:
        """Return the server's description of a collection; raise `UnknownNameError` if there is none."""
        return self.call("reading a collection's state", partial(self.client.get_collection, self.at(name)), name=name)

    def telemetry(self) -> list[dict[str, Any]]:
        """Return what each node tells of itself and its segments, without those that do not answer or refuse it."""
        self._require_open()
        return self._nodes.telemetry()

    def close(self) -> None:
        """Close the connections to all nodes. Idempotent."""
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
        """Return the seconds before the next try.

        It is 0 if another node can be tried at once; otherwise a growing backoff with jitter, or longer if a busy server asks
        for it.
        """
        requested_wait = wait_asked_for(_error_of(state))
        if requested_wait is None and self._nodes.one_is_left and state.attempt_number <= len(self._nodes):
            return 0.0
        backoff = _BACKOFF(state)
        return max(requested_wait + random.uniform(0, backoff), backoff) if requested_wait else backoff  # noqa: S311

    def _supported_version(self) -> str:
        version = str(self.call("asking for the version", self.client.info).version)
        if version_of(version) < OLDEST_SERVER:
            oldest = ".".join(map(str, OLDEST_SERVER))
            raise StoreError(
                f"Qdrant at {self._url} is version {version}; Lodestone needs {oldest} or later", hint="upgrade the server"
            )
        self.collections()  # the version needs no key, this call does
        return version


def _error_of(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None
