"""Readers of the descriptions that owners write into pictures (XMP and IPTC), hardened against hostile content."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from xml.etree.ElementTree import Element, ParseError

from lodestone.imaging.exif import EmbeddedMetadata

_log = logging.getLogger(__name__)

_MAX_XMP_BYTES = 1 << 20
_DC_DESCRIPTION = "{http://purl.org/dc/elements/1.1/}description"
_RDF_ITEM = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}li"
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"

_IPTC_MARK = 0x1C
_IPTC_CHARSET, _IPTC_CAPTION = (1, 90), (2, 120)
_IPTC_DATE, _IPTC_TIME = (2, 55), (2, 60)
_IPTC_UTF8 = b"\x1b%G"


def xmp_descriptions(embedded: EmbeddedMetadata) -> tuple[str, ...]:
    """Return XMP dc:description in every language given, the default language first, each text once."""
    packet = parse_xmp(embedded.xmp)
    return () if packet is None else tuple(dict.fromkeys(_descriptions(packet)))


def iptc_descriptions(embedded: EmbeddedMetadata) -> tuple[str, ...]:
    """Return the IPTC captions (data set 2:120, caption/abstract), each text once."""
    return tuple(dict.fromkeys(_iptc_captions(embedded.iptc or b"")))


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


def _descriptions(packet: Element) -> Iterator[str]:
    for value in xmp_values(packet, _DC_DESCRIPTION):
        if value.strip():
            yield value.strip()
    items = [item for node in packet.iter(_DC_DESCRIPTION) for item in node.iter(_RDF_ITEM) if (item.text or "").strip()]
    for item in sorted(items, key=lambda item: item.get(_LANGUAGE) != "x-default"):
        yield (item.text or "").strip()


def iptc_date(embedded: EmbeddedMetadata) -> str | None:
    """Return the IPTC creation date (data set 2:55) with its time (2:60), in ISO's basic form; None if there is none."""
    found = dict(reversed([(kind, content) for kind, content in _iptc_sets(embedded.iptc or b"")]))
    day, time = (found.get(kind, b"").decode("ascii", errors="replace").strip("\0 ") for kind in (_IPTC_DATE, _IPTC_TIME))
    return None if not day else f"{day}T{time}" if time else day


def _iptc_captions(record: bytes) -> Iterator[str]:
    is_utf8 = False
    for kind, content in _iptc_sets(record):
        if kind == _IPTC_CHARSET:
            is_utf8 = content == _IPTC_UTF8
        elif kind == _IPTC_CAPTION:
            text = _decode_iptc(content, is_utf8=is_utf8).strip("\0 \r\n\t")
            if text:
                yield text


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
    if is_utf8:
        return content.decode("utf-8", errors="replace")
    try:
        return content.decode("utf-8")  # what most writers mean, whatever they declare
    except UnicodeDecodeError:
        return content.decode("latin-1")
