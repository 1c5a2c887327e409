"""Texts that people wrote about a picture, from every block of its metadata: descriptions, titles, comments and keywords.

What a camera or a program writes by itself into the same places ("OLYMPUS DIGITAL CAMERA") is left out.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

from PIL import ExifTags

from lodestone.imaging.descriptions import iptc_descriptions, iptc_keywords, xmp_descriptions, xmp_keywords
from lodestone.imaging.exif import EmbeddedMetadata
from lodestone.imaging.text_encoding import decode_text


class TextPlace(StrEnum):
    """Names where in a file a text stands."""

    XMP = "xmp"
    IPTC = "iptc"
    EXIF = "exif"
    COMMENT = "comment"
    KEYWORDS = "keywords"


_XP_TITLE, _XP_COMMENT, _XP_KEYWORDS, _XP_SUBJECT = 0x9C9B, 0x9C9C, 0x9C9E, 0x9C9F
_CODE_BYTES: Final = 8  # of a user comment's character code
_LONGEST: Final = 64 << 10  # bytes of a text that are looked at
_TEXT_NAMES: Final = ("Title", "Description", "Comment", "comment")

_MAKERS: Final = (
    "olympus|sony|samsung|konica|minolta|kodak|nikon|canon|pentax|casio|fuji\\w*|ricoh|vivitar|hp|polaroid|benq|medion"
)
_PROGRAMS: Final = (
    "gimp|adobe|photoshop|imagemagick|graphicsmagick|paint\\S*|snapseed|jpegmini|ffmpeg|blender|inkscape|helicon|picasa"
)
_NOISE: Final = re.compile(
    rf"""
    (?:(?:{_MAKERS})\s+)* digital \s+ (?:still\s+)? camera | sony\s+dsc | samsung\s+camera\s+pictures | dcim\\.*
    | exif[_ ]jpeg(?:[_ ]picture)? | jpeg[_ ]picture | default | untitled | unknown | none | null | n/?a | ascii
    | comment | title | description | applemark | lead\s+technologies.*
    | dav | cof | edf | hdr(?:pl|plus)? | mde | sdr | rhdr | ptr | rbt | yaps | nor | oznor\w* | cbf | fbt
    | creator:.* | software:.* | lavc[\d.]+
    | (?:©|\(c\)|copyright\b) .* (?:\b(?:19|20)\d\d\b|all\s+rights\s+reserved) .* | \S*copyright\s+all\s+rights\s+reserved\W*
    | \w+ \s+ (?:with|by|using) :? \s+ (?:the\s+)? (?:{_PROGRAMS})\b.* | file\s+written\s+by\s+(?:{_PROGRAMS})\b.*
    | (?:img|dsc[nf]?|pict?|p|pxl|mvimg|image)[-_ ]?\d+(?:[-_]\d+)*
    | [^\s/\\]+\.(?:jpe?g|png|gif|tiff?|heic|webp|bmp|dng|cr2|nef|arw)
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""Texts of cameras and programs, and names of files. Whatever a person may have written is kept."""


def written_texts(embedded: EmbeddedMetadata) -> Iterator[tuple[str, TextPlace]]:
    """Yield the texts inside a picture's file, each with its place; a text may come from several.

    All keywords of a picture are one text, so that they count like one caption.
    """
    for texts, place in (
        (xmp_descriptions(embedded), TextPlace.XMP),
        (iptc_descriptions(embedded), TextPlace.IPTC),
        (_exif_texts(embedded), TextPlace.EXIF),
        (_comments(embedded), TextPlace.COMMENT),
    ):
        for text in texts:
            if not is_noise(text) and (place is not TextPlace.COMMENT or _has_word(text)):
                yield text, place
    keywords = joined_keywords((*xmp_keywords(embedded), *iptc_keywords(embedded), *_exif_keywords(embedded)))
    if keywords:
        yield keywords, TextPlace.KEYWORDS


def joined_keywords(keywords: Iterable[str]) -> str:
    """Return keywords as one text, each once, whatever its capitals."""
    unique: dict[str, str] = {}
    for keyword in keywords:
        if not is_noise(keyword):
            unique.setdefault(keyword.casefold(), keyword)
    return ", ".join(unique.values())


def is_noise(text: str) -> bool:
    """Return whether a camera or a program wrote the text by itself, or it has no letter and no number."""
    text = text.strip("\0 \r\n\t")
    return _NOISE.fullmatch(text) is not None or not any(char.isalnum() for char in text)


def _has_word(text: str) -> bool:
    """Return whether a part of the text is letters alone: programs write numbers and versions ("cmp3.10.3.2Lq3 0x756ffbf7")."""
    return any(word.strip(string.punctuation).isalpha() for word in text.split())


def _exif_texts(embedded: EmbeddedMetadata) -> Iterator[str]:
    description = _text(embedded.base.get(ExifTags.Base.ImageDescription))
    candidates = (
        description,
        *(_wide(embedded.base.get(tag)) for tag in (_XP_TITLE, _XP_SUBJECT, _XP_COMMENT)),
        _user_comment(embedded.photo.get(ExifTags.Base.UserComment)),
    )
    yield from dict.fromkeys(text for text in candidates if text)


def _exif_keywords(embedded: EmbeddedMetadata) -> list[str]:
    return [keyword for part in (_wide(embedded.base.get(_XP_KEYWORDS)) or "").split(";") if (keyword := part.strip())]


def _comments(embedded: EmbeddedMetadata) -> Iterator[str]:
    yield from dict.fromkeys(text for name in _TEXT_NAMES if (text := _text(embedded.texts.get(name))))


def _user_comment(value: object) -> str | None:
    """Return the text of a user comment, which begins with the name of its character code."""
    if not isinstance(value, bytes):
        return _text(value)
    code, content = value[:_CODE_BYTES].rstrip(b"\0 ").upper(), value[_CODE_BYTES:_LONGEST]
    if code == b"JIS":
        return _stripped(content.decode("iso2022_jp", errors="replace"))
    if code not in {b"", b"ASCII", b"UNICODE"}:
        content = value[:_LONGEST]  # no code at all
    return _stripped(decode_text(content) or "")


def _wide(value: object) -> str | None:
    """Return a text of Windows, which is UTF-16 of the little end first."""
    if isinstance(value, tuple) and all(isinstance(number, int) and 0 <= number < 256 for number in value):
        value = bytes(value)
    return _stripped(value[: _LONGEST & ~1].decode("utf-16-le", errors="replace")) if isinstance(value, bytes) else None


def _text(value: object) -> str | None:
    """Return a text whose encoding nothing states; Pillow gives bytes as if they were Latin-1."""
    if isinstance(value, str):
        try:
            value = value.encode("latin-1")
        except UnicodeEncodeError:
            return _stripped(str(value))
    return _stripped(decode_text(value[:_LONGEST]) or "") if isinstance(value, bytes) else None


def _stripped(text: str) -> str | None:
    return text.split("\0", 1)[0].strip() or None
