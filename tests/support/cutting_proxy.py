"""A network that breaks: passes on what client and server say, and cuts connections once certain events went through."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

_READ_S = 0.5  # a browser drops what the page has not read of a connection that breaks


@dataclass
class Cutting:
    """Between a client and the service at `target`. Each of `cuts` cuts one connection: behind the event that holds it."""

    url: str
    target: str
    cuts: list[bytes]
    connections: list[socket.socket] = field(default_factory=list)


@contextmanager
def cutting_proxy(target: str, *cuts: bytes) -> Iterator[Cutting]:
    """Cut one connection after each of `cuts`, in their order; later ones are left alone."""
    listener = socket.create_server(("127.0.0.1", 0))
    proxy = Cutting(f"http://127.0.0.1:{listener.getsockname()[1]}", target, list(cuts))
    thread = threading.Thread(target=_accept, args=(listener, proxy), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        for one in (listener, *proxy.connections):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        thread.join(10)


def _accept(listener: socket.socket, proxy: Cutting) -> None:
    place = urlsplit(proxy.target)
    while True:
        try:
            client, _ = listener.accept()
            server = socket.create_connection((place.hostname, place.port))
        except OSError:
            return
        proxy.connections += [client, server]
        threading.Thread(target=_pass_on, args=(client, server, None), daemon=True).start()
        threading.Thread(target=_pass_on, args=(server, client, proxy), daemon=True).start()


def _pass_on(source: socket.socket, sink: socket.socket, proxy: Cutting | None) -> None:
    said = b""
    with suppress(OSError):
        while chunk := source.recv(1024):
            said += chunk
            end = _end_of(said, proxy)
            sink.sendall(chunk if end is None else chunk[: len(chunk) - len(said) + end])
            if end is not None:
                time.sleep(_READ_S)
                break
    for one in (source, sink):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def _end_of(said: bytes, proxy: Cutting | None) -> int | None:
    """Where to cut: after the event in which the words stand. None: not yet."""
    if proxy is None or not proxy.cuts or proxy.cuts[0] not in said:
        return None
    end = said.find(b"\n\n", said.index(proxy.cuts[0]))
    if end >= 0:
        proxy.cuts.pop(0)
    return end + 2 if end >= 0 else None
