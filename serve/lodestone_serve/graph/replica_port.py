"""Ray Serve's gRPC port of a replica, kept on this machine's loopback interface."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def keep_replica_on_loopback() -> None:
    """Have Serve open this replica's own gRPC port on loopback; to be called in the replica before it is ready.

    Ray 2.60 opens that port on every network card, asks there for no token, and unpickles what comes in: whoever reaches it
    runs code as this user. It has no setting. Where a later Ray has no such function, the replica fails instead of opening it.
    """
    replica: Any = importlib.import_module("ray.serve._private.replica")
    add_port: Callable[[Any, str], int] = replica.add_port_to_grpc_server

    def on_loopback(server: Any, address: str) -> int:  # noqa: ANN401 - one of gRPC's or Ray's servers
        return add_port(server, address.replace("[::]", "127.0.0.1"))

    if add_port.__name__ != on_loopback.__name__:
        replica.add_port_to_grpc_server = on_loopback
