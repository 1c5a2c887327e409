"""The server adapter names a server that is away or too old, and loses no acknowledged point when one dies."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import grpc
import pytest
from tests.support.points import make_points
from tests.support.qdrant_server import _start, run_qdrant

from lodestone.errors import ConfigurationError, InvalidRequestError, OutOfSpaceError, StoreError, UnknownNameError
from lodestone.store.factory import open_store
from lodestone.store.server.engine import as_lodestone_error, is_transient
from lodestone_schemas.collections import CollectionSpec


class OldServer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b'{"title": "qdrant", "version": "1.9.2"}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_) -> None:
        pass


class RpcFailure(grpc.RpcError, grpc.Call):
    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        self._code, self._details = code, details

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details


RpcFailure.__abstractmethods__ = frozenset()


@pytest.mark.parametrize("prefer_grpc", [True, False])
def test_an_unreachable_server_is_named_with_what_to_check(prefer_grpc: bool) -> None:
    with pytest.raises(StoreError, match=r"http://127\.0\.0\.1:9 does not answer") as caught:
        open_store("server", url="http://127.0.0.1:9", grpc_port=9, prefer_grpc=prefer_grpc, timeout=2)
    assert "grpc_port" in caught.value.hint


def test_a_server_that_is_too_old_is_refused() -> None:
    server = HTTPServer(("127.0.0.1", 0), OldServer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        with pytest.raises(StoreError, match=r"1\.9\.2; Lodestone needs 1\.12"):
            open_store("server", url=f"http://127.0.0.1:{server.server_port}", prefer_grpc=False)
    finally:
        server.shutdown()
        server.server_close()


def test_only_failures_that_may_pass_are_repeated() -> None:
    assert is_transient(RpcFailure(grpc.StatusCode.UNAVAILABLE, ""))
    assert is_transient(RpcFailure(grpc.StatusCode.DEADLINE_EXCEEDED, ""))
    assert not is_transient(RpcFailure(grpc.StatusCode.INVALID_ARGUMENT, ""))
    assert not is_transient(ValueError())


def test_a_full_disk_of_the_server_and_a_refused_key_are_told_as_such() -> None:
    full = RpcFailure(grpc.StatusCode.INTERNAL, "No space left on device: WAL buffer size exceeds available disk space")
    assert isinstance(as_lodestone_error(full, doing="writing", url="http://q"), OutOfSpaceError)
    refused = as_lodestone_error(RpcFailure(grpc.StatusCode.UNAUTHENTICATED, "no"), doing="writing", url="http://q")
    assert "API key" in refused.message


@pytest.mark.server
@pytest.mark.chaos
def test_a_server_killed_between_writes_comes_back_with_every_acknowledged_point(qdrant_binary: Path, tmp_path: Path) -> None:
    with run_qdrant(qdrant_binary, tmp_path) as server:
        store = open_store("server", url=server.url, grpc_port=server.grpc_port)
        store.create(CollectionSpec("pictures-1", 16))
        store.upsert("pictures-1", make_points(1_000, 16))
        server.process.kill()
        server.process.wait()
        port = int(server.url.rsplit(":", 1)[1])
        back = threading.Timer(
            0.3, lambda: restarted.append(_start(qdrant_binary, tmp_path, http_port=port, grpc_port=server.grpc_port))
        )
        restarted: list = []
        back.start()
        try:
            # Sent while nobody listens: repeated until the server is back.
            store.upsert("pictures-1", make_points(10, 16, first=1_000))
            assert store.count("pictures-1") == 1_010
            store.close()
        finally:
            back.join()
            restarted[0].kill()
            restarted[0].wait()


def test_the_factory_names_the_kinds_it_knows_and_what_is_missing() -> None:
    with pytest.raises(UnknownNameError, match="unknown store 'faiss'") as caught:
        open_store("faiss")
    assert caught.value.hint == "known: edge, server"
    with pytest.raises(ConfigurationError, match="directory"):
        open_store("edge")
    with pytest.raises(ConfigurationError, match="url"):
        open_store("server")
    assert issubclass(UnknownNameError, InvalidRequestError)
