"""Interpretation of a picture's metadata: when and where it was taken, and with which camera.

Everything here comes from the file and may be wrong: a value that cannot be true (year 0, latitude 999) counts as unknown.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from PIL import ExifTags

from lodestone.imaging.descriptions import parse_xmp, xmp_values
from lodestone.imaging.exif import EmbeddedMetadata

METADATA_VERSION: Final = 1  # of what is read here; catalog rows with 0 are read again from their files' headers
_FIRST_PHOTO_YEAR, _LAST_PLAUSIBLE_YEAR = 1826, 2100
_MAX_OFFSET = timedelta(hours=14)
_QUARTER_HOUR = timedelta(minutes=15)  # every zone's offset is a multiple of it
_NO_FIX_DOP = 50.0  # receivers without a fix write a dilution of precision of 50 or 99.99; above 20 counts as poor
_LONGEST_NAME = 100  # characters of a camera's maker or model

_DATE = re.compile(
    r"(\d{4})[:\-/.](\d{1,2})[:\-/.](\d{1,2})[T ]+(\d{1,2}):(\d{1,2})(?::(\d{1,2}))?(?:\.(\d+))?\s*(Z|[+-]\d{2}:?\d{2})?"
)
_OFFSET = re.compile(r"([+-])(\d{1,2}):?([0-5]\d)")
_DIGITS = re.compile(r"[0-9]+")

_EXIF_DATES = (
    (ExifTags.Base.DateTimeOriginal, ExifTags.Base.OffsetTimeOriginal, ExifTags.Base.SubsecTimeOriginal),
    (ExifTags.Base.DateTimeDigitized, ExifTags.Base.OffsetTimeDigitized, ExifTags.Base.SubsecTimeDigitized),
)
_XMP_DATES = ("{http://ns.adobe.com/exif/1.0/}DateTimeOriginal", "{http://ns.adobe.com/photoshop/1.0/}DateCreated")


@dataclass(frozen=True, slots=True)
class PhotoMetadata:
    """Holds what a file states about its picture, as far as it is plausible; unknown values are None.

    Attributes:
        taken_at: Whole seconds since 1970-01-01T00:00:00Z. Without a known offset the camera's clock is read as if it showed
            UTC.
        taken_subsec_ms: Milliseconds to add to `taken_at`, 0 to 999; None when the file gives no fraction of the second.
        utc_offset_minutes: Local time minus UTC where the picture was taken, in minutes; from the camera, or from its GPS
            clock.
        latitude: Degrees, north positive.
        longitude: Degrees, east positive.
        camera_make: The camera's maker, e.g. "Canon".
        camera_model: The camera's model, e.g. "EOS 5D".
        orientation: EXIF orientation, 1 to 8 (already applied to the pixels).
    """

    taken_at: int | None = None
    taken_subsec_ms: int | None = None
    utc_offset_minutes: int | None = None
    latitude: float | None = None
    longitude: float | None = None
    camera_make: str | None = None
    camera_model: str | None = None
    orientation: int = 1


def read_metadata(embedded: EmbeddedMetadata) -> PhotoMetadata:
    """Interpret the metadata that decoding found; no file is read again, and nothing is raised for what it contains."""
    local, offset, subsec_ms = _taken_at(embedded)
    latitude, longitude = _position(embedded.gps)
    return PhotoMetadata(
        taken_at=None if local is None else int((local - (offset or timedelta())).replace(tzinfo=UTC).timestamp()),
        taken_subsec_ms=None if local is None else subsec_ms,
        utc_offset_minutes=None if local is None or offset is None else round(offset.total_seconds() / 60),
        latitude=latitude,
        longitude=longitude,
        camera_make=_name(embedded.base.get(ExifTags.Base.Make)),
        camera_model=_name(embedded.base.get(ExifTags.Base.Model)),
        orientation=embedded.orientation,
    )


def _taken_at(embedded: EmbeddedMetadata) -> tuple[datetime | None, timedelta | None, int | None]:
    """Return local time, its offset from UTC and its milliseconds.

    EXIF's original time comes first, then its digitisation time, then XMP's; an implausible date is skipped.
    """
    photo = embedded.photo
    for date_tag, offset_tag, subsec_tag in _EXIF_DATES:
        local, offset, subsec_ms = _parse_date(_text(photo.get(date_tag)))
        if local is not None:
            stated_ms = _parse_subsec(_text(photo.get(subsec_tag)))
            if offset is None:
                offset = _parse_offset(_text(photo.get(offset_tag)))
            offset = _offset_by_gps(local, embedded.gps) if offset is None else offset
            return local, offset, subsec_ms if stated_ms is None else stated_ms
    packet = parse_xmp(embedded.xmp)
    for name in _XMP_DATES:
        for value in () if packet is None else xmp_values(packet, name):
            local, offset, subsec_ms = _parse_date(value)
            if local is not None:
                return local, offset, subsec_ms
    return None, None, None


def _parse_date(text: str | None) -> tuple[datetime | None, timedelta | None, int | None]:
    match = _DATE.match(text or "")
    if match is None:
        return None, None, None
    try:
        local = datetime(*(int(part or 0) for part in match.groups()[:6]))  # type: ignore[arg-type]  # noqa: DTZ001 - local on purpose
    except ValueError:
        return None, None, None
    if not _FIRST_PHOTO_YEAR <= local.year <= _LAST_PLAUSIBLE_YEAR:
        return None, None, None
    fraction, zone = match.group(7), match.group(8)
    return local, timedelta() if zone == "Z" else _parse_offset(zone), _parse_subsec(fraction)


def _parse_subsec(digits: str | None) -> int | None:
    """Return the milliseconds of the digits behind a decimal point: "5" is 500, "0429" is 42; None for anything else."""
    return int(digits[:3].ljust(3, "0")) if digits and _DIGITS.fullmatch(digits) else None


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
    utc, _, _ = _parse_date(f"{day} {int(clock[0]):02}:{int(clock[1]):02}:{int(clock[2]):02}")
    if utc is None:
        return None
    quarters = round((local - utc) / _QUARTER_HOUR)
    offset = quarters * _QUARTER_HOUR
    is_near = abs(local - utc - offset) <= timedelta(minutes=5)
    return offset if is_near and abs(offset) <= _MAX_OFFSET else None


def _position(gps: Mapping[int, Any]) -> tuple[float | None, float | None]:
    """Return latitude and longitude in degrees, or two Nones where one is impossible or the receiver had no fix."""
    if (_text(gps.get(ExifTags.GPS.GPSStatus)) or "").upper() == "V":  # void: the last known position, or none
        return None, None
    if _number(gps.get(ExifTags.GPS.GPSDOP)) >= _NO_FIX_DOP:
        return None, None
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
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        return None
    return (a, b, c) if all(math.isfinite(part) and part >= 0 for part in (a, b, c)) else None


def _number(value: object) -> float:
    """Return a finite number; 0.0 for anything else."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        return 0.0
    return number if math.isfinite(number) else 0.0


def _name(value: object) -> str | None:
    """Return a maker's or model's name on one line without control characters, of at most `_LONGEST_NAME` characters."""
    printable = "".join(letter if letter.isprintable() else " " for letter in _text(value) or "")
    return " ".join(printable.split())[:_LONGEST_NAME].rstrip() or None


def _text(value: object) -> str | None:
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="replace")
    if not isinstance(value, str):
        return None
    return value.split("\0", 1)[0].strip() or None
