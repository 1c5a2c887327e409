"""A service that misbehaves as it is told: answers over real sockets, one scene a request, and what it was asked."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

Piece = bytes | float
"""What is sent, or seconds to pause before the next piece."""


@dataclass(frozen=True)
class Asked:
    """One request as it arrived. Names of headers are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, object]:
        return json.loads(self.body)


@dataclass
class Scripted:
    """A server on loopback; the scenes are played in order, and the last one for ever."""

    url: str
    scenes: list[Sequence[Piece]]
    asked: list[Asked] = field(default_factory=list)
    left: threading.Event = field(default_factory=threading.Event)  # set when a client went away during a scene


def answer(status: int = 200, content: bytes = b"{}", *, kind: str = "application/json", **headers: str) -> bytes:
    """A whole answer, after which the connection closes."""
    return head(status, kind=kind, **{"Content-Length": str(len(content)), **headers}) + content


def head(status: int = 200, *, kind: str = "application/json", **headers: str) -> bytes:
    """The beginning of an answer, its content up to the closing of the connection or as a length says."""
    told = {"Content-Type": kind, "Connection": "close", **{name.replace("_", "-"): text for name, text in headers.items()}}
    return f"HTTP/1.1 {status} Scripted\r\n".encode() + b"".join(f"{n}: {v}\r\n".encode() for n, v in told.items()) + b"\r\n"


def problem(status: int, code: str, detail: str = "scripted", **members: object) -> bytes:
    """Problem details; `retry_after` becomes a header."""
    headers = {"Retry-After": str(members.pop("retry_after"))} if "retry_after" in members else {}
    content = json.dumps({"title": "Scripted", "status": status, "code": code, "detail": detail, **members}).encode()
    return answer(status, content, kind="application/problem+json", **headers)


def events(*told: tuple[str, object]) -> bytes:
    """Server-sent events: (id, message)."""
    return b"".join(f"id: {number}\ndata: {json.dumps(message)}\n\n".encode() for number, message in told)


@contextmanager
def scripted(*scenes: bytes | Sequence[Piece]) -> Iterator[Scripted]:
    """Play `scenes`; b"" closes the connection without a word."""
    listener = socket.create_server(("127.0.0.1", 0))
    told = [[scene] if isinstance(scene, bytes) else list(scene) for scene in scenes]
    server = Scripted(f"http://127.0.0.1:{listener.getsockname()[1]}", told)
    thread = threading.Thread(target=_serve, args=(listener, server), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


def _serve(listener: socket.socket, server: Scripted) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_play, args=(connection, server), daemon=True).start()


def _play(connection: socket.socket, server: Scripted) -> None:
    with connection, connection.makefile("rb") as incoming, suppress(OSError):
        asked = _read(incoming)
        if asked is None:
            return
        number = len(server.asked)
        server.asked.append(asked)
        for piece in server.scenes[min(number, len(server.scenes) - 1)]:
            if isinstance(piece, bytes):
                try:
                    connection.sendall(piece)
                except OSError:
                    server.left.set()
                    return
            else:
                connection.settimeout(piece)
                try:
                    if connection.recv(1) == b"":
                        server.left.set()
                        return
                except TimeoutError:
                    connection.settimeout(None)
                else:
                    time.sleep(piece)


def _read(incoming) -> Asked | None:
    method, _, rest = incoming.readline().decode().partition(" ")
    if not rest:
        return None
    headers = {}
    while line := incoming.readline().decode().strip():
        name, _, text = line.partition(":")
        headers[name.lower()] = text.strip()
    body = incoming.read(int(headers.get("content-length", 0)))
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        while size := int(incoming.readline(), 16):
            body += incoming.read(size)
            incoming.readline()
        incoming.readline()
    return Asked(method, rest.split(" ")[0], headers, body)
