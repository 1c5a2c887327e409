"""Metadata: what a picture says about itself, and how little of it is believed."""

import math
from datetime import UTC, datetime

import pytest
from PIL import Image
from PIL.TiffImagePlugin import IFDRational
from tests.support import pictures

from lodestone.imaging.decode import decode
from lodestone.imaging.descriptions import iptc_descriptions, xmp_descriptions
from lodestone.imaging.exif import EmbeddedMetadata
from lodestone.imaging.metadata import PhotoMetadata, read_metadata

_MAKE, _MODEL, _ORIENTATION = 0x010F, 0x0110, 0x0112
_EXIF_IFD, _GPS_IFD = 0x8769, 0x8825
_ORIGINAL, _DIGITIZED, _OFFSET_ORIGINAL, _SUBSEC_ORIGINAL = 0x9003, 0x9004, 0x9011, 0x9291


def _exif(*, base: dict | None = None, photo: dict | None = None, gps: dict | None = None) -> Image.Exif:
    exif = Image.Exif()
    exif.update(base or {})
    if photo:
        exif.get_ifd(_EXIF_IFD).update(photo)
    if gps:
        exif.get_ifd(_GPS_IFD).update(gps)
    return exif


def _metadata(format_name: str = "JPEG", **ifds: dict) -> PhotoMetadata:
    data = pictures.encoded(pictures.photo((32, 24)), format_name, exif=_exif(**ifds).tobytes())
    return read_metadata(decode(data, min_side=8).embedded)


def _utc(*parts: int) -> int:
    return int(datetime(*parts, tzinfo=UTC).timestamp())


