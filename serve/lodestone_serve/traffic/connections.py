"""HTTP protocol of one connection: headers that arrive in time, few connections for each client, and no target elsewhere.

uvicorn, which runs in Ray Serve's proxies, waits for the rest of a request's headers for as long as the connection lives, and
keeps as many connections of one client as the process may open files. It also drops the host of a target in absolute form
(`GET http://other/ HTTP/1.1`) before any application sees it. `connection_protocol` returns uvicorn's own protocol with these
gaps closed; the front of the proxies installs it. Connections are not upgraded to WebSockets either: no route speaks them, and
no guard of requests sees them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import h11

from lodestone_serve.responses.problems import PROBLEM_TYPE, problem
from lodestone_serve.responses.too_many_cookies import Page, page_for
from lodestone_serve.traffic.askers import network_of
from lodestone_serve.traffic.request_guards import TARGET

HEADERS_S: Final = 10.0
"""Seconds within which the headers of a request must arrive, from the connection's beginning or the request's first byte."""

HEADERS_BYTES: Final = 64 << 10
"""Bytes of headers after which no more are waited for; httptools itself would keep any number."""

LINGER_S: Final = 2.0
"""Seconds for which what still comes of headers that are too long is read and dropped, so that the answer is not lost."""

BODY_S: Final = 30.0
"""Seconds within which the rest of a body must arrive once its request is answered; it is read, and used for nothing."""

CONNECTIONS: Final = 512
"""Connections of one client that may be open at once, unless the setting `serve.load.connections` says otherwise."""


class OpenConnections:
    """The number of open connections of each client, for one server.

    Args:
        most: Connections of one client.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._open: Counter[str] = Counter()

    def take(self, client: str) -> bool:
        """Count one more connection; return False, and count nothing, if the client has as many as it may."""
        if self._open[client] >= self.most:
            return False
        self._open[client] += 1
        return True

    def give_back(self, client: str) -> None:
        """Count one connection less."""
        self._open[client] -= 1
        if self._open[client] <= 0:
            del self._open[client]

    def __len__(self) -> int:
        return self._open.total()


class GuardedConnection(asyncio.Protocol):
    """What is added to uvicorn's protocols. In the classes that `connection_protocol` makes, one of them is the next base."""

    open_connections: OpenConnections
    headers_s: float
    body_s: float

    # Of uvicorn's protocols.
    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop
    client: tuple[str, int] | None
    cycle: Any

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(*arguments, **options)
        self.ws_protocol_class = None  # an upgrade is not made then, and the request is answered as any other
        self._headers_due: asyncio.TimerHandle | None = None
        self._body_due: asyncio.TimerHandle | None = None  # of a request that is answered
        self._header_bytes = 0  # of a request whose headers are not complete
        self._counted_as: str | None = None
        self._refused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin a connection, or refuse it when its client has too many."""
        super().connection_made(transport)
        client = network_of(self.client[0] if self.client else "")
        if not self.open_connections.take(client):
            most = self.open_connections.most
            self._refuse(429, "overloaded", f"more than {most} connections of one client are open", "close some, and try again")
            return
        self._counted_as = client
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """End a connection, and count it no more."""
        self._headers_are_there()
        self._body_is_there()
        client, self._counted_as = self._counted_as, None
        if client is not None:
            self.open_connections.give_back(client)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes, and see whether they complete the headers of a request."""
        if self._refused:
            return
        before, in_body = self.cycle, self.expects_body()
        super().data_received(data)
        if self.cycle is not before:
            self._headers_are_there()
            self._body_is_there()
        elif self.cycle is not None and in_body:
            if not self.expects_body():
                self._body_is_there()
                if self.cycle.response_complete and self._headers_due is None:
                    self._await_headers()  # the same bytes may begin another request
            elif self.cycle.response_complete and self._body_due is None:
                # Closing at once would take the answer, which says what is wrong, from a client that is still sending.
                self._body_due = self.loop.call_later(self.body_s, self.transport.close)
        elif self.cycle is None or self.cycle.response_complete:
            if self._headers_due is None:
                self._await_headers()
            self._header_bytes += len(data)
            if self._header_bytes > HEADERS_BYTES:
                self._refuse_headers()

    def asked_page(self) -> Page | None:
        """Return the page for somebody whose browser sends headers that are too long; None where that is not known."""
        return None

    def expects_body(self) -> bool:
        """Return whether the headers of a request are there and the end of its body is not."""
        raise NotImplementedError

    def _body_is_there(self) -> None:
        if self._body_due is not None:
            self._body_due.cancel()
            self._body_due = None

    def _await_headers(self) -> None:
        self._headers_due = self.loop.call_later(self.headers_s, self._late)

    def _headers_are_there(self) -> None:
        self._header_bytes = 0
        if self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None

    def _late(self) -> None:
        self._headers_due = None
        self._refuse(408, "deadline_exceeded", f"the headers did not arrive within {self.headers_s:g} s", "send them faster")

    def _refuse(self, status: int, code: str, detail: str, hint: str) -> None:
        """Send a problem and close the connection. There is no request, so no application can answer.

        After an earlier request nothing is sent: what came may be the rest of its body, and no request at all.
        """
        if self.cycle is not None:
            self.transport.close()
            return
        self._send_problem(status, code, detail, hint)
        self.transport.close()

    def _refuse_headers(self) -> None:
        """Refuse headers that are too long, to a person by a page."""
        if self.cycle is not None:
            self.transport.close()
            return
        self._refused = True
        page = self.asked_page()
        if page is None:
            detail = f"the headers have more than {HEADERS_BYTES} bytes"
            hint = "send fewer or shorter ones; in a browser, remove the cookies of this address"
            self._send_problem(431, "bad_request", detail, hint)
        else:
            self._send("431 Request Header Fields Too Large", "text/html; charset=utf-8", page.text.encode(), page.headers)
        self.loop.call_later(LINGER_S, self.transport.close)

    def _send_problem(self, status: int, code: str, detail: str, hint: str) -> None:
        found = problem(status, code, detail, hint=hint)
        self._send(f"{status} {found.title}", PROBLEM_TYPE, found.model_dump_json().encode(), {"Retry-After": "1"})

    def _send(self, status: str, media_type: str, body: bytes, headers: Mapping[str, str]) -> None:
        own = {"Content-Type": media_type, "Content-Length": str(len(body)), "Cache-Control": "no-store", "Connection": "close"}
        lines = [f"HTTP/1.1 {status}", *(f"{name.lower()}: {value}" for name, value in {**own, **headers}.items()), "", ""]
        if not self.transport.is_closing():
            self.transport.write("\r\n".join(lines).encode() + body)


