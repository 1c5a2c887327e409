"""What a header may change in a picture's row, and what it may not."""

from __future__ import annotations

from dataclasses import replace

from lodestone.catalog.records import ImageRecord, ImageState
from lodestone.imaging.exif import EmbeddedMetadata
from lodestone.imaging.metadata import METADATA_VERSION
from lodestone.indexing.scan.missing_metadata import _with_facts

TIME = {0x9003: "2021:07:04 18:30:15", 0x9011: "+02:00", 0x9291: "5"}
TAKEN_AT = 1_625_416_215
PLACE = {1: "N", 2: (47.0, 30.0, 0.0), 3: "E", 4: (8.0, 30.0, 0.0)}


def row(taken_at: int | None = TAKEN_AT) -> ImageRecord:
    return ImageRecord("i", "c", "r", "a.jpg", "h", 1, 1, ImageState.ACTIVE, taken_at=taken_at, latitude=1.0, longitude=2.0)


def test_the_time_is_read_again_with_all_that_belongs_to_it() -> None:
    header = EmbeddedMetadata(photo=TIME)
    for taken_at in (TAKEN_AT, TAKEN_AT + 7200, None):
        read = _with_facts(row(taken_at), header)
        assert (read.taken_at, read.utc_offset_minutes, read.taken_subsec_ms) == (TAKEN_AT, 120, 500)
        assert (read.taken_precision, read.taken_source, read.taken_zone) == ("second", "exif", "stated")
        assert read.metadata_version == METADATA_VERSION


def test_a_time_that_says_nothing_goes_and_the_name_of_the_file_stands_in() -> None:
    unset = EmbeddedMetadata(photo={0x9003: "1980:01:01 00:00:00"})
    assert _with_facts(row(), unset).taken_at is None
    named = _with_facts(replace(row(), uri="2016/IMG-20161224-WA0014.jpg"), unset)
    assert (named.taken_at, named.taken_precision, named.taken_source) == (1_482_537_600, "day", "name")


def test_the_place_follows_the_header_where_that_speaks_of_places() -> None:
    kept = _with_facts(row(), EmbeddedMetadata())
    assert (kept.latitude, kept.longitude) == (1.0, 2.0)
    replaced = _with_facts(row(), EmbeddedMetadata(gps=PLACE))
    assert (replaced.latitude, replaced.longitude) == (47.5, 8.5)
    void = _with_facts(row(), EmbeddedMetadata(gps=PLACE | {9: "V"}))
    assert (void.latitude, void.longitude) == (None, None)
