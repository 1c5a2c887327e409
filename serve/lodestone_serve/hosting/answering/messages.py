"""Messages between the process that owns a service and its answering processes: pickles of known length over a socket pair."""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
from dataclasses import dataclass
from typing import Any, Final, Literal

from lodestone.config.settings import Settings
from lodestone.errors import LodestoneError
from lodestone.query.asking.request_context import RequestContext
from lodestone_schemas.api import Event, SearchResponse

_LENGTH: Final = struct.Struct("!I")

Method = Literal["answer", "events", "similar"]


@dataclass(frozen=True, slots=True)
class Begin:
    """First message to a worker.

    Attributes:
        settings: Settings of the home.
        name: Name of the worker, for its log's file.
    """

    settings: Settings
    name: str


@dataclass(frozen=True, slots=True)
class SearchCall:
    """A search.

    Attributes:
        number: What its answer is told by.
        method: Method of the engine.
        arguments: Its arguments.
        context: When and from whom the request came.
    """

    number: int
    method: Method
    arguments: tuple[Any, ...]
    context: RequestContext


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Nobody waits for this search any more."""

    number: int


@dataclass(frozen=True, slots=True)
class Settle:
    """Answer when a query, or every answered one, is recorded."""

    number: int
    query_id: str | None


@dataclass(frozen=True, slots=True)
class Opened:
    """The worker has opened the home, and its engine is warm."""


@dataclass(frozen=True, slots=True)
class NotOpened:
    """The worker cannot open the home, and ends."""

    error: LodestoneError


@dataclass(frozen=True, slots=True)
class SignOfLife:
    """The worker's event loop runs."""


@dataclass(frozen=True, slots=True)
class CallEvent:
    """An event of a search that goes on."""

    number: int
    event: Event


@dataclass(frozen=True, slots=True)
class CallEnded:
    """A call has ended well; `answer` is that of a search, None for events and records."""

    number: int
    answer: SearchResponse | None


@dataclass(frozen=True, slots=True)
class CallFailed:
    """A call has ended with an error."""

    number: int
    error: Exception


@dataclass(frozen=True, slots=True)
class Observed:
    """Something was measured: the method of an observer, and its arguments."""

    observer: Literal["engines", "records", "texts", "pictures"]
    method: str
    arguments: tuple[Any, ...]


Message = (
    Begin | NotOpened | SearchCall | Withdraw | Settle | Opened | SignOfLife | CallEvent | CallEnded | CallFailed | Observed
)


class Channel:
    """One end of a socket pair, for one event loop. Both ends belong to this program: what comes is unpickled."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, end: socket.socket) -> Channel:
        """Return a channel over a connected socket, which it closes."""
        reader, writer = await asyncio.open_connection(sock=end)
        return cls(reader, writer)

    def post(self, message: Message) -> None:
        """Send a message without waiting for room.

        Raises:
            OSError: the other end is closed.
        """
        if self._writer.is_closing():
            raise BrokenPipeError("the other process is gone")
        content = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
        self._writer.write(_LENGTH.pack(len(content)) + content)

    async def send(self, message: Message) -> None:
        """Send a message, and wait while the other process does not read.

        Raises:
            OSError: the other end is closed.
        """
        self.post(message)
        await self._writer.drain()

    async def receive(self) -> Message:
        """Return the next message.

        Raises:
            EOFError: the other end is closed.
        """
        try:
            (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            message: Message = pickle.loads(await self._reader.readexactly(length))  # noqa: S301 - from our own process
        except (asyncio.IncompleteReadError, OSError) as error:
            raise EOFError from error
        return message

    def close(self) -> None:
        """Close this end. Idempotent."""
        self._writer.close()
