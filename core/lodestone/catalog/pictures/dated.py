"""Values of the listing of pictures by date: its filter, and the place of a picture in it. They need no database."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lodestone.catalog.records import ImageRecord


@dataclass(frozen=True, slots=True)
class PictureFilter:
    """Conditions that hold together; None restricts nothing.

    Attributes:
        corpora: Ids of the corpora to look in.
        roots: Ids of the roots to look in.
        without_roots: Ids of roots to leave out.
        folders: Folders inside a root, without a slash at either end; a picture lies in one of them or below.
        local_from: First second that counts on the clock of the place, as seconds since 1970-01-01T00:00:00 of that clock.
        local_to: First second that does not count any more, on the same clock.
        period_to: Second by which the period of a partial date has ended, on the clock of the place: "1993" is over in 1994.
        utc_from: First second that counts (since 1970-01-01T00:00:00Z).
        utc_to: First second that does not count any more, in UTC.
    """

    corpora: Collection[str] | None = None
    roots: Collection[str] | None = None
    without_roots: Collection[str] = ()
    folders: Collection[str] | None = None
    local_from: float | None = None
    local_to: float | None = None
    period_to: float | None = None
    utc_from: float | None = None
    utc_to: float | None = None


class TimedPicture(NamedTuple):
    """When and where a picture was taken whose time is known to the second; as in `ImageRecord`."""

    image_id: str
    taken_at: int
    utc_offset_minutes: int | None
    latitude: float | None
    longitude: float | None


@dataclass(frozen=True, slots=True)
class DatedPlace:
    """Place of a picture in the order by date: seconds on its own clock (None without a date), and its id."""

    local: int | None
    image_id: str


def local_seconds(image: ImageRecord) -> int | None:
    """Return when a picture was taken on the clock of its place, as seconds since 1970-01-01T00:00:00 of that clock."""
    return None if image.taken_at is None else image.taken_at + 60 * (image.utc_offset_minutes or 0)
