"""Decoder of server-sent events (WHATWG HTML, section 9.2.6): bytes as they arrive -> complete messages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Message:
    """One event of the stream: its `data`, and the last event `id` that the stream named ("" for none)."""

    data: str
    id: str


class EventDecoder:
    """Splits the bytes of one stream into messages. Create a new decoder for every connection.

    Fields other than `data` and `id` are ignored, and so are comments. A message that the end of the stream cuts off is not
    returned, as the standard demands.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[str] = []
        self._id = ""
        self._at_start = True

    def feed(self, chunk: bytes) -> Iterator[Message]:
        """Yield the messages that `chunk` completes."""
        buffer = self._rest + chunk
        if self._at_start:
            if len(buffer) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(buffer):
                self._rest = buffer
                return
            buffer = buffer.removeprefix(_BYTE_ORDER_MARK)
            self._at_start = False
        start = 0
        for end in _LINE_END.finditer(buffer):
            if end.group() == b"\r" and end.end() == len(buffer):
                break  # the next chunk may begin with the line feed that belongs to it
            message = self._line(buffer[start : end.start()].decode("utf-8", "replace"))
            start = end.end()
            if message is not None:
                yield message
        self._rest = buffer[start:]

    def _line(self, line: str) -> Message | None:
        if not line:
            message = Message("\n".join(self._data), self._id) if self._data else None
            self._data = []
            return message
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "id" and "\0" not in value:
            self._id = value
        return None
