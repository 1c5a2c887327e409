"""Joined reads: which pictures of an archive are read together, and what happens when that does not work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from lodestone.errors import ImageError, SourceError
from lodestone.files.beneath import Enclosure
from lodestone.files.tokens import hash_bytes
from lodestone.sources.joined import MOST_GAP, MOST_PICTURES, read_groups, read_together
from lodestone.sources.reading import Reader

SHARD = "s3://bucket/shard.tar"


@dataclass(frozen=True)
class Picture:
    path: str
    size: int = 100
    hash: str = ""
    mtime_ns: int = 1
    within: Enclosure | None = None


def groups(pictures: Sequence[Picture], **options: int) -> list[tuple[int, ...]]:
    return [group.places for group in read_groups(pictures, **options)]


def members(*positions: int, where: str = SHARD) -> list[Picture]:
    return [Picture(f"tar:{position}:{where}") for position in positions]


def test_neighbours_of_one_remote_archive_are_read_together_in_any_order() -> None:
    pictures = [*members(3000, 1000, 2000), *members(1000, where="s3://bucket/other.tar")]
    found = list(read_groups(pictures))
    assert sorted(group.places for group in found) == [(1, 2, 0), (3,)]
    assert {group.places: (group.size, group.remote) for group in found}[1, 2, 0] == (2100, True)


def test_far_apart_too_many_and_too_large_is_not_joined() -> None:
    assert groups(members(0, 100 + MOST_GAP, 300 + 2 * MOST_GAP)) == [(0, 1), (2,)]
    assert [len(group) for group in groups(members(*range(0, 100 * (MOST_PICTURES + 5), 100)))] == [MOST_PICTURES, 5]
    assert groups(members(0, 100, 200), most_bytes=200) == [(0, 1), (2,)]
    assert groups([Picture(f"tar:0:{SHARD}", size=1000)], most_bytes=200) == [(0,)]


def test_everything_else_is_read_alone_and_every_picture_is_read() -> None:
    pictures = [
        Picture("/photos/a.jpg"),
        Picture("s3://bucket/a.jpg"),
        Picture("tar:512:/photos/shard.tar"),
        Picture("tar:1024:/photos/shard.tar"),
        Picture("row:0:s3://bucket/table.parquet"),
    ]
    found = list(read_groups(pictures))
    assert [group.places for group in found] == [(0,), (1,), (2,), (3,), (4,)]
    assert [group.remote for group in found] == [False, True, False, False, True]


class Archive(Reader):
    """A reader of one archive that counts its requests; `broken` makes joined reads fail."""

    def __init__(self, data: bytes, *, broken: BaseException | None = None) -> None:
        super().__init__()
        self.data = data
        self.broken = broken
        self.spans: list[tuple[int, int]] = []
        self.alone: list[str] = []

    def read_span(self, place: Any, size: int, *, within: Enclosure | None = None) -> bytes:
        self.spans.append((place.position, size))
        if self.broken is not None:
            raise self.broken
        return self.data[place.position : place.position + size]

    def read(self, locator: str, *, content: str, size: int, mtime_ns: int, within: Enclosure | None = None) -> bytes:
        self.alone.append(locator)
        position = int(locator.split(":")[1])
        data = self.data[position : position + size]
        if hash_bytes(data) != content:
            raise ImageError("the file changed while it was being indexed", reason="file_changed")
        return data


def planned(data: bytes, *places: tuple[int, int]) -> list[Picture]:
    return [Picture(f"tar:{start}:{SHARD}", size, hash_bytes(data[start : start + size])) for start, size in places]


def test_one_request_brings_several_pictures_with_what_lies_between() -> None:
    data = bytes(range(256)) * 8
    pictures = planned(data, (10, 50), (100, 60), (700, 5))
    reader = Archive(data)
    assert list(read_together(reader, pictures)) == [data[10:60], data[100:160], data[700:705]]
    assert (reader.spans, reader.alone) == ([(10, 695)], [])


def test_a_changed_picture_is_a_failure_of_its_own() -> None:
    data = bytes(range(256)) * 8
    pictures = planned(data, (10, 50), (100, 60), (700, 5))
    pictures[1] = Picture(pictures[1].path, 60, "0" * 64)
    first, second, third = read_together(Archive(data), pictures)
    assert (first, third) == (data[10:60], data[700:705])
    assert isinstance(second, ImageError)


@pytest.mark.parametrize("trouble", [OSError("SlowDown"), ValueError("no such range")])
def test_pictures_are_read_alone_where_a_joined_read_fails(trouble: Exception) -> None:
    data = bytes(range(256)) * 8
    pictures = planned(data, (10, 50), (100, 60))
    reader = Archive(data, broken=trouble)
    assert list(read_together(reader, pictures)) == [data[10:60], data[100:160]]
    assert reader.alone == [picture.path for picture in pictures]


def test_an_archive_that_is_cut_short_fails_its_last_pictures_alone() -> None:
    data = bytes(range(256)) * 8
    pictures = planned(data, (10, 50), (100, 60))
    first, second = read_together(Archive(data[:120]), pictures)
    assert first == data[10:60]
    assert isinstance(second, ImageError)


def test_what_ends_the_work_is_raised() -> None:
    class Expired(Archive):
        def read(self, *_: Any, **__: Any) -> bytes:
            raise SourceError("the credentials are expired", reason="expired")

    data = bytes(2000)
    with pytest.raises(SourceError):
        list(read_together(Expired(data, broken=OSError("ExpiredToken")), planned(data, (0, 10), (20, 10))))
