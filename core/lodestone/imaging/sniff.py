"""Recognition of picture formats by their first bytes; file extensions are ignored because they can be wrong."""

from __future__ import annotations

import re

HEAD_BYTES = 64  # enough for every signature below

JPEG_START = b"\xff\xd8\xff"
_BLANK = b"\r\n\t \0"  # what programs that paste or mail pictures put before a JPEG; viewers skip it

# ISO base media brands (bytes 8 to 12 of the file, then the list of compatible ones).
_AVIF_BRANDS = frozenset({b"avif", b"avis"})
_HEIF_BRANDS = frozenset({b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"hevm", b"hevs", b"mif1", b"mif2", b"msf1"})
_RAW_BRANDS = frozenset({b"crx "})  # Canon CR3

_TIFF_SIGNATURES = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")  # the last two: BigTIFF
_RAW_SIGNATURES = (
    b"FUJIFILMCCD-RAW",
    b"IIRO",  # Olympus ORF
    b"IIRS",
    b"MMOR",
    b"IIU\0",  # Panasonic RW2
    b"FOVb",  # Sigma X3F
    b"\0MRM",  # Minolta MRW
)
# The sizes that a BMP's second header may have. They are checked because many texts begin with the two letters "BM".
_BMP_HEADER_SIZES = frozenset({12, 16, 40, 52, 56, 64, 108, 124})

_JPEG_2000_SIGNATURES = (b"\0\0\0\x0cjP  \r\n\x87\n", b"\xff\x4f\xff\x51")
_PNM = re.compile(rb"P[1-6]\s+(?:#[^\n]*(?:\n\s*|$))*(?:[0-9]+\s+[0-9]+\s|$)")
# Targa has no signature: type of the colour map, type of the picture, then the map's place and depth of its entries.
_TARGA_BYTES = 18
_TARGA_PLAIN, _TARGA_MAPPED = frozenset({2, 3, 10, 11}), frozenset({1, 9})
_TARGA_DEPTHS, _TARGA_MAP_DEPTHS = frozenset({8, 16, 24, 32}), frozenset({16, 24, 32})
_TARGA_MAP_COLOURS = 256
_BYTE_BITS = 8

# Formats that are named in the error and not decoded.
_UNSUPPORTED_SIGNATURES = (
    (b"8BPS\0\2", "Photoshop Big"),
    (b"\xff\x0a", "JPEG XL"),
    (b"\0\0\0\x0cJXL ", "JPEG XL"),
    (b"\0\0\1\0", "icon"),
    (b"%PDF", "PDF"),
    (b"%!PS", "PostScript"),
    (b"<svg", "SVG"),
    (b"v/1\x01", "OpenEXR"),
)


def sniff_format(head: bytes) -> str | None:
    """Name the format of a file that begins with `head` (its first `HEAD_BYTES` bytes, or all of it if shorter).

    Returns:
        "JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "HEIF", "AVIF", "RAW", "JP2", "PSD", "TGA" or "PNM"; None when it is none
        of these. Most RAW files are TIFF containers and give "TIFF": only their tags tell them apart.
    """
    if head.lstrip(_BLANK).startswith(JPEG_START):
        return "JPEG"
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "PNG"
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "WEBP"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "GIF"
    if head.startswith(b"BM") and int.from_bytes(head[14:18], "little") in _BMP_HEADER_SIZES:
        return "BMP"
    return _sniff_container(head) or _sniff_older(head)


def name_unsupported(head: bytes) -> str | None:
    """Name a format that is recognised but not decoded ("JPEG XL", "PDF", …), or None."""
    return next((name for signature, name in _UNSUPPORTED_SIGNATURES if head.startswith(signature)), None)


def _sniff_container(head: bytes) -> str | None:
    if head.startswith(_RAW_SIGNATURES):
        return "RAW"
    if head.startswith(_TIFF_SIGNATURES):
        return "TIFF"
    if head[4:8] != b"ftyp":
        return None
    end = min(int.from_bytes(head[:4], "big"), len(head))
    compatible = {head[i : i + 4] for i in range(16, end - 3, 4)}
    brands = {head[8:12]} | compatible
    if head[8:12] in _RAW_BRANDS:
        return "RAW"
    if brands & _AVIF_BRANDS:
        return "AVIF"
    return "HEIF" if brands & _HEIF_BRANDS else None


def _sniff_older(head: bytes) -> str | None:
    if head.startswith(_JPEG_2000_SIGNATURES):
        return "JP2"
    if head.startswith(b"8BPS\0\1"):
        return "PSD"
    if _PNM.match(head):
        return "PNM"
    return "TGA" if _is_targa(head) else None


def _is_targa(head: bytes) -> bool:
    """Return whether every field of a header is one that a Targa file may have."""
    if len(head) < _TARGA_BYTES or not any(head[12:14]) or not any(head[14:16]):  # width, height
        return False
    mapped, kind, depth, flags = head[1], head[2], head[16], head[17]
    if depth not in _TARGA_DEPTHS or flags & 0xC0:
        return False
    if mapped == 0:
        return kind in _TARGA_PLAIN and not any(head[3:8])
    colours = int.from_bytes(head[5:7], "little")
    is_map = 0 < colours <= _TARGA_MAP_COLOURS and head[7] in _TARGA_MAP_DEPTHS
    return mapped == 1 and kind in _TARGA_MAPPED and depth == _BYTE_BITS and is_map
