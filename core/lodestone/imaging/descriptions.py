"""Readers of the descriptions, keywords and dates in XMP and IPTC blocks of pictures, hardened against hostile content."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from xml.etree.ElementTree import Element, ParseError

from lodestone.imaging.exif import EmbeddedMetadata
from lodestone.imaging.text_encoding import decode_text

_log = logging.getLogger(__name__)

_MAX_XMP_BYTES = 1 << 20
_DC = "{http://purl.org/dc/elements/1.1/}"
_EXIF = "{http://ns.adobe.com/exif/1.0/}"
_DC_SUBJECT = f"{_DC}subject"
_XMP_TEXTS = (
    f"{_DC}description",
    f"{_DC}title",
    "{http://ns.adobe.com/photoshop/1.0/}Headline",
    f"{_EXIF}UserComment",
    "{http://ns.adobe.com/tiff/1.0/}ImageDescription",
)
_XMP_HIERARCHIES = (
    ("{http://ns.adobe.com/lightroom/1.0/}hierarchicalSubject", "|"),
    ("{http://www.digikam.org/ns/1.0/}TagsList", "/"),
    ("{http://ns.microsoft.com/photo/1.0/}LastKeywordXMP", "/"),
    ("{http://ns.microsoft.com/photo/1.0/}LastKeywordIPTC", "/"),
)
_RDF_ITEM = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}li"
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"

_IPTC_MARK = 0x1C
_IPTC_CHARSET, _IPTC_KEYWORD = (1, 90), (2, 25)
_IPTC_TEXTS = ((2, 120), (2, 105), (2, 5))  # caption, headline, title
_IPTC_DATE, _IPTC_TIME = (2, 55), (2, 60)
_IPTC_UTF8 = b"\x1b%G"


def xmp_descriptions(embedded: EmbeddedMetadata) -> tuple[str, ...]:
    """Return XMP's description, title, headline and comment, in every language given, the default language first, each once."""
    packet = parse_xmp(embedded.xmp)
    if packet is None:
        return ()
    return tuple(dict.fromkeys(text for name in _XMP_TEXTS for text in _alternatives(packet, name)))


def xmp_keywords(embedded: EmbeddedMetadata) -> tuple[str, ...]:
    """Return XMP's keywords, each once; of a keyword in a hierarchy ("Places|Lake"), all its levels."""
    packet = parse_xmp(embedded.xmp)
    if packet is None:
        return ()
    plain = list(_alternatives(packet, _DC_SUBJECT))
    levels = [
        level.strip()
        for name, separator in _XMP_HIERARCHIES
        for text in _alternatives(packet, name)
        for level in text.split(separator)
    ]
    return tuple(dict.fromkeys(text for text in (*plain, *levels) if text))


def iptc_descriptions(embedded: EmbeddedMetadata) -> tuple[str, ...]:
    """Return the IPTC captions (2:120), headline (2:105) and title (2:5), each text once."""
    texts = _iptc_texts(embedded.iptc or b"")
    return tuple(dict.fromkeys(text for wanted in _IPTC_TEXTS for kind, text in texts if kind == wanted))


def iptc_keywords(embedded: EmbeddedMetadata) -> tuple[str, ...]:
    """Return the IPTC keywords (2:25), each once."""
    return tuple(dict.fromkeys(text for kind, text in _iptc_texts(embedded.iptc or b"") if kind == _IPTC_KEYWORD))


def iptc_dates(embedded: EmbeddedMetadata) -> tuple[str, ...]:
    """Return the IPTC creation date (data set 2:55) with its time (2:60), and alone, in ISO's basic form."""
    sets = dict(reversed([*_iptc_sets(embedded.iptc or b"")]))
    day, time = (sets.get(kind, b"").decode("ascii", errors="replace").strip("\0 ") for kind in (_IPTC_DATE, _IPTC_TIME))
    return () if not day else (f"{day}T{time}", day) if time else (day,)


def parse_xmp(packet: bytes | None) -> Element | None:
    """Return the root of an XMP packet; None when there is none, or it is broken, hostile (entities) or larger than 1 MB."""
    if not packet or len(packet) > _MAX_XMP_BYTES:
        return None
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import fromstring

    try:
        root: Element = fromstring(packet.strip(b"\0 \r\n\t"))
    except (ParseError, DefusedXmlException, ValueError, LookupError) as error:  # LookupError: an unknown encoding
        _log.debug("unusable XMP ignored: %r", error)
        return None
    return root


def xmp_values(packet: Element, name: str) -> Iterator[str]:
    """Yield the values of a simple property, `{namespace}name`, which XMP writes as an attribute or as an element."""
    for element in packet.iter():
        if name in element.attrib:
            yield element.attrib[name]
        if element.tag == name and element.text:
            yield element.text


def _alternatives(packet: Element, name: str) -> Iterator[str]:
    """Yield the texts of a property: its value, or its items, of which the default language's come first."""
    for value in xmp_values(packet, name):
        if value.strip():
            yield value.strip()
    items = [item for node in packet.iter(name) for item in node.iter(_RDF_ITEM) if (item.text or "").strip()]
    for item in sorted(items, key=lambda item: item.get(_LANGUAGE, "x-default") != "x-default"):
        yield (item.text or "").strip()


def _iptc_texts(record: bytes) -> list[tuple[tuple[int, int], str]]:
    sets = [*_iptc_sets(record)]
    is_utf8 = (_IPTC_CHARSET, _IPTC_UTF8) in sets
    wanted = {*_IPTC_TEXTS, _IPTC_KEYWORD}
    texts = [(kind, _decode_iptc(content, is_utf8=is_utf8).strip("\0 \r\n\t")) for kind, content in sets if kind in wanted]
    return [(kind, text) for kind, text in texts if text]


def _iptc_sets(record: bytes) -> Iterator[tuple[tuple[int, int], bytes]]:
    """Yield (record, number) and content of the data sets of an IPTC-IIM record.

    A data set is a mark, a record, a number and two bytes of length; texts never use the extended form.
    """
    position = 0
    while position + 5 <= len(record) and record[position] == _IPTC_MARK:
        kind = (record[position + 1], record[position + 2])
        length = int.from_bytes(record[position + 3 : position + 5], "big")
        yield kind, record[position + 5 : position + 5 + length]
        position += 5 + length


def _decode_iptc(content: bytes, *, is_utf8: bool) -> str:
    return content.decode("utf-8", errors="replace") if is_utf8 else decode_text(content) or ""
