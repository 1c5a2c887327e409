"""Interpretation of a picture's metadata: when and where it was taken, and with which camera.

Everything here comes from the file and may be wrong: a value that cannot be true (year 0, latitude 999) counts as unknown.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from PIL import ExifTags

from lodestone.imaging.descriptions import parse_xmp, xmp_values
from lodestone.imaging.exif import EmbeddedMetadata

_FIRST_PHOTO_YEAR, _LAST_PLAUSIBLE_YEAR = 1826, 2100
_MAX_OFFSET = timedelta(hours=14)
_QUARTER_HOUR = timedelta(minutes=15)  # every zone's offset is a multiple of it

_DATE = re.compile(
    r"(\d{4})[:\-/.](\d{1,2})[:\-/.](\d{1,2})[T ]+(\d{1,2}):(\d{1,2})(?::(\d{1,2}))?(?:\.\d+)?\s*(Z|[+-]\d{2}:?\d{2})?"
)
_OFFSET = re.compile(r"([+-])(\d{1,2}):?(\d{2})")

_EXIF_DATES = (
    (ExifTags.Base.DateTimeOriginal, ExifTags.Base.OffsetTimeOriginal),
    (ExifTags.Base.DateTimeDigitized, ExifTags.Base.OffsetTimeDigitized),
)
_XMP_DATES = ("{http://ns.adobe.com/exif/1.0/}DateTimeOriginal", "{http://ns.adobe.com/photoshop/1.0/}DateCreated")


@dataclass(frozen=True, slots=True)
class PhotoMetadata:
    """Holds what a file states about its picture, as far as it is plausible; unknown values are None.

    Attributes:
        taken_at: Seconds since 1970-01-01T00:00:00Z. Without a known offset the camera's clock is read as if it showed UTC.
        utc_offset_minutes: Local time minus UTC where the picture was taken, in minutes; from the camera, or from its GPS
            clock.
        latitude: Degrees, north positive.
        longitude: Degrees, east positive.
        camera_make: The camera's maker, e.g. "Canon".
        camera_model: The camera's model, e.g. "EOS 5D".
        orientation: EXIF orientation, 1 to 8 (already applied to the pixels).
    """

    taken_at: int | None = None
    utc_offset_minutes: int | None = None
    latitude: float | None = None
    longitude: float | None = None
    camera_make: str | None = None
    camera_model: str | None = None
    orientation: int = 1


def read_metadata(embedded: EmbeddedMetadata) -> PhotoMetadata:
    """Interpret the metadata that decoding found; no file is read again, and nothing is raised for what it contains."""
    local, offset = _taken_at(embedded)
    latitude, longitude = _position(embedded.gps)
    return PhotoMetadata(
        taken_at=None if local is None else int((local - (offset or timedelta())).replace(tzinfo=UTC).timestamp()),
        utc_offset_minutes=None if local is None or offset is None else round(offset.total_seconds() / 60),
        latitude=latitude,
        longitude=longitude,
        camera_make=_text(embedded.base.get(ExifTags.Base.Make)),
        camera_model=_text(embedded.base.get(ExifTags.Base.Model)),
        orientation=embedded.orientation,
    )


def _taken_at(embedded: EmbeddedMetadata) -> tuple[datetime | None, timedelta | None]:
    """Return local time and its offset from UTC: EXIF's original time, else its digitisation time, else XMP's.

    An implausible date is skipped, and the next one is tried.
    """
    photo = embedded.photo
    for date_tag, offset_tag in _EXIF_DATES:
        local, offset = _parse_date(_text(photo.get(date_tag)))
        if local is not None:
            if offset is None:
                offset = _parse_offset(_text(photo.get(offset_tag)))
            return local, _offset_by_gps(local, embedded.gps) if offset is None else offset
    packet = parse_xmp(embedded.xmp)
    for name in _XMP_DATES:
        for value in () if packet is None else xmp_values(packet, name):
            local, offset = _parse_date(value)
            if local is not None:
                return local, offset
    return None, None


def _parse_date(text: str | None) -> tuple[datetime | None, timedelta | None]:
    match = _DATE.match(text or "")
    if match is None:
        return None, None
    try:
        local = datetime(*(int(part or 0) for part in match.groups()[:6]))  # type: ignore[arg-type]  # noqa: DTZ001 - local on purpose
    except ValueError:
        return None, None
    if not _FIRST_PHOTO_YEAR <= local.year <= _LAST_PLAUSIBLE_YEAR:
        return None, None
    zone = match.group(7)
    return local, timedelta() if zone == "Z" else _parse_offset(zone)


def _parse_offset(text: str | None) -> timedelta | None:
    match = _OFFSET.match(text or "")
    if match is None:
        return timedelta() if text == "Z" else None
    offset = timedelta(hours=int(match.group(2)), minutes=int(match.group(3)))
    if offset > _MAX_OFFSET:
        return None
    return -offset if match.group(1) == "-" else offset


def _offset_by_gps(local: datetime, gps: Mapping[int, Any]) -> timedelta | None:
    """Return the camera clock's distance from GPS time, which is UTC, if it is a plausible offset."""
    clock = _numbers(gps.get(ExifTags.GPS.GPSTimeStamp))
    day = _text(gps.get(ExifTags.GPS.GPSDateStamp))
    if clock is None or day is None:
        return None
    utc, _ = _parse_date(f"{day} {int(clock[0]):02}:{int(clock[1]):02}:{int(clock[2]):02}")
    if utc is None:
        return None
    quarters = round((local - utc) / _QUARTER_HOUR)
    offset = quarters * _QUARTER_HOUR
    is_near = abs(local - utc - offset) <= timedelta(minutes=5)
    return offset if is_near and abs(offset) <= _MAX_OFFSET else None


def _position(gps: Mapping[int, Any]) -> tuple[float | None, float | None]:
    latitude = _degrees(gps.get(ExifTags.GPS.GPSLatitude), _text(gps.get(ExifTags.GPS.GPSLatitudeRef)), "S", 90.0)
    longitude = _degrees(gps.get(ExifTags.GPS.GPSLongitude), _text(gps.get(ExifTags.GPS.GPSLongitudeRef)), "W", 180.0)
    if latitude is None or longitude is None or (latitude == 0.0 and longitude == 0.0):  # 0, 0 means that the GPS had no fix
        return None, None
    return latitude, longitude


def _degrees(value: object, reference: str | None, negative: str, limit: float) -> float | None:
    parts = _numbers(value)
    if parts is None or parts[1] >= 60 or parts[2] >= 60:
        return None
    degrees = parts[0] + parts[1] / 60 + parts[2] / 3600
    if degrees > limit:
        return None
    return -degrees if (reference or "").upper().startswith(negative) else degrees


def _numbers(value: object) -> tuple[float, float, float] | None:
    """Return three finite numbers >= 0, or None (EXIF rationals may be 0/0)."""
    if not isinstance(value, (tuple, list)) or len(value) != 3:
        return None
    try:
        a, b, c = (float(part) for part in value)
    except (TypeError, ValueError, ZeroDivisionError):
        return None
    return (a, b, c) if all(math.isfinite(part) and part >= 0 for part in (a, b, c)) else None


def _text(value: object) -> str | None:
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="replace")
    if not isinstance(value, str):
        return None
    return value.split("\0", 1)[0].strip() or None
