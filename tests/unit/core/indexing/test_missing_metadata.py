"""What a header may change in a picture's row, and what it may not."""

from __future__ import annotations

from lodestone.catalog.records import ImageRecord, ImageState
from lodestone.imaging.exif import EmbeddedMetadata
from lodestone.imaging.metadata import METADATA_VERSION
from lodestone.indexing.scan.missing_metadata import _with_facts

TIME = {0x9003: "2021:07:04 18:30:15", 0x9011: "+02:00", 0x9291: "5"}
TAKEN_AT = 1_625_416_215
PLACE = {1: "N", 2: (47.0, 30.0, 0.0), 3: "E", 4: (8.0, 30.0, 0.0)}


def row(taken_at: int | None = TAKEN_AT) -> ImageRecord:
    return ImageRecord("i", "c", "r", "a.jpg", "h", 1, 1, ImageState.ACTIVE, taken_at=taken_at, latitude=1.0, longitude=2.0)


def test_offset_and_fraction_belong_to_the_recorded_time_or_are_left_out() -> None:
    header = EmbeddedMetadata(photo=TIME)
    same = _with_facts(row(), header)
    assert (same.taken_at, same.utc_offset_minutes, same.taken_subsec_ms) == (TAKEN_AT, 120, 500)
    for taken_at in (TAKEN_AT + 7200, None):
        other = _with_facts(row(taken_at), header)
        assert (other.taken_at, other.utc_offset_minutes, other.taken_subsec_ms) == (taken_at, None, None)
        assert other.metadata_version == METADATA_VERSION


def test_the_place_follows_the_header_where_that_speaks_of_places() -> None:
    kept = _with_facts(row(), EmbeddedMetadata())
    assert (kept.latitude, kept.longitude) == (1.0, 2.0)
    replaced = _with_facts(row(), EmbeddedMetadata(gps=PLACE))
    assert (replaced.latitude, replaced.longitude) == (47.5, 8.5)
    void = _with_facts(row(), EmbeddedMetadata(gps=PLACE | {9: "V"}))
    assert (void.latitude, void.longitude) == (None, None)
