"""Packs of thumbnails: all thumbnails of one slice in one file, which is how they are stored in a bucket.

A single thumbnail costs a bucket one request, a pack one for a whole slice (docs/adr/0018-thumbnail-packs.md). The catalog
knows the slice of a picture, so a pack needs no table: it is named by the slice's fingerprint, and begins with its index.

    packs/<corpus_id>/<fp[:2]>/<fp>.thumbnails
    header    magic (8 bytes), size of the file (8), CRC-32 of the index (4), number of thumbnails (4), little-endian
    index     for each, sorted: content hash (32 bytes), offset (8), length (4), CRC-32 of the thumbnail (4)
    content   the thumbnails, one after the other
"""

from __future__ import annotations

import re
import struct
import threading
import time
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from lodestone.errors import SourceError, ThumbnailsDamagedError
from lodestone.files.area import FileArea, OpenFile

if TYPE_CHECKING:
    import pyarrow as pa

FOLDER: Final = "packs"
SUFFIX: Final = ".thumbnails"
_MAGIC: Final = b"LDTHUMB1"
_HEADER: Final = struct.Struct("<8sQII")
_ENTRY: Final = struct.Struct("<32sQII")
_HASH_BYTES: Final = 32
_FIRST_READ: Final = _HEADER.size + 2048 * _ENTRY.size  # the index of a large slice by one request
_MOST_OPEN: Final = 128  # packs of large slices have indexes of 100 kB
_MOST_MISSING: Final = 10_000
_MISSING_S: Final = 60.0  # slices of an older version have no pack: each look for one would cost two requests
_SAFE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


class PackName(NamedTuple):
    """Name of the pack of one slice.

    Attributes:
        corpus_id: Id of the slice's corpus.
        fingerprint: Fingerprint of the slice.
    """

    corpus_id: str
    fingerprint: str

    @property
    def path(self) -> str:
        """Return the path of the pack inside the area of the thumbnails.

        Raises:
            ValueError: a name holds characters that do not belong in a file name.
        """
        for name in self:
            if not _SAFE.fullmatch(name):
                raise ValueError(f"{name!r} cannot be part of a file name; expected letters, digits, _ and -")
        return f"{FOLDER}/{self.corpus_id}/{self.fingerprint[:2]}/{self.fingerprint}{SUFFIX}"


@dataclass(frozen=True, slots=True)
class PackVerification:
    """Result of the check of one pack: what is wrong (None if nothing is), and whether the file is there at all."""

    problem: str | None
    exists: bool


class _Place(NamedTuple):
    offset: int
    length: int
    checksum: int


class _Pack:
    """An open pack whose index is in memory. Thread-safe."""

    def __init__(self, file: OpenFile) -> None:
        self._file = file
        start = file.read(0, _FIRST_READ)
        if len(start) < _HEADER.size:
            raise _Broken(f"has {file.size} bytes, which is no whole header")
        magic, size, checksum, count = _HEADER.unpack_from(start)
        end = _HEADER.size + count * _ENTRY.size
        if magic != _MAGIC:
            raise _Broken("is no pack of thumbnails")
        if size != file.size or end > size:
            raise _Broken(f"has {file.size} bytes instead of {size}")
        if len(start) < end:
            start += file.read(len(start), end - len(start))
        self._index = start[_HEADER.size : end]
        if crc32(self._index) != checksum:
            raise _Broken("has a damaged index")
        self._count = count

    def place(self, digest: bytes) -> _Place | None:
        number = bisect_left(range(self._count), digest, key=self._digest)
        return self._place(number) if number < self._count and self._digest(number) == digest else None

    def places(self) -> Iterator[tuple[str, _Place]]:
        for number in range(self._count):
            yield self._digest(number).hex(), self._place(number)

    def read(self, place: _Place) -> bytes:
        data = self._file.read(place.offset, place.length)
        if len(data) != place.length or crc32(data) != place.checksum:
            raise _Broken(f"has other bytes than were written at {place.offset}")
        return data

    def _digest(self, number: int) -> bytes:
        start = number * _ENTRY.size
        return self._index[start : start + _HASH_BYTES]

    def _place(self, number: int) -> _Place:
        return _Place(*_ENTRY.unpack_from(self._index, number * _ENTRY.size)[1:])


