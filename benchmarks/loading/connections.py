"""HTTP client that costs a load generator little: one POST at a time on each kept connection, over plain TCP.

A full client takes more than a millisecond of a core for each request. At a hundred requests a second, on the cores of the
service, that is load that nobody wanted to measure. This one takes a tenth of it. It understands what the service answers with,
and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_KEPT: Final = 64
_HEAD_END: Final = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that was read to its end.

    Attributes:
        status: HTTP status.
        headers: Headers, names in lower case.
        content: Body.
    """

    status: int
    headers: Mapping[str, str]
    content: bytes


@dataclass(slots=True)
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    used: bool = False


@dataclass(slots=True)
class Connections:
    """Kept connections to one server.

    Attributes:
        host: Name or address of the server.
        port: Its port.
        headers: Headers of every request.
    """

    host: str
    port: int
    headers: Mapping[str, str]
    _idle: list[_Connection] = field(default_factory=list)

    async def post(self, path: str, content: bytes, headers: Mapping[str, str]) -> Answer:
        """Send one request and read its answer.

        Raises:
            OSError: no connection, or one that broke.
            ValueError: the answer is not HTTP/1.1 with a length or chunks.
        """
        given = {"Host": f"{self.host}:{self.port}", "Content-Length": str(len(content)), **self.headers, **headers}
        lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items()), "", ""]
        message = "\r\n".join(lines).encode() + content
        while True:
            connection = self._idle.pop() if self._idle else _Connection(*await asyncio.open_connection(self.host, self.port))
            kept = False
            try:
                connection.writer.write(message)
                answer = await _answer(connection.reader)
                kept = answer.headers.get("connection", "").lower() != "close" and len(self._idle) < _KEPT
            except (asyncio.IncompleteReadError, ConnectionError) as error:
                began = isinstance(error, asyncio.IncompleteReadError) and bool(error.partial)
                if connection.used and not began:
                    continue  # the server had closed it meanwhile
                raise ConnectionError(f"the connection broke: {error}") from error
            else:
                return answer
            finally:
                connection.used = True
                if kept:
                    self._idle.append(connection)
                else:
                    connection.writer.close()

    def close(self) -> None:
        """Close all connections that nobody uses."""
        while self._idle:
            self._idle.pop().writer.close()


async def _answer(reader: asyncio.StreamReader) -> Answer:
    head = await reader.readuntil(_HEAD_END)
    first, *lines = head[: -len(_HEAD_END)].decode("latin-1").split("\r\n")
    version, _, status = first.partition(" ")
    if not version.startswith("HTTP/1."):
        raise ValueError(f"no HTTP answer: {first[:80]!r}")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return Answer(int(status[:3]), headers, await _chunks(reader))
    return Answer(int(status[:3]), headers, await reader.readexactly(int(headers["content-length"])))


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    chunks = []
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        chunks.append((await reader.readexactly(size + 2))[:-2])
    await reader.readuntil(b"\r\n")
    return b"".join(chunks)
