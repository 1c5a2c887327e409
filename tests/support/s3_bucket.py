"""A real S3-compatible server on loopback (moto's), and what was asked of it."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest

BUCKET = "lodestone-test"
_REQUEST = re.compile(r'"(?:\x1b\[[0-9;]*m)*(?P<method>[A-Z]+) (?P<path>\S+) HTTP')


@dataclass(slots=True)
class S3Server:
    """A running server with one bucket. `requests` holds "METHOD /bucket/key" of everything that was asked."""

    endpoint: str
    requests: list[str] = field(default_factory=list)

    def url(self, key: str = "", bucket: str = BUCKET) -> str:
        """The URL of a key or prefix, for pyarrow; credentials are in the environment."""
        host = self.endpoint.removeprefix("http://")
        return f"s3://{bucket}/{key}?endpoint_override={host}&scheme=http&region=us-east-1"

    def client(self) -> Any:
        """boto3's client, as another program would use."""
        import boto3

        return boto3.client("s3", endpoint_url=self.endpoint)

    def objects(self, prefix: str = "", bucket: str = BUCKET) -> list[str]:
        """All objects below a prefix."""
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return [entry["Key"] for page in pages for entry in page.get("Contents", ())]

    def uploads(self, bucket: str = BUCKET) -> list[str]:
        """Uploads in parts that nobody finished."""
        return [entry["Key"] for entry in self.client().list_multipart_uploads(Bucket=bucket).get("Uploads", ())]


class _Recorder(logging.Handler):
    def __init__(self, server: S3Server) -> None:
        super().__init__()
        self._server = server

    def emit(self, record: logging.LogRecord) -> None:
        found = _REQUEST.search(record.getMessage())
        if found:
            self._server.requests.append(f"{found['method']} {found['path']}")


@cache
def _running() -> S3Server:
    """One server a process; its thread ends with the process."""
    from moto.server import ThreadedMotoServer

    running = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    return S3Server(f"http://{host}:{port}")


@pytest.fixture
def s3_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """A server with an empty bucket `BUCKET`; credentials for it are in the environment."""
    import httpx

    for name, value in {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    log = logging.getLogger("werkzeug")
    level, propagate = log.level, log.propagate
    server = _running()
    recorder = _Recorder(server)
    log.setLevel(logging.INFO)
    log.propagate = False
    log.addHandler(recorder)
    try:
        server.client().create_bucket(Bucket=BUCKET)
        server.requests.clear()
        yield server
    finally:
        httpx.post(f"{server.endpoint}/moto-api/reset")
        log.removeHandler(recorder)
        log.setLevel(level)
        log.propagate = propagate