class _Broken(Exception):  # noqa: N818 (a signal, handled here)
    """The file is not what was written; the text says how."""


class ThumbnailPacks:
    """Writes packs, and reads single thumbnails from them. Thread-safe.

    A thumbnail of a pack that was read from lately is one ranged read; the first of a pack also reads its size and its index.

    Args:
        area: Area of the thumbnails.
    """

    def __init__(self, area: FileArea) -> None:
        self._area = area
        self._open: OrderedDict[PackName, _Pack] = OrderedDict()
        self._missing: OrderedDict[PackName, float] = OrderedDict()  # when it was missing, monotonic
        self._lock = threading.Lock()

    def write(self, name: PackName, thumbnails: Mapping[str, bytes]) -> None:
        """Store the thumbnails of a slice in one step, replacing its former pack.

        Args:
            name: Name of the pack.
            thumbnails: Content hash (64 hexadecimal digits) -> JPEG.

        Raises:
            OutOfSpaceError: there is no space left; no partial file remains.
            OSError: the area cannot be written.
        """
        self._area.write(name.path, encode(thumbnails))
        self._forget(name)

    def read(self, name: PackName, content_hash: str) -> bytes:
        """Return one thumbnail.

        Raises:
            FileNotFoundError: there is no such pack, or the thumbnail is not in it.
            ThumbnailsDamagedError: the pack is not what was written.
        """
        digest = bytes.fromhex(content_hash)
        known = self._known(name)
        if known is not None:
            try:
                return self._thumbnail(known, name, digest)
            except (_Broken, FileNotFoundError, SourceError):  # it may have been replaced or deleted since its index was read
                self._forget(name)
        try:
            return self._thumbnail(self._opened(name), name, digest)
        except _Broken as broken:
            self._forget(name)
            raise self._damaged(name, str(broken)) from broken

    def contents(self, name: PackName) -> list[str]:
        """Return the content hashes of the thumbnails in a pack, sorted; none for a missing pack.

        Raises:
            ThumbnailsDamagedError: the pack is not what was written.
        """
        try:
            return [content for content, _ in _Pack(self._area.open(name.path)).places()]
        except FileNotFoundError:
            return []
        except _Broken as broken:
            raise self._damaged(name, str(broken)) from broken

    def thumbnails(self, name: PackName, wanted: Container[str]) -> dict[str, bytes]:
        """Return those thumbnails of a pack that are wanted and whole, by content hash; none for a missing or damaged pack."""
        try:
            return {content: data for content, data in decode(self._area.read(name.path)).items() if content in wanted}
        except FileNotFoundError:
            return {}

    def keep(self, name: PackName, wanted: Container[str]) -> int:
        """Write a pack again without the thumbnails that are not wanted, and return how many those are.

        A pack that would be empty, or that is damaged, is deleted. Readers see the old pack or the new one.

        Raises:
            OSError: the area cannot be read or written.
        """
        try:
            stored = self.contents(name)
        except ThumbnailsDamagedError:
            self.remove(name)
            return 0
        unwanted = sum(content not in wanted for content in stored)
        if unwanted:
            kept = self.thumbnails(name, wanted)
            if kept:
                self.write(name, kept)
            else:
                self.remove(name)
        return unwanted

    def verify(self, name: PackName, *, deep: bool = False) -> PackVerification:
        """Check the size and the index of a pack, and with `deep` every thumbnail in it.

        Raises:
            SourceError: the bucket cannot be read.
        """
        try:
            pack = _Pack(_in_memory(self._area.read(name.path)) if deep else self._area.open(name.path))
            for _, place in pack.places() if deep else ():
                pack.read(place)
        except FileNotFoundError:
            return PackVerification("is missing", exists=False)
        except _Broken as broken:
            return PackVerification(str(broken), exists=True)
        return PackVerification(None, exists=True)

    def remove(self, name: PackName) -> bool:
        """Delete a pack, and return whether it existed."""
        self._forget(name)
        return self._area.delete(name.path)

    def remove_corpus(self, corpus_id: str) -> None:
        """Delete all packs of a corpus; a corpus without packs is no error."""
        PackName(corpus_id, "00").path  # noqa: B018 - raises for names that would point outside the area
        with self._lock:
            self._open.clear()
        self._area.delete_folder(f"{FOLDER}/{corpus_id}")

    def has_any(self, corpus_id: str) -> bool:
        """Return whether a corpus has packs at all, by one listing."""
        return any(self._area.names(f"{FOLDER}/{corpus_id}"))

    def names(self, corpus_id: str) -> Iterator[PackName]:
        """Yield the names of all stored packs of a corpus; only one folder's names are in memory at a time."""
        for stored in self._area.files(f"{FOLDER}/{corpus_id}"):
            fingerprint = stored.path.rpartition("/")[2].removesuffix(SUFFIX)
            if _SAFE.fullmatch(fingerprint) and PackName(corpus_id, fingerprint).path == stored.path:
                yield PackName(corpus_id, fingerprint)

    def _thumbnail(self, pack: _Pack, name: PackName, digest: bytes) -> bytes:
        place = pack.place(digest)
        if place is None:
            raise FileNotFoundError(f"{digest.hex()} in {name.path}")
        return pack.read(place)

    def _known(self, name: PackName) -> _Pack | None:
        with self._lock:
            if name in self._open:
                self._open.move_to_end(name)
            return self._open.get(name)

    def _opened(self, name: PackName) -> _Pack:
        if time.monotonic() - self._missing.get(name, -inf) < _MISSING_S:
            raise FileNotFoundError(name.path)
        try:
            file = self._area.open(name.path)
        except FileNotFoundError:
            with self._lock:
                self._missing[name] = time.monotonic()
                if len(self._missing) > _MOST_MISSING:
                    self._missing.popitem(last=False)
            raise
        pack = _Pack(file)
        with self._lock:
            self._open[name] = pack
            if len(self._open) > _MOST_OPEN:
                self._open.popitem(last=False)
        return pack

    def _forget(self, name: PackName) -> None:
        with self._lock:
            self._open.pop(name, None)
            self._missing.pop(name, None)

    def _damaged(self, name: PackName, what: str) -> ThumbnailsDamagedError:
        return ThumbnailsDamagedError(
            f"the pack of thumbnails {f'{self._area.location}/{name.path}'!r} {what}",
            hint="run `lodestone embeddings verify`, then `lodestone index`, which makes its thumbnails again",
            corpus_id=name.corpus_id,
            fingerprint=name.fingerprint,
        )