class GuardedH11(GuardedConnection):
    """What is added to uvicorn's protocol on h11."""

    conn: h11.Connection

    def expects_body(self) -> bool:
        """Return whether the headers of a request are there and the end of its body is not."""
        return self.conn.their_state is h11.SEND_BODY


class GuardedHttpTools(GuardedConnection):
    """What is added to uvicorn's protocol on httptools: the host of a target, of which httptools keeps only the path."""

    url: bytes
    headers: list[tuple[bytes, bytes]]
    scope: dict[str, Any]
    _in_body = False

    def asked_page(self) -> Page | None:
        """Return the page for somebody whose browser sends headers that are too long; None for programs."""
        return page_for(self.url or b"", self.headers or ())

    def expects_body(self) -> bool:
        """Return whether the headers of a request are there and the end of its body is not."""
        return self._in_body

    def on_message_complete(self) -> None:
        """Note the end of a request, which uvicorn does not where the answer came before it."""
        self._in_body = False
        super().on_message_complete()  # type: ignore[misc]  # of the base that follows

    def on_headers_complete(self) -> None:
        """Keep the host of a target in absolute form, for whoever checks hosts."""
        self._in_body = True
        if not self.url.startswith(b"/"):
            self.scope[TARGET] = _authority(self.url)
        super().on_headers_complete()  # type: ignore[misc]  # of the base that follows


def connection_protocol(
    *, most: int = CONNECTIONS, headers_s: float = HEADERS_S, body_s: float = BODY_S
) -> type[asyncio.Protocol]:
    """Return the class of one server's connections, which uvicorn takes as `http`.

    Args:
        most: Connections of one client that may be open at once.
        headers_s: Seconds within which headers must arrive.
        body_s: Seconds within which the rest of a body must arrive whose request is answered.
    """
    attributes = {"open_connections": OpenConnections(most), "headers_s": headers_s, "body_s": body_s}
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:  # a uvicorn without its extra `standard`; its own fallback leaves targets whole in the path
        from uvicorn.protocols.http.h11_impl import H11Protocol

        return type("GuardedH11Protocol", (GuardedH11, H11Protocol), attributes)
    return type("GuardedHttpToolsProtocol", (GuardedHttpTools, HttpToolsProtocol), attributes)


def install(*, most: int) -> None:
    """Make uvicorn use the guarded protocol for the servers that this process starts from now on, as Ray's proxies do.

    Ray Serve has no option for the class, so it is put in the place where uvicorn looks for its default.
    """
    from uvicorn.protocols.http import auto

    auto.AutoHTTPProtocol = connection_protocol(most=most)


def _authority(target: bytes) -> str:
    """Return the host and port of a target in absolute form; all of a target that is neither that nor a path."""
    scheme, found, rest = target.partition(b"://")
    if not found:
        return scheme.decode("latin-1")
    end = min((place for mark in b"/?#" if (place := rest.find(mark)) >= 0), default=len(rest))
    return rest[:end].decode("latin-1")
