"""Texts inside pictures: where programs keep them, in which order, and what cameras write by themselves."""

import pytest
from PIL import Image, PngImagePlugin
from tests.support import pictures
from tests.support.pictures import iptc_record, xmp_packet

from lodestone.imaging.decode import decode
from lodestone.imaging.exif import EmbeddedMetadata
from lodestone.imaging.headers import read_header
from lodestone.imaging.written_texts import is_noise, joined_keywords, written_texts


def _wide(text):
    return text.encode("utf-16-le") + b"\0\0"


def _sets(*sets):
    return b"".join(b"\x1c" + bytes(kind) + len(content).to_bytes(2, "big") + content for kind, content in sets)


@pytest.mark.parametrize(
    ("blocks", "found"),
    [
        ({"base": {270: "Grüße".encode().decode("latin-1")}}, [("Grüße", "exif")]),
        ({"base": {270: "Grüße"}}, [("Grüße", "exif")]),
        ({"base": {0x9C9B: _wide("a title"), 0x9C9C: _wide("猫")}}, [("a title", "exif"), ("猫", "exif")]),
        ({"base": {0x9C9C: tuple(_wide("as numbers"))}}, [("as numbers", "exif")]),
        ({"base": {0x9C9E: _wide("lake; boat;lake")}}, [("lake, boat", "keywords")]),
        ({"photo": {0x9286: b"ASCII\0\0\0a note\0\0"}}, [("a note", "exif")]),
        ({"photo": {0x9286: b"UNICODE\0" + "Düne".encode("utf-16-be")}}, [("Düne", "exif")]),
        ({"photo": {0x9286: b"UNICODE\0" + "Düne".encode("utf-16-le")}}, [("Düne", "exif")]),
        ({"photo": {0x9286: bytes(8) + b"no code"}}, [("no code", "exif")]),
        ({"photo": {0x9286: b"JIS\0\0\0\0\0" + "猫".encode("iso2022_jp")}}, [("猫", "exif")]),
        ({"photo": {0x9286: b"written without a code"}}, [("written without a code", "exif")]),
        ({"texts": {"comment": "Öl".encode("mac_roman"), "Title": "a"}}, [("a", "comment"), ("Öl", "comment")]),
        ({"texts": {"comment": b"cmp3.10.3.2Lq3 0x756ffbf7\0"}}, []),  # what a program says of itself
        ({"texts": {"comment": b"80-90 4:2:0", "Title": "Rome, 1987"}}, [("Rome, 1987", "comment")]),
        ({"base": {270: "1987"}}, [("1987", "exif")]),
        (
            {"iptc": _sets(((2, 0), b"\0\2"), ((2, 5), b"heading"), ((2, 120), b"told"))},
            [("told", "iptc"), ("heading", "iptc")],
        ),
        ({"iptc": _sets(((2, 25), b"lake"), ((2, 25), b"boat"))}, [("lake, boat", "keywords")]),
        ({"iptc": iptc_record("pü", encoding="mac_roman", declared=False)}, [("pü", "iptc")]),
        (
            {"xmp": xmp_packet(description="a dog", body="<dc:title><rdf:Alt><rdf:li>Rex</rdf:li></rdf:Alt></dc:title>")},
            [("a dog", "xmp"), ("Rex", "xmp")],
        ),
        ({"xmp": xmp_packet(body="<dc:subject><rdf:Bag><rdf:li>lake</rdf:li></rdf:Bag></dc:subject>")}, [("lake", "keywords")]),
        (
            {
                "xmp": xmp_packet(body="<dc:subject><rdf:Bag><rdf:li>Lake</rdf:li></rdf:Bag></dc:subject>"),
                "iptc": _sets(((2, 25), b"lake"), ((2, 25), b"sail")),
            },
            [("Lake, sail", "keywords")],
        ),
    ],
)
def test_each_block_has_its_texts(blocks, found):
    assert list(written_texts(EmbeddedMetadata(**blocks))) == found


@pytest.mark.parametrize(
    ("namespace", "name", "text"),
    [
        ("http://ns.adobe.com/lightroom/1.0/", "hierarchicalSubject", "Places|Lake Garda"),
        ("http://www.digikam.org/ns/1.0/", "TagsList", "Places/Lake Garda"),
    ],
)
def test_all_levels_of_a_keyword_count(namespace, name, text):
    packet = xmp_packet(body=f'<k:{name} xmlns:k="{namespace}"><rdf:Bag><rdf:li>{text}</rdf:li></rdf:Bag></k:{name}>')
    assert list(written_texts(EmbeddedMetadata(xmp=packet))) == [("Places, Lake Garda", "keywords")]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "OLYMPUS DIGITAL CAMERA         ",
            "SONY DSC",
            "KODAK Digital Still Camera",
            "DCIM\\100MEDIA\\DJI_0001.JPG",
            "Exif_JPEG_PICTURE",
        ),
        *(
            "Created with GIMP",
            "IMG_1234",
            "DSC01234",
            "holiday.jpg",
            "dav",
            "default",
            "   ",
            "---",
            "Processed By: Helicon Filter;",
        ),
        "© 2011 Ada Byron",
        "(c) 1999 by Ada",
        "Copyright Ada. All rights reserved.",
        "Licence@Copyright All Rights Reserved.",
    ],
)
def test_what_devices_write_is_noise(text):
    assert is_noise(text)
    assert list(written_texts(EmbeddedMetadata(base={270: text}))) == []


@pytest.mark.parametrize(
    "text",
    [
        *("my first digital camera", "made with love by grandma", "Minolta at the flea market", "2019", "猫", "a default day"),
        *("created by Ottilie", "screenshot", "Title of the book", "img of the moon"),
        "Sunset in Rome. All rights reserved.",
        "Copyright sign on a wall",
    ],
)
def test_what_people_write_is_none(text):
    assert not is_noise(text)


def test_keywords_are_joined_once_each_in_their_order():
    assert joined_keywords(["Lake", "boat", "lake", "IMG_1", "Boat"]) == "Lake, boat"
    assert joined_keywords([]) == ""


def test_the_header_says_what_the_decoded_picture_says():
    info = PngImagePlugin.PngInfo()
    info.add_text("Description", "from a text")
    image = pictures.photo((64, 48))
    exif = Image.Exif()
    exif[270] = "from a tag"
    for content in (
        pictures.encoded(image, "PNG", pnginfo=info, exif=exif.tobytes()),
        pictures.encoded(image, "JPEG", comment=b"from a text", exif=exif.tobytes()),
    ):
        found = list(written_texts(read_header(content)))
        assert found == [("from a tag", "exif"), ("from a text", "comment")]
        assert list(written_texts(decode(content, min_side=8).embedded)) == found
