"""Joined reads of pictures that lie side by side in an archive of an object store: one ranged GET for several pictures.

A store answers after about a tenth of a second, however little is read. So pictures of an archive are read together, with what
lies between them. Where a joined read fails, or a picture of it is not the planned one, that picture is read alone, so that its
error is the same as without joining.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final, Protocol

from lodestone.errors import ImageError
from lodestone.files.beneath import Enclosure
from lodestone.files.tokens import hash_bytes
from lodestone.files.urls import is_url
from lodestone.sources.locators import inside
from lodestone.sources.reading import Reader

MOST_BYTES: Final = 4 << 20  # of one read: at 100 MB/s as long as the wait for its first byte is
MOST_GAP: Final = 64 << 10  # bytes between two pictures that are cheaper to read than another request
MOST_PICTURES: Final = 64


class PlannedRow(Protocol):
    """The facts of a picture that its reading needs; a `SliceRow` has them."""

    @property
    def path(self) -> str:
        """Return the locator of the picture."""

    @property
    def hash(self) -> str:
        """Return the hash or token of the content."""

    @property
    def size(self) -> int:
        """Return the size in bytes."""

    @property
    def mtime_ns(self) -> int:
        """Return the time of the last change."""

    @property
    def within(self) -> Enclosure | None:
        """Return the folder that a local file must lie in."""


@dataclass(frozen=True, slots=True)
class ReadGroup:
    """Pictures that are read together.

    Attributes:
        places: Numbers of the pictures, in the order that was given.
        remote: Whether they lie in an object store or on the web.
        size: Bytes that are read.
    """

    places: tuple[int, ...]
    remote: bool
    size: int


def read_groups(pictures: Sequence[PlannedRow], *, most_bytes: int = MOST_BYTES) -> Iterator[ReadGroup]:
    """Yield groups that cover all pictures: neighbours in a remote archive together, every other picture alone.

    Args:
        pictures: What is to be read, in any order.
        most_bytes: Most bytes of one group; a larger picture is a group of its own.
    """
    members: list[tuple[str, int, int]] = []  # archive, byte where the picture begins, number of the picture
    for number, picture in enumerate(pictures):
        place = inside(picture.path)
        if place is not None and place.form == "tar" and is_url(place.where):
            members.append((place.where, place.position, number))
        else:
            yield ReadGroup((number,), remote=is_url(place.where if place else picture.path), size=picture.size)
    held: list[int] = []
    where, start, end = "", 0, 0
    for archive, position, number in sorted(members):
        after = position + pictures[number].size
        near = archive == where and 0 <= position - end <= MOST_GAP
        if not held or not near or after - start > most_bytes or len(held) == MOST_PICTURES:
            if held:
                yield ReadGroup(tuple(held), remote=True, size=end - start)
            held, where, start = [], archive, position
        held.append(number)
        end = after
    if held:
        yield ReadGroup(tuple(held), remote=True, size=end - start)


def read_together(reader: Reader, pictures: Sequence[PlannedRow]) -> Iterator[bytes | BinaryIO | ImageError]:
    """Yield the content of each picture of a group, or the error of that picture alone.

    Args:
        reader: Reads and compares.
        pictures: The pictures of one group.

    Raises:
        SourceError: the store refuses everything, or does not answer.
        ManifestChangedError: the archive was changed since it was listed.
    """
    contents: Iterable[bytes | None] = _span(reader, pictures) if len(pictures) > 1 else [None]
    for picture, content in zip(pictures, contents, strict=True):
        if content is not None and hash_bytes(content) == picture.hash:
            yield content
            continue
        try:
            yield reader.read(
                picture.path, content=picture.hash, size=picture.size, mtime_ns=picture.mtime_ns, within=picture.within
            )
        except ImageError as error:
            yield error


def _span(reader: Reader, pictures: Sequence[PlannedRow]) -> list[bytes | None]:
    """Return the content of each picture by one read, not compared yet; None for those that it did not bring."""
    places = [inside(picture.path) for picture in pictures]
    first, last = places[0], places[-1]
    if first is None or last is None:
        return [None] * len(pictures)
    size = last.position + pictures[-1].size - first.position
    try:
        data = reader.read_span(first, size, within=pictures[0].within)
    except (OSError, ValueError):
        return [None] * len(pictures)  # each one alone says what is wrong
    view = memoryview(data)
    return [
        None if place is None else bytes(view[place.position - first.position :][: picture.size])
        for place, picture in zip(places, pictures, strict=True)
    ]
