"""Picture services on this machine: real HTTP servers that draw with Pillow and misbehave on demand.

One server speaks all the protocols that Lodestone knows (OpenAI, Imagen, Replicate, the custom one) and says what it was asked.
`server.mode` chooses what comes instead of a good answer; it may be changed at any time.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import socket
import threading
import time
from dataclasses import dataclass, field
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from PIL import Image, ImageDraw
from tests.support.pictures import huge_png_bytes

MODES = (
    "good", "slow", "hang", "error", "error_page", "empty", "html", "not_json", "no_pictures", "wrong_shape", "wrong_size",
    "thin", "huge", "huge_unannounced", "truncated", "text_picture", "blank", "bomb", "not_base64", "reset", "gzip", "busy",
    "quota", "redirect", "denied", "declined", "deep",
)  # fmt: skip
GIGABYTE = 2**30
_SMALLEST = 16


def drawing(prompt: str, seed: int, size: int, *, height: int | None = None) -> Image.Image:
    """The picture that belongs to a prompt and a seed: shapes on a background."""
    dice = hashlib.blake2b(f"{prompt} {seed}".encode(), digest_size=24).digest()
    image = Image.new("RGB", (size, height or size), tuple(dice[:3]))
    pen = ImageDraw.Draw(image)
    for one in range(3, 18, 5):
        x, y, radius = dice[one] * size // 256, dice[one + 1] * size // 256, size // 8 + dice[one + 2] * size // 1024
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=tuple(255 - value for value in dice[one : one + 3]))
    return image


def png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def form(content: bytes, kind: str) -> dict[str, Any]:
    """The fields of a multipart form: texts, numbers where they are some, and files as bytes."""
    whole = message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + content)
    fields: dict[str, Any] = {}
    for part in whole.get_payload():
        value = part.get_payload(decode=True)
        name = part.get_param("name", header="content-disposition")
        fields[name] = value if part.get_filename() else value.decode()
    return {name: int(value) if isinstance(value, str) and value.isdecimal() else value for name, value in fields.items()}


@dataclass
class Asked:
    """One request, and what became of it."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any
    started: float = field(default_factory=time.monotonic)
    ended: float = 0.0
    abandoned: bool = False  # the client hung up before the answer


