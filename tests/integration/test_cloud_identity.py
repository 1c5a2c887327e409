"""Pods reach buckets by the role of a cloud, without keys: by the agent that gives it out, and a private endpoint.

The agent and the endpoint are real servers on loopback; the address of both is one that the guard on callers' URLs refuses.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from tests.support.s3_server import s3_server

from lodestone.files.filesystems import FileSystems
from lodestone.files.opening import open_area
from lodestone.files.urls import Url
from lodestone.remote.http_fetch import is_public

_ROLE_KEY = "ASIAROLEOFTHEPOD"


@contextmanager
def _agent() -> Iterator[str]:
    """The agent on a node, as EKS Pod Identity and ECS have it: it gives out the role's keys, for a while."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = json.dumps(
                {"AccessKeyId": _ROLE_KEY, "SecretAccessKey": "x" * 40, "Token": "t", "Expiration": "2099-01-01T00:00:00Z"}
            ).encode()
            self.send_response(200 if self.headers.get("Authorization") == "of the pod" else 401)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/credentials"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_buckets_are_read_written_and_listed_by_the_role_of_the_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    with s3_server("pictures") as s3, _agent() as agent:
        s3.put("pictures", {"one.jpg": b"bytes"})
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_EC2_METADATA_DISABLED"):
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", agent)
        monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "of the pod")
        signed = []
        refusal = s3.refusal

        def seen(environ: dict[str, Any]) -> tuple[str, str, str] | None:
            if "Boto3" not in environ["HTTP_USER_AGENT"]:  # which is the test's own client
                signed.append((environ["REQUEST_METHOD"], environ.get("HTTP_AUTHORIZATION", "")))
            return refusal(environ)

        monkeypatch.setattr(s3, "refusal", seen)
        area = open_area(s3.url("pictures"))
        area.write("two.jpg", b"more bytes")
        pages = FileSystems().pages(Url.typed(s3.url("pictures")))
        assert pages is not None
        entries, _ = pages.page("")

        assert not is_public("127.0.0.1")
        assert bytes(area.read("one.jpg")) == b"bytes"
        assert len(entries) == 2
        assert {method for method, _ in signed} >= {"PUT", "GET"}
        assert all(f"Credential={_ROLE_KEY}/" in header for _, header in signed), signed
