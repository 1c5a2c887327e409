"""Record of the sizes and checksums of a generation's files, which tells of altered, cut and lost files before they are opened.

The engine trusts its files: one flipped bit in them may end the process, fill the disk, or change scores without a word. The
record `contents.json` holds while nothing is written: it is made when a collection is closed, and renamed to
`contents.stale.json` before the engine may change its files. A stale record, which a killed process leaves, still tells of
files that were cut or lost, and of altered files in segments with a graph, which no write changes.

The record also names the collection. Files of one collection in the folder of another are sound, and their vectors are another
space's: without the name, such an exchange would be answered from.

Without optimisation, which makes a new generation, the engine's files only grow, with three exceptions: segments of its log
come and go, JSON files are replaced, and journals are applied and deleted when a shard is opened.
"""

from __future__ import annotations

import errno
import json
import os
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Final

from lodestone.durable_files import sync_folder, write_atomically

CONTENTS_FILE: Final = "contents.json"
STALE_FILE: Final = "contents.stale.json"
# Bytes of data that are read at each opening, the smallest files first. Larger files are trusted if size and time are as
# recorded. Some 50 ms when they are in memory.
READ_AT_OPENING: Final = 256 << 20
# Files up to this size are read again after an opening and before a closing without writes.
_SMALL: Final = 4 << 20
_FORMER_FILE: Final = "sizes.json"  # of earlier versions: sizes alone
_BLOCK: Final = 1 << 16
_ZEROS: Final = bytes(_BLOCK)
_LOG: Final = "wal/"  # its segments come and go
_REWRITTEN: Final = ".json"  # replaced as a whole
_JOURNAL: Final = "_journal.dat"  # applied and deleted at an opening
_SEALED_SEGMENT: Final = "id_tracker.mappings"  # a segment with this file has a graph, and takes no points
_SEALED: Final = frozenset(
    {
        _SEALED_SEGMENT,
        "data.bin",
        "graph.bin",
        "histogram_borders.bin",
        "links.bin",
        "links_compressed.bin",
        "matrix.dat",
        "point_to_values.bin",
        "quantized.data",
        "values_to_points.bin",
    }
)


@dataclass(frozen=True, slots=True)
class FileFacts:
    """Facts of one file: its size in bytes, its time of change in nanoseconds, and the CRC-32 of its content."""

    size: int
    mtime_ns: int
    checksum: int

    def same_content(self, other: FileFacts) -> bool:
        """Return whether both have the same size and checksum."""
        return (self.size, self.checksum) == (other.size, other.checksum)


class ContentRecord:
    """Record of one generation. Callers exclude each other.

    Args:
        generation: Folder of the generation, which gets the record.
        collection: Name of the collection that the generation belongs to.
        shard: Name of the engine's folder in it.
        own: Names of files of the generation itself that are recorded where they exist.
    """

    def __init__(self, generation: Path, *, collection: str, shard: str, own: Iterable[str] = ()) -> None:
        self._generation = generation
        self._collection = collection
        self._shard = shard
        self._own = tuple(own)
        self._recorded_for: str | None = None
        self._facts, self._holds = self._read()

    @property
    def holds(self) -> bool:
        """Whether the record says what the files hold now: nothing was written since it was made."""
        return self._holds

    def damage(self, *, at_most: int | None = READ_AT_OPENING) -> str | None:
        """Return what is wrong with the first file that is not as recorded; None if there is none.

        A generation without a record, or with one of another version of the engine, which may have converted files, is not
        judged. Records of earlier versions name no collection.

        Args:
            at_most: Bytes to read; None for all. What is beyond is compared by size and time alone.

        Raises:
            OSError: a file cannot be read.
        """
        if self._recorded_for not in (None, self._collection):
            return f"its files are those of the collection {self._recorded_for!r}"
        sizes = self._sizes()
        for name, known in sorted(self._facts.items(), key=lambda item: item[1].size):
            if not self._holds and (name.startswith(_LOG) or name.endswith((_REWRITTEN, _JOURNAL))):
                continue
            if name not in sizes:
                return f"the file {name!r} is missing"
            if sizes[name] < known.size:
                return f"the file {name!r} has {sizes[name]:,} bytes and had {known.size:,}"
            if not (self._holds or self._is_sealed(name)):
                continue
            status = self._path(name).stat()
            stored = min(status.st_blocks * 512, status.st_size) if hasattr(status, "st_blocks") else status.st_size
            if at_most is not None and stored > at_most and status.st_mtime_ns == known.mtime_ns:
                continue
            at_most = None if at_most is None else max(at_most - stored, 0)
            if not read_facts(self._path(name)).same_content(known):
                return f"the file {name!r} was altered: its checksum is not the recorded one"
        return None

    def suspend(self, *, durable: bool) -> None:
        """Let the record not hold any more, before the files are changed.

        Args:
            durable: Whether a power failure must not take this back: before writes.

        Raises:
            OSError: the folder cannot be written.
        """
        if self._holds:
            self._holds = False
            (self._generation / CONTENTS_FILE).replace(self._generation / STALE_FILE)
            if durable:
                sync_folder(self._generation)

    def renew(self, *, written: bool, flush: Callable[[], None] | None = None) -> None:
        """Record what the files hold now; a disk without room leaves the stale record, so that the next opening is careful.

        Args:
            written: Whether points were written since the last record. If not, only small files and those with another time
                are read.
            flush: Brings the files to the disk, and may change them; called unless they are as they were recorded. None for
                files that nobody has open.

        Raises:
            OSError: a file cannot be read.
        """
        written = written or any(name.endswith(_JOURNAL) for name in self._facts)
        if written and flush is not None:
            flush()
            flush = None
        facts = self._now(written=written)
        if not (same := self._same(facts)) and not written:
            if flush is not None:
                flush()
            facts = self._now(written=True)
        self._facts = facts
        with suppress(OSError):
            if same and self._recorded_for is not None and (self._generation / STALE_FILE).exists():
                (self._generation / STALE_FILE).replace(self._generation / CONTENTS_FILE)
            else:
                write_atomically(self._generation / CONTENTS_FILE, _dump(facts, self._collection))
                self._recorded_for = self._collection
                (self._generation / STALE_FILE).unlink(missing_ok=True)
                (self._generation / _FORMER_FILE).unlink(missing_ok=True)
            self._holds = True

    def _same(self, facts: Mapping[str, FileFacts]) -> bool:
        """Return whether these are the recorded facts, times aside."""
        return facts.keys() == self._facts.keys() and all(facts[name].same_content(self._facts[name]) for name in facts)

    def _now(self, *, written: bool) -> dict[str, FileFacts]:
        return {name: self._fresh(name, size, written=written) for name, size in self._sizes().items()}

    def _fresh(self, name: str, size: int, *, written: bool) -> FileFacts:
        """Return the facts of a file as it is now, without reading it where it cannot have changed."""
        known = self._facts.get(name)
        if known is not None and known.size == size and known.checksum >= 0:
            unchanged = self._is_sealed(name) or (size > _SMALL and not written)
            if unchanged and self._path(name).stat().st_mtime_ns == known.mtime_ns:
                return known
        return read_facts(self._path(name))

    def _read(self) -> tuple[dict[str, FileFacts], bool]:
        """Return the recorded facts, and whether they hold."""
        former = self._generation / _FORMER_FILE
        for name, holds in ((CONTENTS_FILE, True), (STALE_FILE, False)):
            if (record := _load(self._generation / name)) is not None:
                facts, self._recorded_for = record
                # An earlier version that opened the collection writes its own record, and does not know this one.
                return facts, holds and not former.exists()
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            record = json.loads(former.read_text(encoding="utf-8"))
            if record["engine"] == _engine():
                return {str(name): FileFacts(int(size), 0, -1) for name, size in record["sizes"].items()}, False
        return {}, False

    def _is_sealed(self, name: str) -> bool:
        """Return whether no write changes a file."""
        parts = name.split("/")
        segment = f"{'/'.join(parts[:2])}/{_SEALED_SEGMENT}"
        return parts[-1] in _SEALED and segment in self._facts and self._facts[name].checksum >= 0

    def _path(self, name: str) -> Path:
        return self._generation / (name if name in self._own else f"{self._shard}/{name}")

    def _sizes(self) -> dict[str, int]:
        """Return relative path -> size of the files below the engine's folder, and of the generation's own.

        Each opening of a store lists hundreds of files, and `Path` objects would take several times as long as strings.
        """
        sizes: dict[str, int] = {}
        waiting = [(str(self._generation / self._shard), "")]
        while waiting:
            parent, prefix = waiting.pop()
            with os.scandir(parent) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((entry.path, f"{prefix}{entry.name}/"))
                    elif entry.is_file():
                        sizes[prefix + entry.name] = entry.stat().st_size
        for name in self._own:
            with suppress(FileNotFoundError):
                sizes[name] = self._path(name).stat().st_size
        return sizes


