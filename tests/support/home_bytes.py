"""Search of every byte that a home keeps for what removed pictures are known by: names, captions, places, hashes, ids, vectors.

Parquet files are read column by column, because their pages are compressed; recorded queries are unpacked; everything else,
the catalog's free pages and write-ahead log included, is searched as it lies on the disk. Only long runs of zeros are cut
short: a home of nine pictures has 700 MiB of them, in the files that the store makes in advance.
"""

from __future__ import annotations

import sqlite3
import struct
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow.parquet as pq

_RUN_LEFT: Final = bytes(1024)  # longer than what is searched for


def needles(*, texts: Iterable[str] = (), numbers: Iterable[float] = (), ids: Iterable[str] = ()) -> dict[str, bytes]:
    """What to search for, by a name for the message: texts as UTF-8, numbers and ids as they are stored."""
    wanted = {f"text {text!r}": text.encode() for text in texts}
    for number in numbers:
        wanted[f"float64 {number}"] = struct.pack("<d", number)
        wanted[f"float64 big-endian {number}"] = struct.pack(">d", number)
        wanted[f"float32 {number}"] = struct.pack("<f", number)
        wanted[f"text {number}"] = str(number)[:9].encode()
    for image_id in ids:
        wanted[f"id {image_id}"] = image_id.encode()
        wanted[f"id {image_id} in bytes"] = uuid.UUID(image_id).bytes
        wanted[f"id {image_id} as a number"] = uuid.UUID(image_id).bytes[::-1]
    return wanted


def finds(home: Path, wanted: Mapping[str, bytes]) -> list[str]:
    """Where each of the needles lies in the home, as `needle in file`."""
    assert all(len(needle) < len(_RUN_LEFT) for needle in wanted.values()), "long runs of zeros are not searched"
    return [
        f"{name} in {place}"
        for place, content in ((place, with_short_runs(content)) for place, content in contents(home))
        for name, needle in wanted.items()
        if needle in content or needle in place.encode()
    ]


def with_short_runs(content: bytes) -> bytes:
    """Return the bytes with runs of zeros of 3 KiB at most; a shorter needle is in them exactly if it was there before."""
    missing = -len(content) % len(_RUN_LEFT)
    blocks = np.frombuffer(content + bytes(missing), np.uint8).reshape(-1, len(_RUN_LEFT))
    empty = ~blocks.any(axis=1)
    kept = ~empty
    kept[:1] = True
    kept[1:] |= ~empty[:-1]  # the first block of each run of empty ones
    short = blocks[kept].tobytes()
    return short[: len(short) - missing] if kept[-1:].any() else short


def contents(home: Path) -> Iterator[tuple[str, bytes]]:
    """Every file below a home with its bytes, and what is packed in it as further entries."""
    for path in sorted(home.rglob("*")):
        if not path.is_file():
            continue
        name = str(path.relative_to(home))
        content = path.read_bytes()
        yield name, content
        if path.suffix == ".parquet":
            yield from ((f"{name}: {column}", packed) for column, packed in _columns(path))
        if path.name == "catalog.sqlite":
            yield from ((f"{name}: trace of {query}", zlib.decompress(trace)) for query, trace in _traces(path))


def _columns(path: Path) -> Iterator[tuple[str, bytes]]:
    table = pq.read_table(path)
    for name in table.column_names:
        values = table.column(name).to_pylist()
        yield name, repr(values).encode()
        if values and all(isinstance(value, float) for value in values if value is not None):
            yield f"{name} in bytes", np.array([value or 0.0 for value in values], np.float64).tobytes()
        if values and isinstance(values[0], list) and values[0] and isinstance(values[0][0], float):
            yield f"{name} in bytes", np.array(values, np.float16).tobytes()


def _traces(path: Path) -> Iterator[tuple[str, bytes]]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        yield from connection.execute("SELECT query_id, trace FROM queries").fetchall()