def encode(thumbnails: Mapping[str, bytes]) -> bytes:
    """Return the content of a pack.

    Args:
        thumbnails: Content hash (64 hexadecimal digits) -> JPEG.

    Raises:
        ValueError: a key is no content hash.
    """
    digests = sorted((bytes.fromhex(content), data) for content, data in thumbnails.items())
    offset = _HEADER.size + len(digests) * _ENTRY.size
    index = bytearray()
    for digest, data in digests:
        if len(digest) != _HASH_BYTES:
            raise ValueError(f"not a content hash: {digest.hex()!r}; expected {2 * _HASH_BYTES} hexadecimal digits")
        index += _ENTRY.pack(digest, offset, len(data), crc32(data))
        offset += len(data)
    header = _HEADER.pack(_MAGIC, offset, crc32(index), len(digests))
    return b"".join((header, index, *(data for _, data in digests)))


def decode(content: pa.Buffer) -> dict[str, bytes]:
    """Return the thumbnails of a pack that are whole, by content hash; none of a pack whose size or index is damaged."""
    found: dict[str, bytes] = {}
    try:
        pack = _Pack(_in_memory(content))
    except _Broken:
        return found
    for content_hash, place in pack.places():
        with suppress(_Broken):
            found[content_hash] = pack.read(place)
    return found


def _in_memory(content: pa.Buffer) -> OpenFile:
    import pyarrow as pa

    return OpenFile(pa.BufferReader(content))