def read_facts(path: Path) -> FileFacts:
    """Return the facts of a file; holes are skipped, and count as the zeros that they are.

    Raises:
        OSError: the file cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        status = os.fstat(descriptor)
        checksum, offset = 0, 0
        while (offset := _next_data(descriptor, offset)) < status.st_size:
            block = _read_block(descriptor, offset)
            if not block:
                break
            if block != (_ZEROS if len(block) == _BLOCK else bytes(len(block))):
                checksum = zlib.crc32(block, zlib.crc32(offset.to_bytes(8, "little"), checksum))
            offset += _BLOCK
    finally:
        os.close(descriptor)
    return FileFacts(status.st_size, status.st_mtime_ns, checksum)


def _read_block(descriptor: int, offset: int) -> bytes:
    """Return a whole block, or what is left of the file."""
    os.lseek(descriptor, offset, os.SEEK_SET)
    block = os.read(descriptor, _BLOCK)
    while len(block) < _BLOCK and (more := os.read(descriptor, _BLOCK - len(block))):
        block += more
    return block


def _next_data(descriptor: int, offset: int) -> int:
    """Return the start of the block with the next data at or after a block's start; blocks of holes alone are skipped."""
    if not hasattr(os, "SEEK_DATA"):
        return offset
    try:
        return os.lseek(descriptor, offset, os.SEEK_DATA) // _BLOCK * _BLOCK
    except OSError as error:
        return 1 << 62 if error.errno == errno.ENXIO else offset  # nothing but a hole follows, or no holes are known


def _dump(facts: Mapping[str, FileFacts], collection: str) -> str:
    """Return the record as text: a line of JSON, and a line with its checksum."""
    files = {name: [one.size, one.mtime_ns, one.checksum] for name, one in sorted(facts.items())}
    line = json.dumps({"engine": _engine(), "collection": collection, "files": files})
    return f"{line}\n{zlib.crc32(line.encode()):08x}\n"


def _load(path: Path) -> tuple[dict[str, FileFacts], str | None] | None:
    """Return the facts and the collection of a record of this version of the engine; None for none, or a damaged one."""
    try:
        line, checksum = path.read_text(encoding="utf-8").split("\n")[:2]
        if int(checksum, 16) != zlib.crc32(line.encode()):
            return None
        record = json.loads(line)
        files = {str(name): FileFacts(*(int(number) for number in facts)) for name, facts in record["files"].items()}
        collection = record.get("collection")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return (files, collection) if record["engine"] == _engine() else None


@cache
def _engine() -> str:
    return version("qdrant-edge-py")