@pytest.mark.parametrize("format_name", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
def test_time_place_and_camera_are_read_from_every_format_that_holds_them(format_name):
    found = _metadata(
        format_name,
        base={_MAKE: "Lodecam", _MODEL: "One ", _ORIENTATION: 6},
        photo={_ORIGINAL: "2021:07:04 18:30:15", _OFFSET_ORIGINAL: "+02:00"},
        gps={1: "S", 2: (33.0, 52.0, 10.5), 3: "E", 4: (151.0, 12.0, 30.0)},
    )
    assert found.taken_at == _utc(2021, 7, 4, 16, 30, 15)
    assert found.utc_offset_minutes == 120
    assert found.latitude == pytest.approx(-(33 + 52 / 60 + 10.5 / 3600), abs=1e-6)
    assert found.longitude == pytest.approx(151 + 12 / 60 + 30 / 3600, abs=1e-6)
    assert (found.camera_make, found.camera_model, found.orientation) == ("Lodecam", "One", 6)


def test_picture_without_metadata_has_none():
    assert _metadata("PNG") == PhotoMetadata()


def test_clock_without_an_offset_is_read_as_utc_and_says_so():
    found = _metadata(photo={_ORIGINAL: "2021:07:04 18:30:15"})
    assert (found.taken_at, found.utc_offset_minutes) == (_utc(2021, 7, 4, 18, 30, 15), None)


def test_gps_clock_tells_the_offset():
    gps = {7: (14.0, 0.0, 16.0), 29: "2021:07:04"}
    found = _metadata(photo={_ORIGINAL: "2021:07:04 19:30:15"}, gps=gps)
    assert (found.taken_at, found.utc_offset_minutes) == (_utc(2021, 7, 4, 14, 0, 15), 330)
    far = _metadata(photo={_ORIGINAL: "2019:01:01 00:00:00"}, gps=gps)
    assert (far.taken_at, far.utc_offset_minutes) == (_utc(2019, 1, 1), None)


@pytest.mark.parametrize(
    "date",
    [
        "0000:00:00 00:00:00",
        "2021:02:30 10:00:00",
        "2021:13:01 10:00:00",
        "2021:01:01 25:00:00",
        "9999:01:01 00:00:00",
        "    ",
        "soon",
    ],
)
def test_impossible_date_is_unknown_and_the_next_one_counts(date):
    assert _metadata(photo={_ORIGINAL: date}).taken_at is None
    assert _metadata(photo={_ORIGINAL: date, _DIGITIZED: "2020:01:02 03:04:05"}).taken_at == _utc(2020, 1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    "offset", ["+99:00", "+14:15", "-15:00", "+05:75", "local", "+2", "   :  ", "", "\0+02:00", b"\xff\xfe"]
)
def test_impossible_offset_is_unknown(offset):
    found = _metadata(photo={_ORIGINAL: "2021:07:04 18:30:15", _OFFSET_ORIGINAL: offset})
    assert (found.taken_at, found.utc_offset_minutes) == (_utc(2021, 7, 4, 18, 30, 15), None)


@pytest.mark.parametrize(
    ("offset", "minutes"), [("+14:00", 840), ("-12:00", -720), ("+05:45", 345), (b"+01:00\0\0junk", 60), ("Z", 0)]
)
def test_plausible_offset_is_kept_and_the_time_is_utc(offset, minutes):
    found = read_metadata(EmbeddedMetadata(photo={_ORIGINAL: "2021:07:04 18:30:15", _OFFSET_ORIGINAL: offset}))
    assert (found.taken_at, found.utc_offset_minutes) == (_utc(2021, 7, 4, 18, 30, 15) - 60 * minutes, minutes)


@pytest.mark.parametrize(
    ("digits", "milliseconds"),
    [("5", 500), ("05", 50), ("0429", 42), ("999999", 999), ("000", 0), ("7  ", 700), (b"25\0\0", 250)]
    + [(nonsense, None) for nonsense in ("  ", "", "-5", "1.5", "x", "٣", "\0" + "5", b"\0\0", 5, None, (5,))],
)
def test_subseconds_are_the_digits_behind_the_point(digits, milliseconds):
    found = read_metadata(EmbeddedMetadata(photo={_ORIGINAL: "2021:07:04 18:30:15", _SUBSEC_ORIGINAL: digits}))
    assert (found.taken_at, found.taken_subsec_ms) == (_utc(2021, 7, 4, 18, 30, 15), milliseconds)


def test_subseconds_without_a_time_are_nothing_and_before_1970_they_are_added_too():
    assert read_metadata(EmbeddedMetadata(photo={_SUBSEC_ORIGINAL: "5"})) == PhotoMetadata()
    found = read_metadata(EmbeddedMetadata(photo={_ORIGINAL: "1955:05:05 05:05:05", _SUBSEC_ORIGINAL: "5"}))
    assert (found.taken_at, found.taken_subsec_ms) == (_utc(1955, 5, 5, 5, 5, 5), 500)


def test_subseconds_belong_to_the_date_that_counts():
    photo = {_ORIGINAL: "soon", _SUBSEC_ORIGINAL: "5", _DIGITIZED: "2020:01:02 03:04:05", 0x9292: "75"}
    assert read_metadata(EmbeddedMetadata(photo=photo)).taken_subsec_ms == 750
    packet = pictures.xmp_packet(body="<photoshop:DateCreated>2018-03-04T05:06:07.089-05:00</photoshop:DateCreated>")
    found = read_metadata(EmbeddedMetadata(xmp=packet))
    assert (found.taken_at, found.taken_subsec_ms) == (_utc(2018, 3, 4, 10, 6, 7), 89)


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        (b"Canon\0\0\0EOS", "Canon"),
        ("NIKON CORPORATION   ", "NIKON CORPORATION"),
        ("two\nlines\x07", "two lines"),
        ("x" * 500, "x" * 100),
        (b"Gr\xfc\xdf", "Gr\ufffd\ufffd"),
        ("\0\0", None),
        (b"", None),
        ("   ", None),
        (17, None),
        (("Canon",), None),
    ],
)
def test_name_of_a_camera_is_one_short_line(tag, name):
    found = read_metadata(EmbeddedMetadata(base={_MAKE: tag, _MODEL: tag}))
    assert (found.camera_make, found.camera_model) == (name, name)


def test_date_before_1970_is_negative():
    assert _metadata(photo={_ORIGINAL: "1955:05:05 05:05:05"}).taken_at == _utc(1955, 5, 5, 5, 5, 5)


@pytest.mark.parametrize(
    "latitude",
    [
        (999.0, 0.0, 0.0),
        (91.0, 0.0, 0.0),
        (10.0, 75.0, 0.0),
        (10.0, 0.0),
        "north",
        (IFDRational(0, 0), 0.0, 0.0),
        (math.nan, 0.0, 0.0),
        (math.inf, 0.0, 0.0),
        (10**400, 0, 0),
        (-10.0, 0.0, 0.0),
    ],
)
def test_impossible_place_is_unknown(latitude):
    embedded = EmbeddedMetadata(gps={1: "N", 2: latitude, 3: "E", 4: (10.0, 0.0, 0.0)})
    found = read_metadata(embedded)
    assert (found.latitude, found.longitude) == (None, None)


def test_zero_zero_is_no_place():
    zero = (0.0, 0.0, 0.0)
    assert read_metadata(EmbeddedMetadata(gps={1: "N", 2: zero, 3: "E", 4: zero})).latitude is None


@pytest.mark.parametrize("status", [{9: "V"}, {9: b"V\0"}, {11: IFDRational(9999, 100)}, {11: 50.0}])
def test_place_without_a_fix_is_unknown(status):
    here = {1: "N", 2: (47.0, 30.0, 0.0), 3: "E", 4: (8.0, 30.0, 0.0)}
    assert read_metadata(EmbeddedMetadata(gps=here | status)).latitude is None


