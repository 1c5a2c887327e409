"""Read-only stream that is joined from ranges of another stream and from bytes, without a copy of the file."""

from __future__ import annotations

import bisect
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Final, cast

_BUFFER_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class Range:
    """A range of bytes of the stream below.

    Attributes:
        start: Position of the first byte.
        length: Number of bytes.
    """

    start: int
    length: int


class _Spliced(io.RawIOBase):
    def __init__(self, source: IO[bytes], parts: Sequence[Range | bytes]) -> None:
        super().__init__()
        self._source = source
        self._parts = parts
        self._starts = [0]
        for part in parts:
            self._starts.append(self._starts[-1] + (len(part) if isinstance(part, bytes) else part.length))
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._starts[-1]}[whence]
        if base + offset < 0:
            raise ValueError(f"cannot seek to {base + offset}: a stream begins at 0")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: object) -> int:
        view = memoryview(cast("bytearray", buffer)).cast("B")
        index = bisect.bisect_right(self._starts, self._position) - 1
        if index >= len(self._parts):
            return 0
        part, inside = self._parts[index], self._position - self._starts[index]
        if isinstance(part, bytes):
            data = part[inside : inside + len(view)]
        else:
            self._source.seek(part.start + inside)
            data = self._source.read(min(part.length - inside, len(view)))
        view[: len(data)] = data
        self._position += len(data)
        return len(data)


def spliced(source: IO[bytes], parts: Sequence[Range | bytes]) -> IO[bytes]:
    """Return a seekable stream of `parts` in their order; `source` is read when the result is, and moved then."""
    merged: list[Range | bytes] = []
    for part in parts:
        last = merged[-1] if merged else None
        if isinstance(part, Range) and isinstance(last, Range) and last.start + last.length == part.start:
            merged[-1] = Range(last.start, last.length + part.length)
        elif (len(part) if isinstance(part, bytes) else part.length) > 0:
            merged.append(part)
    return cast("IO[bytes]", io.BufferedReader(_Spliced(source, merged), _BUFFER_BYTES))


def size_of(stream: IO[bytes]) -> int:
    """Return the size of a stream in bytes; its position is kept."""
    position = stream.tell()
    size = stream.seek(0, os.SEEK_END)
    stream.seek(position)
    return size
