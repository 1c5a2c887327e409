"""A real S3 server on loopback (moto's), with a gate before it that fails as S3 does: denied, expired, throttled, cut, late."""

from __future__ import annotations

import logging
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

_DENIED = ("403 Forbidden", "AccessDenied", "Access Denied")
_SLOW_DOWN = ("503 Slow Down", "SlowDown", "Please reduce your request rate.")
_POLL_SECONDS = 0.05  # how long the server takes to see that it shall stop
_EXPIRED = ("400 Bad Request", "ExpiredToken", "The provided token has expired.")


@dataclass
class S3Server:
    """A running server.

    Attributes:
        client: boto3's client for it.
        requests: (method, path, query) of every request since it was emptied last.
        deny: Told (method, key) of each read of an object; true refuses it as a policy would.
        fault: Told (method, key) of each request for an object; what it returns happens to that request: `slow` refuses it with
            503 SlowDown, `reset` cuts the connection, `stall` answers seconds later, None does nothing.
        stall_seconds: How much later.
        lives: Requests that are still answered before the credentials expire; None for ever.
    """

    endpoint: str
    client: Any = None
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    deny: Callable[[str, str], bool] = lambda _method, _key: False
    fault: Callable[[str, str], str | None] = lambda _method, _key: None
    stall_seconds: float = 3.0
    lives: int | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def url(self, path: str) -> str:
        """The URL of a bucket's key on this server."""
        return f"s3://{path}?endpoint_override={self.endpoint}&scheme=http&region=us-east-1"

    def put(self, bucket: str, objects: dict[str, bytes]) -> None:
        for key, content in objects.items():
            self.client.put_object(Bucket=bucket, Key=key, Body=content)

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return [one["Key"] for page in pages for one in page.get("Contents", [])]

    def uploads(self, bucket: str) -> list[Any]:
        """Multi-part uploads that were begun and not finished."""
        return list(self.client.list_multipart_uploads(Bucket=bucket).get("Uploads", []))

    def refusal(self, environ: dict[str, Any]) -> tuple[str, str, str] | None:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        from_boto = "Boto3" in environ.get("HTTP_USER_AGENT", "")
        if from_boto:  # the test's own requests
            return None
        with self._lock:
            self.requests.append((method, path, environ.get("QUERY_STRING", "")))
            if self.lives is not None:
                self.lives -= 1
                if self.lives < 0:
                    return _EXPIRED
        key = path.strip("/").partition("/")[2]
        fault = self.fault(method, key) if key else None
        if fault == "reset":
            connection = environ["werkzeug.socket"]
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.shutdown(socket.SHUT_RDWR)
            raise ConnectionResetError  # which werkzeug takes for the client's
        if fault == "stall":
            time.sleep(self.stall_seconds)
        if fault == "slow":
            return _SLOW_DOWN
        return _DENIED if key and method in {"GET", "HEAD"} and self.deny(method, key) else None


@contextmanager
def s3_server(*buckets: str) -> Iterator[S3Server]:
    """A server with these buckets, and the environment that reaches it."""
    import boto3
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    inner = DomainDispatcherApplication(create_backend_app)
    state = S3Server("")

    def gate(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        refused = state.refusal(environ)
        if refused is None:
            return inner(environ, start_response)
        status, code, message = refused
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()
        if environ["REQUEST_METHOD"] == "HEAD":
            body = b""
        start_response(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
        return [body]

    server = make_server("127.0.0.1", 0, gate, threaded=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": _POLL_SECONDS}, daemon=True)
    thread.start()
    state.endpoint = f"127.0.0.1:{server.server_port}"
    environment = {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing-secret",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    try:
        with mock.patch.dict(os.environ, environment):
            os.environ.pop("AWS_ENDPOINT_URL", None)
            state.client = boto3.client("s3", endpoint_url=f"http://{state.endpoint}", region_name="us-east-1")
            state.client.meta.service_model  # noqa: B018 - loaded before requests are counted
            import requests

            requests.post(f"http://{state.endpoint}/moto-api/reset", timeout=10)  # one backend serves all servers of a process
            for bucket in buckets:
                state.client.create_bucket(Bucket=bucket)
            state.requests.clear()
            yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
