"""Interpretation of a picture's metadata: when and where it was taken, and with which camera.

Everything here comes from the file and may be wrong: a value that cannot be true (year 0, latitude 999) counts as unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from xml.etree.ElementTree import Element

from PIL import ExifTags

from lodestone.imaging.dates import DateSource, FileDate, Zone, date_in_name, read_date, read_fraction, read_offset
from lodestone.imaging.descriptions import iptc_dates, parse_xmp, xmp_values
from lodestone.imaging.exif import EmbeddedMetadata
from lodestone_schemas.dates import Precision

METADATA_VERSION: Final = 2  # of what is read here; catalog rows with 0 are read again from their files' headers
_MAX_OFFSET = timedelta(hours=14)
_QUARTER_HOUR = timedelta(minutes=15)  # every zone's offset is a multiple of it
_NO_FIX_DOP = 50.0  # receivers without a fix write a dilution of precision of 50 or 99.99; above 20 counts as poor
_LONGEST_NAME = 100  # characters of a camera's maker or model

_EXIF = "{http://ns.adobe.com/exif/1.0/}"
_XMP_TAKEN: Final = (f"{_EXIF}DateTimeOriginal", "{http://ns.adobe.com/photoshop/1.0/}DateCreated")
_XMP_DIGITIZED: Final = ("{http://ns.adobe.com/xap/1.0/}CreateDate", f"{_EXIF}DateTimeDigitized")
_ORIGINAL: Final = (
    ExifTags.Base.DateTimeOriginal,
    ExifTags.Base.OffsetTimeOriginal,
    ExifTags.Base.SubsecTimeOriginal,
    DateSource.EXIF,
)
_DIGITIZED: Final = (
    ExifTags.Base.DateTimeDigitized,
    ExifTags.Base.OffsetTimeDigitized,
    ExifTags.Base.SubsecTimeDigitized,
    DateSource.DIGITIZED,
)
_CHANGED: Final = (ExifTags.Base.DateTime, ExifTags.Base.OffsetTime, ExifTags.Base.SubsecTime, DateSource.CHANGED)
_PNG_TIME: Final = "Creation Time"


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
        taken_precision: How much of the time is known: year, month, day or second; `taken_at` is the beginning of that.
        taken_source: What it was read from (`DateSource`).
        taken_zone: What says the offset (`Zone`); None where it is unknown.
        camera_make: The camera's maker, e.g. "Canon".
        camera_model: The camera's model, e.g. "EOS 5D".
        orientation: EXIF orientation, 1 to 8 (already applied to the pixels).
    """

    taken_at: int | None = None
    taken_subsec_ms: int | None = None
    utc_offset_minutes: int | None = None
    taken_precision: Precision | None = None
    taken_source: DateSource | None = None
    taken_zone: Zone | None = None
    latitude: float | None = None
    longitude: float | None = None
    camera_make: str | None = None
    camera_model: str | None = None
    orientation: int = 1


def read_by(version: int | None) -> int:
    """Return the version of a file's reader, and 0 for an older one than this: then the header is to be read again."""
    return 0 if version is None or version < METADATA_VERSION else version


def read_metadata(embedded: EmbeddedMetadata, *, name: str = "") -> PhotoMetadata:
    """Interpret the metadata that decoding found; no file is read again, and nothing is raised for what it contains.

    Args:
        embedded: The metadata.
        name: Name of the file, in which phones write the date; it counts where nothing inside the file does.
    """
    date = next(_dates(embedded), None) or date_in_name(name)
    latitude, longitude = _position(embedded.gps)
    return PhotoMetadata(
        **({} if date is None else _taken(date)),
        latitude=latitude,
        longitude=longitude,
        camera_make=_name(embedded.base.get(ExifTags.Base.Make)),
        camera_model=_name(embedded.base.get(ExifTags.Base.Model)),
        orientation=embedded.orientation,
    )


def stated_date(embedded: EmbeddedMetadata) -> FileDate | None:
    """Return the date that metadata of a file beside the picture states."""
    date = next(_dates(embedded), None)
    return None if date is None else replace(date, source=DateSource.SIDECAR)


def _taken(date: FileDate) -> dict[str, Any]:
    return {
        "taken_at": date.taken_at,
        "taken_subsec_ms": date.milliseconds,
        "utc_offset_minutes": date.offset_minutes,
        "taken_precision": date.precision,
        "taken_source": date.source,
        "taken_zone": date.zone,
    }


def _dates(embedded: EmbeddedMetadata) -> Iterator[FileDate]:
    """Yield the plausible dates of a file, those of the shutter first, then of digitisation, then of the last change.

    They are read one by one: what comes behind the first is usually not read at all.
    """
    yield from _exif_dates(embedded, _ORIGINAL)
    packet = parse_xmp(embedded.xmp)
    yield from _xmp_dates(packet, _XMP_TAKEN)
    yield from filter(None, (read_date(text, DateSource.IPTC) for text in iptc_dates(embedded)))
    yield from _exif_dates(embedded, _DIGITIZED)
    yield from _xmp_dates(packet, _XMP_DIGITIZED)
    yield from filter(None, (read_date(_text(embedded.texts.get(_PNG_TIME)), DateSource.TEXT),))
    yield from _exif_dates(embedded, _CHANGED)
    utc = _gps_time(embedded.gps)
    if utc is not None:
        yield replace(utc, source=DateSource.GPS, zone=Zone.GPS if utc.precision is Precision.SECOND else None)


def _exif_dates(embedded: EmbeddedMetadata, tags: tuple[int, int, int, DateSource]) -> Iterator[FileDate]:
    date_tag, offset_tag, subsec_tag, source = tags
    photo = embedded.photo
    in_base = _text(embedded.base.get(date_tag)) if date_tag == ExifTags.Base.DateTime else None
    date = read_date(in_base or _text(photo.get(date_tag)), source)
    if date is None:
        return
    milliseconds = read_fraction(_text(photo.get(subsec_tag)))
    if date.precision is Precision.SECOND and milliseconds is not None:
        date = replace(date, milliseconds=milliseconds)
    stated = date.at(read_offset(_text(photo.get(offset_tag))), Zone.STATED)
    yield stated.at(_offset_by_gps(stated.local, embedded.gps), Zone.GPS)


def _xmp_dates(packet: Element | None, names: Sequence[str]) -> Iterator[FileDate]:
    for name in names:
        for value in () if packet is None else xmp_values(packet, name):
            date = read_date(value, DateSource.XMP)
            if date is not None:
                yield date


def _gps_time(gps: Mapping[int, Any]) -> FileDate | None:
    """Return the receiver's time, which is UTC, or its day alone where it has no time."""
    day, clock = _text(gps.get(ExifTags.GPS.GPSDateStamp)), _numbers(gps.get(ExifTags.GPS.GPSTimeStamp))
    if day is None:
        return None
    time = "" if clock is None else f" {int(clock[0]):02}:{int(clock[1]):02}:{int(clock[2]):02}"
    return read_date(f"{day}{time}", DateSource.GPS)


def _offset_by_gps(local: datetime, gps: Mapping[int, Any]) -> timedelta | None:
    """Return the camera clock's distance from GPS time, which is UTC, if it is a plausible offset."""
    utc = _gps_time(gps)
    if utc is None or utc.precision is not Precision.SECOND:
        return None
    quarters = round((local - utc.local) / _QUARTER_HOUR)
    offset = quarters * _QUARTER_HOUR
    is_near = abs(local - utc.local - offset) <= timedelta(minutes=5)
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