class ImageServer:
    """Use as a context manager. `delay` seconds before each answer in mode `slow`; `retry_after` seconds in mode `busy`."""

    def __init__(self, *, mode: str = "good", delay: float = 0.0, reply_with: str = "base64") -> None:
        self.mode = mode
        self.delay = delay
        self.retry_after = 1
        self.reply_with = reply_with  # base64, url, or an address to name instead of an own one
        self.polls = 0  # Replicate: how often a prediction is still running
        self.redirect_to = "/elsewhere"
        self.asked: list[Asked] = []
        self.bytes_sent = 0
        self.running = self.most_running = 0
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._files: dict[str, bytes] = {}
        self._predictions: dict[str, tuple[int, dict[str, Any]]] = {}
        owner = self

        class Handler(_Handler):
            server_of_images = owner

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def drawn(self) -> list[Asked]:
        """Requests for pictures: no downloads, no polls."""
        return [one for one in self.asked if one.method == "POST"]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    # -- what the handler asks -------------------------------------------------------------------------------------------------

    def pictures(self, prompt: str, seed: int, size: int, n: int) -> list[str]:
        """Base64 or addresses of the pictures of a good answer; some modes spoil the pictures alone."""
        sent = []
        for number in range(n):
            data = self._picture(prompt, seed + number, size)
            if self.mode == "not_base64":
                sent.append("this is no base64!")
            elif self.reply_with == "base64":
                sent.append(base64.b64encode(data).decode())
            elif self.reply_with == "url":
                name = hashlib.blake2b(data, digest_size=8).hexdigest()
                self._files[name] = data
                sent.append(f"{self.url}/files/{name}")
            else:
                sent.append(self.reply_with)
        return sent

    def _picture(self, prompt: str, seed: int, size: int) -> bytes:
        size = max(size, _SMALLEST)
        if self.mode == "wrong_size":
            return png(drawing(prompt, seed, 2 * size, height=size))
        if self.mode == "thin":
            return png(drawing(prompt, seed, 40 * size, height=size))
        if self.mode == "text_picture":
            return b"I am no picture at all, but a text. " * 10
        if self.mode == "blank":
            return png(Image.new("RGB", (size, size)))
        if self.mode == "bomb":
            return huge_png_bytes()
        whole = png(drawing(prompt, seed, size))
        return whole[: len(whole) // 2] if self.mode == "truncated" else whole


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_of_images: ImageServer

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        content, kind = self.rfile.read(length), self.headers.get("content-type", "")
        self._handle(form(content, kind) if kind.startswith("multipart/") else json.loads(content or b"null"))

    def do_GET(self) -> None:
        self._handle(None)

    def _handle(self, body: Any) -> None:
        owner = self.server_of_images
        asked = Asked(self.command, self.path, {name.lower(): value for name, value in self.headers.items()}, body)
        with owner._lock:
            owner.asked.append(asked)
            owner.running += 1
            owner.most_running = max(owner.most_running, owner.running)
        try:
            self._answer(owner, asked)
        except OSError:
            asked.abandoned = True
            self.close_connection = True
        finally:
            asked.ended = time.monotonic()
            with owner._lock:
                owner.running -= 1

    def _answer(self, owner: ImageServer, asked: Asked) -> None:
        mode = owner.mode
        if mode in {"slow", "hang"} and not self._patient(owner, hangs=mode == "hang"):
            asked.abandoned = True
            self.close_connection = True
            return
        spoil = getattr(self, f"_send_{mode}", None)
        if spoil is not None:
            spoil(owner)
        elif asked.path.startswith("/files/"):
            data = owner._files.get(asked.path.removeprefix("/files/"))
            self._send(200 if data else 404, data or b"", "image/png")
        else:
            self._send_json(self._reply(owner, asked))

    def _patient(self, owner: ImageServer, *, hangs: bool) -> bool:
        """Wait as long as `owner.delay` says, now and later; False when the client hung up meanwhile."""
        start = time.monotonic()
        while (left := 3600.0 if hangs else start + owner.delay - time.monotonic()) > 0:
            if owner._closing.wait(min(0.02, left)):
                return False
            try:
                if self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b"":
                    return False
            except BlockingIOError:
                pass
        return True

    def _reply(self, owner: ImageServer, asked: Asked) -> dict[str, Any]:
        path, body = asked.path.partition("?")[0], asked.body
        if owner.mode == "no_pictures":
            return {"data": [], "images": [], "predictions": [], "status": "succeeded", "output": []}
        if owner.mode == "wrong_shape":
            return {"hello": "world", "status": 7}
        if path.endswith(("/images/generations", "/images/edits")):
            size = int(body["size"].partition("x")[0])
            name = "b64_json" if owner.reply_with == "base64" else "url"
            return {"data": [{name: one} for one in owner.pictures(body["prompt"], body.get("seed", 0), size, body["n"])]}
        if path.endswith(":predict"):
            given = body["parameters"]
            sent = owner.pictures(body["instances"][0]["prompt"], given.get("seed", 0), 256, given["sampleCount"])
            return {"predictions": [{"mimeType": "image/png", "bytesBase64Encoded": one} for one in sent]}
        if "/predictions" in path:
            return self._prediction(owner, asked)
        sent = owner.pictures(body["prompt"], body["seed"], body["size"], body["n"])
        return {"images": sent}

    def _prediction(self, owner: ImageServer, asked: Asked) -> dict[str, Any]:
        if asked.method == "POST":
            given, name = asked.body["input"], f"p{len(owner._predictions)}"
            output = owner.pictures(given["prompt"], given["seed"], given["width"], given.get("num_outputs", 1))
            owner._predictions[name] = (owner.polls, {"id": name, "status": "succeeded", "output": output})
        else:
            name = asked.path.rpartition("/")[2]
        left, done = owner._predictions[name]
        owner._predictions[name] = (left - 1, done)
        return done if left <= 0 else {"id": name, "status": "processing", "output": None}

    # -- what is sent ----------------------------------------------------------------------------------------------------------

    def _send(self, status: int, data: bytes, kind: str, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)
        self.server_of_images.bytes_sent += len(data)

    def _send_json(self, reply: object, status: int = 200, **headers: str) -> None:
        self._send(status, json.dumps(reply).encode(), "application/json", **headers)

    def _quoted_key(self) -> str:
        return f"Incorrect key: {self.headers.get('authorization')} {self.headers.get('x-goog-api-key')}"

    def _send_error(self, owner: ImageServer) -> None:
        self._send_json({"error": {"message": f"the GPU is on fire. {self._quoted_key()}"}}, 500)

    def _send_error_page(self, owner: ImageServer) -> None:
        self._send(502, b"<html><body>Bad Gateway</body></html>", "text/html")

    def _send_denied(self, owner: ImageServer) -> None:
        self._send_json({"error": {"message": self._quoted_key(), "code": "invalid_api_key"}}, 401)

    def _send_declined(self, owner: ImageServer) -> None:
        self._send_json({"error": {"message": "not these words", "code": "content_policy_violation"}}, 400)

    def _send_empty(self, owner: ImageServer) -> None:
        self._send(200, b"", "application/json")

    def _send_html(self, owner: ImageServer) -> None:
        self._send(200, b"<!doctype html><title>Sign in</title><p>Please sign in.</p>", "text/html; charset=utf-8")

    def _send_not_json(self, owner: ImageServer) -> None:
        self._send(200, b'{"images": ["abc', "application/json")

    def _send_deep(self, owner: ImageServer) -> None:
        self._send(200, b"[" * 200_000, "application/json")

    def _send_gzip(self, owner: ImageServer) -> None:
        self._send(200, b"\x1f\x8b" + b"\0" * 100, "application/json", Content_Encoding="gzip")

    def _send_busy(self, owner: ImageServer) -> None:
        self._send_json({"error": "later"}, 429, Retry_After=str(owner.retry_after))
        if owner.retry_after == 0:
            owner.mode = "good"

    def _send_quota(self, owner: ImageServer) -> None:
        self._send_json({"error": "no more for you"}, 429)

    def _send_redirect(self, owner: ImageServer) -> None:
        self._send(302, b"", "text/plain", Location=owner.redirect_to)

    def _send_reset(self, owner: ImageServer) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
        self.wfile.flush()
        self.close_connection = True

    def _send_huge(self, owner: ImageServer) -> None:
        self._stream(owner, b"A", announced=True)

    def _send_huge_unannounced(self, owner: ImageServer) -> None:
        self._stream(owner, b"A", announced=False)

    def _stream(self, owner: ImageServer, filler: bytes, *, announced: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length" if announced else "X-Nothing", str(GIGABYTE))
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        piece = filler * 2**20
        for _ in range(GIGABYTE // len(piece)):
            self.wfile.write(piece)
            owner.bytes_sent += len(piece)
