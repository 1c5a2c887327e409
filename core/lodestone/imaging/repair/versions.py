"""Versions of a picture file that failed to decode, in the order in which they are tried.

The first ones lack what pixels do not need. What is left out costs what it says (a description, a date) and not the picture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Final

from lodestone.imaging.repair import boxes, gif_blocks, jpeg_segments, riff_chunks

LEAST_SHARE: Final = 0.5
"""Least share of a picture's rows that must be decoded, in [0, 1].

With less than half, the grey or black that fills the rest decides what the picture looks like to a model.
"""


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a damaged file.

    Attributes:
        stream: The version's content.
        is_cut: Whether pixels may be missing at its end, so that the share of decoded rows has to be measured.
        share: Share of the picture that it holds, in [0, 1]; None where it is measured, or nothing is missing.
        is_lean: Whether only the tags that pixels need are read (TIFF).
    """

    stream: IO[bytes]
    is_cut: bool = False
    share: float | None = None
    is_lean: bool = False


def versions_of(stream: IO[bytes], kind: str, *, max_bytes: int) -> Iterator[Version]:
    """Yield the versions of a damaged file of format `kind`; files that have to be copied are at most `max_bytes` large."""
    make = _VERSIONS.get(kind)
    if make is not None and not stream.closed:
        yield from make(stream, max_bytes)


def _of_jpeg(stream: IO[bytes], _max_bytes: int) -> Iterator[Version]:
    for with_metadata in (True, False):
        parts = jpeg_segments.needed_parts(stream, with_metadata=with_metadata)
        if parts is None:
            return
        yield Version(parts.stream, is_cut=parts.is_cut)


def _as_it_is(stream: IO[bytes], _max_bytes: int) -> Iterator[Version]:
    stream.seek(0)
    yield Version(stream, is_cut=True)


def _of_gif(stream: IO[bytes], max_bytes: int) -> Iterator[Version]:
    yield from _as_it_is(stream, max_bytes)
    parts = gif_blocks.needed_parts(stream)
    if parts is not None:
        yield Version(parts, is_cut=True)


def _of_webp(stream: IO[bytes], _max_bytes: int) -> Iterator[Version]:
    parts = riff_chunks.needed_parts(stream, LEAST_SHARE)
    if parts is not None:
        yield Version(parts.stream, share=parts.share if parts.share < 1 else None)


def _of_boxes(stream: IO[bytes], max_bytes: int) -> Iterator[Version]:
    copy = boxes.without_metadata(stream, max_bytes)
    if copy is not None:
        yield Version(copy)


def _of_tiff(stream: IO[bytes], _max_bytes: int) -> Iterator[Version]:
    stream.seek(0)
    yield Version(stream, is_lean=True)


_VERSIONS: Final[dict[str, Callable[[IO[bytes], int], Iterator[Version]]]] = {
    "JPEG": _of_jpeg,
    "PNG": _as_it_is,
    "GIF": _of_gif,
    "BMP": _as_it_is,
    "WEBP": _of_webp,
    "AVIF": _of_boxes,
    "HEIF": _of_boxes,
    "TIFF": _of_tiff,
}