@pytest.mark.parametrize("status", [{}, {9: "A"}, {11: IFDRational(0, 0)}, {11: 4.2}, {11: "good"}, {9: 7, 11: (1, 2)}])
def test_place_with_a_fix_counts(status):
    here = {1: "N", 2: (47.0, 30.0, 0.0), 3: "W", 4: (8.0, 30.0, 0.0)}
    found = read_metadata(EmbeddedMetadata(gps=here | status))
    assert (found.latitude, found.longitude) == (47.5, -8.5)


@pytest.mark.parametrize("value", [0, 9, 65535, "upright", None, (1, 2)])
def test_impossible_orientation_is_upright(value):
    assert EmbeddedMetadata(base={_ORIENTATION: value}).orientation == 1


def test_xmp_tells_the_date_when_exif_does_not():
    packet = pictures.xmp_packet(body="<photoshop:DateCreated>2018-03-04T05:06:07-05:00</photoshop:DateCreated>")
    found = read_metadata(decode(pictures.encoded(pictures.photo((32, 24)), "JPEG", xmp=packet), min_side=8).embedded)
    assert (found.taken_at, found.utc_offset_minutes) == (_utc(2018, 3, 4, 10, 6, 7), -300)


@pytest.mark.parametrize("format_name", ["JPEG", "WEBP", "TIFF", "AVIF"])
def test_xmp_description_is_found_in_every_format_that_holds_it(format_name):
    packet = pictures.xmp_packet(description="two dogs &amp; a ball")
    save = {"tiffinfo": {700: packet}} if format_name == "TIFF" else {"xmp": packet}
    embedded = decode(pictures.encoded(pictures.photo((32, 24)), format_name, **save), min_side=8).embedded
    assert xmp_descriptions(embedded) == ("two dogs & a ball",)


def test_xmp_languages_come_with_the_default_first():
    body = (
        '<dc:description><rdf:Alt><rdf:li xml:lang="de">Hund</rdf:li><rdf:li xml:lang="x-default">dog</rdf:li>'
        "<rdf:li xml:lang='en'>dog</rdf:li></rdf:Alt></dc:description>"
    )
    assert xmp_descriptions(EmbeddedMetadata(xmp=pictures.xmp_packet(body=body))) == ("dog", "Hund")


@pytest.mark.parametrize(
    "packet",
    [
        b"<not xml",
        b"\0" * 50,
        b'<?xml version="1.0" encoding="no-such"?><a/>',
        b'<!DOCTYPE a [<!ENTITY b "bomb"><!ENTITY c "&b;&b;&b;">]><a>&c;</a>',
        b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>',
        b"<a>" + b"x" * (2 << 20) + b"</a>",
    ],
)
def test_broken_and_hostile_xmp_is_ignored(packet):
    embedded = EmbeddedMetadata(xmp=packet)
    assert xmp_descriptions(embedded) == ()
    assert read_metadata(embedded) == PhotoMetadata()


def test_iptc_captions_in_utf8_and_latin1():
    jpeg = pictures.with_iptc(pictures.jpeg_bytes((32, 24)), pictures.iptc_record("Café", "zwei Hunde"))
    assert iptc_descriptions(decode(jpeg, min_side=8).embedded) == ("Café", "zwei Hunde")
    undeclared = pictures.iptc_record("Café", encoding="latin-1", declared=False)
    assert iptc_descriptions(EmbeddedMetadata(iptc=undeclared)) == ("Café",)


def test_damaged_metadata_never_fails():
    exif = _exif(
        base={_MAKE: "Lodecam"},
        photo={_ORIGINAL: "2021:07:04 18:30:15"},
        gps={1: "S", 2: (33.0, 52.0, 10.5), 3: "E", 4: (151.0, 12.0, 30.0)},
    )
    packet, record = pictures.xmp_packet(description="a dog"), pictures.iptc_record("ein Hund")
    jpeg = pictures.with_iptc(pictures.encoded(pictures.photo((32, 24)), "JPEG", exif=exif, xmp=packet), record)
    parts = [exif.tobytes()[6:], packet, record]  # only what is inside the segments is damaged
    for seed in range(300):
        part = parts[seed % 3]
        broken = jpeg.replace(part, pictures.flip_bytes(part, seed=seed, count=5, keep_head=0))
        assert len(broken) == len(jpeg)
        embedded = decode(broken, min_side=8).embedded
        found = read_metadata(embedded)
        assert found.latitude is None or (math.isfinite(found.latitude) and abs(found.latitude) <= 90)
        xmp_descriptions(embedded)
        iptc_descriptions(embedded)
