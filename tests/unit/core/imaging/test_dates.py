"""Dates as devices and programs write them: what is read, how much of it is known, and what counts as none."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.support import pictures

from lodestone.imaging.dates import DateSource, Zone, date_in_name, read_date
from lodestone.imaging.decode import decode
from lodestone.imaging.exif import EmbeddedMetadata
from lodestone.imaging.metadata import read_metadata

O, D, CHANGED, PRECISE = 0x9003, 0x9004, 0x0132, "second"  # noqa: E741 - tags, as the standard numbers them


@pytest.mark.parametrize(
    ("written", "local", "precision"),
    [
        ("2007:02:19 10:00:00", "2007-02-19T10:00:00", PRECISE),
        ("2007-02-19 10:00", "2007-02-19T10:00:00", PRECISE),
        ("1993", "1993-01-01T00:00:00", "year"),
        ("1993:06", "1993-06-01T00:00:00", "month"),
        ("1993-06-05", "1993-06-05T00:00:00", "day"),
        ("1993:00:00 12:00:00", "1993-01-01T00:00:00", "year"),
        ("1993:06:00 12:00:00", "1993-06-01T00:00:00", "month"),
        ("1993:  :     :  :  ", "1993-01-01T00:00:00", "year"),
        ("19930000", "1993-01-01T00:00:00", "year"),
        ("19930600", "1993-06-01T00:00:00", "month"),
        ("19930605", "1993-06-05T00:00:00", "day"),
        ("2012:05:06 24:00:00", "2012-05-07T00:00:00", PRECISE),
        ("2012:12:31 24:00:00", "2013-01-01T00:00:00", PRECISE),
        ("2012:05:06 10:00:60", "2012-05-06T10:01:00", PRECISE),
        ("1944:06:06 06:30:00", "1944-06-06T06:30:00", PRECISE),
        ("2016/01/02 03:04:05 PM", "2016-01-02T15:04:05", PRECISE),
        ("2016/01/02 12:04:05 AM", "2016-01-02T00:04:05", PRECISE),
        ("2016/01/02 12:04:05 PM", "2016-01-02T12:04:05", PRECISE),
        ("10 Sep 2019 11:12:13", "2019-09-10T11:12:13", PRECISE),
        ("Tue Sep 10 11:12:13 2019", "2019-09-10T11:12:13", PRECISE),
        ("1980:01:01 01:00:00", "1980-01-01T01:00:00", PRECISE),
        ("1980", "1980-01-01T00:00:00", "year"),
        ("1970:01:01 15:31:02", "1970-01-01T15:31:02", PRECISE),
        ("2002:12:08 12:00:01", "2002-12-08T12:00:01", PRECISE),
    ],
)
def test_a_date_is_read_as_far_as_it_is_known(written, local, precision):
    found = read_date(written)
    assert (found.local.isoformat(), found.precision, found.offset) == (local, precision, None)


@pytest.mark.parametrize(
    ("written", "minutes"),
    [
        ("2023-07-04T10:11:12+02:00", 120),
        ("2018-01-30T20:30Z", 0),
        ("20180130T203000-0500", -300),
        ("10 Sep 2019 11:12:13 +0530", 330),
        ("Tue, 10 Sep 2019 11:12:13 GMT", 0),
        ("2018-01-30T20:30+15:00", None),
    ],
)
def test_an_offset_is_stated_in_the_text(written, minutes):
    found = read_date(written, DateSource.XMP)
    assert (found.offset_minutes, found.zone) == (minutes, None if minutes is None else Zone.STATED)
    assert found.source is DateSource.XMP


@pytest.mark.parametrize(
    "written",
    [
        *(
            "0000:00:00 00:00:00",
            "    :  :     :  :  ",
            "",
            None,
            "soon",
            "2021:02:30 10:00:00",
            "2021:13:01 10:00:00",
            "1825",
            "9999",
        ),
        *("2021:01:01 25:00:00", "99999", "12:00", "1980:01:01 00:00:00", "1980:01:01 00:00:12", "1970:01:01 00:00:00"),
        *("1970:01:01 02:00:00", "1969:12:31 19:00:00", "2002:12:08 12:00:00", "2000:01:01 00:00:00", "1904:01:01 00:00:00"),
    ],
)
def test_what_no_shutter_released_is_none(written):
    assert read_date(written) is None


def test_the_future_begins_a_day_from_now():
    now = datetime.now(UTC).replace(tzinfo=None)
    assert read_date((now + timedelta(hours=23)).strftime("%Y:%m:%d %H:%M:%S")) is not None
    assert read_date((now + timedelta(hours=25)).strftime("%Y:%m:%d %H:%M:%S")) is None
    assert read_date(str(now.year + 2)) is None


@pytest.mark.parametrize(
    ("name", "local", "precision"),
    [
        ("IMG-20161224-WA0014.jpg", "2016-12-24T00:00:00", "day"),
        ("Screenshot_20190201-212530_App.png", "2019-02-01T21:25:30", PRECISE),
        ("Screenshot_2019-02-01-21-25-30-123_com.x.png", "2019-02-01T21:25:30", PRECISE),
        ("signal-2018-08-21-100217-1.jpg", "2018-08-21T10:02:17", PRECISE),
        ("PXL_20230405_060708123.jpg", "2023-04-05T00:00:00", "day"),
        ("2014-08-25 17.15.33.jpg", "2014-08-25T17:15:33", PRECISE),
        ("IMG20190201212530.jpg", "2019-02-01T21:25:30", PRECISE),
        ("WhatsApp Image 2017-03-05 at 09.10.11.jpeg", "2017-03-05T09:10:11", PRECISE),
        ("1944-06-06 beach.jpg", "1944-06-06T00:00:00", "day"),
        ("2014-08-25-12345.jpg", "2014-08-25T00:00:00", "day"),
    ],
)
def test_names_of_phones_have_a_date(name, local, precision):
    found = date_in_name(name)
    assert (found.local.isoformat(), found.precision, found.source) == (local, precision, "name")


@pytest.mark.parametrize(
    "name",
    [
        *("DSC_2016.jpg", "FB_IMG_1546300800000.jpg", "IMG_20123456.jpg", "20991231.jpg", "19440606.jpg", "2014-13-25.jpg", ""),
        *("120161224.jpg", "201612245.jpg"),
    ],
)
def test_other_numbers_in_names_are_no_date(name):
    assert date_in_name(name) is None


@pytest.mark.parametrize(
    ("tags", "source", "day"),
    [
        ({"photo": {O: "0000:00:00 00:00:00", D: "2007:02:19 10:00:00"}}, "exif_digitized", "2007-02-19"),
        ({"photo": {O: "    :  :     :  :  "}, "base": {CHANGED: "2008:03:04 05:06:07"}}, "exif_changed", "2008-03-04"),
        ({"photo": {O: "2050:12:31 00:00:00", D: "1993"}}, "exif_digitized", "1993-01-01"),
        ({"photo": {O: "2007:02:19 10:00:00", D: "2008:02:19 10:00:00"}}, "exif", "2007-02-19"),
        ({"photo": {D: "2008:02:19 10:00:00"}, "base": {CHANGED: "2009:03:04 05:06:07"}}, "exif_digitized", "2008-02-19"),
        ({"gps": {29: "2015:08:09", 7: (10.0, 20.0, 30.0)}}, "gps", "2015-08-09"),
        ({"gps": {29: "2015:08:09"}, "base": {CHANGED: "2009:03:04 05:06:07"}}, "exif_changed", "2009-03-04"),
        ({"texts": {"Creation Time": "2019:09:10 11:12:13"}}, "text", "2019-09-10"),
        ({"iptc": b"\x1c\x02\x37\0\x0819990809\x1c\x02\x3c\0\x0b101112+0200"}, "iptc", "1999-08-09"),
        ({"iptc": b"\x1c\x02\x37\0\x0819990809\x1c\x02\x3c\0\x04noon"}, "iptc", "1999-08-09"),
        ({"iptc": b"\x1c\x02\x37\0\x0819990809", "photo": {D: "2008:02:19 10:00:00"}}, "iptc", "1999-08-09"),
    ],
)
def test_the_shutter_comes_before_the_scanner_and_both_before_the_last_change(tags, source, day):
    found = read_metadata(EmbeddedMetadata(**tags), name="IMG-20161224-WA0014.jpg")
    assert (found.taken_source, datetime.fromtimestamp(found.taken_at, UTC).date().isoformat()) == (source, day)


@pytest.mark.parametrize(
    ("name", "value", "precision"),
    [
        ("photoshop:DateCreated", "1975", "year"),
        ("photoshop:DateCreated", "1975-08", "month"),
        ("photoshop:DateCreated", "1975-08-02", "day"),
        ("xmp:CreateDate", "2011-02-03T04:05:06", "second"),
    ],
)
def test_dates_of_xmp_may_be_partial(name, value, precision):
    packet = (
        '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description '
        'xmlns:photoshop="http://ns.adobe.com/photoshop/1.0/" xmlns:xmp="http://ns.adobe.com/xap/1.0/" '
        f'{name}="{value}"/></rdf:RDF></x:xmpmeta>'
    )
    found = read_metadata(EmbeddedMetadata(xmp=packet.encode()))
    assert (found.taken_precision, found.taken_source) == (precision, "xmp")


def test_a_partial_date_has_no_offset_and_no_fraction():
    found = read_metadata(EmbeddedMetadata(photo={O: "1993:06", 0x9011: "+02:00", 0x9291: "5"}))
    assert (found.utc_offset_minutes, found.taken_subsec_ms, found.taken_zone) == (None, None, None)


def test_the_clock_of_the_receiver_says_the_offset_and_that_it_did():
    gps = {29: "2024:01:01", 7: (4.0, 30.0, 0.0)}
    found = read_metadata(EmbeddedMetadata(photo={O: "2023:12:31 23:30:00"}, gps=gps))
    assert (found.utc_offset_minutes, found.taken_zone) == (-300, "gps")
    alone = read_metadata(EmbeddedMetadata(gps=gps))
    assert (alone.utc_offset_minutes, alone.taken_zone, alone.taken_source) == (None, "gps", "gps")


def test_the_time_of_a_png_is_read_from_its_text():
    from PIL import PngImagePlugin

    info = PngImagePlugin.PngInfo()
    info.add_text("Creation Time", "Tue, 10 Sep 2019 11:12:13 +0200")
    data = pictures.encoded(pictures.photo((32, 24)), "PNG", pnginfo=info)
    found = read_metadata(decode(data, min_side=8).embedded)
    assert (found.taken_at, found.utc_offset_minutes, found.taken_source) == (1_568_106_733, 120, "text")
