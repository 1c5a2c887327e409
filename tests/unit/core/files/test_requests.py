"""How many requests a client of S3 has under way at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pyarrow as pa
import pytest

from lodestone.files.filesystems import FileSystems, allow_requests
from lodestone.files.urls import Url

TOGETHER = 40  # more than the 25 that a client has by itself
_PATIENCE_S = 180.0


@pytest.fixture
def url() -> Iterator[str]:
    """A bucket that answers only when so many requests are there at once."""
    barrier = threading.Barrier(TOGETHER)

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            barrier.wait(_PATIENCE_S)
            self.send_response(200)
            for name, value in (("Content-Length", "10"), ("ETag", '"x"'), ("Last-Modified", "Mon, 23 Nov 2026 12:00:00 GMT")):
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    class Server(ThreadingHTTPServer):
        request_queue_size = 4 * TOGETHER
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"s3://bucket/?endpoint_override=127.0.0.1:{server.server_port}&scheme=http&region=us-east-1&anonymous=true"
        server.shutdown()
        thread.join()


def test_as_many_requests_are_under_way_as_were_allowed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    before = pa.io_thread_count()
    try:
        allow_requests(TOGETHER)
        assert pa.io_thread_count() == max(before, TOGETHER)
        allow_requests(1)
        assert pa.io_thread_count() == max(before, TOGETHER)
        files = FileSystems()

        def size(number: int) -> int:
            system, path = files.at(Url.stored(url).join(f"{number}.jpg"))
            with system.open_input_file(path) as file:
                return int(file.size())

        with ThreadPoolExecutor(TOGETHER) as pool:
            assert list(pool.map(size, range(TOGETHER))) == [10] * TOGETHER
    finally:
        pa.set_io_thread_count(before)
