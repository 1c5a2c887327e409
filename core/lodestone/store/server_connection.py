"""How are calls made to a Qdrant server: over one client, repeated when it is away for a moment, failing as `StoreError`?"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from qdrant_client import QdrantClient, models
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential, wait_random

from lodestone.errors import StoreError, UnknownNameError
from lodestone.store.checks import check_namespace
from lodestone.store.server_engine import (
    CLIENT_ERRORS,
    OLDEST_SERVER,
    as_lodestone_error,
    is_missing,
    is_present_already,
    is_transient,
    version_of,
)

# The waits between the tries add up to about 1 s for a question and 12 s for a write, which outlasts a short restart.
READ_ATTEMPTS, WRITE_ATTEMPTS = 3, 7
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.2, 5.0
# Left alone, a channel that failed once refuses calls without trying for up to two minutes.
_CHANNEL = {"grpc.initial_reconnect_backoff_ms": 100, "grpc.max_reconnect_backoff_ms": 1_000}
_SEPARATOR = "."  # no namespace has it, so none is the beginning of another
_T = TypeVar("_T")


class CollectionExistsError(StoreError):
    """The collection that was to be created is there already. Seen inside the store only."""


class ServerConnection:
    """A client of the server at `url`, of a version that Lodestone works with.

    Args:
        url: Of its HTTP port.
        api_key: If the server asks for one.
        prefer_grpc: Use gRPC.
        grpc_port: Where gRPC listens.
        timeout: Seconds of one call.
        namespace: In front of every name on the server; names without it do not exist for us.

    Attributes:
        client: For the calls handed to `call`.
        version: Of the server, e.g. `1.16.3`.

    Raises:
        StoreError: The server does not answer, or is too old.
    """

    def __init__(
        self, url: str, *, api_key: str | None, prefer_grpc: bool, grpc_port: int, timeout: float, namespace: str = ""
    ) -> None:
        self._url = url
        self._prefix = f"{check_namespace(namespace)}{_SEPARATOR}" if namespace else ""
        self._closed = threading.Event()
        # The client warns when its minor version is more than one from the server's; the check below decides instead.
        self.client = QdrantClient(
            url=url,
            api_key=api_key,
            prefer_grpc=prefer_grpc,
            grpc_port=grpc_port,
            timeout=math.ceil(timeout),
            check_compatibility=False,
            grpc_options=dict(_CHANNEL),
        )
        try:
            self.version = self._supported_version()
        except BaseException:
            self.close()
            raise

    def call(self, doing: str, method: Callable[[], _T], *, name: str | None = None, attempts: int = READ_ATTEMPTS) -> _T:
        """Make an idempotent call.

        Args:
            doing: What it does, for the message of an error.
            method: The call.
            name: The collection it is about, without the namespace.
            attempts: How often it is tried when the server is away.

        Raises:
            UnknownNameError: There is no collection of that `name`.
            CollectionExistsError: There is one that should be created.
            OutOfSpaceError: The server's disk is full.
            StoreError: Anything else.
        """
        if self._closed.is_set():
            raise StoreError(f"{doing}: the connection to {self._url} was closed", hint="open the store again")
        retrying = Retrying(
            retry=retry_if_exception(is_transient),
            stop=stop_after_attempt(attempts),
            wait=wait_exponential(multiplier=FIRST_WAIT_SECONDS, max=LONGEST_WAIT_SECONDS) + wait_random(0, FIRST_WAIT_SECONDS),
            reraise=True,
        )
        try:
            return retrying(method)
        except CLIENT_ERRORS as error:
            if name is not None and is_missing(error):
                raise UnknownNameError.among("collection", name, self.collections()) from error
            if is_present_already(error):
                raise CollectionExistsError(doing) from error
            raise as_lodestone_error(error, doing=doing, url=self._url) from error

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
            self.client.close()

    def _supported_version(self) -> str:
        version = str(self.call("asking for the version", self.client.info, attempts=2).version)
        if version_of(version) < OLDEST_SERVER:
            oldest = ".".join(map(str, OLDEST_SERVER))
            raise StoreError(
                f"Qdrant at {self._url} is version {version}; Lodestone needs {oldest} or later", hint="upgrade the server"
            )
        return version
