"""Factory that opens the vector store which the settings name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lodestone.errors import ConfigurationError, UnknownNameError
from lodestone.store.aliases import AliasTable, JsonAliasTable
from lodestone.store.base import VectorStore
from lodestone.store.limits import MATRIX_POINTS
from lodestone_schemas.collections import Placement

STORE_KINDS = ("edge", "server")
ALIASES_FILE = "aliases.json"


@dataclass(frozen=True, slots=True)
class StoreServer:
    """Address of a vector store on a server, which any process on any machine can open; picklable.

    Attributes:
        url: URL of its HTTP port, or URLs of several nodes of a cluster.
        api_key: API key, if the server requires one.
        grpc_port: Port of gRPC; one for all nodes, or one each.
        timeout: Seconds of one call.
        patience: Seconds that a write is repeated while the server is away or busy.
        writers: Parallel upserts.
        placement: How new collections are spread over a cluster.
        namespace: Namespace of the home on the server.
    """

    url: str | Sequence[str]
    api_key: str | None = field(default=None, repr=False)
    grpc_port: int | Sequence[int] = 6334
    timeout: float = 30.0
    patience: float = 60.0
    writers: int = 4
    placement: Placement | None = None
    namespace: str = ""

    def open(self) -> VectorStore:
        """Open the store.

        Raises:
            StoreError: The server does not answer or is too old.
        """
        return open_store("server", **{name: getattr(self, name) for name in self.__slots__})


def open_store(
    kind: str,
    *,
    root: Path | None = None,
    aliases: AliasTable | None = None,
    lock_timeout: float = 5.0,
    owner: str = "lodestone",
    may_only_read: bool = False,
    matrix_points: int = MATRIX_POINTS,
    url: str | Sequence[str] | None = None,
    api_key: str | None = None,
    prefer_grpc: bool = True,
    grpc_port: int | Sequence[int] = 6334,
    timeout: float = 30.0,
    patience: float = 60.0,
    writers: int = 4,
    placement: Placement | None = None,
    namespace: str = "",
) -> VectorStore:
    """Open the store of a `kind`.

    Args:
        kind: `edge` (this process owns the directory `root`) or `server` (Qdrant at `url`).
        root: edge: directory of the store.
        aliases: edge: table that keeps the aliases; a JSON file under `root` by default.
        lock_timeout: edge: seconds to wait for another owner.
        owner: edge: command of this process, shown to a second opener.
        may_only_read: edge: read a store that cannot be written from a temporary copy, instead of raising an error.
        matrix_points: edge: points up to which a collection is also held as a matrix; 0 for none.
        url: server: URL of its HTTP port, or URLs of several nodes of a cluster; when one does not answer, the next is used.
        api_key: server: API key, if the server requires one.
        prefer_grpc: server: use gRPC.
        grpc_port: server: port of gRPC; one for all nodes, or one each.
        timeout: server: seconds of one call.
        patience: server: seconds that a write is repeated while the server is away or busy.
        writers: server: parallel upserts.
        placement: server: how new collections are spread over a cluster, unless their specification says otherwise.
        namespace: server: namespace of the home, which separates homes that share the server. (A directory belongs to one
            home.)

    Raises:
        UnknownNameError: `kind` is neither.
        ConfigurationError: The kind's location (`root`, `url`) is missing.
        StoreLockedError: Another process owns the embedded store.
        StoreError: The server does not answer or is too old.
    """
    if kind == "edge":
        if root is None:
            raise ConfigurationError("the embedded store needs a directory", hint="set LODESTONE_HOME")
        from lodestone.store.edge.matrix_keeper import MatrixPolicy
        from lodestone.store.edge.store import EdgeStore

        table = aliases if aliases is not None else JsonAliasTable(root / ALIASES_FILE)
        return EdgeStore(
            root,
            aliases=table,
            lock_timeout=lock_timeout,
            owner=owner,
            may_only_read=may_only_read,
            matrix=MatrixPolicy(points=matrix_points),
        )
    if kind == "server":
        if not url:
            raise ConfigurationError("the server store needs a url", hint="set store.url, e.g. http://localhost:6333")
        from lodestone.store.server.store import ServerStore

        return ServerStore(
            url,
            api_key=api_key,
            prefer_grpc=prefer_grpc,
            grpc_port=grpc_port,
            timeout=timeout,
            patience=patience,
            writers=writers,
            placement=placement,
            namespace=namespace,
        )
    raise UnknownNameError.among("store", kind, STORE_KINDS)
